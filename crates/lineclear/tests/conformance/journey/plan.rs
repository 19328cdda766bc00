//! plan: manifest → work_queue, each tick once.

use std::time::Duration;

use lineclear::model::{
    Exclusion, GroupSpec, JobState, Manifest, Micros, Misfire, MisfirePolicy, Overlap, SkipReason,
};
use lineclear::store::{ChangeSource, Dispatch, JobId, ManifestId, PlanRules, Planned, TriggerOptions};

use crate::kit::{TestDb, completed, daily, failed, name};

/// Reasons of a manifest's skips, newest first.
async fn skips(db: &TestDb, manifest: ManifestId) -> Vec<String> {
    let ticks = db.store.ticks(manifest, None, 100).await.unwrap().items;
    ticks.into_iter().filter_map(|tick| tick.skip_reason).collect()
}

fn with(overlap: Overlap) -> Manifest {
    Manifest { overlap: Some(overlap), ..daily("m") }
}

async fn live(db: &TestDb) -> Vec<JobId> {
    let mut jobs: Vec<JobId> = db
        .store
        .jobs(&Default::default(), None, 100)
        .await
        .unwrap()
        .items
        .into_iter()
        .filter(|job| !matches!(job.state, JobState::Completed | JobState::Cancelled))
        .map(|job| job.id)
        .collect();
    jobs.sort();
    jobs
}

conformance! {
    async fn a_due_manifest_becomes_one_job_per_tick(db) {
        let id = db.declare(daily("m")).await;
        assert_eq!(db.plan().await, (0, 0), "not due yet");
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await, (1, 0));
        assert_eq!(db.plan().await, (0, 0), "decided");

        let ticks = db.store.ticks(id, None, 10).await.unwrap().items;
        assert_eq!(ticks.len(), 1);
        let node = db.node("a").await;
        let claim = db.take_one(node).await;
        assert_eq!((Some(claim.job), claim.tick_at), (ticks[0].job, Some(ticks[0].tick_at)));
        assert_eq!((claim.manifest, claim.origin.as_str()), (Some(id), "tick"));
        assert_eq!(claim.tick_at.unwrap().get() % 86_400_000_000, 0, "intervals are anchored at the epoch");
    }

    async fn the_next_due_moment_is_known(db) {
        assert_eq!(db.store.next_plan().await.unwrap().next_due_at, None);
        db.declare(daily("m")).await;
        let next = db.store.next_plan().await.unwrap();
        let wait = next.next_due_at.unwrap().get() - next.now.get();
        assert!((0..=86_400_000_000).contains(&wait), "{wait}");
    }

    async fn what_was_missed_fires_once_and_the_rest_is_one_recorded_range(db) {
        let id = db.declare(daily("m")).await;
        db.let_ticks_come(86_400 * 10).await;
        assert_eq!(db.plan().await, (1, 1), "the newest missed tick; the others in one row");
        let ticks = db.store.ticks(id, None, 100).await.unwrap().items;
        assert_eq!((ticks[0].job.is_some(), ticks[1].skip_reason.as_deref()), (true, Some("missed")));
        let days = (ticks[1].until_tick_at.unwrap().get() - ticks[1].tick_at.get()) / 86_400_000_000;
        assert_eq!(days, 8, "nine ticks in one row");
    }

    async fn misfire_policies_skip_or_catch_up(db) {
        let misfire = |policy, max| Misfire { policy, max, ..Misfire::default() };
        let skip = misfire(MisfirePolicy::Skip, Misfire::default().max);
        let catch_up = misfire(MisfirePolicy::CatchUp, Some(5));
        let skipping = db.declare(Manifest { misfire: skip, ..daily("skip") }).await;
        let catching_up = Manifest { misfire: catch_up, overlap: Some(Overlap::Allow), ..daily("catch-up") };
        let catching_up = db.declare(catching_up).await;
        db.let_ticks_come(86_400 * 10).await;
        assert_eq!(db.plan().await, (5, 2));
        assert_eq!((skips(db, skipping).await, skips(db, catching_up).await), (vec!["missed".to_owned()], vec!["missed".to_owned()]));
    }

    async fn a_tick_that_finds_the_last_job_still_there_is_skipped_and_recorded(db) {
        let id = db.declare(with(Overlap::Skip)).await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await, (1, 0));
        let node = db.node("a").await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await, (0, 1), "while it waits");
        let claim = db.take_one(node).await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await, (0, 1), "while it runs");
        db.settle(node, &claim, failed("no")).await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await, (0, 1), "while it waits for its retry");
        assert_eq!(skips(db, id).await, ["overlap"; 3]);
        assert_eq!(live(db).await.len(), 1);
    }

    async fn queue_one_lets_one_wait_and_never_two_run(db) {
        db.declare(with(Overlap::QueueOne)).await;
        let node = db.node("a").await;
        let mut outcomes = Vec::new();
        let mut first = None;
        for _ in 0..3 {
            db.let_a_tick_come().await;
            outcomes.push(db.plan().await);
            first = first.or(db.take(node, 10).await.pop());
        }
        assert_eq!(outcomes, [(1, 0), (1, 0), (0, 1)], "one runs, one waits, the third is skipped");
        let second = *live(db).await.last().unwrap();
        assert_eq!(db.state(second).await, Some(JobState::Held));
        db.settle(node, &first.unwrap(), completed()).await;
        assert_eq!(db.take_one(node).await.job, second);
    }

    async fn allow_makes_a_job_of_every_tick(db) {
        db.declare(with(Overlap::Allow)).await;
        let node = db.node("a").await;
        for _ in 0..3 {
            db.let_a_tick_come().await;
            assert_eq!(db.plan().await, (1, 0));
        }
        assert_eq!(db.take(node, 10).await.len(), 3);
    }

    async fn cancel_asks_the_running_job_to_make_way(db) {
        db.declare(with(Overlap::Cancel)).await;
        let node = db.node("a").await;
        db.let_a_tick_come().await;
        db.plan().await;
        let old = db.take_one(node).await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await, (1, 0));
        assert_eq!(db.take(node, 10).await.len(), 0, "not both at once");
        let renewal = db.store.renew(crate::kit::lease(node), vec![old.reference()]).await.unwrap()[0];
        assert!(renewal.cancel_requested);
        db.settle(node, &old, lineclear::model::Outcome::Cancelled).await;
        assert_ne!(db.take_one(node).await.job, old.job);
    }

    async fn cancel_asks_again_if_the_first_request_met_a_locked_row(db) {
        let manifest = db.declare(with(Overlap::Cancel)).await;
        let node = db.node("a").await;
        db.let_a_tick_come().await;
        db.plan().await;
        let old = db.take_one(node).await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await, (1, 0));
        // As if a renewal had held the row: the request skips it.
        db.sql("update {t}background_job set cancel_requested_at = null").await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await, (0, 1), "one waits already");
        assert_eq!(skips(db, manifest).await, ["overlap"]);
        let renewal = db.store.renew(crate::kit::lease(node), vec![old.reference()]).await.unwrap()[0];
        assert!(renewal.cancel_requested);
    }

    async fn excluded_and_switched_off_ticks_are_recorded(db) {
        let century = serde_json::json!({"from": "2000-01-01", "to": "2099-12-31"});
        let never: Exclusion = serde_json::from_value(century).unwrap();
        let excluded = db.declare(Manifest { exclude: vec![never], ..daily("excluded") }).await;
        db.group("off", GroupSpec { enabled: false, ..GroupSpec::default() }).await;
        let off = db.declare(Manifest { group: Some(name("off")), ..daily("off") }).await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await.0, 0);
        assert_eq!(skips(db, excluded).await, [SkipReason::Excluded.as_str()]);
        assert_eq!(skips(db, off).await, [SkipReason::GroupDisabled.as_str()]);
    }

    async fn a_pass_is_bounded_and_the_next_goes_on(db) {
        let manifests: Vec<Manifest> = (0..7).map(|n| daily(&format!("m{n}"))).collect();
        db.store.upsert_manifests(manifests, ChangeSource::Declaration).await.unwrap();
        db.let_a_tick_come().await;
        let rules = PlanRules { manifests_max: 3, group_share: 0, ..PlanRules::default() };
        let mut passes = Vec::new();
        for _ in 0..4 {
            let Planned::Led { due, queued, .. } = db.store.plan(rules).await.unwrap() else { panic!("leads") };
            passes.push((due, queued));
        }
        assert_eq!(passes, [(3, 3), (3, 3), (1, 1), (0, 0)]);
    }

    async fn a_manifest_that_cannot_be_read_does_not_stop_the_others(db) {
        db.declare(daily("broken")).await;
        db.declare(daily("fine")).await;
        db.let_a_tick_come().await;
        db.sql("update {t}manifest set spec = '{}' where key = 'broken'").await;
        let Planned::Led { queued, unplannable, .. } = db.store.plan(PlanRules::default()).await.unwrap() else {
            panic!("leads")
        };
        assert_eq!((queued, unplannable.len()), (1, 1));
        assert_eq!(unplannable[0].0, name("broken"));
        assert_eq!(db.count("tick where skip_reason = 'unplannable'").await, 1, "it is recorded, too");
        let Planned::Led { due, .. } = db.store.plan(PlanRules::default()).await.unwrap() else { panic!("leads") };
        assert_eq!(due, 0, "it is left alone for a while");
    }

    pgbouncer async fn planners_at_once_make_one_job_per_tick_with_and_without_the_lock(db) {
        let manifests: Vec<Manifest> = (0..50).map(|n| daily(&format!("m{n}"))).collect();
        db.store.upsert_manifests(manifests, ChangeSource::Declaration).await.unwrap();
        for lead in [true, false] {
            db.let_a_tick_come().await;
            let rules = PlanRules { lead, ..PlanRules::default() };
            let mut planners = Vec::new();
            for _ in 0..4 {
                let store = db.another_store().await;
                planners.push(tokio::spawn(async move { store.plan(rules).await.unwrap() }));
            }
            for planner in planners {
                planner.await.unwrap();
            }
            let node = db.node("a").await;
            let claims = db.take(node, 1000).await;
            assert_eq!(claims.len(), 50, "lead = {lead}");
            for claim in claims {
                db.settle(node, &claim, completed()).await;
            }
        }
        assert_eq!(db.count("tick where job_id is not null").await, 100);
    }

    async fn a_tick_already_in_the_ledger_is_not_planned_again(db) {
        let id = db.declare(daily("m")).await;
        db.let_a_tick_come().await;
        db.plan().await;
        let before = db.store.ticks(id, None, 10).await.unwrap().items;
        // As if an edit or a restored backup had turned the clock of the manifest back; the ledger knows better.
        db.age("manifest", "planned_through", 86_400).await;
        db.age("manifest", "next_due_at", 86_400 * 2).await;
        assert_eq!(db.plan().await, (0, 0));
        assert_eq!(db.store.ticks(id, None, 10).await.unwrap().items, before);
        assert_eq!(db.count("work_queue").await, 1);
    }

    async fn a_jittered_tick_is_planned_now_and_due_a_little_later(db) {
        let id = db.declare(Manifest { jitter: Duration::from_secs(60), ..daily("m") }).await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await, (1, 0));
        let tick = db.store.ticks(id, None, 1).await.unwrap().items[0].clone();
        let job = db.store.job(tick.job.unwrap()).await.unwrap().unwrap().job;
        assert_eq!(job.tick_at, Some(tick.tick_at));
        assert!(job.due_at >= tick.tick_at && job.due_at <= tick.tick_at.offset(60_000_000));
    }

    async fn a_trigger_runs_a_manifest_whatever_else_it_has(db) {
        let id = db.declare(with(Overlap::Skip)).await;
        db.let_a_tick_come().await;
        db.plan().await;
        let input = crate::kit::payload(r#"{"only":"today"}"#);
        let options = TriggerOptions { input: Some(input.clone()), ..TriggerOptions::default() };
        let triggered = db.store.trigger(name("m"), options).await.unwrap().unwrap();
        for _ in 0..4 {
            db.store.trigger(name("m"), TriggerOptions::default()).await.unwrap().unwrap();
        }
        let node = db.node("a").await;
        let claims = db.take(node, 10).await;
        assert_eq!(claims.len(), 6, "five triggers make five jobs");
        let claim = claims.iter().find(|claim| claim.job == triggered).unwrap();
        assert_eq!((claim.input.clone(), claim.origin.as_str(), claim.manifest), (input, "trigger", Some(id)));
        assert_eq!(db.store.trigger(name("missing"), TriggerOptions::default()).await.unwrap(), None);
        let later = TriggerOptions { due_at: Micros::new(4_102_444_800_000_000), ..TriggerOptions::default() };
        let later = db.store.trigger(name("m"), later).await.unwrap().unwrap();
        assert_eq!(db.state(later).await, Some(JobState::Scheduled));
    }

    async fn a_retry_and_the_next_tick_do_not_collide(db) {
        db.declare(with(Overlap::QueueOne)).await;
        let node = db.node("a").await;
        db.let_a_tick_come().await;
        db.plan().await;
        let claim = db.take_one(node).await;
        db.let_a_tick_come().await;
        db.plan().await;
        db.settle(node, &claim, failed("no")).await;
        assert_eq!(db.count("work_queue").await, 2, "the retry beside the next tick");
    }

    async fn cancel_ends_a_waiting_retry_and_an_unclaimed_job(db) {
        db.declare(with(Overlap::Cancel)).await;
        let node = db.node("a").await;
        db.let_a_tick_come().await;
        db.plan().await;
        let old = db.take_one(node).await;
        db.settle(node, &old, failed("no")).await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await, (1, 0));
        assert_eq!(db.state(old.job).await, Some(JobState::Cancelled), "its retry would come after the newer tick");

        let handed = db.store.dispatch(Dispatch::new(lineclear::store::main_route(), 10)).await.unwrap()[0];
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await, (1, 0));
        assert_eq!(db.state(handed).await, Some(JobState::Cancelled));
    }
}
