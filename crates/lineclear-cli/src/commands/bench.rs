//! `lineclear bench`: what the engine makes of the database you have.
//!
//! Every figure stands beside a floor that was measured in the same minute, in turns with it, on the same database: a busy machine
//! slows both alike, so the ratio says more than the rate.

mod bed;
mod figures;
mod turns;

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::place::Place;
use crate::failure::{Failure, say};
use crate::output::{print, print_json, table};
use crate::show::Look;
use bed::Bed;
use figures::{Figure, Load};

const EXAMPLES: &str = "Examples:
  lineclear bench
  lineclear bench --db postgres://scheduler@db.internal/app
  lineclear bench --jobs 100000 --rounds 5 --json

It works in a schema of its own (lineclear_bench), or in a file of its own beside the SQLite file, and removes it at the end: your jobs
are neither touched nor run. It does load the database for a while.";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Bench {
    /// Jobs of a round
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(16..=1_000_000))]
    jobs: u32,
    /// Rounds: how often each thing is measured; the median is shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Jobs that the measured node runs at once
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: u32,
    #[command(flatten)]
    place: Place,
}

/// What programs get.
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
        let cannot = |error: std::io::Error| Failure::failed(format!("cannot start: {error}"));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(cannot)?;
        runtime.block_on(async {
            let options = self.place.options()?;
            let bed = Bed::make(&options).await?;
            say(&format!("measuring in {}, gone afterwards\n", bed.options));
            let load = Load { jobs: self.jobs, rounds: self.rounds, slots: self.slots };
            // Whatever happens, nothing is left behind.
            let measured = tokio::select! {
                measured = figures::all(&bed, load) => measured,
                () = interrupted() => Err(Failure::coded(130, "interrupted; nothing is left behind")),
            };
            let removed = bed.remove().await;
            let figures = measured?;
            removed?;
            self.show(&options.to_string(), &figures)?;
            Ok(ExitCode::SUCCESS)
        })
    }

    fn show(&self, store: &str, figures: &[Figure]) -> Result<(), Failure> {
        if self.place.json {
            let (jobs, rounds, slots) = (self.jobs, self.rounds, self.slots);
            let version = env!("CARGO_PKG_VERSION");
            return print_json(&Report { store: store.to_owned(), version, jobs, rounds, slots, figures });
        }
        let look = Look::here();
        if !look.is_terminal {
            let rows: String = figures.iter().map(Figure::tabbed).collect();
            return print(&format!("FLOOR IS\tWHAT\tFLOOR\tMEASURED\tUNIT\tRATIO\tP99\n{rows}"));
        }
        let arrow = if look.unicode { "→" } else { "->" };
        let mut rows = vec![["WHAT", "FLOOR", "MEASURED", "RATIO", ""].map(str::to_owned).to_vec()];
        rows.extend(figures.iter().map(|figure| figure.row(arrow)));
        let profile = if cfg!(debug_assertions) {
            "\nThis is a build for developers: a release build is several times as fast.\n"
        } else {
            ""
        };
        print(&format!("{}{profile}", table(&rows)))
    }
}

/// Ctrl-C, or what a supervisor sends.
async fn interrupted() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return std::future::pending().await };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}
