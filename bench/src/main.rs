//! `cargo run --release -p lineclear-bench`, or `make bench`, which starts a PostgreSQL for it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use lineclear_bench::{Database, Experiment, Scale, run};

/// Measures how fast the engine is, and what must not grow with the size of the database. Exits with 1 if a bound is exceeded at scale 1.
#[derive(Parser)]
struct Args {
    /// Measure only this.
    #[arg(long)]
    only: Option<Experiment>,
    /// Measure only this database.
    #[arg(long)]
    database: Option<Database>,
    /// Size of everything; below 1 the bounds are shown but do not fail.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

// One thread: moving a verb between threads would be part of the measurement. Speed is measured on all cores, on a
// separate runtime.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    ensure!((0.001..=10.0).contains(&args.scale), "--scale {}: from 0.001 to 10", args.scale);
    let report = run(&chosen(args.database), &chosen(args.only), Scale(args.scale)).await?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    Ok(if report.fails() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn chosen<T: ValueEnum + Copy>(only: Option<T>) -> Vec<T> {
    only.map_or_else(|| T::value_variants().to_vec(), |one| vec![one])
}
