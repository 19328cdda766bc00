//! The kit for tests of other programs; what its guide shows is in `testing_guide.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lineclear::model::{JobState, Manifest, Outcome, Schedule};
use lineclear::store::{Dispatch, JobId, NewJob};
use lineclear::testing::TestNode;
use lineclear::{Client, HandlerError, Lineclear, Snooze, State};

use crate::kit::name;

async fn nothing() {}

/// The panic message of a future.
async fn panic_of(future: impl Future<Output = ()> + Send + 'static) -> String {
    let panic = tokio::spawn(future).await.unwrap_err().into_panic();
    panic.downcast_ref::<String>().cloned().expect("a message")
}

#[test]
fn the_guide_shows_the_tests_as_they_are() {
    let code = include_str!("testing_guide.rs");
    let guide = include_str!("../../../../../docs/testing.md");
    assert!(guide.contains(&format!("```rust\n{code}```")), "docs/testing.md shows other tests");
}

#[tokio::test]
async fn an_expectation_that_does_not_hold_says_what_there_is_instead() {
    async fn broken() -> Result<(), HandlerError> {
        Err("out of paper".into())
    }
    let node = Arc::new(TestNode::start(Lineclear::builder().kind("broken", broken)).await.unwrap());
    let job = node.enqueue("broken", &serde_json::json!({"order": 7})).await.unwrap().id;
    node.drain().await;
    let of = node.clone();
    let said = panic_of(async move { of.assert_completed(job).await }).await;
    for part in ["is not completed", "broken retrying", r#"{"order":7}"#, "claim 1: failed out of paper"] {
        assert!(said.contains(part), "{said}");
    }
    let of = node.clone();
    let said = panic_of(async move {
        of.assert_enqueued("broken", |n: u32| n == 1).await;
    })
    .await;
    assert!(said.contains("what waits: \n  job 1 broken retrying, due 2026-01-01T00:05:00Z"), "{said}");
    let of = node.clone();
    assert!(panic_of(async move { of.assert_dead(JobId(99)).await }).await.contains("there is no job 99"));
    let of = node.clone();
    assert!(panic_of(async move { of.assert_nothing_enqueued().await }).await.contains("jobs wait: "));
}

#[tokio::test]
async fn one_job_is_run_at_a_time_and_its_outcome_told() {
    async fn later() -> Snooze {
        Snooze(Duration::from_secs(60))
    }
    let builder = Lineclear::builder().kind("later", later).kind("nothing", nothing);
    let node = TestNode::start(builder).await.unwrap();
    node.enqueue("later", &()).await.unwrap();
    let high = NewJob { priority: 9, ..NewJob::new(name("nothing"), lineclear::model::Payload::empty()) };
    let high = node.client().enqueue_job(high).await.unwrap().id;
    let first = node.run_one().await.unwrap();
    assert_eq!((first.job, first.outcome), (high, Outcome::Completed { output: None }));
    let second = node.run_one().await.unwrap();
    assert_eq!(second.outcome, Outcome::Snoozed { after: Duration::from_secs(60) });
    assert_eq!(node.run_one().await, None, "it is not due");
    node.clock().advance(Duration::from_secs(60));
    assert_eq!(node.run_one().await.unwrap().job, second.job);
}

#[tokio::test]
async fn jobs_that_jobs_enqueue_are_drained_too_and_an_endless_chain_is_noticed() {
    async fn chain(client: Client, left: State<AtomicU32>) -> Result<(), HandlerError> {
        if left.fetch_sub(1, Ordering::SeqCst) > 1 {
            client.enqueue("chain", &()).await?;
        }
        Ok(())
    }
    let started =
        |left: u32| TestNode::start(Lineclear::builder().kind("chain", chain).state(AtomicU32::new(left)));
    let node = started(5).await.unwrap();
    node.enqueue("chain", &()).await.unwrap();
    assert_eq!(node.drain_at_most(5).await.len(), 5);

    let node = started(u32::MAX).await.unwrap();
    node.enqueue("chain", &()).await.unwrap();
    assert!(
        panic_of(async move { drop(node.drain_at_most(100).await) }).await.contains("there are still more")
    );
}

#[tokio::test]
async fn leases_and_schedules_follow_the_clock_and_nothing_runs_by_itself() {
    let hourly = Schedule::every(Duration::from_secs(3600)).unwrap();
    let manifest = Manifest::new(name("hourly"), name("nothing"), hourly);
    let node =
        TestNode::start(Lineclear::builder().kind("nothing", nothing).manifest(manifest)).await.unwrap();
    node.drain().await;
    for _ in 0..3 {
        node.clock().advance(Duration::from_secs(3600));
        assert_eq!(node.drain().await.len(), 1, "one for each hour");
    }
    let job = node.enqueue("nothing", &()).await.unwrap().id;
    let lease =
        lineclear::store::Lease { node: lineclear::store::NodeId(99), length: Duration::from_secs(30) };
    let taken = node.store().dispatch_into_lease(Dispatch::new(name("main"), 1), lease).await.unwrap();
    assert_eq!(taken.len(), 1);
    assert!(node.drain().await.is_empty(), "another node has it");
    node.assert_state(job, JobState::Running).await;
    node.clock().advance(Duration::from_secs(31));
    assert_eq!(node.drain().await.len(), 1, "its lease ran out");
    node.assert_completed(job).await;
}
