//! `lineclear bench`: benchmarks the engine on your database.
//!
//! Each figure stands next to a baseline that is measured alternately with it on the same database: other load slows both alike, so the
//! ratio says more than the rate.

mod scratch_db;
mod stats;

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::args::DbArgs;
use crate::display::OutputStyle;
use crate::failure::Failure;
use crate::output::{aligned_rows, print, print_json, print_stderr};
use crate::runtime::block_on_all_cores;
use scratch_db::ScratchDb;
use stats::{Figure, Load};

const EXAMPLES: &str = "Examples:
  lineclear bench
  lineclear bench --db postgres://scheduler@db.internal/app
  lineclear bench --jobs 100000 --rounds 5 --json

It works in a separate schema (lineclear_bench), or in a new file beside the SQLite file, and removes it at the end: your jobs are
neither touched nor run. It does load the database for a while.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bench {
    /// Jobs per round
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    jobs: u32,
    /// Number of rounds; the median is shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Jobs that the measured node runs at once
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: u32,
    #[command(flatten)]
    db: DbArgs,
}

/// The JSON.
#[derive(Serialize)]
struct Report<'a> {
    store: String,
    version: &'static str,
    jobs: u32,
    rounds: u32,
    slots: u32,
    figures: &'a [Figure],
}

impl Bench {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        block_on_all_cores(async {
            let options = self.db.options()?;
            let db = ScratchDb::create(&options).await?;
            print_stderr(&format!("measuring in {}, which is removed afterwards\n", db.options));
            let load = Load { jobs: self.jobs, rounds: self.rounds, slots: self.slots };
            // The scratch database is removed whatever happens.
            let measured = tokio::select! {
                measured = stats::measure(&db, load) => measured,
                () = interrupted() => Err(Failure::coded(130, "interrupted; the scratch database is removed")),
            };
            let removed = db.remove().await;
            let figures = measured?;
            removed?;
            self.print(&options.to_string(), &figures)?;
            Ok(ExitCode::SUCCESS)
        })
    }

    fn print(&self, store: &str, figures: &[Figure]) -> Result<(), Failure> {
        if self.db.json {
            let (jobs, rounds, slots) = (self.jobs, self.rounds, self.slots);
            let version = env!("CARGO_PKG_VERSION");
            return print_json(&Report { store: store.to_owned(), version, jobs, rounds, slots, figures });
        }
        let style = OutputStyle::detect();
        if !style.is_terminal {
            let rows: String = figures.iter().map(Figure::tsv).collect();
            return print(&format!("BASELINE\tNAME\tBASELINE VALUE\tVALUE\tUNIT\tRATIO\tP99\n{rows}"));
        }
        let arrow = if style.unicode { "→" } else { "->" };
        let mut rows =
            vec![["BASELINE AND NAME", "BASELINE", "VALUE", "RATIO", ""].map(str::to_owned).to_vec()];
        rows.extend(figures.iter().map(|figure| figure.row(arrow)));
        let profile = if cfg!(debug_assertions) {
            "\nThis is a debug build; a release build is several times as fast.\n"
        } else {
            ""
        };
        print(&format!("{}{profile}", aligned_rows(&rows)))
    }
}

/// Waits for SIGINT or SIGTERM.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
