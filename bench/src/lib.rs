//! Measures what must not grow with the size of the database.
//!
//! Every figure is a ratio of two medians, taken in turns on a small and on a large store, so that a slow or
//! busy machine slows both alike. Rows are loaded by set-based SQL behind the store's back; what is timed is the
//! store's own verbs.
#![forbid(unsafe_code)]

mod bed;
mod cached;
mod claim;
mod load;
mod measure;
mod plan;
mod report;

use anyhow::Result;
use clap::ValueEnum;

use bed::Bed;
pub use report::{Figure, Machine, Report, Verdict};

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
}

/// How large everything is. At 1 the bounds count; less is to find out whether the benchmark still works.
#[derive(Clone, Copy, Debug)]
pub struct Scale(pub f64);

impl Scale {
    /// A number of rows, made smaller; never none.
    fn of(self, rows: u32) -> u32 {
        // Rounding is what a scale is for.
        ((f64::from(rows) * self.0).round() as u32).max(1)
    }

    /// How often to measure. Where no bound counts, a few times tell whether it works.
    fn repetitions(self, full: u32) -> u32 {
        if self.0 < 1.0 { full.min(5) } else { full }
    }
}

/// Runs experiments on databases, one after the other: two at once would measure each other.
pub async fn run(databases: &[Database], experiments: &[Experiment], scale: Scale) -> Result<Report> {
    let mut report = Report::new(scale, Machine::look(databases).await?);
    for &database in databases {
        for experiment in experiments {
            report.figures.extend(match experiment {
                Experiment::Plan => plan::run(database, scale).await?,
                Experiment::Claim => claim::run(database, scale).await?,
                Experiment::Cached => cached::run(database, scale).await?,
            });
        }
    }
    Ok(report)
}
