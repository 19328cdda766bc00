//! Idle workers start queued jobs at once, whichever documented way queued them. The node of these tests polls once a
//! minute: only a wake-up can be in time.

use std::time::Duration;

use lineclear::model::{JobState, Manifest, Payload, Schedule};
use lineclear::store::{ChangeSource, JobId, NewJob, Store, StoreOptions, TriggerOptions};
use lineclear::{Lineclear, Node, NodeOptions};

use crate::kit::{TestStore, name};

const SOON: Duration = Duration::from_secs(20);

fn job() -> NewJob {
    NewJob::new(name("nothing"), Payload::empty())
}

async fn idle_node(db: &TestStore) -> Node {
    let options = NodeOptions { poll: Duration::from_secs(60), ..NodeOptions::default() };
    let node = Lineclear::builder().store(db.url.as_str()).options(options).kind("nothing", async || ());
    let node = node.start().await.unwrap();
    // Its first poll is over once it has run something.
    let first = node.enqueue("nothing", &()).await.unwrap().id;
    completes(&node, first, "the first").await;
    node
}

async fn completes(node: &Node, job: JobId, way: &str) {
    let state = node.client().wait(job, SOON).await.unwrap();
    assert_eq!(state, Some(JobState::Completed), "{way} does not wake an idle worker");
}

/// Every way of enqueueing outside of a caller's transaction.
async fn every_way_wakes(node: &Node, store: &Store) {
    let one = store.enqueue(job()).await.unwrap().id;
    completes(node, one, "Store::enqueue").await;
    let many = store.enqueue_many(vec![job(), job()]).await.unwrap();
    for enqueued in many {
        completes(node, enqueued.id, "Store::enqueue_many").await;
    }
    let manifest = Manifest::new(name("m"), name("nothing"), Schedule::on_demand());
    store.upsert_manifests([manifest], ChangeSource::Declaration).await.unwrap();
    let triggered = store.trigger(name("m"), TriggerOptions::default()).await.unwrap().unwrap();
    completes(node, triggered, "Store::trigger").await;
}

on_each_store! {
    async fn a_store_that_shares_the_process_wakes_idle_workers(db) {
        let node = idle_node(db).await;
        every_way_wakes(&node, node.store()).await;
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_a_node_wakes_idle_workers_elsewhere() {
    let db = TestStore::postgres().await;
    let node = idle_node(&db).await;
    let other = Store::open(StoreOptions::new(&db.url).unwrap()).await.unwrap();
    every_way_wakes(&node, &other).await;

    let mut client = db.client().await;
    let transaction = client.transaction().await.unwrap();
    let enqueued = other.enqueue_in(&transaction, vec![job()]).await.unwrap();
    transaction.commit().await.unwrap();
    other.wake_nodes();
    completes(&node, enqueued[0].id, "Store::wake_nodes after a transaction of the caller's own").await;
    node.stop().await;
}
