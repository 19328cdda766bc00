//! `lineclear events`: a stream that resumes after a disconnect.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::commands::job::{at, each_way};
use crate::commands::serve::serve;
use crate::run::command;

const LONG: Duration = Duration::from_secs(60);

/// A running command, and its lines.
pub(crate) struct Watched {
    pub(crate) child: Child,
    lines: Receiver<String>,
    said: Receiver<String>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl Watched {
    pub(crate) fn start(dir: &TempDir, arguments: &[&str]) -> Watched {
        let mut child = command(arguments)
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        Watched { child, lines: lines(out), said: lines(err) }
    }

    /// The next line that contains this.
    pub(crate) fn until(&self, part: &str) -> String {
        let deadline = Instant::now() + LONG;
        while Instant::now() < deadline {
            if let Ok(line) = self.lines.recv_timeout(Duration::from_millis(100))
                && line.contains(part)
            {
                return line;
            }
        }
        panic!("{part:?} never came: {:?}", self.said.try_iter().collect::<Vec<_>>());
    }

    fn interrupt(&mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }
}

#[tokio::test]
async fn events_are_printed_line_by_line_until_an_interrupt() {
    each_way(&["--commands", "/bin/true"], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[args, asked].concat());
        let input = r#"{"argv": ["/bin/true"]}"#;
        assert_eq!(run(&["job", "enqueue", "command", "--input", input, "--wait"]).code, Some(0));
        let mut plain =
            Watched::start(dir, &[&["events", "--since", "10m", "--types", "job.*"], asked].concat());
        let line = plain.until("job.completed");
        let fields: Vec<&str> = line.split('\t').collect();
        assert!(fields[0].ends_with('Z') && fields[1..] == ["job.completed", "job 1", "command"], "{line}");
        let json = Watched::start(dir, &[&["events", "--json", "--since", "10m"], asked].concat());
        let event: Value = serde_json::from_str(&json.until("job.completed")).unwrap();
        assert_eq!((&event["type"], &event["data"]["job"]), (&"job.completed".into(), &"1".into()));
        let id = event["id"].as_str().unwrap();
        let after =
            Watched::start(dir, &[&["events", "--after", id, "--types", "job.completed"], asked].concat());
        assert_eq!(run(&["job", "enqueue", "command", "--input", input, "--wait"]).code, Some(0));
        after.until("job 2");
        plain.until("job 2");
        assert_eq!(plain.interrupt(), Some(130));
        let path = format!("/events?types=job.completed&after={id}");
        let mut raw = Watched::start(dir, &[&["api", "GET", &path], asked].concat());
        raw.until("event: job.completed");
        assert_eq!(raw.interrupt(), Some(130), "it runs until the interrupt");
        assert_eq!(run(&["events", "--types", "job.nothing"]).code, Some(2));
        assert_eq!(run(&["events", "--after", "x"]).code, Some(2));
    })
    .await;
}

#[tokio::test]
async fn a_stream_resumes_when_the_server_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let (mut one, address) = serve(&dir, &["--commands", "/bin/true"]).await;
    let (port, server) = (address.rsplit(':').next().unwrap().to_owned(), format!("http://{address}"));
    let watched =
        Watched::start(&dir, &["events", "--server", &server, "--types", "job.completed", "--since", "1m"]);
    let input = r#"{"argv": ["/bin/true"]}"#;
    let enqueue = ["job", "enqueue", "command", "--input", input];
    assert_eq!(at(&dir, &[&enqueue[..], &["--server", &server]].concat()).code, Some(0));
    watched.until("job 1");
    one.terminate().unwrap();
    assert!(one.wait_for_exit(LONG).await.unwrap().success());
    assert!(watched.said.recv_timeout(LONG).unwrap().contains("disconnected"));
    // Events of the time without a server come afterwards.
    assert_eq!(at(&dir, &[&enqueue[..], &["--db", "lineclear.db"]].concat()).code, Some(0));
    let two = lineclear_testkit::Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args(["serve", "--commands", "/bin/true", "--allow-open-commands", "--port", &port])
        .current_dir(dir.path())
        .env("XDG_CONFIG_HOME", dir.path().join("none"))
        .start()
        .unwrap();
    two.wait_for_line("API  http://", LONG).await.unwrap();
    watched.until("job 2");
    assert!(watched.said.recv_timeout(LONG).unwrap().contains("reconnected"));
}

/// Another process accepts connections on the address of the server and does not respond.
#[tokio::test]
async fn a_stream_resumes_after_a_server_that_did_not_respond_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let (mut one, address) = serve(&dir, &[]).await;
    let server = format!("http://{address}");
    let watched = Watched::start(&dir, &["events", "--server", &server, "--request-timeout", "300ms"]);
    let mail = ["job", "enqueue", "mail.send", "--server", server.as_str()];
    crate::commands::job::until(|| at(&dir, &mail).code == Some(0) && watched.lines.try_recv().is_ok());
    one.terminate().unwrap();
    assert!(one.wait_for_exit(LONG).await.unwrap().success());
    assert!(watched.said.recv_timeout(LONG).unwrap().contains("disconnected"));
    let silent = std::net::TcpListener::bind(&address).unwrap();
    // Two attempts were accepted and not answered: the first of them timed out.
    let asked = [silent.accept().unwrap(), silent.accept().unwrap()];
    drop((silent, asked));
    let port = address.rsplit(':').next().unwrap();
    let two = lineclear_testkit::Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args(["serve", "--port", port])
        .current_dir(dir.path())
        .env("XDG_CONFIG_HOME", dir.path().join("none"))
        .start()
        .unwrap();
    two.wait_for_line("API  http://", LONG).await.unwrap();
    assert!(watched.said.recv_timeout(LONG).unwrap().contains("reconnected"));
}

#[tokio::test]
async fn a_stream_ends_when_its_reader_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &[]).await;
    let mut child = command(&["events", "--server", &format!("http://{address}")])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let deadline = Instant::now() + LONG;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(status.success(), "{status}");
}

#[test]
fn an_unreachable_server_is_a_failure_at_once() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(at(&dir, &["events", "--server", "http://127.0.0.1:9"]).code, Some(6));
}
