//! What operators see while the database is away, silent, read-only, full or locked.

mod condition;
mod file_condition;
mod log;
mod start;

use std::time::{Duration, Instant};

use lineclear_testkit::{Child, PrivatePostgres};
use tempfile::TempDir;

use crate::commands::serve::{ask, serve};
use crate::run::{Run, at};

const LONG: Duration = Duration::from_secs(60);
/// The promise, for a machine that has time for its processes.
const SOON: Duration = Duration::from_secs(5);

/// A machine that is busy with other tests keeps it later, but no more than so much.
const BUSY_MAX: Duration = Duration::from_secs(10);

/// For how long processes of this machine have waited for a CPU so far; zero where the kernel does not count this.
fn waited_for_cpu() -> Duration {
    let counted = std::fs::read_to_string("/proc/pressure/cpu").ok();
    let micros = counted.as_deref().and_then(|text| {
        text.lines().find(|line| line.starts_with("some"))?.split("total=").nth(1)?.trim().parse().ok()
    });
    micros.map_or(Duration::ZERO, Duration::from_micros)
}

/// A server, its folder and its address.
struct Node {
    child: Child,
    address: String,
    dir: TempDir,
}

impl Node {
    async fn start(db: &str) -> Node {
        let dir = tempfile::tempdir().unwrap();
        let (child, address) = serve(&dir, &["--db", db]).await;
        let node = Node { child, address, dir };
        node.until_ready("HTTP/1.1 200").await;
        node
    }

    fn ask(&self, request: &str) -> String {
        ask(&self.address, request, "")
    }

    /// Runs a command against this server.
    fn run(&self, arguments: &[&str]) -> Run {
        at(&self.dir, &[arguments, &["--server", &format!("http://{}", self.address)]].concat())
    }

    /// Waits until the readiness probe says this; panics if that takes too long.
    async fn until_ready(&self, says: &str) -> String {
        let (begun, waited) = (Instant::now(), waited_for_cpu());
        loop {
            let answer = self.ask("GET /readyz");
            if answer.contains(says) {
                let (took, waited) = (begun.elapsed(), waited_for_cpu().saturating_sub(waited));
                println!("{says:?} after {took:?}; processes waited for a CPU for {waited:?} of it");
                assert!(
                    took < SOON + waited.min(BUSY_MAX),
                    "it took {took:?}, and processes waited for a CPU for {waited:?}"
                );
                return answer;
            }
            assert!(begun.elapsed() < LONG, "never {says:?}, but {answer}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Probe, status, doctor and page name the condition; `lost`: the database answers nothing at all.
    async fn expect_named(&self, state: &str, words: &str, lost: bool) {
        let answer = self.until_ready(&format!("{words} since ")).await;
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        let body = answer.split("\r\n\r\n").nth(1).unwrap();
        assert_eq!(body.lines().count(), 2, "what, since when, and what to do: {body}");
        let status = self.run(&["status", "--json"]);
        let doctor = self.run(&["doctor"]);
        let page = page(&self.address);
        if lost {
            assert_ne!(status.code, Some(0));
            assert!(status.err.contains(words) && status.err.contains(" since "), "{}", status.err);
        } else {
            assert_eq!(status.code, Some(10), "{} {}", status.out, status.err);
            assert!(status.out.contains(&format!(r#""state":"{state}""#)), "{}", status.out);
            assert!(status.out.contains(r#""check":"condition""#), "{}", status.out);
        }
        assert_eq!(doctor.code, Some(10), "{} {}", doctor.out, doctor.err);
        let check = doctor.out.lines().find(|line| line.contains("\tcondition\t")).unwrap();
        assert!(check.starts_with("failure") && check.contains(words), "{check}");
        assert!(page.contains(r#"role="alert""#) && page.contains(words), "{page}");
    }

    async fn expect_healthy(&self) {
        self.until_ready("HTTP/1.1 200").await;
        let status = self.run(&["status", "--json"]);
        assert_eq!(status.code, Some(0), "{} {}", status.out, status.err);
        assert!(!page(&self.address).contains(r#"role="alert""#));
    }

    /// Lines of the log with this text.
    fn logged(&self, text: &str) -> usize {
        self.child.stderr().iter().filter(|line| line.contains(text)).count()
    }

    /// Each change of condition is one line, and nothing is an error that needs a person.
    fn expect_lines(&self, lost: &str) {
        let lost = self.logged(&format!(" WARN {lost}"));
        assert_eq!((lost, self.logged("database back")), (1, 1), "{:#?}", self.child.stderr());
        assert_eq!(self.logged("ERROR"), 0, "{:#?}", self.child.stderr());
    }
}

/// The overview as a browser gets it.
fn page(address: &str) -> String {
    ask(address, "GET / HTTP/1.1\r\nAccept: text/html\r\nX-Rest:", "")
}

/// A server of its own, which can be stopped and frozen.
async fn postgres() -> PrivatePostgres {
    // Commits survive a stop; test servers do not ensure that by default.
    PrivatePostgres::start(&["synchronous_commit=on"]).await.unwrap()
}

/// A connection of the test.
async fn client(server: &PrivatePostgres) -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(&server.url(), tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}
