//! Totals over all jobs by the minute, with a histogram of run times. A chart reads a few rows for each minute, however many
//! kinds and manifests there are.

use lineclear_model::{ExecutionOutcome, Micros};

use crate::db::statements::Statement;
use crate::db::{Query, Row, Value, values};
use crate::read::stats::check_step;
use crate::store::{Store, StoreResult};

/// Lower bounds of the histogram's buckets, in milliseconds: 1, 2 and 5 of each power of ten, up to half a day.
pub const RUN_STEPS_MS: [i64; 25] = [
    0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000,
];

/// Longer steps that minutes are summed up in, in seconds: those of a day's chart and of a week's.
pub(crate) const LONG_STEPS_SECS: [i64; 2] = [1_200, 7_200];

/// The length in seconds of the stored rows to read: the longest that divides the range and its steps.
fn row_secs(from: Micros, to: Micros, step_secs: i64) -> i64 {
    let edges = [from.get(), to.get(), step_secs * 1_000_000];
    let fits = |secs: &i64| edges.iter().all(|edge| edge % (secs * 1_000_000) == 0);
    LONG_STEPS_SECS.into_iter().rev().find(fits).unwrap_or(60)
}

/// [`RUN_STEPS_MS`] as a parameter.
pub(crate) fn run_steps() -> Value {
    Value::Ints(RUN_STEPS_MS.to_vec())
}

/// Executions in one step of time with one outcome and one bucket of run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Total {
    /// When the step begins.
    pub at: Micros,
    /// How they ended.
    pub outcome: ExecutionOutcome,
    /// The bucket: they ran at least this long, and less than the next of [`RUN_STEPS_MS`]. `None`: they never ran, as a job
    /// that is cancelled while it waits.
    pub run_from_ms: Option<u64>,
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
    /// Totals over all jobs in `from..to`, in steps of `step_secs`, with a histogram of run times.
    pub async fn totals(&self, from: Micros, to: Micros, step_secs: i64) -> StoreResult<Vec<Total>> {
        check_step(step_secs)?;
        let params = values![from, to, step_secs, run_steps(), row_secs(from, to, step_secs)];
        self.db.read(Query::each(Statement::StatTotals, params, total)).await
    }
}
