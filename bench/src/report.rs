//! The report, as text and JSON.

use std::fmt;
use std::time::Duration;

use anyhow::{Result, ensure};
use lineclear_testkit::fresh_postgres;
use serde::Serialize;

use crate::measure::{grouped, millis};
use crate::{Database, Experiment, Scale, scratch_db};

/// How a figure compares with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within the bound.
    Ok,
    /// Beyond it.
    Over,
    /// There is no bound.
    Info,
}

/// The bound of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Not more.
    AtMost(f64),
    /// Not less.
    AtLeast(f64),
}

impl Bound {
    fn judge(self, ratio: f64) -> Verdict {
        let within = match self {
            Bound::AtMost(most) => ratio <= most,
            Bound::AtLeast(least) => ratio >= least,
        };
        if within { Verdict::Ok } else { Verdict::Over }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::AtMost(most) => write!(f, "≤ {most}"),
            Bound::AtLeast(least) => write!(f, "≥ {least}"),
        }
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Milliseconds.
    #[serde(rename = "ms")]
    Millis,
    /// Jobs in a second.
    #[serde(rename = "jobs/s")]
    JobsPerSecond,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Unit::Millis => format!("{value:.2} ms"),
            // A rate is rounded for reading.
            Unit::JobsPerSecond => format!("{}/s", grouped(value.round() as u32)),
        }
    }
}

/// Two medians and their ratio.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Where it was measured.
    pub database: &'static str,
    /// What was measured.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Median of the baseline: the small store, or the bare statements. `None`: there is no baseline.
    pub base: Option<f64>,
    /// Median of the measured side: the large store, or the engine.
    pub value: f64,
    /// Value divided by base.
    pub ratio: Option<f64>,
    /// The bound of the ratio.
    pub bound: Option<Bound>,
    /// Whether it is within the bound.
    pub verdict: Verdict,
    /// Further observations: spread, extremes.
    pub note: String,
}

impl Figure {
    /// The time of a large store divided by that of a small one.
    pub(crate) fn growth(
        database: Database,
        name: String,
        medians: [Duration; 2],
        bound: Option<f64>,
    ) -> Figure {
        let [small, large] = medians.map(millis);
        Figure::new(database, name, Unit::Millis, Some(small), large).bound(bound.map(Bound::AtMost))
    }

    pub(crate) fn new(database: Database, name: String, unit: Unit, base: Option<f64>, value: f64) -> Figure {
        let ratio = base.map(|base| value / base);
        let (database, note) = (database.label(), String::new());
        Figure { database, name, unit, base, value, ratio, bound: None, verdict: Verdict::Info, note }
    }

    pub(crate) fn bound(mut self, bound: Option<Bound>) -> Figure {
        self.verdict = bound.zip(self.ratio).map_or(Verdict::Info, |(bound, ratio)| bound.judge(ratio));
        self.bound = bound;
        self
    }

    pub(crate) fn note(mut self, note: String) -> Figure {
        self.note = note;
        self
    }
}

/// The machine and its databases: figures of different machines or settings do not compare.
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
    /// Describes it. Refuses to measure speed on a server that does not sync, except below scale 1.
    pub(crate) async fn describe(
        databases: &[Database],
        experiments: &[Experiment],
        scale: Scale,
    ) -> Result<Machine> {
        let mut described = Vec::new();
        for database in databases {
            described.push(match database {
                Database::Postgres => {
                    let (text, syncs) = describe_postgres().await?;
                    let of_speed = experiments.iter().any(|experiment| experiment.is_of_speed());
                    ensure!(
                        syncs || !of_speed || !scale.counts(),
                        "{text}: the server does not sync, so its speed means nothing; start one with `make bench` or \
                         `lineclear-testkit run --durable`"
                    );
                    text
                }
                Database::Sqlite => format!("SQLite {}, WAL, synchronous=full", rusqlite::version()),
            });
        }
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Machine { cores, build, databases: described })
    }
}

/// The server in words, and whether its commits are on the disk.
async fn describe_postgres() -> Result<(String, bool)> {
    let database = fresh_postgres().await;
    let client = scratch_db::connect(database.url()).await?;
    let (mut text, mut syncs) = ("PostgreSQL".to_owned(), true);
    for setting in ["server_version", "fsync", "synchronous_commit", "shared_buffers"] {
        let row = client.query_one("select current_setting($1)", &[&setting]).await?;
        let value: String = row.get(0);
        syncs &= value == "on" || !matches!(setting, "fsync" | "synchronous_commit");
        text += &match setting {
            "server_version" => format!(" {value}"),
            _ => format!(", {setting}={value}"),
        };
    }
    Ok((text, syncs))
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
        Scale(self.scale).counts() && self.figures.iter().any(|figure| figure.verdict == Verdict::Over)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { cores, build, databases } = &self.machine;
        writeln!(f, "{cores} cores, {build} build, scale {}; {}", self.scale, databases.join("; "))?;
        let width = self.figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(4);
        writeln!(
            f,
            "{:10}  {:width$}  {:>11}  {:>11}  {:>6}  {:>6}  verdict  note",
            "database", "name", "base", "value", "ratio", "bound"
        )?;
        for Figure { database, name, unit, base, value, ratio, bound, verdict, note } in &self.figures {
            let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            let base = or_dash(base.map(|base| unit.show(base)));
            let value = unit.show(*value);
            let ratio = or_dash(ratio.map(|ratio| format!("{ratio:.2}")));
            let bound = or_dash(bound.map(|bound| bound.to_string()));
            let verdict = match verdict {
                Verdict::Ok => "ok",
                Verdict::Over => "OVER",
                Verdict::Info => "-",
            };
            let line = format!(
                "{database:10}  {name:width$}  {base:>11}  {value:>11}  {ratio:>6}  {bound:>6}  {verdict:7}  {note}"
            );
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}
