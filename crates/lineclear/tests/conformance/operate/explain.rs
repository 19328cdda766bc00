//! Why does this not run? For each gate, a situation in which it is closed.

use lineclear::model::explain::{Explanation, GateName};
use lineclear::model::schedule::Need;
use lineclear::model::{Failure, GroupSpec, Manifest, Micros, Outcome, Overlap, Schedule};
use lineclear::store::{Dispatch, JobId, NewJob, Revival};

use crate::kit::{TestDb, completed, daily, failed, job, name};

fn closed(explanation: &Explanation) -> Vec<GateName> {
    let names: Vec<GateName> = explanation.gates.iter().map(|gate| gate.name).collect();
    assert_eq!(names, GateName::ALL, "each gate once, in order");
    explanation.gates.iter().filter(|gate| gate.open == Some(false)).map(|gate| gate.name).collect()
}

async fn job_is(db: &TestDb, id: JobId, gates: &[GateName], words: &str) -> Explanation {
    let explanation = db.store.explain_job(id).await.unwrap().expect("it is there");
    assert_eq!(closed(&explanation), gates, "{explanation:#?}");
    assert!(explanation.verdict.contains(words), "{words:?} in {:?}", explanation.verdict);
    explanation
}

async fn manifest_is(db: &TestDb, key: &str, gates: &[GateName], words: &str) {
    let explanation = db.store.explain_manifest(name(key)).await.unwrap().expect("it is there");
    assert_eq!(closed(&explanation), gates, "{explanation:#?}");
    assert!(explanation.verdict.contains(words), "{words:?} in {:?}", explanation.verdict);
}

fn in_the_way(explanation: &Explanation, gate: GateName) -> Vec<(String, Option<String>)> {
    let gate = explanation.gates.iter().find(|found| found.name == gate).unwrap();
    gate.blockers.iter().map(|way| (way.id.clone(), way.node.clone())).collect()
}

/// The midnight that is due next lies in the past: as if the planner were late.
async fn due_now(db: &TestDb) {
    db.age("manifest", "next_due_at", 86_400).await;
}

conformance! {
    async fn a_job_that_nothing_keeps_back_says_who_takes_it_next(db) {
        db.node("web-1").await;
        let id = db.enqueue(job()).await;
        job_is(db, id, &[], "web-1 has a free slot").await;
        db.store.dispatch(Dispatch::new(lineclear::store::main_route(), 1)).await.unwrap();
        job_is(db, id, &[], "web-1 has a free slot").await;
    }

    async fn a_job_waits_for_its_time_for_its_next_try_and_is_run(db) {
        let node = db.node("web-1").await;
        let later = NewJob { due_at: Some(Micros::new(4_102_444_800_000_000).unwrap()), ..job() };
        let later = db.enqueue(later).await;
        job_is(db, later, &[GateName::Due], "is due at 2100-01-01T00:00:00Z").await;
        let id = db.enqueue(job()).await;
        let claim = db.take_one(node).await;
        let explanation = job_is(db, id, &[GateName::Taken], "is being run by web-1 since").await;
        assert_eq!(in_the_way(&explanation, GateName::Taken), [("web-1".to_owned(), None)]);
        db.settle(node, &claim, failed("connect timeout")).await;
        job_is(db, id, &[GateName::Retry], "it failed once: connect timeout").await;
    }

    async fn a_running_job_that_shall_stop_says_so(db) {
        let node = db.node("web-1").await;
        let id = db.enqueue(job()).await;
        let claim = db.take_one(node).await;
        db.store.cancel(id).await.unwrap();
        job_is(db, id, &[GateName::Cancel, GateName::Taken], "cancellation was requested").await;
        db.settle(node, &claim, failed("told to stop")).await;
        job_is(db, id, &[], "cancelled while it ran on web-1").await;
    }

    async fn a_job_that_is_over_says_how_it_ended(db) {
        let node = db.node("web-1").await;
        let (done, waited) = (db.enqueue(job()).await, db.enqueue(job()).await);
        db.store.cancel(waited).await.unwrap();
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        job_is(db, done, &[], "completed on web-1 at").await;
        job_is(db, waited, &[], "cancelled while it waited").await;
        let dead = db.enqueue(job()).await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "bad row"))).await;
        job_is(db, dead, &[GateName::DeadLetter], "(bad row)").await;
        let letter = db.store.dead_letters(None, None, 1).await.unwrap().items[0].id;
        db.store.revive(vec![letter], Revival::default()).await.unwrap();
        job_is(db, dead, &[], "nothing blocks it").await;
        assert_eq!(db.store.explain_job(JobId(999)).await.unwrap(), None);
    }

    async fn limits_say_who_fills_them(db) {
        let node = db.node("web-1").await;
        db.group("etl", GroupSpec { limit: Some(2), ..GroupSpec::default() }).await;
        let grouped = || NewJob { group: Some(name("etl")), ..job() };
        let mut first = vec![db.enqueue(grouped()).await, db.enqueue(grouped()).await];
        assert_eq!(db.take(node, 10).await.len(), 2);
        let waits = db.enqueue(grouped()).await;
        let words = "waits for a place in group etl: 2 of 2 are taken";
        let explanation = job_is(db, waits, &[GateName::GroupLimit], words).await;
        first.sort();
        let full = |ids: &[JobId]| ids.iter().map(|id| (id.to_string(), Some("web-1".to_owned()))).collect::<Vec<_>>();
        assert_eq!(in_the_way(&explanation, GateName::GroupLimit), full(&first));

        let keyed = || NewJob { limit_key: Some("tenant-7".to_owned()), ..job() };
        let holder = db.enqueue(keyed()).await;
        assert_eq!(db.take(node, 10).await.len(), 1);
        let held = db.enqueue(keyed()).await;
        db.take(node, 10).await;
        let words = "waits for a place in limit key tenant-7: 1 of 1 is taken";
        let explanation = job_is(db, held, &[GateName::KeyLimit], words).await;
        assert_eq!(in_the_way(&explanation, GateName::KeyLimit), full(&[holder]));

        db.group("*", GroupSpec { limit: Some(3), ..GroupSpec::default() }).await;
        let free = db.enqueue(job()).await;
        job_is(db, free, &[GateName::GlobalLimit], "under the global limit: 3 of 3 are taken").await;
    }

    async fn switches_close_their_gates(db) {
        db.node("web-1").await;
        db.group("etl", GroupSpec { enabled: false, ..GroupSpec::default() }).await;
        let id = db.enqueue(NewJob { group: Some(name("etl")), ..job() }).await;
        job_is(db, id, &[GateName::GroupEnabled], "group etl is switched off").await;
        let grouped = Manifest { group: Some(name("etl")), ..daily("m") };
        db.declare(grouped).await;
        due_now(db).await;
        manifest_is(db, "m", &[GateName::GroupEnabled], "group etl is switched off").await;
        db.group("etl", GroupSpec::default()).await;
        db.group("*", GroupSpec { enabled: false, ..GroupSpec::default() }).await;
        job_is(db, id, &[GateName::GlobalEnabled], "everything is switched off").await;
        manifest_is(db, "m", &[GateName::GlobalEnabled], "everything is switched off").await;
    }

    pgbouncer async fn a_paused_manifest_keeps_its_jobs(db) {
        db.node("web-1").await;
        db.declare(daily("m")).await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await.0, 1);
        db.store.pause(vec![name("m")]).await.unwrap();
        let waits = db.store.jobs(&Default::default(), None, 1).await.unwrap().items[0].id;
        job_is(db, waits, &[GateName::Enabled], "manifest m is paused").await;
        let triggered = db.store.trigger(name("m"), Default::default()).await.unwrap().unwrap();
        job_is(db, triggered, &[], "nothing blocks it").await;
        let view = db.store.job(triggered).await.unwrap().unwrap().job;
        assert_eq!((view.manifest_key.as_deref(), view.route.as_deref(), view.phase.as_deref()), (Some("m"), Some("main"), Some("ready")));
        db.store.cancel(waits).await.unwrap();
        db.store.cancel(triggered).await.unwrap();
        due_now(db).await;
        manifest_is(db, "m", &[GateName::Enabled], "is paused").await;
    }

    async fn without_a_live_node_that_runs_the_kind_nothing_runs(db) {
        let id = db.enqueue(job()).await;
        job_is(db, id, &[GateName::Node], "no live node runs jobs").await;
        db.node("web-1").await;
        job_is(db, id, &[], "web-1").await;
        let other = db.enqueue(NewJob { kind: name("import"), ..job() }).await;
        job_is(db, other, &[GateName::Node], "web-1 serves main and knows work").await;
        let lane = db.enqueue(NewJob { route: name("gpu"), ..job() }).await;
        job_is(db, lane, &[GateName::Node], "no live node runs kind work on route gpu").await;
        db.age("node", "seen_at", 60).await;
        job_is(db, id, &[GateName::Node], "no live node runs jobs").await;
    }

    async fn a_manifest_waits_for_its_tick_and_skips_excluded_ones(db) {
        db.node("web-1").await;
        db.declare(daily("m")).await;
        manifest_is(db, "m", &[GateName::Due], "waits for its next tick at").await;
        due_now(db).await;
        manifest_is(db, "m", &[], "the planner makes its next job in a moment").await;
        let all_but_noon = r#"[{"daily":"00:00-12:00"},{"daily":"13:00-24:00"}]"#;
        let hourly = Schedule::cron("0 * * * *", "UTC").unwrap();
        let exclude = serde_json::from_str(all_but_noon).unwrap();
        db.declare(Manifest { schedule: hourly, exclude, ..daily("x") }).await;
        db.age("manifest", "next_due_at", 86_400).await;
        let explanation = db.store.explain_manifest(name("x")).await.unwrap().unwrap();
        // At noon itself nothing is excluded; at any other time it is.
        if explanation.now.get() / 3_600_000_000 % 24 != 11 {
            assert_eq!(closed(&explanation), [GateName::Exclusion], "{explanation:#?}");
            assert!(explanation.verdict.contains("is excluded by exclude["), "{}", explanation.verdict);
            assert!(explanation.verdict.contains("T12:00:00Z (in"), "{}", explanation.verdict);
        }
        assert_eq!(db.store.explain_manifest(name("missing")).await.unwrap(), None);
    }

    async fn a_live_job_closes_the_overlap_gate(db) {
        let node = db.node("web-1").await;
        db.declare(daily("m")).await;
        db.declare(Manifest { overlap: Some(Overlap::QueueOne), ..daily("one") }).await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await.0, 2);
        due_now(db).await;
        let claims = db.take(node, 10).await;
        assert_eq!(claims.len(), 2);
        manifest_is(db, "m", &[GateName::Overlap], "(running) is not over: a tick that comes now is skipped").await;
        manifest_is(db, "one", &[], "in a moment").await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await.0, 1, "one waits for the other");
        due_now(db).await;
        manifest_is(db, "one", &[GateName::Overlap], "(queued) is queued already").await;
        let waits = db.store.jobs(&Default::default(), None, 1).await.unwrap().items[0].id;
        job_is(db, waits, &[GateName::Overlap], "of manifest one is over").await;
    }

    async fn a_dead_letter_holds_its_manifest(db) {
        let node = db.node("web-1").await;
        db.declare(daily("m")).await;
        db.let_a_tick_come().await;
        db.plan().await;
        let claim = db.take_one(node).await;
        db.settle(node, &claim, Outcome::DeadLetter(Failure::new("x", "broken"))).await;
        due_now(db).await;
        let letter = db.store.dead_letters(None, None, 1).await.unwrap().items[0].id;
        manifest_is(db, "m", &[GateName::DeadLetter], &format!("looked at dead letter {letter}")).await;
    }

    async fn a_dependent_says_who_has_arrived(db) {
        let node = db.node("web-1").await;
        for key in ["a", "b"] {
            db.declare(daily(key)).await;
        }
        let schedule = Schedule::after(vec![name("a"), name("b")], Need::All).unwrap();
        db.declare(Manifest { schedule, ..daily("c") }).await;
        manifest_is(db, "c", &[GateName::Dependency], "waits for a, b; none has completed in this round").await;
        db.store.trigger(name("a"), Default::default()).await.unwrap().unwrap();
        let claim = db.take_one(node).await;
        db.settle(node, &claim, completed()).await;
        manifest_is(db, "c", &[GateName::Dependency], "waits for b; in this round a completed").await;
    }
}
