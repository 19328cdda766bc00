//! Nodes that drain, as processes: they take nothing new, finish their jobs, and keep running.

use std::time::Duration;

use lineclear::Store;
use lineclear::model::{ExecutionOutcome, JobState, Manifest, Payload, Schedule};
use lineclear::read::NodeView;
use lineclear::store::{ChangeSource, NodeId};
use lineclear_lock::{Registry, RegistryOptions};
use lineclear_testkit::Child;

use crate::children::{count, end, outcomes, program, sleep, state, store, up};
use crate::kit::{TestStore, name, until};

const ALL: &str = "planner,workers";

async fn node(db: &TestStore) -> Child {
    up([program(db, ALL).args(["heartbeat=300", "plan=200"])]).await.remove(0)
}

async fn view(store: &Store, child: &Child) -> NodeView {
    let nodes = store.nodes(100).await.unwrap();
    nodes.into_iter().find(|node| node.pid == child.id()).expect("it is there")
}

async fn drain(store: &Store, child: &Child) -> NodeId {
    let id = view(store, child).await.id;
    assert!(store.drain_node(id, "ann").await.unwrap());
    id
}

async fn until_state(store: &Store, child: &Child, word: &str) {
    until(word, async || view(store, child).await.state() == word).await;
}

fn started(child: &Child) -> usize {
    child.stdout().iter().filter(|line| line.contains("started")).count()
}

on_each_store! {
    async fn a_drained_node_takes_nothing_while_the_other_does_and_takes_work_again_when_it_is_resumed(db) {
        let store = store(db).await;
        let (one, two) = (node(db).await, node(db).await);
        assert_eq!(view(&store, &one).await.state(), "alive");
        let id = drain(&store, &one).await;
        until_state(&store, &one, "drained").await;
        let before = started(&one);
        store.enqueue_many(vec![sleep(0); 100]).await.unwrap();
        until("all are completed", async || count(&store, JobState::Completed).await == 100).await;
        assert_eq!((started(&one), started(&two)), (before, 100), "it took nothing");
        let seen = view(&store, &one).await;
        assert_eq!((seen.state(), seen.drain_by.as_deref()), ("drained", Some("ann")), "it is alive, and says so");
        assert!(store.resume_node(id, "ann").await.unwrap());
        until_state(&store, &one, "alive").await;
        until("it runs something", async || {
            store.enqueue_many(vec![sleep(20); 20]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
            started(&one) > before
        }).await;
        end(vec![one, two]).await;
    }

    async fn a_node_that_drains_finishes_what_it_holds(db) {
        let store = store(db).await;
        let one = node(db).await;
        let job = store.enqueue(sleep(3_000)).await.unwrap().id;
        until("it runs", async || state(&store, job).await == Some(JobState::Running)).await;
        drain(&store, &one).await;
        until("it has heard of it", async || view(&store, &one).await.takes_nothing).await;
        let next = store.enqueue(sleep(0)).await.unwrap().id;
        let seen = view(&store, &one).await;
        assert_eq!((seen.state(), seen.holds), ("draining", 1));
        until_state(&store, &one, "drained").await;
        assert_eq!(outcomes(&store, job).await, [ExecutionOutcome::Completed]);
        assert_eq!(state(&store, next).await, Some(JobState::Queued), "it takes nothing new");
        // Started again, it is another node, and takes work.
        end(vec![one]).await;
        let again = node(db).await;
        until("it is completed", async || state(&store, next).await == Some(JobState::Completed)).await;
        end(vec![again]).await;
    }

    async fn a_leader_that_drains_hands_the_planning_over(db) {
        let store = store(db).await;
        let every_second = Schedule::every(Duration::from_secs(1)).unwrap();
        let mut clock = Manifest::new(name("clock"), name("sleep"), every_second);
        clock.input = Payload::of(&0u64).unwrap();
        store.upsert_manifests([clock], ChangeSource::Declaration).await.unwrap();
        let registry = Registry::new(&db.url, RegistryOptions::default()).unwrap();
        let leader = async || registry.leases(10).await.unwrap().into_iter().find(|lease| lease.name == "planner");
        let one = node(db).await;
        until("it leads", async || leader().await.is_some_and(|lease| lease.pid == one.id())).await;
        let two = node(db).await;
        drain(&store, &one).await;
        until_state(&store, &one, "drained").await;
        until("the other leads", async || leader().await.is_some_and(|lease| lease.pid == two.id())).await;
        let before = started(&one);
        let done = count(&store, JobState::Completed).await;
        until("ticks go on", async || count(&store, JobState::Completed).await >= done + 3).await;
        assert_eq!(leader().await.unwrap().pid, two.id(), "it stays the other's");
        assert_eq!(started(&one), before);
        end(vec![one, two]).await;
    }
}
