//! Waiting for the end of jobs.

use std::time::{Duration, Instant};

use lineclear::model::{JobState, Payload};
use lineclear::node::WAITERS_MAX;
use lineclear::store::{JobId, NewJob};
use lineclear::{Lineclear, NodeOptions, StoreError};

use crate::kit::{TestStore, name, quick, until};

const LONG: Duration = Duration::from_secs(60);

fn later() -> NewJob {
    let soon = lineclear::model::Micros::from(jiff::Timestamp::now()).offset(3_600_000_000);
    NewJob { due_at: Some(soon), ..NewJob::new(name("nothing"), Payload::empty()) }
}

on_each_store! {
    async fn a_job_that_ends_elsewhere_is_waited_for(db) {
        let works = Lineclear::builder().store(db.url.as_str()).options(quick()).kind("nothing", async || ());
        let works = works.start().await.unwrap();
        let asks = NodeOptions { roles: vec![lineclear::Role::Cleaner], ..NodeOptions::default() };
        let asks = Lineclear::builder().store(db.url.as_str()).options(asks).start().await.unwrap();
        let job = asks.enqueue("nothing", &()).await.unwrap().id;
        assert_eq!(asks.client().wait(job, LONG).await.unwrap(), Some(JobState::Completed));
        assert_eq!(
            works.client().wait(job, LONG).await.unwrap(),
            Some(JobState::Completed),
            "it was over before"
        );
        works.stop().await;
        asks.stop().await;
    }

    async fn a_bounded_number_waits_and_a_stop_ends_all_of_it(db) {
        let node = Lineclear::builder().store(db.url.as_str()).options(quick()).start().await.unwrap();
        let job = node.store().enqueue(later()).await.unwrap().id;
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..WAITERS_MAX {
            let client = node.client();
            waiting.spawn(async move {
                // The probe below may hold a connection for a moment.
                loop {
                    match client.wait(job, LONG).await {
                        Ok(state) => return state,
                        Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                    }
                }
            });
        }
        until("one more is refused", async || {
            let more = node.client().wait(JobId(1), Duration::ZERO).await;
            matches!(more, Err(StoreError::Refused { rule, .. }) if rule == "waiters_max")
        }).await;
        let begun = Instant::now();
        node.stop().await;
        let answers = waiting.join_all().await;
        assert!(answers.iter().all(Option::is_none));
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }
}
