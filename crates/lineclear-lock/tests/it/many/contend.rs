//! Fifty contenders from eight processes on one name: never two holders, epochs that grow, no contender starves.

use std::path::PathBuf;
use std::time::Duration;

use lineclear_lock::history::{Event, Observation, check};
use lineclear_testkit::Program;

use crate::kit::Place;

/// How many contenders each process has.
const PROCESSES: [u32; 8] = [7, 7, 6, 6, 6, 6, 6, 6];
const SECONDS: u32 = 10;

/// An example program.
pub(crate) fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name)
}

pub(crate) async fn fifty_contenders_of_eight_processes(place: &Place) {
    let url = place.url.as_deref().expect("a place that other processes can find");
    let start = |contenders: u32| {
        let (contenders, seconds) = (contenders.to_string(), SECONDS.to_string());
        Program::at(example("contender")).args([url, "report", &contenders, &seconds]).start().unwrap()
    };
    let children: Vec<_> = PROCESSES.map(start).into();
    let mut events: Vec<Event> = Vec::new();
    for mut child in children {
        let status = child.wait_for_exit(Duration::from_secs(60)).await.unwrap();
        assert!(status.success(), "{status}");
        events.extend(child.stdout().iter().filter_map(|line| line.parse().ok()));
    }
    let contenders: std::collections::BTreeSet<_> = events.iter().map(|event| &event.contender).collect();
    assert_eq!(contenders.len(), 50);
    let grants = events.iter().filter(|event| matches!(event.observation, Observation::Held(_))).count();
    println!("{grants} grants in {SECONDS} s");
    assert!(grants > 100, "only {grants} grants");
    // All contenders ask all the time, so the check finds one that starved for most of it.
    assert_eq!(check(events, Duration::from_secs(9)), []);
}

#[tokio::test]
async fn fifty_contenders_on_a_sqlite_file() {
    fifty_contenders_of_eight_processes(&Place::sqlite()).await;
}

#[tokio::test]
async fn fifty_contenders_on_postgres_leases() {
    fifty_contenders_of_eight_processes(&Place::postgres("lock=lease").await).await;
}

#[tokio::test]
async fn fifty_contenders_on_postgres_leases_through_pgbouncer() {
    fifty_contenders_of_eight_processes(&Place::pgbouncer().await).await;
}

#[tokio::test]
async fn fifty_contenders_on_postgres_session_locks() {
    fifty_contenders_of_eight_processes(&Place::postgres("lock=session").await).await;
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn fifty_contenders_on_redis() {
    fifty_contenders_of_eight_processes(&Place::redis()).await;
}
