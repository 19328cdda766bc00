//! Hooks are called for the events of jobs, and never delay them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use lineclear::model::{JobState, Manifest, Schedule};
use lineclear::node::HOOK_EVENTS_MAX;
use lineclear::store::JobId;
use lineclear::{Cancel, Event, HandlerError, JobEvent, JobInfo, Lineclear};

use super::impatient;
use crate::kit::{TestStore, name, quick, until};

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<JobEvent>>>);

impl Heard {
    fn add(&self, event: JobEvent) {
        self.0.lock().unwrap().push(event);
    }

    fn of(&self, job: JobId) -> Vec<Event> {
        let heard = self.0.lock().unwrap();
        heard.iter().filter(|event| event.job == job).map(|event| event.event.clone()).collect()
    }
}

on_each_store! {
    async fn hooks_hear_of_a_job_from_its_queueing_to_its_end(db) {
        async fn fails_once(job: JobInfo) -> Result<(), HandlerError> {
            if job.attempt == 1 { Err("at first".into()) } else { Ok(()) }
        }
        async fn broken() -> Result<(), HandlerError> { Err("always".into()) }
        async fn endless(cancel: Cancel) -> Result<(), HandlerError> {
            cancel.requested().await;
            Err("told to stop".into())
        }
        let heard = Heard::default();
        let hook = heard.clone();
        let node = Lineclear::builder().store(&db.url).options(quick())
            .hook(|_| async { panic!("a hook that panics") })
            .hook(move |event| {
                let heard = hook.clone();
                async move { heard.add(event) }
            })
            .kind_with("fails-once", impatient(1), fails_once).kind_with("broken", impatient(0), broken).kind("endless", endless)
            .manifest(Manifest::new(name("m"), name("fails-once"), Schedule::on_demand())).start().await.unwrap();
        let triggered = node.client().trigger(name("m"), Default::default()).await.unwrap().unwrap();
        let broken = node.enqueue("broken", &()).await.unwrap().id;
        let endless = node.enqueue("endless", &()).await.unwrap().id;
        until("it runs", async || db.state(&node, endless).await == Some(JobState::Running)).await;
        node.store().cancel(endless).await.unwrap();
        for (job, state) in [(triggered, JobState::Completed), (broken, JobState::Dead), (endless, JobState::Cancelled)] {
            until("it is over", async || db.state(&node, job).await == Some(state)).await;
        }
        assert_eq!(node.dropped_events(), 0);
        node.stop().await;
        let failed = |error: &str, retried| Event::Failed { error: error.to_owned(), retried };
        let started = |claim_no| Event::Started { claim_no };
        // A worker may be faster than the caller that enqueues, so Queued may arrive a little later.
        let of = |job| {
            let mut events = heard.of(job);
            events.sort_by_key(|event| *event != Event::Queued);
            events
        };
        assert_eq!(of(broken), [Event::Queued, started(1), failed("always", false)]);
        assert_eq!(of(endless), [Event::Queued, started(1), Event::Cancelled]);
        assert_eq!(of(triggered), [Event::Queued, started(1), failed("at first", true), started(2), Event::Completed]);
        assert!(heard.0.lock().unwrap().iter().any(|event| event.job == triggered && event.kind == name("fails-once")));
    }
}

/// The hook blocks its thread, and the queue in front of it fills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_that_hangs_costs_events_and_never_a_job() {
    async fn noop() {}
    let db = TestStore::sqlite().await;
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let node = Lineclear::builder()
        .store(&db.url)
        .options(quick())
        .hook(move |_| {
            // Until the sender is dropped.
            let _ = gate.lock().unwrap().recv();
            async {}
        })
        .kind("noop", noop)
        .start()
        .await
        .unwrap();
    let jobs = u64::try_from(HOOK_EVENTS_MAX).unwrap();
    for _ in 0..jobs / 2 {
        node.enqueue("noop", &()).await.unwrap();
    }
    let completed = lineclear::read::JobFilter { states: vec![JobState::Completed], ..Default::default() };
    until("all are completed", async || {
        node.store().jobs(&completed, None, 1000).await.unwrap().items.len() as u64 == jobs / 2
    })
    .await;
    // Three events for each job; one is being handled, the queue is full, and the rest was dropped.
    until("the rest was dropped", async || node.dropped_events() == jobs / 2 * 3 - jobs - 1).await;
    drop(go);
    let stopped = tokio::time::timeout(Duration::from_secs(20), node.stop()).await;
    assert!(stopped.is_ok(), "it hangs");
}
