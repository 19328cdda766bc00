//! The developers' benchmark (`make bench`): speed of the engine, and cost that must not grow with the size of the database.
//!
//! Nearly every figure is a ratio of two medians that are measured alternately, so that other load slows both alike: for growth, a
//! large store compared with a small one; for speed, the engine compared with its own SQL statements.
#![forbid(unsafe_code)]

mod scratch_db;
mod cached;
mod claim;
mod in_the_way;
mod load;
mod measure;
mod pages;
mod plan;
mod report;
mod speed;

use anyhow::Result;
use clap::ValueEnum;

pub use measure::grouped;
pub use report::{Bound, Figure, Machine, Report, Unit, Verdict};
use scratch_db::{Purpose, ScratchDb};

/// Which databases to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Database {
    /// The server that `LINECLEAR_TEST_POSTGRES_URL` names.
    Postgres,
    /// A file in the folder for temporary files.
    Sqlite,
}

impl Database {
    fn label(self) -> &'static str {
        match self {
            Database::Postgres => "PostgreSQL",
            Database::Sqlite => "SQLite",
        }
    }
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// A planning pass among few and among many manifests.
    Plan,
    /// Taking jobs from a short and from a long queue.
    Claim,
    /// Statements prepared on an empty queue, used on a full one.
    Cached,
    /// Rows that do not matter, and an old snapshot, beside what a node does all the time.
    InTheWay,
    /// Pages of the dashboard on an empty database and on a full one.
    Pages,
    /// A node that runs all jobs of a full queue, and its bare statements.
    Drain,
    /// Enqueueing by the thousand, and the bare statement.
    EnqueueBulk,
    /// Sixteen callers that enqueue one job at a time, and the bare statement.
    EnqueueSingle,
    /// Enqueueing one job at a time over HTTP, and by the library.
    EnqueueHttp,
    /// From enqueue to the handler on another node, and the bare wake-up.
    Latency,
    /// The end of a long backlog, and its beginning.
    Backlog,
    /// Four nodes under a global limit that is never reached, and without one.
    Gate,
    /// Taking and releasing a lock of each kind, and two bare writes.
    Lock,
    /// Jobs that are pushed over HTTP, ten at once and one by one.
    Push,
    /// Four Python processes that pull jobs over HTTP, and a node with as many slots.
    Pull,
    /// Messages of an outbox, and bare statements that read and delete.
    Outbox,
    /// Events of a log, and bare inserts; a subscription that reads them.
    Events,
}

impl Experiment {
    fn is_of_speed(self) -> bool {
        !matches!(
            self,
            Experiment::Plan
                | Experiment::Claim
                | Experiment::Cached
                | Experiment::InTheWay
                | Experiment::Pages
        )
    }
}

/// How large everything is. At 1 the bounds count; smaller scales only show whether the benchmark still works.
#[derive(Clone, Copy, Debug)]
pub struct Scale(pub f64);

impl Scale {
    /// A scaled number of rows, at least one.
    fn of(self, rows: u32) -> u32 {
        // Rounding is what a scale is for.
        ((f64::from(rows) * self.0).round() as u32).max(1)
    }

    /// Whether bounds count.
    fn counts(self) -> bool {
        self.0 >= 1.0
    }

    /// How often to measure. Without bounds, a few times show whether it works.
    fn repetitions(self, full: u32) -> u32 {
        if self.counts() { full } else { full.min(5) }
    }

    /// Like `repetitions`, for experiments that start nodes, which takes longer than their work.
    fn rounds(self, full: u32) -> u32 {
        if self.counts() { full } else { full.min(2) }
    }
}

/// Runs experiments on databases, one after the other: two at once would measure each other.
pub async fn run(databases: &[Database], experiments: &[Experiment], scale: Scale) -> Result<Report> {
    let mut report = Report::new(scale, Machine::describe(databases, experiments, scale).await?);
    for &database in databases {
        for experiment in experiments {
            report.figures.extend(match experiment {
                Experiment::Plan => plan::run(database, scale).await?,
                Experiment::Claim => claim::run(database, scale).await?,
                Experiment::Cached => cached::run(database, scale).await?,
                Experiment::InTheWay => in_the_way::run(database, scale).await?,
                Experiment::Pages => pages::run(database, scale).await?,
                _ => speed::run(*experiment, database, scale).await?,
            });
        }
    }
    Ok(report)
}
