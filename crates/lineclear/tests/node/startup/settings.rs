//! Settings that operators change while nodes run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lineclear::store::{JobId, Setting};
use lineclear::{Lineclear, NodeOptions};

use crate::kit::{TestStore, quick, until};

fn often() -> NodeOptions {
    let quickly = Duration::from_millis(50);
    NodeOptions { heartbeat: quickly, clean_interval: quickly, ..quick() }
}

on_each_store! {
    async fn other_nodes_obey_with_their_next_heartbeat(db) {
        let one = Lineclear::builder().store(db.url.as_str()).options(often()).kind("nothing", async || ()).start().await.unwrap();
        let two = Lineclear::builder().store(db.url.as_str()).options(often()).start().await.unwrap();
        let job = one.enqueue("nothing", &()).await.unwrap().id;
        one.client().wait(job, Duration::from_secs(30)).await.unwrap();
        let minute = Duration::from_secs(60);
        let change = |value: Option<Duration>| BTreeMap::from([(Setting::RetentionCompleted, value.map(|time| time.as_millis() as u64))]);
        one.client().change_settings(change(Some(minute)), None, "ann").await.unwrap();
        assert_eq!(one.client().retention().completed, minute, "this one at once");
        until("the other one, too", async || two.client().retention().completed == minute).await;

        // Cleaning follows it: the job is older than the new retention, and younger than that of the nodes' options.
        assert!(exists(&one, job).await);
        let hour = if db.url.starts_with("postgres") { "interval '1 hour'" } else { "3600000000" };
        db.sql(&format!("update {{t}}execution set finished_at = finished_at - {hour}")).await;
        until("it is cleaned", async || !exists(&one, job).await).await;

        two.client().change_settings(change(None), None, "ann").await.unwrap();
        until("it is as before", async || one.client().retention().completed == NodeOptions::default().retention.completed).await;
        let third = Lineclear::builder().store(db.url.as_str()).options(often()).start().await.unwrap();
        one.client().change_settings(change(Some(2 * minute)), None, "ann").await.unwrap();
        until("one that came later, too", async || third.client().retention().completed == 2 * minute).await;
        for node in [one, two, third] {
            node.stop().await;
        }
    }

    async fn a_node_runs_as_many_jobs_as_operators_say_elsewhere(db) {
        let one = Lineclear::builder().store(db.url.as_str()).options(often()).start().await.unwrap();
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let wait = gate.clone();
        let hold = move || {
            let wait = wait.clone();
            async move { drop(wait.acquire_owned().await.map(|permit| permit.forget())) }
        };
        let options = NodeOptions { slots: 4, ..often() };
        let two = Lineclear::builder().store(db.url.as_str()).options(options).kind("hold", hold).kind("nothing", async || ()).start().await.unwrap();
        let slots = async |slots: u64| {
            let change = BTreeMap::from([(Setting::Slots, Some(slots)), (Setting::Poll, Some(20))]);
            one.client().change_settings(change, None, "ann").await.unwrap();
            until("the other one has heard", async || u64::from(two.client().tunable().slots) == slots).await;
        };
        slots(1).await;
        assert_eq!(two.client().tunable().poll, Duration::from_millis(20));
        // A pass that began before counts with the slots of then; it is over when a job was taken.
        let first = one.enqueue("nothing", &()).await.unwrap().id;
        one.client().wait(first, Duration::from_secs(30)).await.unwrap();
        for _ in 0..5 {
            one.enqueue("hold", &()).await.unwrap();
        }
        until("one runs", async || two.client().running() == 1).await;
        gate.add_permits(1);
        let over = lineclear::model::query::Query::parse("state:completed kind:hold").unwrap();
        let completed = async || one.store().search(&over, None, 10).await.is_ok_and(|found| found.items.len() == 1);
        until("it is over, and the next one runs", async || completed().await && two.client().running() == 1).await;
        let shown = async || one.store().nodes(10).await.unwrap().iter().any(|node| node.slots == 1);
        until("and it is shown", shown).await;
        assert_eq!(two.client().running(), 1, "three wait, and have room in the slots that it was started with");
        slots(3).await;
        until("more at once", async || two.client().running() == 3).await;
        gate.add_permits(10);
        for node in [one, two] {
            node.stop().await;
        }
    }
}

async fn exists(node: &lineclear::Node, job: JobId) -> bool {
    node.store().job(job).await.unwrap().is_some()
}
