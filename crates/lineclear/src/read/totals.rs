//! totals: figures of everything by the minute, with how long claims ran. A chart reads a few rows for each minute, however many kinds and
//! manifests there are.

use lineclear_model::{ExecutionOutcome, Micros};

use crate::db::statements::Statement;
use crate::db::{Row, Session, Value, Verb};
use crate::store::{Store, StoreError, StoreResult};

/// Claims are told apart by the step that they ran at least so long, in milliseconds: 1, 2 and 5 of each power of ten, up to half a day.
pub const RUN_STEPS_MS: [i64; 25] = [
    0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000,
];

/// Seconds of the longer steps that minutes are summed up in: those of charts of a day, and of a week.
pub(crate) const LONG_STEPS_SECS: [i64; 2] = [1_200, 7_200];

/// Seconds of the rows to read for steps of so many seconds: the longest that fit into all of it.
fn rows_of(from: Micros, to: Micros, step_secs: i64) -> i64 {
    let edges = [from.get(), to.get(), step_secs * 1_000_000];
    let fits = |secs: &i64| edges.iter().all(|edge| edge % (secs * 1_000_000) == 0);
    LONG_STEPS_SECS.into_iter().rev().find(fits).unwrap_or(60)
}

/// As the statements take them.
pub(crate) fn run_steps() -> Value {
    Value::Ints(RUN_STEPS_MS.to_vec())
}

/// Claims that ended in one way in one step of time, and ran about equally long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Total {
    /// When the step begins.
    pub at: Micros,
    /// How they ended.
    pub outcome: ExecutionOutcome,
    /// They ran at least so long, and less than the next of [`RUN_STEPS_MS`]; `None`: nobody ever had them, as when a job is cancelled that waits.
    pub run_from_ms: Option<u64>,
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

/// Verb: figures of everything over some time.
pub(crate) struct ReadTotals {
    pub(crate) from: Micros,
    pub(crate) to: Micros,
    pub(crate) step_secs: i64,
}

impl Verb for ReadTotals {
    type Answer = Vec<Total>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Vec<Total>> {
        let params = vec![
            Value::Time(Some(self.from)),
            Value::Time(Some(self.to)),
            Value::Int(Some(self.step_secs)),
            run_steps(),
            Value::Int(Some(rows_of(self.from, self.to, self.step_secs))),
        ];
        session.rows(Statement::StatTotals, params).await?.iter().map(total).collect()
    }
}

fn total(row: &Row) -> StoreResult<Total> {
    Ok(Total {
        at: row.get("at")?,
        outcome: row.word("outcome", ExecutionOutcome::from_word)?,
        run_from_ms: u64::try_from(row.get::<i64>("run_from_ms")?).ok(),
        claims: row.get("claims")?,
        run_ms: row.get("run_ms")?,
        run_ms_max: row.get("run_ms_max")?,
        wait_ms: row.get("wait_ms")?,
        wait_ms_max: row.get("wait_ms_max")?,
    })
}

impl Store {
    /// Figures of everything in `from..to`, in steps of so many seconds, with how long claims ran.
    pub async fn totals(&self, from: Micros, to: Micros, step_secs: i64) -> StoreResult<Vec<Total>> {
        if step_secs < 60 || step_secs % 60 != 0 {
            return Err(StoreError::refused("step", "a step is so many whole minutes"));
        }
        self.db.read(ReadTotals { from, to, step_secs }).await
    }
}
