//! Health checks: one for each thing that may be wrong, with a sentence that describes it and another that says what to do.
//!
//! Pure: the caller gathers the facts.

mod access;
mod condition;
pub mod database;
mod facts;
mod nodes;
mod manifests;
pub mod schema;
mod work;

pub use access::tokens;
pub use condition::{DatabaseCondition, DatabaseState, condition};
pub use facts::{HealthFacts, Leader, ManifestHealth, NodeState, NotChecked, Overdue, Trouble};
pub use manifests::{late, manifests};
pub use nodes::nodes;
pub use work::work;

use serde::{Deserialize, Serialize};

use crate::job::words;

words! {
    /// The groups of checks, in the order in which they are shown.
    Group {
        /// The machine that runs the checks.
        Configuration = "configuration",
        /// The server or the file, and the connection to it.
        Database = "database",
        /// Our tables.
        Schema = "schema",
        /// Nodes, and the leader of the planning.
        Nodes = "nodes",
        /// Jobs.
        Work = "work",
        /// Manifests.
        Manifests = "manifests",
        /// Tokens.
        Access = "access",
    }
}

words! {
    /// The result of a check.
    Finding {
        /// Nothing is wrong.
        Ok = "ok",
        /// An operator should look at it.
        Warning = "warning",
        /// Something does not work.
        Failure = "failure",
        /// It could not run, because of another finding; or it does not apply here.
        Skipped = "skipped",
    }
}

words! {
    /// Every check.
    CheckName {
        /// The settings can be read.
        Settings = "settings",
        /// A server without authentication listens on this machine only.
        Listen = "listen",
        /// The port of this machine's server.
        Port = "port",
        /// This machine's clock against the database's, if a server answers for the database.
        ClockHere = "clock_here",
        /// The database answers.
        Reachable = "reachable",
        /// Nodes can write to it: it is not read-only, full, silent or locked.
        Condition = "condition",
        /// Its version.
        Version = "version",
        /// How long it takes to answer.
        Latency = "latency",
        /// The clock of the machine that connects to the database, against the database's.
        Clock = "clock",
        /// PostgreSQL: whether there is a pooler, and the URL says so.
        Pooler = "pooler",
        /// PostgreSQL: transactions that stay open.
        Transactions = "transactions",
        /// PostgreSQL: dead rows that are not vacuumed.
        DeadRows = "dead_rows",
        /// SQLite: whether the file uses a write-ahead log.
        Journal = "journal",
        /// SQLite: where the file is.
        FileSystem = "file_system",
        /// SQLite: whether other users can read the file.
        Permissions = "permissions",
        /// SQLite: whether the file is undamaged.
        Integrity = "integrity",
        /// Migrations that are not applied, or that we do not know.
        Migrations = "migrations",
        /// Tables, columns and rules, as the migrations make them.
        Tables = "tables",
        /// Indexes, as the migrations make them.
        Indexes = "indexes",
        /// Sequences are past the ids in use.
        Sequences = "sequences",
        /// At least one node is alive.
        Alive = "alive",
        /// A node plans.
        Leader = "leader",
        /// No node has disappeared while it held jobs.
        Lost = "lost",
        /// All nodes have the same version.
        Versions = "versions",
        /// The background loops of the nodes do not fail.
        Runners = "runners",
        /// Submitters take jobs.
        Submitters = "submitters",
        /// Expired leases are reclaimed.
        Leases = "leases",
        /// Due jobs are claimed.
        Overdue = "overdue",
        /// A node knows every kind of the parked jobs.
        Kinds = "kinds",
        /// Dead letters that wait for a person.
        DeadLetters = "dead_letters",
        /// Manifests whose time has come are planned.
        Late = "late",
        /// Schedules that fire again.
        Never = "never",
        /// Manifests that can be read.
        Unreadable = "unreadable",
        /// No valid token expires soon.
        Tokens = "tokens",
    }
}

impl CheckName {
    /// Its group.
    pub const fn group(self) -> Group {
        use CheckName::{
            Alive, Clock, ClockHere, Condition, DeadLetters, DeadRows, FileSystem, Indexes, Integrity,
            Journal, Kinds, Late, Latency, Leader, Leases, Listen, Lost, Migrations, Never, Overdue,
            Permissions, Pooler, Port, Reachable, Runners, Sequences, Settings, Submitters, Tables, Tokens,
            Transactions, Unreadable, Version, Versions,
        };
        match self {
            Settings | Listen | Port | ClockHere => Group::Configuration,
            Reachable | Condition | Version | Latency | Clock | Pooler | Transactions | DeadRows
            | Journal | FileSystem | Permissions | Integrity => Group::Database,
            Migrations | Tables | Indexes | Sequences => Group::Schema,
            Alive | Leader | Lost | Versions | Runners | Submitters => Group::Nodes,
            Leases | Overdue | Kinds | DeadLetters => Group::Work,
            Late | Never | Unreadable => Group::Manifests,
            Tokens => Group::Access,
        }
    }
}

/// A check and its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Its group.
    pub group: Group,
    /// Which one.
    pub check: CheckName,
    /// Its result.
    pub finding: Finding,
    /// What was found, in one sentence.
    pub message: String,
    /// What to do about it, if anything.
    pub remedy: Option<String>,
    /// The SQL that fixes it.
    pub sql: Option<String>,
}

impl Check {
    fn new(check: CheckName, finding: Finding, message: impl Into<String>) -> Check {
        Check { group: check.group(), check, finding, message: message.into(), remedy: None, sql: None }
    }

    /// Nothing is wrong.
    pub fn ok(check: CheckName, message: impl Into<String>) -> Check {
        Check::new(check, Finding::Ok, message)
    }

    /// An operator should look at it.
    pub fn warning(check: CheckName, message: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { remedy: Some(remedy.into()), ..Check::new(check, Finding::Warning, message) }
    }

    /// It does not work.
    pub fn failure(check: CheckName, message: impl Into<String>, remedy: impl Into<String>) -> Check {
        Check { remedy: Some(remedy.into()), ..Check::new(check, Finding::Failure, message) }
    }

    /// The check did not run.
    pub fn skipped(check: CheckName, why: impl Into<String>) -> Check {
        Check::new(check, Finding::Skipped, why)
    }

    /// The check took too long.
    pub fn not_checked(check: CheckName, why: &str) -> Check {
        let remedy =
            "the database is slow, or something is locked: see `latency` and `transactions`, and try again";
        Check::warning(check, format!("could not be checked in time: {why}"), remedy)
    }

    /// Adds the SQL that fixes it.
    pub fn with_sql(self, sql: impl Into<String>) -> Check {
        Check { sql: Some(sql.into()), ..self }
    }

    /// Whether it is a warning or a failure.
    pub fn is_trouble(&self) -> bool {
        matches!(self.finding, Finding::Warning | Finding::Failure)
    }
}

/// Whether none of them failed.
pub fn is_healthy(checks: &[Check]) -> bool {
    checks.iter().all(|check| check.finding != Finding::Failure)
}

/// A count with its noun: `1 job`, `2 jobs`, `10000 or more jobs`.
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
