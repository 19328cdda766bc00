//! Dependents: a completed parent wakes its children in the transaction that records it.

use lineclear::model::{
    JobState, Manifest, Name, Outcome, Overlap, Payload, Schedule, ScheduleFields, schedule::Need,
};
use lineclear::store::{
    Activated, ChangeSource, Claim, ClaimRef, JobId, Settlement, StoreError, StoreResult, TriggerOptions,
};

use crate::kit::{TestDb, completed, daily, failed, name, payload};

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

/// Claims all ready jobs, and returns the keys of their manifests.
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

fn dormant(key: &str, parents: &[&str]) -> Manifest {
    let after = Some(parents.iter().map(|parent| name(parent)).collect());
    let schedule =
        Schedule::new(ScheduleFields { after, dormant: true, ..ScheduleFields::default() }).unwrap();
    Manifest { schedule, ..daily(key) }
}

/// Runs a manifest to its end, with an output.
async fn complete_with(db: &TestDb, key: &str, output: &str) -> JobId {
    let claim = start(db, key).await;
    let output = Some(Payload::parse(output).unwrap());
    db.settle(db.node("a").await, &claim, Outcome::Completed { output }).await;
    claim.job
}

async fn output(db: &TestDb, claim: &Claim, parent: &str) -> Option<String> {
    let output = db.store.parent_output(claim.job, claim.manifest.unwrap(), name(parent)).await.unwrap();
    output.map(|output| output.as_str().to_owned())
}

fn refused<T: std::fmt::Debug>(result: StoreResult<T>) -> String {
    match result {
        Err(StoreError::Refused { rule, why, .. }) => format!("{rule}: {why}"),
        other => panic!("{other:?} is no refusal"),
    }
}

conformance! {
    async fn a_child_runs_when_its_parent_completed(db) {
        db.declare(daily("a")).await;
        db.declare(after("b", &["a"], Need::All)).await;
        let node = db.node("a").await;
        let claim = start(db, "a").await;
        db.settle(node, &claim, failed("no")).await;
        assert_eq!(woken(db).await, Vec::<String>::new(), "a failure wakes no dependent");
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
        db.store.upsert_manifests([daily("b")], ChangeSource::Declaration).await.unwrap();
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
        assert_eq!(db.settle(node, &claim, completed()).await, lineclear::store::FencedWrite::Recorded);
    }

    async fn a_child_lets_one_turn_wait_if_nothing_is_said(db) {
        db.declare(daily("a")).await;
        let schedule = Schedule::after(vec![name("a")], Need::All).unwrap();
        db.declare(Manifest { schedule, ..daily("b") }).await;
        let views = db.store.manifests(None, 10).await.unwrap().items;
        let overlaps: Vec<_> = views.iter().map(|view| view.manifest.as_ref().unwrap().overlap).collect();
        assert_eq!(overlaps, [Some(Overlap::Skip), Some(Overlap::QueueOne)]);
    }

    pgbouncer async fn parents_that_complete_at_the_same_moment_each_wake_the_child(db) {
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

    async fn where_turns_are_put_together_a_child_reads_the_newest_output(db) {
        db.declare(daily("a")).await;
        db.declare(daily("other")).await;
        db.declare(after("b", &["a"], Need::All)).await;
        let node = db.node("a").await;
        complete_with(db, "a", "1").await;
        let waiting = db.store.jobs(&Default::default(), None, 1).await.unwrap().items[0].id;
        db.store.trigger(name("a"), TriggerOptions::default()).await.unwrap().unwrap();
        let claims = db.take(node, 10).await;
        let of = |origin: &str| claims.iter().find(|claim| claim.origin.as_str() == origin).unwrap();
        let child = of("dependent");
        assert_eq!((child.job, output(db, child, "a").await.as_deref()), (waiting, Some("1")));
        let newer = Some(Payload::parse("2").unwrap());
        db.settle(node, of("trigger"), Outcome::Completed { output: newer }).await;
        assert_eq!(output(db, child, "a").await.as_deref(), Some("2"));
        let said = refused(db.store.parent_output(child.job, child.manifest.unwrap(), name("other")).await);
        assert!(said.contains("not_a_parent"), "{said}");
        assert_eq!(db.count("turn_parent").await, 0, "who does not tell turns apart pays nothing");
    }

    async fn where_every_turn_counts_each_reads_the_output_that_made_it(db) {
        db.declare(daily("a")).await;
        db.declare(daily("z")).await;
        let allow = |manifest| Manifest { overlap: Some(Overlap::Allow), ..manifest };
        db.declare(allow(after("any", &["a", "z"], Need::Any))).await;
        let node = db.node("a").await;
        for output in ["1", "2"] {
            let claim = start(db, "a").await;
            // Held back, so that start finds its one job.
            let output = Some(Payload::parse(output).unwrap());
            db.settle(node, &claim, Outcome::Completed { output }).await;
            db.sql("update {t}work_queue set phase = 'parked'").await;
        }
        db.sql("update {t}work_queue set phase = 'ready'").await;
        let mut outputs = Vec::new();
        for claim in db.take(node, 10).await {
            assert_eq!(output(db, &claim, "z").await, None, "it had no part in this turn");
            outputs.push(output(db, &claim, "a").await.unwrap());
            db.settle(node, &claim, completed()).await;
        }
        outputs.sort();
        assert_eq!(outputs, ["1", "2"]);
        db.age("execution", "finished_at", 86_400 * 40).await;
        db.age("tick", "tick_at", 86_400 * 40).await;
        db.store.clean(&lineclear::store::Retention::default(), 100).await.unwrap();
        assert_eq!(db.count("turn_parent").await, 1, "it goes with its job; the last success is kept");
    }

    pgbouncer async fn a_fan_in_reads_the_newest_output_of_each_parent_when_it_fired(db) {
        for key in ["a", "b"] {
            db.declare(daily(key)).await;
        }
        db.declare(Manifest { overlap: Some(Overlap::Allow), ..after("c", &["a", "b"], Need::All) }).await;
        let node = db.node("a").await;
        complete_with(db, "a", "1").await;
        complete_with(db, "a", "2").await;
        complete_with(db, "b", "3").await;
        let child = db.take_one(node).await;
        complete_with(db, "a", "4").await;
        assert_eq!((output(db, &child, "a").await.as_deref(), output(db, &child, "b").await.as_deref()), (Some("2"), Some("3")));
        db.store.trigger(name("c"), TriggerOptions::default()).await.unwrap().unwrap();
        let by_hand = db.take_one(node).await;
        assert_eq!(output(db, &by_hand, "a").await.as_deref(), Some("4"), "by hand it sees the newest");
    }

    async fn a_dormant_dependent_runs_only_when_its_running_parent_says_so(db) {
        db.declare(daily("p")).await;
        db.declare(dormant("c", &["p"])).await;
        complete(db, "p").await;
        assert_eq!(woken(db).await, Vec::<String>::new(), "a completion does not wake it");
        let node = db.node("a").await;
        let parent = start(db, "p").await;
        let mut jobs = Vec::new();
        for input in ["1", "2", "2"] {
            match db.store.activate(parent.reference(), name("c"), payload(input)).await.unwrap() {
                Activated::Queued(job) => jobs.push(job),
                Activated::Stale => panic!("the claim holds"),
            }
        }
        let children = db.take(node, 10).await;
        assert_eq!(children.iter().map(|claim| claim.job).collect::<Vec<_>>(), jobs, "each is a job");
        assert_eq!(children.iter().map(|claim| claim.input.as_str()).collect::<Vec<_>>(), ["1", "2", "2"]);
        assert!(children.iter().all(|claim| claim.origin.as_str() == "dormant"));
        assert_eq!(output(db, &children[0], "p").await, None, "its parent runs still");
        db.settle(node, &parent, Outcome::Completed { output: Some(payload("7")) }).await;
        assert_eq!(output(db, &children[0], "p").await.as_deref(), Some("7"));
        assert_eq!(db.take(node, 10).await.len(), 0, "and its completion wakes no dependent");
    }

    pgbouncer async fn a_claim_that_is_lost_activates_nothing(db) {
        db.declare(daily("p")).await;
        db.declare(dormant("c", &["p"])).await;
        let node = db.node("a").await;
        let lost = start(db, "p").await;
        db.let_leases_end().await;
        assert!(matches!(
            db.store.activate(lost.reference(), name("c"), payload("0")).await.unwrap(),
            Activated::Queued(_)
        ), "it was not reclaimed yet: the claim number decides, not the time");
        db.store.reclaim(10, 3).await.unwrap();
        let stale = async |claim: ClaimRef| db.store.activate(claim, name("c"), payload("1")).await.unwrap() == Activated::Stale;
        assert!(stale(lost.reference()).await, "it waits again");
        let again = db.take(node, 10).await.into_iter().find(|claim| claim.job == lost.job).unwrap();
        assert!(stale(lost.reference()).await, "another has it");
        db.settle(node, &again, completed()).await;
        assert!(stale(again.reference()).await, "it is over");
        assert_eq!(db.count("background_job").await + db.count("work_queue").await, 1, "only the first");
    }

    async fn only_a_dormant_dependent_of_the_running_manifest_is_activated(db) {
        db.declare(daily("p")).await;
        db.declare(daily("q")).await;
        db.declare(dormant("c", &["q"])).await;
        db.declare(after("awake", &["p"], Need::All)).await;
        let node = db.node("a").await;
        let parent = start(db, "p").await;
        let activate = async |claim: &Claim, key: &str| refused(db.store.activate(claim.reference(), name(key), payload("1")).await);
        for (key, says) in [("c", "does not depend on p"), ("awake", "not dormant"), ("missing", "no such manifest"), ("p", "does not depend")] {
            let said = activate(&parent, key).await;
            assert!(said.contains(says) && said.contains(key), "{said}");
        }
        db.enqueue(crate::kit::job()).await;
        let adhoc = db.take_one(node).await;
        assert!(activate(&adhoc, "c").await.contains("has no manifest"));
        assert_eq!(db.count("work_queue").await, 0);
    }

    async fn an_activation_of_a_paused_dependent_waits_for_it(db) {
        db.declare(daily("p")).await;
        db.declare(dormant("c", &["p"])).await;
        db.store.pause(vec![name("c")]).await.unwrap();
        let parent = start(db, "p").await;
        let Activated::Queued(job) = db.store.activate(parent.reference(), name("c"), payload("1")).await.unwrap() else { panic!() };
        assert_eq!(db.state(job).await, Some(JobState::Parked));
        db.store.resume(vec![name("c")]).await.unwrap();
        assert_eq!(db.take_one(db.node("a").await).await.job, job);
    }
}
