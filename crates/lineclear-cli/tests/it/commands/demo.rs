//! `lineclear demo`, until all of its events have occurred.

use std::time::Duration;

use lineclear_testkit::{Child, Program, fresh_postgres};

const LONG: Duration = Duration::from_secs(90);

fn demo(arguments: &[&str]) -> Child {
    let program = Program::at(env!("CARGO_BIN_EXE_lineclear"));
    program.args(["demo", "--port", "0", "--json-log"]).args(arguments).start().unwrap()
}

async fn prints_all_events(mut demo: Child) {
    let events = [
        "leader",
        "completed",
        "failed",
        "dead_letter",
        "runner",
        "order_placed",
        "leader_killed",
        "leader_changed",
        "runner_moved",
    ];
    for event in events {
        let line = demo.wait_for_line(&format!(r#""event":"{event}""#), LONG).await.unwrap();
        println!("{line}");
    }
    let email =
        |line: &&String| line.contains(r#""event":"completed""#) && line.contains(r#""kind":"send-email""#);
    assert!(demo.stdout().iter().any(|line| email(&line)), "an order became an e-mail: {:?}", demo.stdout());
    demo.terminate().unwrap();
    assert!(demo.wait_for_exit(LONG).await.unwrap().success());
    assert!(demo.stdout().last().is_some_and(|line| line.contains("summary")), "{:?}", demo.stdout());
    let again = demo.stdout().iter().any(|line| line.contains("started_again"));
    assert!(again, "a failed or lost job ran again");
}

#[tokio::test]
async fn one_job_succeeds_one_is_retried_one_dies_and_a_killed_leader_is_replaced() {
    prints_all_events(demo(&["--for", "60s"])).await;
}

#[tokio::test]
async fn the_same_on_postgres() {
    let database = fresh_postgres().await;
    prints_all_events(demo(&["--db", database.url(), "--chaos", "--rate", "5"])).await;
}

#[tokio::test]
async fn the_demo_ends_in_time_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let program =
        Program::at(env!("CARGO_BIN_EXE_lineclear")).current_dir(dir.path()).env("TMPDIR", dir.path());
    let mut demo = program.args(["demo", "--port", "0", "--for", "2s"]).start().unwrap();
    assert!(demo.wait_for_exit(LONG).await.unwrap().success());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no file is left");
}

/// The nodes must not outlive the demo, however it ends.
#[tokio::test]
async fn the_nodes_of_a_killed_demo_end() {
    let mut demo = demo(&[]);
    demo.wait_for_line(r#""event":"completed""#, LONG).await.unwrap();
    let nodes = children_of(demo.id());
    assert_eq!(nodes.len(), 3);
    demo.kill().unwrap();
    let is_there = |pid: &u32| std::path::Path::new(&format!("/proc/{pid}/exe")).exists();
    for _ in 0..300 {
        if !nodes.iter().any(is_there) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{nodes:?} go on");
}

/// Whichever thread started them.
fn children_of(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let texts = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<_>>())
        .collect()
}
