//! Dependents: a completed parent wakes its children in the transaction that records it.

use lineclear::model::{Manifest, Name, Overlap, Schedule, schedule::Need};
use lineclear::store::{Claim, Settlement, TriggerOptions, Voice};

use crate::kit::{TestDb, completed, daily, failed, name};

fn after(key: &str, parents: &[&str], need: Need) -> Manifest {
    let parents: Vec<Name> = parents.iter().map(|parent| name(parent)).collect();
    let schedule = Schedule::after(parents, need).unwrap();
    Manifest { schedule, overlap: Some(Overlap::QueueOne), ..daily(key) }
}

/// Runs a manifest to its end.
async fn complete(db: &TestDb, key: &str) {
    let claim = start(db, key).await;
    let node = db.node("a").await;
    db.settle(node, &claim, completed()).await;
}

async fn start(db: &TestDb, key: &str) -> Claim {
    db.store.trigger(name(key), TriggerOptions::default()).await.unwrap().unwrap();
    db.take_one(db.node("a").await).await
}

/// Takes what is ready, and tells of which manifests it is.
async fn woken(db: &TestDb) -> Vec<String> {
    let node = db.node("a").await;
    let views = db.store.manifests(None, 100).await.unwrap().items;
    let mut keys: Vec<String> = Vec::new();
    for claim in db.take(node, 10).await {
        assert_eq!(claim.origin.as_str(), "dependent");
        keys.push(views.iter().find(|view| Some(view.id) == claim.manifest).unwrap().key.to_string());
        db.settle(node, &claim, completed()).await;
    }
    keys.sort();
    keys
}

conformance! {
    async fn a_child_runs_when_its_parent_completed(db) {
        db.declare(daily("a")).await;
        db.declare(after("b", &["a"], Need::All)).await;
        let node = db.node("a").await;
        let claim = start(db, "a").await;
        db.settle(node, &claim, failed("no")).await;
        assert_eq!(woken(db).await, Vec::<String>::new(), "a failure wakes nobody");
        db.let_later_come().await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        assert_eq!(woken(db).await, ["b"]);
    }

    async fn all_of_waits_for_every_parent_and_then_begins_anew(db) {
        for key in ["a", "b"] {
            db.declare(daily(key)).await;
        }
        db.declare(after("c", &["a", "b"], Need::All)).await;
        for _ in 0..2 {
            complete(db, "a").await;
            complete(db, "a").await;
            assert_eq!(woken(db).await, Vec::<String>::new());
            complete(db, "b").await;
            assert_eq!(woken(db).await, ["c"]);
        }
    }

    async fn any_of_runs_for_each_parent(db) {
        for key in ["a", "b"] {
            db.declare(daily(key)).await;
        }
        db.declare(after("c", &["a", "b"], Need::Any)).await;
        complete(db, "a").await;
        assert_eq!(woken(db).await, ["c"]);
        complete(db, "b").await;
        assert_eq!(woken(db).await, ["c"]);
    }

    async fn parents_that_complete_in_one_batch_wake_the_child_once(db) {
        for key in ["a", "b"] {
            db.declare(daily(key)).await;
        }
        db.declare(after("c", &["a", "b"], Need::All)).await;
        let node = db.node("a").await;
        let claims = [start(db, "a").await, start(db, "b").await];
        let batch = claims.iter().map(|c| Settlement::new(c, completed(), lineclear::model::Verdict::Complete));
        db.store.settle(node, batch.collect()).await.unwrap();
        assert_eq!(woken(db).await, ["c"]);
    }

    async fn a_child_that_still_runs_gets_one_more_turn_not_many(db) {
        db.declare(daily("a")).await;
        let child = db.declare(after("b", &["a"], Need::All)).await;
        let node = db.node("a").await;
        complete(db, "a").await;
        let running = db.take_one(node).await;
        for _ in 0..3 {
            db.store.trigger(name("a"), TriggerOptions::default()).await.unwrap();
            let claim = db.take_one(node).await;
            db.settle(node, &claim, completed()).await;
        }
        let ticks = db.store.ticks(child, None, 10).await.unwrap().items;
        let fired = ticks.iter().filter(|tick| tick.job.is_some()).count();
        assert_eq!((fired, ticks.len() - fired), (2, 2), "two turns, and two recorded skips");
        db.settle(node, &running, completed()).await;
        assert_eq!(woken(db).await, ["b"]);
    }

    async fn a_paused_child_does_not_run_and_the_ledger_says_so(db) {
        db.declare(daily("a")).await;
        let child = db.declare(after("b", &["a"], Need::All)).await;
        db.store.pause(vec![name("b")]).await.unwrap();
        complete(db, "a").await;
        assert_eq!(woken(db).await, Vec::<String>::new());
        let ticks = db.store.ticks(child, None, 10).await.unwrap().items;
        assert_eq!(ticks[0].skip_reason.as_deref(), Some("disabled"));
    }

    async fn a_dormant_child_is_not_woken_by_completion(db) {
        db.declare(daily("a")).await;
        let fields = serde_json::json!({"after": ["a"], "dormant": true});
        let dormant = Manifest { schedule: serde_json::from_value(fields).unwrap(), ..daily("b") };
        db.declare(dormant).await;
        complete(db, "a").await;
        assert_eq!(woken(db).await, Vec::<String>::new());
    }

    async fn a_child_that_forgets_its_parent_is_not_woken(db) {
        db.declare(daily("a")).await;
        db.declare(after("b", &["a"], Need::All)).await;
        db.store.upsert_manifests([daily("b")], Voice::Declaration).await.unwrap();
        complete(db, "a").await;
        assert_eq!(woken(db).await, Vec::<String>::new());
    }

    async fn a_chain_runs_to_its_end(db) {
        db.declare(daily("a")).await;
        db.declare(after("b", &["a"], Need::All)).await;
        db.declare(after("c", &["b"], Need::All)).await;
        complete(db, "a").await;
        assert_eq!(woken(db).await, ["b"]);
        assert_eq!(woken(db).await, ["c"]);
        assert_eq!(woken(db).await, Vec::<String>::new());
    }

    async fn a_child_that_cannot_be_read_does_not_keep_its_parent_from_completing(db) {
        db.declare(daily("a")).await;
        db.declare(after("b", &["a"], Need::All)).await;
        db.sql("update {t}manifest set spec = '{}' where key = 'b'").await;
        let claim = start(db, "a").await;
        let node = db.node("a").await;
        assert_eq!(db.settle(node, &claim, completed()).await, lineclear::store::Settled::Recorded);
    }

    async fn a_child_lets_one_turn_wait_if_nothing_is_said(db) {
        db.declare(daily("a")).await;
        let schedule = Schedule::after(vec![name("a")], Need::All).unwrap();
        db.declare(Manifest { schedule, ..daily("b") }).await;
        let views = db.store.manifests(None, 10).await.unwrap().items;
        let overlaps: Vec<_> = views.iter().map(|view| view.manifest.as_ref().unwrap().overlap).collect();
        assert_eq!(overlaps, [Some(Overlap::Skip), Some(Overlap::QueueOne)]);
    }

    async fn parents_that_complete_at_the_same_moment_each_wake_the_child(db) {
        db.declare(daily("a")).await;
        db.declare(Manifest { overlap: Some(Overlap::Allow), ..after("b", &["a"], Need::Any) }).await;
        for _ in 0..40 {
            db.store.trigger(name("a"), TriggerOptions::default()).await.unwrap();
        }
        let node = db.node("a").await;
        let mut settling = Vec::new();
        for claim in db.take(node, 40).await {
            let store = db.store.clone();
            settling.push(tokio::spawn(async move {
                let settlement = Settlement::new(&claim, completed(), lineclear::model::Verdict::Complete);
                store.settle(node, vec![settlement]).await.unwrap()
            }));
        }
        for settled in settling {
            settled.await.unwrap();
        }
        assert_eq!(db.take(node, 100).await.len(), 40, "none was lost");
    }
}
