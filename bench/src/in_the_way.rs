//! Rows that do not matter cost a node nothing: full groups, parked jobs, expired unique keys, and what an old snapshot keeps in the indexes.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Result, ensure};
use lineclear::store::{
    Cursor, Dispatch, PlanCursor, PollCursor, PromoteCursor, ReclaimCursor, Retention, main_route,
};

use crate::claim::Side;
use crate::load::{self, Manifests};
use crate::measure::{compare, grouped, progress};
use crate::scratch_db::{connect, now_micros};
use crate::{Database, Figure, Scale};

const BOUND: f64 = 1.3;
const REPETITIONS: u32 = 101;

const WAITING: u32 = 1_000;
const TAKEN: u32 = 100;
const FULL_GROUPS: u32 = 1_000;
const PARKED: u32 = 1_000_000;
const PAUSED_MANIFESTS: u32 = 1_000;
const EXPIRED_KEYS: u32 = 1_000_000;
const PASSED: u32 = 300_000;
/// Rows that one cleaning removes of each kind.
const CLEANED: u32 = 1_000;

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let mut figures = vec![
        full_groups(database, scale).await?,
        parked_jobs(database, scale).await?,
        expired_keys(database, scale).await?,
    ];
    // SQLite removes what is gone from its indexes at once.
    if database == Database::Postgres {
        figures.extend(old_snapshot(database, scale).await?);
    }
    Ok(figures)
}

fn say(database: Database, rows: u32, what: &str) {
    progress(&format!("{}: loading {} {what}", database.label(), grouped(rows)));
}

/// A dispatcher takes jobs without limits beside groups that are all full.
async fn full_groups(database: Database, scale: Scale) -> Result<Figure> {
    let (waiting, taken) = (scale.of(WAITING).max(scale.of(TAKEN)), scale.of(TAKEN));
    let groups = scale.of(FULL_GROUPS);
    say(database, groups, "full groups");
    let sides = [Side::new(database).await?, Side::new(database).await?];
    load::full_groups(&sides[1].db, sides[1].ids(groups * 2), groups).await?;
    for side in &sides {
        side.wait(waiting, "main", 0, 0, None).await?;
        side.db.settle_down().await?;
    }
    let cursors = [RefCell::new(Cursor::default()), RefCell::new(Cursor::default())];
    let [without, with] = [(&sides[0], &cursors[0]), (&sides[1], &cursors[1])];
    let refill = async |side: &(&Side, &RefCell<Cursor>), round| side.0.refill(taken, round).await;
    let take = async |(side, cursor): &(&Side, &RefCell<Cursor>)| {
        let (mut known, dispatch) = (cursor.take(), Dispatch::new(main_route(), taken));
        let claims = side.db.store.dispatch_into_lease_from(&mut known, dispatch, side.db.lease).await?;
        cursor.replace(known);
        ensure!(claims.len() == taken as usize, "{} jobs of {taken} were taken", claims.len());
        Ok(())
    };
    let medians = compare([&without, &with], scale.repetitions(REPETITIONS), refill, take).await?;
    let name =
        format!("a dispatcher takes {}: alone → beside {} full groups", grouped(taken), grouped(groups));
    Ok(Figure::growth(database, name, medians, Some(BOUND)))
}

/// A cleaning beside jobs of paused manifests; as many manifests run.
async fn parked_jobs(database: Database, scale: Scale) -> Result<Figure> {
    let (parked, manifests) = (scale.of(PARKED), scale.of(PAUSED_MANIFESTS));
    say(database, parked, "parked jobs");
    let sides = [Side::new(database).await?, Side::new(database).await?];
    for side in &sides {
        Manifests::load(&side.db, manifests * 2).await?;
        side.db.sql(&format!("update {{t}}manifest set enabled = false where id <= {manifests}")).await?;
    }
    load::parked(&sides[1].db, sides[1].ids(parked), parked, manifests).await?;
    let name = format!("a cleaning: alone → beside {} parked jobs", grouped(parked));
    clean(database, scale, sides, name).await
}

/// A cleaning beside scheduled jobs whose unique keys are past their time, after the first one that has seen them.
async fn expired_keys(database: Database, scale: Scale) -> Result<Figure> {
    let expired = scale.of(EXPIRED_KEYS);
    say(database, expired, "scheduled jobs with expired unique keys, which are cleaned once");
    let sides = [Side::new(database).await?, Side::new(database).await?];
    let large = &sides[1];
    load::scheduled_with_expired_keys(&large.db, large.ids(expired), expired).await?;
    while large.db.number("select count(*) from {t}job_key where until is not null").await? > 0 {
        for _ in 0..50 {
            large.db.store.clean(&Retention::default(), CLEANED).await?;
        }
    }
    let name =
        format!("a cleaning: alone → beside {} scheduled jobs with expired unique keys", grouped(expired));
    clean(database, scale, sides, name).await
}

async fn clean(database: Database, scale: Scale, sides: [Side; 2], name: String) -> Result<Figure> {
    for side in &sides {
        side.db.settle_down().await?;
    }
    let clean = async |side: &Side| {
        let cleaned = side.db.store.clean(&Retention::default(), CLEANED).await?;
        ensure!(cleaned.is_nothing(), "{cleaned:?}");
        Ok(())
    };
    let nothing = async |_: &Side, _| Ok(());
    let medians = compare([&sides[0], &sides[1]], scale.repetitions(REPETITIONS), nothing, clean).await?;
    Ok(Figure::growth(database, name, medians, Some(BOUND)))
}

/// The polls of an idle node while another session holds a snapshot that is older than many jobs.
async fn old_snapshot(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let passed = scale.of(PASSED);
    progress(&format!("{}: {} jobs pass while a snapshot is open", database.label(), grouped(passed)));
    let sides = [Side::new(database).await?, Side::new(database).await?];
    let dump = connect(sides[1].db.url()).await?;
    let begin = "begin isolation level repeatable read; select count(*) from lineclear.work_queue";
    dump.batch_execute(begin).await?;
    load::passed(&sides[1].db, sides[1].ids(passed), passed).await?;
    for side in &sides {
        side.db.settle_down().await?;
    }
    let cursors = [RefCell::new(PollCursor::default()), RefCell::new(PollCursor::default())];
    let [without, with] = [(&sides[0], &cursors[0]), (&sides[1], &cursors[1])];
    let nothing = async |_: &(&Side, &RefCell<PollCursor>), _| Ok(());
    let poll = async |(side, cursor): &(&Side, &RefCell<PollCursor>)| {
        let mut known = cursor.take();
        side.db.store.poll_work_from(&mut known, vec![main_route()], 100).await?;
        cursor.replace(known);
        Ok(())
    };
    let polls = compare([&without, &with], scale.repetitions(REPETITIONS), nothing, poll).await?;
    let cursors = [RefCell::new(PlanCursor::default()), RefCell::new(PlanCursor::default())];
    let [without, with] = [(&sides[0], &cursors[0]), (&sides[1], &cursors[1])];
    let nothing = async |_: &(&Side, &RefCell<PlanCursor>), _| Ok(());
    let next = async |(side, cursor): &(&Side, &RefCell<PlanCursor>)| {
        let mut known = cursor.take();
        side.db.store.next_plan_from(&mut known).await?;
        cursor.replace(known);
        Ok(())
    };
    let plans = compare([&without, &with], scale.repetitions(REPETITIONS), nothing, next).await?;
    let promotions = promotions(&sides, scale).await?;
    let reclaims = reclaims(&sides, scale).await?;
    drop(dump);
    let name =
        |what: &str| format!("{what}: alone → under an open snapshot, {} jobs passed", grouped(passed));
    Ok(vec![
        Figure::growth(database, name("a poll for work"), polls, Some(BOUND)),
        Figure::growth(database, name("a poll for ticks"), plans, Some(BOUND)),
        Figure::growth(
            database,
            name(&format!("{} jobs are promoted", grouped(scale.of(TAKEN)))),
            promotions,
            Some(BOUND),
        ),
        Figure::growth(database, name("a look for leases that are over"), reclaims, Some(BOUND)),
    ])
}

/// Jobs become due and are promoted; with each repetition they are taken away again.
async fn promotions(sides: &[Side; 2], scale: Scale) -> Result<[Duration; 2]> {
    let taken = scale.of(TAKEN);
    let cursors = [RefCell::new(PromoteCursor::default()), RefCell::new(PromoteCursor::default())];
    let [without, with] = [(&sides[0], &cursors[0]), (&sides[1], &cursors[1])];
    let schedule = async |(side, _): &(&Side, &RefCell<PromoteCursor>), _| {
        side.db.sql("delete from {t}work_queue").await?;
        side.wait(taken, "main", 0, 0, None).await?;
        // Due now, and so behind the mark of the last promotion.
        side.db
            .sql(&format!("update {{t}}work_queue set phase = 'later', due_at = {{at({})}}", now_micros()))
            .await
    };
    let promote = async |(side, cursor): &(&Side, &RefCell<PromoteCursor>)| {
        let mut known = cursor.take();
        let promoted = side.db.store.promote_from(&mut known, taken * 2).await?;
        cursor.replace(known);
        ensure!(promoted == u64::from(taken), "{promoted} jobs of {taken} were promoted");
        Ok(())
    };
    compare([&without, &with], scale.repetitions(REPETITIONS), schedule, promote).await
}

/// A node that is too busy to poll looks for vanished workers.
async fn reclaims(sides: &[Side; 2], scale: Scale) -> Result<[Duration; 2]> {
    let cursors = [RefCell::new(ReclaimCursor::default()), RefCell::new(ReclaimCursor::default())];
    let [without, with] = [(&sides[0], &cursors[0]), (&sides[1], &cursors[1])];
    let nothing = async |_: &(&Side, &RefCell<ReclaimCursor>), _| Ok(());
    let reclaim = async |(side, cursor): &(&Side, &RefCell<ReclaimCursor>)| {
        let mut known = cursor.take();
        let lost = side.db.store.reclaim_from(&mut known, TAKEN, 3).await?;
        cursor.replace(known);
        ensure!(lost.is_empty(), "{} leases were over", lost.len());
        Ok(())
    };
    compare([&without, &with], scale.repetitions(REPETITIONS), nothing, reclaim).await
}
