//! The examples run: a worker for pushed jobs, and one that works straight from the database.

use std::net::SocketAddr;
use std::time::Duration;

use lineclear::model::{ExecutionOutcome, JobState};
use lineclear::submitters::HttpPush;
use lineclear::{NodeOptions, Role};
use lineclear_testkit::Program;

use crate::kit::{LONG, Place, Served, example, outcomes};

const LEASE: Duration = Duration::from_secs(30);
const FREE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_has_jobs_pushed_and_stops_when_it_is_told_to() {
    let place = Place::sqlite().await;
    let secret = format!("whsec_{}", "a".repeat(40));
    let mut worker = Program::at(example("push")).env("LINECLEAR_PUSH_SECRET", &secret).start().unwrap();
    let line = worker.wait_for_line("is up at", LONG).await.unwrap();
    let push =
        HttpPush::new(line.split("is up at ").nth(1).unwrap()).unwrap().secrets([secret.parse().unwrap()]);
    let served = Served::start_at(&place, LEASE, FREE, |builder| {
        builder.submitter("greeter", push).submit_to("greeter", ["greet"])
    })
    .await;
    let job = served.enqueue("greet", "world").await;
    let detail = served.until(job, JobState::Completed).await;
    assert_eq!(detail.executions[0].output.as_deref(), Some(r#""hello, world""#));
    served.stop().await;
    worker.terminate().unwrap();
    assert!(worker.wait_for_exit(LONG).await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_works_straight_from_the_database() {
    let place = Place::sqlite().await;
    // The scheduler runs no jobs itself.
    let served = Served::start_at(&place, LEASE, FREE, |builder| {
        builder.options(NodeOptions { roles: vec![Role::Planner, Role::Cleaner], ..NodeOptions::default() })
    })
    .await;
    let mut worker = Program::at(example("database")).args([&place.url]).start().unwrap();
    let job = served.enqueue("greet", "world").await;
    let detail = served.until(job, JobState::Completed).await;
    assert_eq!(outcomes(&detail), [ExecutionOutcome::Completed]);
    worker.wait_for_line("hello, world", LONG).await.unwrap();
    worker.terminate().unwrap();
    assert!(worker.wait_for_exit(LONG).await.unwrap().success());
    served.stop().await;
}
