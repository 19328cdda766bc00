//! The log of a night without PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::{LONG, Node, postgres};
use crate::commands::serve::{ask, serve};

const OUTAGE: Duration = Duration::from_secs(13);
const LINES_MAX: usize = 50;
const TICK: &str = r#"
[[manifest]]
key = "tick"
kind = "load"
schedule = { every = "1s" }
"#;

/// Requests from eight callers, some hundreds a second.
fn callers(
    address: &str,
    stop: &Arc<AtomicBool>,
    failed: &Arc<AtomicUsize>,
) -> Vec<std::thread::JoinHandle<usize>> {
    let requests = [
        ("POST /api/v1/jobs", r#"{"kind": "a"}"#),
        ("GET /api/v1/jobs", ""),
        ("GET /api/v1/stats/now", ""),
        ("POST /api/v1/jobs/batch", r#"{"jobs": [{"kind": "a"}, {"kind": "b"}]}"#),
    ];
    let caller = |n: usize| {
        let (address, stop, failed) = (address.to_owned(), stop.clone(), failed.clone());
        let (request, body) = requests[n % requests.len()];
        std::thread::spawn(move || {
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                let status = ask(&address, request, body);
                failed.fetch_add(usize::from(status.starts_with("HTTP/1.1 5")), Ordering::Relaxed);
                sent += 1;
                std::thread::sleep(Duration::from_millis(15));
            }
            sent
        })
    };
    (0..8).map(caller).collect()
}

/// How many requests a line stands for.
fn requests_of(line: &str) -> usize {
    let left_out = line.split("left_out=").nth(1).and_then(|rest| rest.split_whitespace().next());
    let left_out: usize = left_out.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    left_out + usize::from(line.contains("a request failed"))
}

#[tokio::test(flavor = "multi_thread")]
async fn thirteen_seconds_without_postgres_under_requests_are_few_lines_that_name_route_and_reason() {
    let mut server = postgres().await;
    let mut node = Node::start(&server.url()).await;
    let (stop, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let before = node.child.stderr().len();
    let callers = callers(&node.address, &stop, &failed);
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.stop();
    tokio::time::sleep(OUTAGE).await;
    server.start_again().await.unwrap();
    node.child.wait_for_line("database back", LONG).await.unwrap();
    stop.store(true, Ordering::Relaxed);
    let sent: usize = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
    node.child.terminate().unwrap();
    assert!(node.child.wait_for_exit(LONG).await.unwrap().success());

    let lines = node.child.stderr().split_off(before);
    let failed = failed.load(Ordering::Relaxed);
    println!("{sent} requests, {failed} failed, {} lines:\n{}", lines.len(), lines.join("\n"));
    assert!(failed > 500, "only {failed} of {sent} requests failed");
    assert!(lines.len() <= LINES_MAX, "{} lines", lines.len());
    let with = |text: &str| lines.iter().filter(|line| line.contains(text)).collect::<Vec<_>>();
    assert_eq!((with("database lost").len(), with("database back").len()), (1, 1));
    assert!(with("ERROR").is_empty(), "{:#?}", with("ERROR"));
    assert!(with("cannot be reached: the database cannot").is_empty());
    for line in with("a request failed") {
        assert!(line.contains("route=") && line.contains("error=") && line.contains("request.id="), "{line}");
    }
    let told: usize = with("request")
        .into_iter()
        .filter(|line| line.contains("route="))
        .map(|line| requests_of(line))
        .sum();
    assert_eq!(told, failed, "each failed request is in the log, by itself or in a count");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_takes_over_the_planning_says_so_once() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tick.toml"), TICK).unwrap();
    let leads = "this node leads the planning now";
    for _ in 0..2 {
        let (mut child, _) = serve(&dir, &["--manifests", "tick.toml", "--heartbeat", "1s"]).await;
        child.wait_for_line(leads, LONG).await.unwrap();
        // It goes on planning for three heartbeats, and does not say it again.
        tokio::time::sleep(Duration::from_secs(3)).await;
        child.kill().unwrap();
        assert_eq!(
            child.stderr().iter().filter(|line| line.contains(leads)).count(),
            1,
            "{:#?}",
            child.stderr()
        );
    }
}
