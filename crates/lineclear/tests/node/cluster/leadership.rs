//! The planning node in the lease registry.

use std::time::Duration;

use lineclear::model::{Manifest, Schedule};
use lineclear::{Lineclear, NodeOptions};
use lineclear_lock::{LeaseRecord, LeaseState, Registry, RegistryOptions};

use crate::children::{LONG, end, program, up};
use crate::kit::{TestStore, name, quick, until};

async fn planners(db: &TestStore) -> Vec<LeaseRecord> {
    Registry::new(&db.url, RegistryOptions::default()).unwrap().leases(10).await.unwrap()
}

fn every_second() -> Manifest {
    let every_second = Schedule::every(Duration::from_secs(1)).unwrap();
    Manifest::new(name("clock"), name("tick"), every_second)
}

on_each_store! {
    async fn the_node_that_plans_is_seen_by_all_and_stamps_its_tenure_when_it_stops(db) {
        async fn tick() {}
        let options = NodeOptions { heartbeat: Duration::from_millis(300), ..quick() };
        let node = Lineclear::builder().store(&db.url).options(options).kind("tick", tick)
            .manifest(every_second()).start().await.unwrap();
        until("it leads", async || planners(db).await.first().is_some_and(|lease| lease.holds >= 2)).await;
        let lease = planners(db).await.remove(0);
        assert_eq!((lease.name.as_str(), lease.state), ("planner", LeaseState::Held));
        assert_eq!((lease.pid, lease.node.clone()), (std::process::id(), format!("{}/{}", lease.machine, lease.pid)));
        assert!(lease.since <= lease.acquired_at && lease.acquired_at <= lease.renewed_at);
        node.stop().await;
        let stopped = planners(db).await.remove(0);
        assert_eq!((stopped.state, stopped.since, stopped.epoch), (LeaseState::Idle, lease.since, lease.epoch));
        assert!(stopped.holds >= lease.holds);
    }
}

#[tokio::test]
async fn a_planner_that_is_killed_is_followed_by_another_in_the_registry_too() {
    let db = TestStore::postgres().await;
    let store = crate::children::store(&db).await;
    store.upsert_manifests([every_second()], lineclear::store::ChangeSource::Declaration).await.unwrap();
    let node = || program(&db, "planner,workers,cleaner").args(["heartbeat=300", "plan=200"]);
    let mut first = up([node()]).await.remove(0);
    until("it leads", async || planners(&db).await.first().is_some_and(|lease| lease.holds >= 1)).await;
    let before = planners(&db).await.remove(0);
    first.kill().unwrap();
    let second = up([node()]).await;
    crate::kit::until_within(LONG, "another leads", async || {
        planners(&db).await.first().is_some_and(|lease| lease.pid != before.pid)
    })
    .await;
    let after = planners(&db).await.remove(0);
    assert_eq!((after.epoch.get(), after.state), (before.epoch.get() + 1, LeaseState::Held));
    assert!(after.since >= before.acquired_at);
    let registry = Registry::new(&db.url, RegistryOptions::default()).unwrap();
    let history = registry.history(Some("planner"), None, 10).await.unwrap();
    assert_eq!(history[0].before, Some(before.holder()));
    end(second).await;
}
