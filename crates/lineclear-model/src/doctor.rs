//! Is it well? One check for each thing that may be wrong, with one sentence, and with what to do about it.
//!
//! Pure: whoever asks has gathered the facts.

pub mod database;
mod facts;
mod nodes;
mod manifests;
pub mod schema;
mod work;

pub use facts::{HealthFacts, Leader, ManifestHealth, NodeState, NotChecked, Overdue, Trouble};
pub use manifests::{late, manifests};
pub use nodes::nodes;
pub use work::work;

use serde::{Deserialize, Serialize};

use crate::job::words;

words! {
    /// What a check belongs to, in the order in which it is shown.
    Group {
        /// Of the machine that asks.
        Configuration = "configuration",
        /// The server or the file, and the way to it.
        Database = "database",
        /// Our tables.
        Schema = "schema",
        /// Who is alive.
        Nodes = "nodes",
        /// Jobs.
        Work = "work",
        /// Standing orders.
        Manifests = "manifests",
    }
}

words! {
    /// How a check came out.
    Finding {
        /// Well.
        Ok = "ok",
        /// Somebody should look at it.
        Warning = "warning",
        /// Something does not work.
        Failure = "failure",
        /// It could not be looked at, because of another finding; or it does not apply here.
        Skipped = "skipped",
    }
}

words! {
    /// Every check.
    CheckName {
        /// The settings can be read.
        Settings = "settings",
        /// Nobody else can reach a server that asks nobody who they are.
        Listen = "listen",
        /// The port of this machine's server.
        Port = "port",
        /// This machine's clock and the database's, where a server is asked.
        ClockHere = "clock_here",
        /// The database answers.
        Reachable = "reachable",
        /// Its version.
        Version = "version",
        /// How long it takes to answer.
        Latency = "latency",
        /// The clock of the machine that asks the database, and the database's.
        Clock = "clock",
        /// PostgreSQL: what is between us and it.
        Pooler = "pooler",
        /// PostgreSQL: transactions that stay open.
        Transactions = "transactions",
        /// PostgreSQL: rows that are dead and not cleaned away.
        DeadRows = "dead_rows",
        /// SQLite: how it writes.
        Journal = "journal",
        /// SQLite: where the file is.
        FileSystem = "file_system",
        /// SQLite: whether the file is whole.
        Integrity = "integrity",
        /// Migrations that are not applied, or that we do not know.
        Migrations = "migrations",
        /// Tables, columns and rules, as the migrations make them.
        Tables = "tables",
        /// Indexes, as the migrations make them.
        Indexes = "indexes",
        /// Somebody is there.
        Alive = "alive",
        /// Somebody plans.
        Leader = "leader",
        /// Nodes that have gone with jobs in their hands.
        Lost = "lost",
        /// All nodes are of one version.
        Versions = "versions",
        /// What nodes do by themselves does not fail.
        Runners = "runners",
        /// Leases that ran out are taken back.
        Leases = "leases",
        /// Jobs whose time has come are taken.
        Overdue = "overdue",
        /// Somebody runs every kind that waits.
        Kinds = "kinds",
        /// Dead letters that wait for a person.
        DeadLetters = "dead_letters",
        /// Manifests whose time has come are planned.
        Late = "late",
        /// Schedules that fire again.
        Never = "never",
        /// Manifests that can be read.
        Unreadable = "unreadable",
    }
}

impl CheckName {
    /// What it belongs to.
    pub const fn group(self) -> Group {
        use CheckName::{
            Alive, Clock, ClockHere, DeadLetters, DeadRows, FileSystem, Indexes, Integrity, Journal, Kinds,
            Late, Latency, Leader, Leases, Listen, Lost, Migrations, Never, Overdue, Pooler, Port, Reachable,
            Runners, Settings, Tables, Transactions, Unreadable, Version, Versions,
        };
        match self {
            Settings | Listen | Port | ClockHere => Group::Configuration,
            Reachable | Version | Latency | Clock | Pooler | Transactions | DeadRows | Journal
            | FileSystem | Integrity => Group::Database,
            Migrations | Tables | Indexes => Group::Schema,
            Alive | Leader | Lost | Versions | Runners => Group::Nodes,
            Leases | Overdue | Kinds | DeadLetters => Group::Work,
            Late | Never | Unreadable => Group::Manifests,
        }
    }
}

/// One check, and how it came out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What it belongs to.
    pub group: Group,
    /// Which one.
    pub check: CheckName,
    /// How it came out.
    pub finding: Finding,
    /// In one sentence.
    pub message: String,
    /// What to do, where something is to be done.
    pub remedy: Option<String>,
    /// The SQL that does it.
    pub sql: Option<String>,
}

impl Check {
    fn new(check: CheckName, finding: Finding, message: impl Into<String>) -> Check {
        Check { group: check.group(), check, finding, message: message.into(), remedy: None, sql: None }
    }

    /// It is well.
    pub fn ok(check: CheckName, message: impl Into<String>) -> Check {
        Check::new(check, Finding::Ok, message)
    }

    /// Somebody should look at it.
    pub fn warning(check: CheckName, message: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { remedy: Some(remedy.into()), ..Check::new(check, Finding::Warning, message) }
    }

    /// It does not work.
    pub fn failure(check: CheckName, message: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { remedy: Some(remedy.into()), ..Check::new(check, Finding::Failure, message) }
    }

    /// It was not looked at.
    pub fn skipped(check: CheckName, why: impl Into<String>) -> Check {
        Check::new(check, Finding::Skipped, why)
    }

    /// It took too long to look.
    pub fn not_checked(check: CheckName, why: &str) -> Check {
        let remedy =
            "the database is slow, or something is locked: see `latency` and `transactions`, and try again";
        Check::warning(check, format!("could not be checked in time: {why}"), remedy)
    }

    /// With the SQL that mends it.
    pub fn with_sql(self, sql: impl Into<String>) -> Check {
        Check { sql: Some(sql.into()), ..self }
    }

    /// Whether something is to be done about it.
    pub fn is_trouble(&self) -> bool {
        matches!(self.finding, Finding::Warning | Finding::Failure)
    }
}

/// Whether none of them failed.
pub fn is_healthy(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.finding != Finding::Failure)
}

/// So many of something: `1 job`, `2 jobs`, `10000 or more jobs`.
pub(crate) fn many(count: u64, most: u64, one: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    let more = if most > 0 && count >= most { " or more" } else { "" };
    format!("{count}{more} {one}{plural}")
}

/// A few names, and how many more there are.
pub(crate) fn a_few(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A length of time in whole seconds.
pub(crate) fn length(micros: i64) -> String {
    let seconds = u64::try_from(micros / 1_000_000).unwrap_or(0);
    crate::duration::format(std::time::Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests;
