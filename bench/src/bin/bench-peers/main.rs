//! `make bench-peers`: Lineclear, other job queues and bare SQL, measured in one run on one PostgreSQL.
//!
//! Each measurement is one process (`bench/peers/`) on a fresh copy of a database; the counts are checked by SQL afterwards. Each becomes
//! one line of JSON, and a run that was cut off goes on after its last line. The report is made of the lines alone.
#![forbid(unsafe_code)]

mod plan;
mod subjects;
mod lines;
mod server;
mod cpu;
mod step;
mod run;
mod table;
mod plot;
mod report;
mod floor;
mod lineclear;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

/// Measures Lineclear beside other job queues.
#[derive(Parser)]
enum Command {
    /// Measures, or goes on with a run that was cut off.
    Run(RunArgs),
    /// Prints the report of a file of measurements, or writes it into the documentation.
    Report(ReportArgs),
    /// Measures what needs no program of its own.
    #[command(subcommand, hide = true)]
    Subject(Subject),
}

#[derive(Args)]
struct RunArgs {
    /// The file of measurements; a line is added for each.
    #[arg(long)]
    lines: PathBuf,
    /// The folder that `scripts/build-peers` made.
    #[arg(long)]
    programs: PathBuf,
    /// Small and short: shows whether everything works; the figures mean little.
    #[arg(long)]
    quick: bool,
    /// Measure only this one; may be repeated.
    #[arg(long)]
    only: Vec<String>,
    /// How often everything is measured: 3 times, or once if it is quick.
    #[arg(long)]
    rounds: Option<u32>,
    /// Forgets an earlier run.
    #[arg(long)]
    fresh: bool,
}

#[derive(Args)]
struct ReportArgs {
    /// The file of measurements.
    #[arg(long)]
    lines: PathBuf,
    /// The document whose tables are replaced. The plot goes into the folder `images` beside it.
    #[arg(long)]
    write: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Subject {
    /// Lineclear.
    Lineclear(Rest),
    /// Bare SQL.
    Floor(Rest),
}

#[derive(Args)]
struct Rest {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

fn main() -> Result<ExitCode> {
    let command = Command::parse();
    // As programs use it: on all cores.
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
        match command {
            Command::Run(args) => run::run(&args).await?,
            Command::Report(args) => report::run(&args)?,
            Command::Subject(Subject::Lineclear(rest)) => {
                peer_harness::run::<lineclear::OurQueue>(rest.arguments).await?;
            }
            Command::Subject(Subject::Floor(rest)) => {
                peer_harness::run::<floor::Floor>(rest.arguments).await?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}
