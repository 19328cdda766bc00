//! What was measured, for people and for programs.

use std::fmt;
use std::time::Duration;

use anyhow::Result;
use lineclear_testkit::fresh_postgres;
use serde::Serialize;

use crate::{Database, Scale, bed};

/// How a figure compares with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within the bound.
    Ok,
    /// Beyond it.
    Over,
    /// There is no bound: good to know.
    Info,
}

/// Two medians and their ratio.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Where it was measured.
    pub database: &'static str,
    /// What was measured.
    pub name: String,
    /// Median on the small side, in milliseconds.
    pub small_ms: f64,
    /// Median on the large side, in milliseconds.
    pub large_ms: f64,
    /// Large by small.
    pub ratio: f64,
    /// What the ratio may be at most.
    pub bound: Option<f64>,
    /// Whether it is.
    pub verdict: Verdict,
}

impl Figure {
    pub(crate) fn new(
        database: Database,
        name: String,
        medians: [Duration; 2],
        bound: Option<f64>,
    ) -> Figure {
        let [small_ms, large_ms] = medians.map(|time| time.as_secs_f64() * 1_000.0);
        let ratio = large_ms / small_ms;
        let verdict = match bound {
            None => Verdict::Info,
            Some(bound) if ratio <= bound => Verdict::Ok,
            Some(_) => Verdict::Over,
        };
        Figure { database: database.label(), name, small_ms, large_ms, ratio, bound, verdict }
    }
}

/// What it was measured on: figures of two machines, or of two settings, do not compare.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Cores that this process may use.
    pub cores: usize,
    /// Optimised or not.
    pub build: &'static str,
    /// The databases, with the settings that matter.
    pub databases: Vec<String>,
}

impl Machine {
    pub(crate) async fn look(databases: &[Database]) -> Result<Machine> {
        let mut described = Vec::new();
        for database in databases {
            described.push(match database {
                Database::Postgres => describe_postgres().await?,
                Database::Sqlite => format!("SQLite {}, WAL, synchronous=full", rusqlite::version()),
            });
        }
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Machine { cores, build, databases: described })
    }
}

async fn describe_postgres() -> Result<String> {
    let database = fresh_postgres().await;
    let client = bed::connect(database.url()).await?;
    let mut text = "PostgreSQL".to_owned();
    for setting in ["server_version", "fsync", "synchronous_commit", "shared_buffers"] {
        let row = client.query_one("select current_setting($1)", &[&setting]).await?;
        let value: String = row.get(0);
        text += &match setting {
            "server_version" => format!(" {value}"),
            _ => format!(", {setting}={value}"),
        };
    }
    Ok(text)
}

/// All figures of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Size of everything.
    pub scale: f64,
    /// What it ran on.
    pub machine: Machine,
    /// The figures, in the order in which they were taken.
    pub figures: Vec<Figure>,
}

impl Report {
    pub(crate) fn new(scale: Scale, machine: Machine) -> Report {
        Report { scale: scale.0, machine, figures: Vec::new() }
    }

    /// Whether a bound is exceeded. Small stores are so quick that their ratios say nothing.
    pub fn fails(&self) -> bool {
        self.scale >= 1.0 && self.figures.iter().any(|figure| figure.verdict == Verdict::Over)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cores, build, databases } = &self.machine;
        writeln!(f, "{cores} cores, {build} build, scale {}; {}", self.scale, databases.join("; "))?;
        let width = self.figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(4);
        writeln!(
            f,
            "{:10}  {:width$}  {:>9}  {:>9}  {:>6}  {:>5}  verdict",
            "database", "name", "small", "large", "ratio", "bound"
        )?;
        for Figure { database, name, small_ms, large_ms, ratio, bound, verdict } in &self.figures {
            let bound = bound.map_or("-".to_owned(), |bound| bound.to_string());
            let verdict = match verdict {
                Verdict::Ok => "ok",
                Verdict::Over => "OVER",
                Verdict::Info => "-",
            };
            writeln!(
                f,
                "{database:10}  {name:width$}  {small_ms:6.2} ms  {large_ms:6.2} ms  {ratio:6.2}  {bound:>5}  {verdict}"
            )?;
        }
        Ok(())
    }
}
