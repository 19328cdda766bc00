//! The reader of the output is gone: a command that only prints ends, a node keeps working, and no process panics.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::commands::job::{at, until};
use crate::commands::serve::ask;
use crate::kinds::command::wait_for;
use crate::run::command;

const LONG: Duration = Duration::from_secs(90);

/// A process that is killed with the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Started {
    /// With pipes for both streams.
    fn with_pipes(dir: &TempDir, arguments: &[&str]) -> Started {
        Started::with(dir, arguments, Stdio::piped(), Stdio::piped())
    }

    fn with(dir: &TempDir, arguments: &[&str], out: Stdio, err: Stdio) -> Started {
        let mut command = command(arguments);
        command
            .current_dir(dir.path())
            .env("XDG_CONFIG_HOME", dir.path().join("none"))
            .stdout(out)
            .stderr(err);
        Started(command.spawn().unwrap())
    }

    /// Reads standard error up to the line that contains this, then closes both streams.
    fn read_until(&mut self, part: &str) -> String {
        drop(self.0.stdout.take());
        let lines = BufReader::new(self.0.stderr.take().unwrap()).lines();
        lines.map_while(Result::ok).find(|line| line.contains(part)).unwrap_or_else(|| panic!("no {part:?}"))
    }

    fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LONG;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn terminate(&mut self) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.ended()
    }
}

/// It has lines to write: about an unknown kind, a failing job, and each request.
#[tokio::test]
async fn a_server_whose_log_reader_is_gone_keeps_running() {
    let dir = tempfile::tempdir().unwrap();
    let words =
        ["serve", "--port", "0", "--commands", "/bin/true", "--allow-open-commands", "--log", "debug"];
    let mut server = Started::with_pipes(&dir, &words);
    let line = server.read_until("API  http://");
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
    for (id, body, state) in [
        (1, r#"{"kind": "mail.send"}"#, r#""phase":"parked""#),
        (2, r#"{"kind": "command", "retries": 0, "input": {"argv": ["/bin/no"]}}"#, r#""state":"dead""#),
        (3, r#"{"kind": "command", "input": {"argv": ["/bin/true"]}}"#, r#""state":"completed""#),
    ] {
        assert!(ask(address, "POST /api/v1/jobs", body).starts_with("HTTP/1.1 201"));
        wait_for(address, &format!("jobs/{id}"), state).await;
    }
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn a_worker_whose_log_reader_is_gone_keeps_running() {
    let dir = tempfile::tempdir().unwrap();
    let mut worker = Started::with_pipes(&dir, &["work", "--commands", "/bin/true", "--log", "debug"]);
    worker.read_until("node 1 of");
    let straight = |args: &[&str]| at(&dir, &[args, &["--db", "lineclear.db"]].concat());
    assert_eq!(straight(&["job", "enqueue", "mail.send"]).code, Some(0));
    until(|| straight(&["job", "get", "1"]).out.contains("phase\tparked"));
    let input = r#"{"argv": ["/bin/true"]}"#;
    let done = straight(&["job", "enqueue", "command", "--input", input, "--wait", "--wait-timeout", "1m"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(worker.terminate().code(), Some(0));
}

/// With standard error in a file, a panic of any thread appears there; with both streams gone, the exit code shows a panic of the main thread.
#[test]
fn demo_and_bench_without_a_reader_finish() {
    let dir = tempfile::tempdir().unwrap();
    for words in [&["demo", "--port", "0", "--for", "3s"][..], &["bench", "--jobs", "64", "--rounds", "1"]] {
        let said = dir.path().join("said");
        let file = File::create(&said).unwrap();
        let mut seen = Started::with(&dir, words, Stdio::piped(), file.into());
        drop(seen.0.stdout.take());
        let mut unseen = Started::with_pipes(&dir, words);
        drop((unseen.0.stdout.take(), unseen.0.stderr.take()));
        for ended in [seen.ended(), unseen.ended()] {
            assert_eq!(ended.code(), Some(0), "{words:?}");
        }
        let said = std::fs::read_to_string(said).unwrap();
        assert!(!said.contains("panicked"), "{words:?}: {said}");
    }
}
