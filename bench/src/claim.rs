//! Claim cost: it depends on the claimed jobs, not on how many wait, wait on other routes, or are finished.

use std::cell::Cell;
use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use lineclear::model::GroupSpec;
use lineclear::store::{ChangeSource, Dispatch, main_route};

use crate::load::{self, Waiting};
use crate::measure::{compare, grouped, progress};
use crate::{Database, Figure, Purpose, Scale, ScratchDb};

const SMALL: u32 = 1_000;
/// Half of them ready; the other half due later, with a priority that would rank them first.
const LARGE: u32 = 1_000_000;
/// Jobs of another route: as many waiting, and as many dispatched.
const ELSEWHERE: u32 = 100_000;
const HISTORY: u32 = 1_000_000;
/// First in rank, but their group is full.
const GATED: u32 = 100_000;
const GROUP_LIMIT: u32 = 10;
const TAKEN: u32 = 100;
const BOUND: f64 = 2.0;
/// Many, because each is short, and SQLite's wait for the disk varies.
const REPETITIONS: u32 = 101;
/// At most as many dead rows as the small side has live ones.
const ROUNDS_PER_VACUUM: u32 = 10;

const HOUR: i64 = 3_600_000_000;

/// A queue of constant length.
pub(crate) struct Side {
    pub(crate) db: ScratchDb,
    next_id: Cell<u32>,
}

impl Side {
    pub(crate) async fn new(database: Database) -> Result<Side> {
        Ok(Side { db: ScratchDb::new(database, Purpose::Growth).await?, next_id: Cell::new(1) })
    }

    /// Reserves ids for rows.
    pub(crate) fn ids(&self, rows: u32) -> u32 {
        self.next_id.replace(self.next_id.get() + rows)
    }

    pub(crate) async fn wait(
        &self,
        rows: u32,
        route: &str,
        priority: i64,
        due_in: i64,
        group: Option<&str>,
    ) -> Result<()> {
        let first_id = self.ids(rows);
        Waiting { first_id, rows, route, priority, due_in, group }.load(&self.db).await
    }

    /// Finishes the jobs that were taken, and adds as many at the end of the queue.
    pub(crate) async fn refill(&self, taken: u32, round: u32) -> Result<()> {
        if round.is_multiple_of(ROUNDS_PER_VACUUM) {
            self.db.vacuum().await?;
        }
        let node = self.db.lease.node;
        self.db.sql(&format!("delete from {{t}}background_job where leased_by = {node}")).await?;
        self.wait(taken, "main", 0, 0, None).await
    }

    async fn fill(&self, database: Database, scale: Scale) -> Result<()> {
        let say =
            |rows, what: &str| progress(&format!("{}: loading {} {what}", database.label(), grouped(rows)));
        let half = scale.of(LARGE / 2);
        say(half * 2, "waiting jobs, every other batch for later and of priority 31");
        // In ten batches each, so that both kinds lie in all parts of the table.
        let batch = half.div_ceil(10);
        for nth in 0..10 {
            self.wait(batch, "main", 0, (nth - 10) * HOUR / 10, None).await?;
            self.wait(batch, "main", 31, HOUR + nth * HOUR / 10, None).await?;
        }
        let elsewhere = scale.of(ELSEWHERE);
        say(elsewhere, "jobs of another route, waiting, and as many handed out");
        self.wait(elsewhere, "elsewhere", 31, 0, None).await?;
        load::handed_out(&self.db, self.ids(elsewhere), elsewhere, "elsewhere", None).await?;
        let history = scale.of(HISTORY);
        say(history, "executions");
        load::history(&self.db, self.ids(history), history).await
    }

    /// Fills a group up to its limit, with a long backlog that ranks before all other jobs.
    async fn fill_group(&self, database: Database, scale: Scale) -> Result<()> {
        let gated = scale.of(GATED);
        progress(&format!("{}: loading {} jobs of a full group", database.label(), grouped(gated)));
        let spec = GroupSpec { limit: Some(GROUP_LIMIT), ..GroupSpec::default() };
        self.db
            .store
            .upsert_groups(BTreeMap::from([("full".to_owned(), spec)]), ChangeSource::Declaration)
            .await?;
        load::handed_out(&self.db, self.ids(GROUP_LIMIT), GROUP_LIMIT, "main", Some("full")).await?;
        self.wait(gated, "main", 31, 0, Some("full")).await
    }
}

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let few = scale.of(SMALL).max(scale.of(TAKEN));
    let small = Side::new(database).await?;
    small.wait(few, "main", 0, 0, None).await?;
    let large = Side::new(database).await?;
    large.fill(database, scale).await?;
    for side in [&small, &large] {
        side.db.settle_down().await?;
    }
    let many = grouped(scale.of(LARGE));
    let suffix = format!("{} → {many} waiting", grouped(few));
    let mut figures = both(database, scale, [&small, &large], &suffix, Some(BOUND)).await?;
    large.fill_group(database, scale).await?;
    large.db.settle_down().await?;
    let suffix = format!("… and {} of a full group before them", grouped(scale.of(GATED)));
    figures.extend(both(database, scale, [&small, &large], &suffix, None).await?);
    Ok(figures)
}

/// The two ways to take jobs: straight into a lease, or dispatched and then claimed.
async fn both(
    database: Database,
    scale: Scale,
    sides: [&Side; 2],
    suffix: &str,
    bound: Option<f64>,
) -> Result<Vec<Figure>> {
    let taken = scale.of(TAKEN);
    progress(&format!("{}: taking {} jobs in turns, {suffix}", database.label(), grouped(taken)));
    let refill = async |side: &Side, round| side.refill(taken, round).await;
    let lease = async |side: &Side| {
        let claims =
            side.db.store.dispatch_into_lease(Dispatch::new(main_route(), taken), side.db.lease).await?;
        ensure!(claims.len() == taken as usize, "{} jobs of {taken} were taken", claims.len());
        Ok(())
    };
    let hand_over = async |side: &Side| {
        let dispatched = side.db.store.dispatch(Dispatch::new(main_route(), taken)).await?;
        let claims = side.db.store.claim(main_route(), taken, side.db.lease).await?;
        ensure!(
            dispatched.len() == claims.len() && claims.len() == taken as usize,
            "{} claims",
            claims.len()
        );
        Ok(())
    };
    let fused = compare(sides, scale.repetitions(REPETITIONS), refill, lease).await?;
    let apart = compare(sides, scale.repetitions(REPETITIONS), refill, hand_over).await?;
    let name = |verbs: &str| format!("{verbs} {}: {suffix}", grouped(taken));
    Ok(vec![
        Figure::growth(database, name("dispatch_into_lease"), fused, bound),
        Figure::growth(database, name("dispatch + claim"), apart, bound),
    ])
}
