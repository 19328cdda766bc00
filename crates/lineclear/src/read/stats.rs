//! Statistics by the minute, and current counts.
//!
//! The cleaner rolls up minutes that have ended. Rolling up a minute again changes nothing.

use lineclear_model::{ExecutionOutcome, Micros};

use crate::db::statements::Statement;
use crate::db::{Query, Row, Session, Verb, values};
use crate::read::totals::{LONG_STEPS_SECS, run_steps};
use crate::store::{Store, StoreError, StoreResult};

/// Time before the mark that is rolled up again: an execution has the time at which its transaction began, and becomes
/// visible when it commits.
const OVERLAP: i64 = 3 * MINUTE;
const MINUTE: i64 = 60_000_000;
/// Time that one roll-up covers at most.
const ROLL_UP_MAX: i64 = 120 * MINUTE;
/// Rows that one call returns at most.
pub const STATS_MAX: u32 = 10_000;
/// Counting stops here.
pub const COUNT_MAX: u32 = 10_000;

/// What statistics are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatsBy {
    /// Nothing.
    #[default]
    None,
    /// The kind of the job.
    Kind,
    /// Its group.
    Group,
    /// Its manifest.
    Manifest,
    /// The outcome of the execution.
    Outcome,
}

impl StatsBy {
    /// All of them.
    pub const ALL: &[StatsBy] =
        &[StatsBy::None, StatsBy::Kind, StatsBy::Group, StatsBy::Manifest, StatsBy::Outcome];

    /// As a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            StatsBy::None => "none",
            StatsBy::Kind => "kind",
            StatsBy::Group => "group",
            StatsBy::Manifest => "manifest",
            StatsBy::Outcome => "outcome",
        }
    }
}

/// Executions in one step of time with one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// When the step begins.
    pub at: Micros,
    /// The value of what it is grouped by; `None`: it has none, or there is no grouping.
    pub word: Option<String>,
    /// How they ended.
    pub outcome: ExecutionOutcome,
    /// How many.
    pub claims: u64,
    /// Their total run time.
    pub run_ms: u64,
    /// The longest run time.
    pub run_ms_max: u64,
    /// Their total wait between due and claimed.
    pub wait_ms: u64,
    /// The longest wait.
    pub wait_ms_max: u64,
}

/// Statistics of a period.
#[derive(Clone, Debug)]
pub struct Stats {
    /// By time, group and outcome.
    pub items: Vec<Stat>,
    /// From this time on, executions were counted live, not rolled up.
    pub live_from: Option<Micros>,
}

fn stat(row: &Row) -> StoreResult<Stat> {
    Ok(Stat {
        at: row.get("at")?,
        word: row.get("word")?,
        outcome: row.word("outcome", ExecutionOutcome::from_word)?,
        claims: row.get("claims")?,
        run_ms: row.get("run_ms")?,
        run_ms_max: row.get("run_ms_max")?,
        wait_ms: row.get("wait_ms")?,
        wait_ms_max: row.get("wait_ms_max")?,
    })
}

/// Current counts. Counting stops at [`COUNT_MAX`], which then means at least that many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatNow {
    /// Jobs that wait, for any reason.
    pub waiting: u64,
    /// Those of them that are due and wait only for a free slot.
    pub due: u64,
    /// Jobs that run.
    pub running: u64,
    /// Dead letters that await a person.
    pub dead_letters: u64,
    /// Nodes with a heartbeat in the last 30 seconds.
    pub nodes: u64,
    /// Remote workers that were heard of in the last 30 seconds.
    pub workers: u64,
    /// Jobs that those workers run at once.
    pub worker_slots: u64,
    /// When the oldest due job became due.
    pub oldest_due_at: Option<Micros>,
    /// The database's clock.
    pub now: Micros,
}

/// Reads the current counts.
pub(crate) fn read_now() -> Query<StatNow> {
    Query::one(Statement::StatNow, values![COUNT_MAX], |row| {
        let count = |column| row.get::<u64>(column).map(|count| count.min(u64::from(COUNT_MAX)));
        Ok(StatNow {
            waiting: count("waiting")?,
            due: count("due")?,
            running: count("running")?,
            dead_letters: count("dead_letters")?,
            nodes: count("nodes")?,
            workers: count("workers")?,
            worker_slots: row.get("worker_slots")?,
            oldest_due_at: row.get("oldest_due_at")?,
            now: row.get("now")?,
        })
    })
}

/// The period to roll up next, if there is one.
fn period_due(row: &Row) -> StoreResult<Option<(Micros, Micros)>> {
    let (through, closed): (Micros, Micros) = (row.get("through")?, row.get("closed")?);
    let Some(first) = row.get::<Option<Micros>>("first")?.filter(|first| *first < closed) else {
        return Ok(None);
    };
    let from = first.max(through.offset(-OVERLAP)).get().div_euclid(MINUTE) * MINUTE;
    let to = closed.get().min(from + ROLL_UP_MAX);
    Ok(Micros::new(from).zip(Micros::new(to)))
}

/// Checks the step of a chart.
pub(crate) fn check_step(step_secs: i64) -> StoreResult<()> {
    if step_secs < 60 || step_secs % 60 != 0 {
        return Err(StoreError::refused("step", "`step` must be a whole number of minutes"));
    }
    Ok(())
}

/// Rolls up a period, unless another node does so now.
struct RollUp {
    from: Micros,
    to: Micros,
    advisory_key: i64,
}

impl Verb for RollUp {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> StoreResult<()> {
        let lock = session.rows(Statement::IdempotencyLock, values![self.advisory_key]).await?;
        if lock.first().map_or(Ok(false), |row| row.get("free"))? {
            let RollUp { from, to, .. } = *self;
            session.rows(Statement::StatTotalRoll, values![from, to, run_steps()]).await?;
            for secs in LONG_STEPS_SECS {
                session.rows(Statement::StatTotalSum, values![from, to, secs]).await?;
            }
            session.rows(Statement::StatRoll, values![from, to]).await?;
        }
        Ok(())
    }
}

impl Store {
    /// Rolls up the executions of minutes that have ended. Any number of nodes may do so, and doing it again changes nothing;
    /// where nothing has ended, nothing is written.
    pub async fn roll_up(&self) -> StoreResult<()> {
        let advisory_key = self.options.advisory_key("stats");
        let mut last = None;
        while let Some(period) = self.next_period().await?.filter(|period| last != Some(*period)) {
            let (from, to) = period;
            self.run(RollUp { from, to, advisory_key }).await?;
            last = Some(period);
        }
        Ok(())
    }

    async fn next_period(&self) -> StoreResult<Option<(Micros, Micros)>> {
        self.db.read(Query::one(Statement::StatDue, values![], period_due)).await
    }

    /// Statistics of `from..to` in steps of `step_secs`.
    pub async fn stats(&self, from: Micros, to: Micros, step_secs: i64, by: StatsBy) -> StoreResult<Stats> {
        check_step(step_secs)?;
        let params = values![from, to, step_secs, by.as_str(), STATS_MAX + 1];
        let read = Query::new(Statement::StatRead, params, |rows| {
            if rows.len() > STATS_MAX as usize {
                let why = format!("more than {STATS_MAX} rows; choose a shorter period or longer steps");
                return Err(StoreError::refused("stats_max", why));
            }
            let live_from = rows.first().map(|row| row.get("through")).transpose()?;
            Ok(Stats { items: rows.iter().map(stat).collect::<StoreResult<_>>()?, live_from })
        });
        self.db.read(read).await
    }

    /// The current counts: jobs that wait, run and need a person.
    pub async fn stat_now(&self) -> StoreResult<StatNow> {
        self.db.read(read_now()).await
    }
}
