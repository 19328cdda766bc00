//! A node that starts while its database is away waits for it; one that its database refuses does not.

use std::time::{Duration, Instant};

use lineclear_testkit::{Child, Program};
use tempfile::TempDir;

use super::{LONG, postgres};
use crate::commands::serve::ask;

fn node(dir: &TempDir, arguments: &[&str]) -> Program {
    Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args(arguments)
        .current_dir(dir.path())
        .env("XDG_CONFIG_HOME", dir.path().join("none"))
}

async fn waiting(dir: &TempDir, arguments: &[&str]) -> Child {
    let child = node(dir, arguments).start().unwrap();
    child.wait_for_line("waiting for the database", LONG).await.unwrap();
    child
}

/// Asks whether the process lives until it is ready: at no moment is a connection refused or cut.
fn probe_until_ready(address: String) -> std::thread::JoinHandle<usize> {
    std::thread::spawn(move || {
        let begun = Instant::now();
        for probes in 1.. {
            let live = ask(&address, "GET /livez", "");
            assert!(live.starts_with("HTTP/1.1 200"), "probe {probes}: {live:?}");
            let ready = ask(&address, "GET /readyz", "");
            if ready.starts_with("HTTP/1.1 200") {
                return probes;
            }
            assert!(ready.contains("not ready"), "probe {probes}: {ready:?}");
            assert!(begun.elapsed() < LONG, "{ready}");
        }
        0
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_without_its_database_waits_and_says_so() {
    let mut server = postgres().await;
    server.stop();
    let dir = tempfile::tempdir().unwrap();
    let port = lineclear_testkit::free_port().unwrap().to_string();
    let mut child = waiting(&dir, &["serve", "--db", &server.url(), "--port", &port]).await;
    let address = format!("127.0.0.1:{port}");
    assert!(ask(&address, "GET /livez", "").starts_with("HTTP/1.1 200"));
    let ready = ask(&address, "GET /readyz", "");
    assert!(
        ready.starts_with("HTTP/1.1 503") && ready.contains("starting: the database cannot be reached since"),
        "{ready}"
    );
    let other = ask(&address, "GET /api/v1/jobs", "");
    assert!(other.starts_with("HTTP/1.1 503") && other.contains("store_unavailable"), "{other}");

    let probing = probe_until_ready(address.clone());
    server.start_again().await.unwrap();
    child.wait_for_line("API  http://", LONG).await.unwrap();
    let probes = probing.join().unwrap();
    assert!(probes > 0);
    assert!(ask(&address, "GET /readyz", "").starts_with("HTTP/1.1 200"));
    child.terminate().unwrap();
    assert!(child.wait_for_exit(LONG).await.unwrap().success());
    let said = child.stderr();
    assert_eq!(said.iter().filter(|line| line.contains("waiting for the database")).count(), 1, "{said:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_starts_without_its_database_waits_until_a_signal_ends_it() {
    let mut server = postgres().await;
    server.stop();
    let dir = tempfile::tempdir().unwrap();
    let mut stopped = waiting(&dir, &["work", "--db", &server.url()]).await;
    let mut started = waiting(&dir, &["work", "--db", &server.url()]).await;
    stopped.terminate().unwrap();
    assert!(stopped.wait_for_exit(LONG).await.unwrap().success());
    assert!(!stopped.stderr().join("\n").contains("node 1 of"));
    server.start_again().await.unwrap();
    started.wait_for_line("node 1 of", LONG).await.unwrap();
    started.terminate().unwrap();
    assert!(started.wait_for_exit(LONG).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_waits_no_longer_than_it_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let away = "postgres://app@127.0.0.1:1/x";
    let mut at_once =
        node(&dir, &["serve", "--port", "0", "--db", away, "--wait-for-db", "0"]).start().unwrap();
    assert_eq!(at_once.wait_for_exit(LONG).await.unwrap().code(), Some(6));
    assert!(!at_once.stderr().join("\n").contains("waiting"), "{:?}", at_once.stderr());
    let begun = Instant::now();
    let mut later = node(&dir, &["work", "--db", away]).env("LINECLEAR_WAIT_FOR_DB", "2s").start().unwrap();
    assert_eq!(later.wait_for_exit(LONG).await.unwrap().code(), Some(6));
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    let said = later.stderr().join("\n");
    assert!(said.contains("waiting") && said.contains("hint: check that the server is running"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_refuses_is_not_waited_for() {
    let server = postgres().await;
    let dir = tempfile::tempdir().unwrap();
    let url = server.url();
    let no_database = format!("{}/nowhere", url.rsplit_once('/').unwrap().0);
    for (db, why) in [(no_database, "does not exist"), (format!("{url}?sslmode=require"), "TLS")] {
        let mut child = node(&dir, &["serve", "--port", "0", "--db", &db]).start().unwrap();
        assert!(!child.wait_for_exit(LONG).await.unwrap().success());
        let said = child.stderr().join("\n");
        assert!(said.contains("error: ") && said.contains(why) && !said.contains("waiting"), "{db}: {said}");
    }
}
