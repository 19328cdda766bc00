//! A server, and a browser that is used as a person uses it.

mod browser;
mod driver;

use std::time::{Duration, Instant};

use lineclear_testkit::{Child, Program};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) use browser::{Browser, Wish};
pub(crate) use driver::ask;

pub(crate) const LONG: Duration = Duration::from_secs(30);

/// `lineclear serve` in its own folder.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) port: u16,
    /// The token for API requests, if the server requires one.
    pub(crate) token: Option<String>,
    dir: TempDir,
}

impl Server {
    /// A server that may run a shell: its jobs fail, wait and write as a test needs it.
    pub(crate) async fn start(arguments: &[&str]) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let (child, port) = serve(&dir, lineclear_testkit::free_port().unwrap(), arguments).await;
        Server { child, port, token: None, dir }
    }

    /// A server with these settings.
    pub(crate) async fn with_settings(settings: &str) -> Server {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("lineclear.toml"), settings).unwrap();
        let (child, port) = serve(&dir, lineclear_testkit::free_port().unwrap(), &[]).await;
        Server { child, port, token: None, dir }
    }

    /// Kills the server and starts it again with the same file and port.
    pub(crate) async fn kill_and_start_again(&mut self, while_gone: impl AsyncFnOnce()) {
        self.child.kill().unwrap();
        while_gone().await;
        (self.child, _) = serve(&self.dir, self.port, &[]).await;
    }

    /// The address of a page.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The path of a file in its folder.
    pub(crate) fn file(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    /// Sends a request to the API.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, answer) =
            ask(self.port, method, &format!("/api/v1{path}"), Some(body), self.token.as_deref()).unwrap();
        assert!(status < 300, "{method} {path}: {status} {answer}");
        answer
    }

    /// Enqueues a job; returns its id.
    pub(crate) fn enqueue(&self, job: &Value) -> String {
        self.ask("POST", "/jobs", job)["id"].as_str().unwrap().to_owned()
    }

    /// Enqueues a job that runs a shell script once.
    pub(crate) fn shell(&self, script: &str) -> String {
        self.enqueue(&json!({"kind": "command", "input": {"argv": ["/bin/sh", "-c", script]}, "retries": 0}))
    }

    /// Makes this number of dead letters of one family.
    pub(crate) fn dead(&self, count: usize) -> Vec<String> {
        let ids: Vec<_> = (0..count).map(|_| self.shell("echo the printer is on fire >&2; exit 3")).collect();
        for id in &ids {
            self.is_in(id, "dead");
        }
        ids
    }

    /// Waits until a job is in this state.
    pub(crate) fn is_in(&self, id: &str, state: &str) {
        let until = Instant::now() + LONG;
        loop {
            let job = self.ask("GET", &format!("/jobs/{id}"), &Value::Null);
            if job["state"] == state {
                return;
            }
            assert!(Instant::now() < until, "job {id} is not {state}: {job}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Creates a token.
    pub(crate) fn make_token(&self, name: &str, scope: &str) -> String {
        let made = std::process::Command::new(env!("CARGO_BIN_EXE_lineclear"))
            .args(["token", "create", name, "--scope", scope])
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        String::from_utf8(made.stdout).unwrap().trim().to_owned()
    }
}

async fn serve(dir: &TempDir, port: u16, arguments: &[&str]) -> (Child, u16) {
    let program = Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args(["serve", "--commands", "/bin/sh", "--allow-open-commands", "--port", &port.to_string()])
        .args(arguments)
        .current_dir(dir.path())
        .env("XDG_CONFIG_HOME", dir.path().join("none"));
    let child = program.start().unwrap();
    let port = port_of(&child).await;
    (child, port)
}

/// The port that the server prints.
pub(crate) async fn port_of(child: &Child) -> u16 {
    let line = child.wait_for_line("API  http://", LONG).await.unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap();
    address.rsplit(':').next().unwrap().parse().unwrap()
}
