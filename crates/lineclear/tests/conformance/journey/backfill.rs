//! Backfill: ticks of the past that did not run become jobs, each once.

use lineclear::model::{JobState, Manifest, Micros, Misfire, MisfirePolicy, Overlap, Schedule};
use lineclear::read::TickView;
use lineclear::store::{BackfillOptions, Backfilled, JobId, ManifestId, StoreError};

use crate::kit::{TestDb, completed, daily, name};

const DAY: i64 = 86_400_000_000;

async fn backfill(db: &TestDb, key: &str, from: Micros, to: Micros) -> Backfilled {
    db.store.backfill(name(key), from, to, BackfillOptions::default()).await.unwrap().unwrap()
}

/// Midnight of today, on the database's clock.
async fn today(db: &TestDb) -> Micros {
    let now = db.store.next_plan().await.unwrap().now;
    Micros::new(now.get() / DAY * DAY).unwrap()
}

/// What the ledger says, oldest first: days before today, of the first and last tick, and whether they ran.
async fn ledger(db: &TestDb, id: ManifestId) -> Vec<(i64, i64, bool)> {
    let today = today(db).await;
    let days = |at: Micros| (today.get() - at.get()) / DAY;
    let mut ticks = db.store.ticks(id, None, 100).await.unwrap().items;
    ticks.reverse();
    let line = |tick: &TickView| {
        (days(tick.tick_at), days(tick.until_tick_at.unwrap_or(tick.tick_at)), tick.job.is_some())
    };
    ticks.iter().map(line).collect()
}

async fn ticks_of(db: &TestDb, jobs: &[JobId]) -> Vec<Micros> {
    let mut ticks = Vec::new();
    for job in jobs {
        ticks.push(db.store.job(*job).await.unwrap().unwrap().job.tick_at.unwrap());
    }
    ticks
}

conformance! {
    async fn each_tick_of_a_range_becomes_one_job_and_doing_it_again_adds_nothing(db) {
        db.declare(Manifest { overlap: Some(Overlap::Allow), ..daily("m") }).await;
        let today = today(db).await;
        let (from, to) = (today.offset(-3 * DAY), today);
        let done = backfill(db, "m", from, to).await;
        assert_eq!((done.known, done.next, done.undecided_from), (0, None, None));
        assert_eq!(ticks_of(db, &done.jobs).await, [from, from.offset(DAY), from.offset(2 * DAY)], "the end is not in it");
        let again = backfill(db, "m", from, to).await;
        assert_eq!((again.jobs.len(), again.known), (0, 3));
        let node = db.node("a").await;
        let claims = db.take(node, 10).await;
        assert_eq!(claims.len(), 3);
        for claim in &claims {
            assert_eq!(claim.origin.as_str(), "backfill");
            db.settle(node, claim, completed()).await;
        }
        let wider = backfill(db, "m", from.offset(-DAY), to).await;
        assert_eq!((wider.jobs.len(), wider.known), (1, 3), "what has run does not run again");
    }

    async fn jobs_of_a_manifest_that_must_not_overlap_run_one_after_another(db) {
        db.declare(daily("m")).await;
        let today = today(db).await;
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await.0, 1, "a fresh row is in the queue, and does not stop it");
        let done = backfill(db, "m", today.offset(-9 * DAY), today.offset(-6 * DAY)).await;
        assert_eq!(done.jobs.len(), 3);
        let node = db.node("a").await;
        let mut ran = 0;
        loop {
            let claims = db.take(node, 10).await;
            let backfilled: Vec<_> = claims.iter().filter(|claim| claim.origin.as_str() == "backfill").collect();
            assert!(backfilled.len() <= 1);
            ran += backfilled.len();
            if claims.is_empty() {
                break;
            }
            for claim in &claims {
                db.settle(node, claim, completed()).await;
            }
        }
        assert_eq!(ran, 3);
    }

    pgbouncer async fn a_tick_that_cancels_what_runs_spares_what_a_person_asked_for(db) {
        db.declare(Manifest { overlap: Some(Overlap::Cancel), ..daily("m") }).await;
        let today = today(db).await;
        let done = backfill(db, "m", today.offset(-9 * DAY), today.offset(-6 * DAY)).await;
        let node = db.node("a").await;
        let running = db.take_one(node).await;
        assert_eq!(running.job, done.jobs[0]);
        db.let_a_tick_come().await;
        assert_eq!(db.plan().await.0, 1);
        assert_eq!(db.store.cancel_requests(node).await.unwrap(), []);
        for job in &done.jobs[1..] {
            assert_ne!(db.state(*job).await, Some(JobState::Cancelled));
        }
    }

    pgbouncer async fn skipped_ticks_run_after_all_and_the_rest_of_their_range_stays_skipped(db) {
        let misfire = Misfire { policy: MisfirePolicy::Skip, ..Misfire::default() };
        let id = db.declare(Manifest { misfire, overlap: Some(Overlap::Allow), ..daily("m") }).await;
        db.let_ticks_come(86_400 * 10).await;
        db.plan().await;
        // Behind the store's back the whole manifest lies ten days further back: what was skipped is ten ticks up to today.
        let today = today(db).await;
        assert_eq!(ledger(db, id).await, [(9, 0, false)]);
        let days = |n: i64| today.offset(-n * DAY);
        assert_eq!(backfill(db, "m", days(6), days(4)).await.jobs.len(), 2);
        assert_eq!(ledger(db, id).await, [(9, 7, false), (6, 6, true), (5, 5, true), (4, 0, false)]);
        assert_eq!(backfill(db, "m", days(9), days(8)).await.jobs.len(), 1, "the first of a range");
        assert_eq!(backfill(db, "m", days(0), days(-1)).await.jobs.len(), 1, "the last one");
        let all = [(9, 9, true), (8, 7, false), (6, 6, true), (5, 5, true), (4, 1, false), (0, 0, true)];
        assert_eq!(ledger(db, id).await, all);
        let rest = backfill(db, "m", days(20), days(-1)).await;
        assert_eq!((rest.jobs.len(), rest.known), (17, 4));
        assert!(ledger(db, id).await.iter().all(|(from, until, ran)| from == until && *ran));
    }

    async fn a_long_range_is_done_in_parts(db) {
        let every = Schedule::every(std::time::Duration::from_secs(60)).unwrap();
        db.declare(Manifest { schedule: every, overlap: Some(Overlap::Allow), ..daily("m") }).await;
        let to = today(db).await;
        let options = || BackfillOptions { most: 100, ..BackfillOptions::default() };
        let (mut from, mut jobs, mut calls) = (Some(to.offset(-250 * 60_000_000)), 0, 0);
        while let Some(begin) = from {
            let done = db.store.backfill(name("m"), begin, to, options()).await.unwrap().unwrap();
            (jobs, calls, from) = (jobs + done.jobs.len(), calls + 1, done.next);
        }
        assert_eq!((jobs, calls), (250, 3));
        let most = BackfillOptions { most: u32::MAX, ..options() };
        let done = db.store.backfill(name("m"), to.offset(-30 * DAY), to, most).await.unwrap().unwrap();
        assert_eq!(done.jobs.len(), lineclear::store::BACKFILL_MAX as usize, "whatever it is asked for");
        assert!(done.next.is_some());
    }

    async fn ticks_that_are_not_decided_yet_are_left_to_the_planner(db) {
        db.declare(daily("m")).await;
        let today = today(db).await;
        let done = backfill(db, "m", today, today.offset(5 * DAY)).await;
        assert_eq!((done.jobs.len(), done.undecided_from), (1, Some(today.offset(DAY))), "the future is the planner's");
        db.let_a_tick_come().await;
        let done = backfill(db, "m", today, today.offset(DAY)).await;
        assert_eq!((done.jobs.len(), done.undecided_from), (0, Some(today)), "due, and not planned yet");
        assert_eq!(db.plan().await.0 + db.plan().await.0, 0, "a job is on the way: the tick is skipped");
        assert_eq!(backfill(db, "m", today, today.offset(DAY)).await.jobs.len(), 1);
    }

    async fn excluded_times_stay_excluded(db) {
        let exclude = serde_json::from_str(r#"[{"weekdays":["sat","sun"]}]"#).unwrap();
        db.declare(Manifest { exclude, ..daily("m") }).await;
        let today = today(db).await;
        assert_eq!(backfill(db, "m", today.offset(-14 * DAY), today).await.jobs.len(), 10);
    }

    async fn jobs_of_a_paused_manifest_wait_for_it(db) {
        db.declare(Manifest { overlap: Some(Overlap::Allow), ..daily("m") }).await;
        db.store.pause(vec![name("m")]).await.unwrap();
        let today = today(db).await;
        let job = backfill(db, "m", today.offset(-DAY), today).await.jobs[0];
        assert_eq!(db.state(job).await, Some(JobState::Parked));
        db.store.resume(vec![name("m")]).await.unwrap();
        assert_eq!(db.take_one(db.node("a").await).await.job, job);
    }

    async fn what_cannot_be_backfilled_is_refused(db) {
        db.declare(Manifest { schedule: Schedule::on_demand(), ..daily("m") }).await;
        let refused = async |key: &str, from: i64, to: i64| {
            let at = |micros| Micros::new(micros).unwrap();
            match db.store.backfill(name(key), at(from), at(to), BackfillOptions::default()).await {
                Err(StoreError::Refused { rule, why, .. }) => format!("{rule}: {why}"),
                other => format!("{other:?}"),
            }
        };
        assert!(refused("m", 0, 1).await.contains("has no ticks of its own"));
        assert!(refused("m", 1, 0).await.contains("`from` must not be after `to`"));
        assert!(refused("m", -1, 1).await.contains("nor before 1970"));
        assert_eq!(refused("missing", 0, 1).await, "Ok(None)");
    }

    pgbouncer async fn two_backfills_at_once_share_the_ticks(db) {
        db.declare(Manifest { overlap: Some(Overlap::Allow), ..daily("m") }).await;
        let today = today(db).await;
        let mut both = Vec::new();
        for _ in 0..4 {
            let store = db.another_store().await;
            both.push(tokio::spawn(async move {
                let options = BackfillOptions::default();
                store.backfill(name("m"), today.offset(-50 * DAY), today, options).await.unwrap().unwrap().jobs.len()
            }));
        }
        let mut jobs = 0;
        for one in both {
            jobs += one.await.unwrap();
        }
        assert_eq!((jobs, db.count("work_queue").await), (50, 50));
    }
}
