//! stats: figures by the minute, and how things stand right now.
//!
//! Closed minutes are rolled up by whoever cleans. A minute may be rolled up again, and gets no figure twice.

use lineclear_model::{ExecutionOutcome, Micros};

use crate::db::statements::Statement;
use crate::db::{Row, Session, Value, Verb};
use crate::read::totals::{LONG_STEPS_SECS, run_steps};
use crate::store::{Store, StoreError, StoreResult};

/// Minutes before the mark that are rolled up again: a claim is dated when its transaction began, and seen when it ended.
const AGAIN: i64 = 3 * MINUTE;
const MINUTE: i64 = 60_000_000;
/// Minutes that one pass rolls up.
const PASS: i64 = 120 * MINUTE;
/// Rows that one look at figures returns.
pub const STATS_MAX: u32 = 10_000;
/// Jobs are counted so far.
pub const COUNT_MAX: u32 = 10_000;

/// What figures are told apart by.
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
    /// How the claim ended.
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

/// Claims that ended in one way in one step of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// When the step begins.
    pub at: Micros,
    /// What it is told apart by; `None`: by nothing, or it has none.
    pub word: Option<String>,
    /// How they ended.
    pub outcome: ExecutionOutcome,
    /// How many.
    pub claims: u64,
    /// How long they ran, all together.
    pub run_ms: u64,
    /// How long the longest ran.
    pub run_ms_max: u64,
    /// How long they had waited since they were due, all together.
    pub wait_ms: u64,
    /// How long the longest had waited.
    pub wait_ms_max: u64,
}

/// Figures of some time.
#[derive(Clone, Debug)]
pub struct Stats {
    /// In the order of time, words and outcomes.
    pub items: Vec<Stat>,
    /// From here on, what happened was counted just now.
    pub live_from: Option<Micros>,
}

/// Verb: figures of some time.
pub(crate) struct ReadStats {
    pub(crate) from: Micros,
    pub(crate) to: Micros,
    pub(crate) step_secs: i64,
    pub(crate) by: StatsBy,
}

impl Verb for ReadStats {
    type Answer = Stats;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Stats> {
        let params = vec![
            Value::Time(Some(self.from)),
            Value::Time(Some(self.to)),
            Value::Int(Some(self.step_secs)),
            Value::Text(Some(self.by.as_str().to_owned())),
            Value::Int(Some(i64::from(STATS_MAX) + 1)),
        ];
        let rows = session.rows(Statement::StatRead, params).await?;
        if rows.len() > STATS_MAX as usize {
            let why = format!("that is more than {STATS_MAX} figures; ask for less time, or longer steps");
            return Err(StoreError::refused("stats_max", why));
        }
        let live_from = rows.first().map(|row| row.get("through")).transpose()?;
        Ok(Stats { items: rows.iter().map(stat).collect::<StoreResult<_>>()?, live_from })
    }
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

/// How things stand. Counts stop at [`COUNT_MAX`]: that many means at least so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatNow {
    /// Jobs that wait, for whatever.
    pub waiting: u64,
    /// Those of them that could be taken now, if there were room.
    pub due: u64,
    /// Jobs that run.
    pub running: u64,
    /// Dead letters that await a person.
    pub dead_letters: u64,
    /// Nodes that were heard of in the last 30 seconds.
    pub nodes: u64,
    /// Since when the first in line is due.
    pub oldest_due_at: Option<Micros>,
    /// The database's clock.
    pub now: Micros,
}

/// Verb: how things stand.
pub(crate) struct ReadNow;

impl Verb for ReadNow {
    type Answer = StatNow;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<StatNow> {
        let rows = session.rows(Statement::StatNow, vec![Value::Int(Some(i64::from(COUNT_MAX)))]).await?;
        let row = rows.first().ok_or_else(|| crate::error::no_answer("stat_now"))?;
        let count = |column| row.get::<u64>(column).map(|count| count.min(u64::from(COUNT_MAX)));
        Ok(StatNow {
            waiting: count("waiting")?,
            due: count("due")?,
            running: count("running")?,
            dead_letters: count("dead_letters")?,
            nodes: count("nodes")?,
            oldest_due_at: row.get("oldest_due_at")?,
            now: row.get("now")?,
        })
    }
}

/// Verb: which minutes are to be rolled up, if any.
pub(crate) struct Due;

impl Verb for Due {
    type Answer = Option<(Micros, Micros)>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Self::Answer> {
        let rows = session.rows(Statement::StatDue, Vec::<Value>::new()).await?;
        let row = rows.first().ok_or_else(|| crate::error::no_answer("stat_due"))?;
        let (through, closed): (Micros, Micros) = (row.get("through")?, row.get("closed")?);
        let Some(first) = row.get::<Option<Micros>>("first")?.filter(|first| *first < closed) else {
            return Ok(None);
        };
        let from = first.max(through.offset(-AGAIN)).get().div_euclid(MINUTE) * MINUTE;
        let to = closed.get().min(from + PASS);
        Ok(Micros::new(from).zip(Micros::new(to)))
    }
}

/// Verb: rolls minutes up, unless another node does so right now.
pub(crate) struct Roll {
    pub(crate) from: Micros,
    pub(crate) to: Micros,
    pub(crate) advisory_key: i64,
}

impl Verb for Roll {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> StoreResult<()> {
        let lock =
            session.rows(Statement::IdempotencyLock, vec![Value::Int(Some(self.advisory_key))]).await?;
        if lock.first().map_or(Ok(false), |row| row.get("free"))? {
            let params = vec![Value::Time(Some(self.from)), Value::Time(Some(self.to))];
            let total = [params.clone(), vec![run_steps()]].concat();
            session.rows(Statement::StatTotalRoll, total).await?;
            for secs in LONG_STEPS_SECS {
                let sum = [params.clone(), vec![Value::Int(Some(secs))]].concat();
                session.rows(Statement::StatTotalSum, sum).await?;
            }
            session.rows(Statement::StatRoll, params).await?;
        }
        Ok(())
    }
}

impl Store {
    /// Rolls up what ended in minutes that are closed, into figures. Any number of nodes may do so, and doing it again changes
    /// nothing; where nothing has ended, nothing is written.
    pub async fn roll_up(&self) -> StoreResult<()> {
        let advisory_key = self.options.advisory_key("stats");
        let mut last = None;
        while let Some((from, to)) = self.db.read(Due).await?.filter(|due| last != Some(*due)) {
            self.run(Roll { from, to, advisory_key }).await?;
            last = Some((from, to));
        }
        Ok(())
    }

    /// Figures of `from..to` in steps of so many seconds.
    pub async fn stats(&self, from: Micros, to: Micros, step_secs: i64, by: StatsBy) -> StoreResult<Stats> {
        if step_secs < 60 || step_secs % 60 != 0 {
            return Err(StoreError::refused("step", "a step is so many whole minutes"));
        }
        self.db.read(ReadStats { from, to, step_secs, by }).await
    }

    /// How much waits, runs and needs a person.
    pub async fn stat_now(&self) -> StoreResult<StatNow> {
        self.db.read(ReadNow).await
    }
}
