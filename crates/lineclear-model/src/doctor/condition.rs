//! The condition of the database, as a node sees it.

use serde::{Deserialize, Serialize};

use super::{Check, CheckName, length};
use crate::Micros;
use crate::job::words;

words! {
    /// What a node can do with its database.
    DatabaseState {
        /// It answers, and can be written.
        Ok = "ok",
        /// No connection is possible.
        Unreachable = "unreachable",
        /// It does not answer in time.
        Silent = "silent",
        /// It is read-only: a standby, a setting, or a file without permission.
        ReadOnly = "read_only",
        /// Its disk is full.
        Full = "full",
        /// Another session or process holds a lock that nodes need.
        Locked = "locked",
        /// It refuses the user of the nodes.
        Denied = "denied",
        /// Its storage reports errors.
        Storage = "storage",
    }
}

impl DatabaseState {
    /// What the database does, after the words "the database" or "it".
    pub const fn predicate(self) -> &'static str {
        match self {
            DatabaseState::Ok => "answers and can be written",
            DatabaseState::Unreachable => "cannot be reached",
            DatabaseState::Silent => "does not answer in time",
            DatabaseState::ReadOnly => "is read-only",
            DatabaseState::Full => "has no disk space left",
            DatabaseState::Locked => "is locked by another session",
            DatabaseState::Denied => "refuses access",
            DatabaseState::Storage => "cannot use its storage",
        }
    }

    /// What an operator does about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            DatabaseState::Ok => "nothing to do",
            DatabaseState::Unreachable => {
                "start the database, or check the network to it; nodes continue by themselves"
            }
            DatabaseState::Silent => {
                "check whether the database or the network to it hangs; nodes continue by themselves"
            }
            DatabaseState::ReadOnly => {
                "point --db at the primary, or make the database writable (default_transaction_read_only; the permissions of a \
                 SQLite file); nodes continue by themselves"
            }
            DatabaseState::Full => "make room on the disk of the database; nodes continue by themselves",
            DatabaseState::Locked => {
                "end the transaction or process that holds the lock, or wait for it; nodes continue by themselves"
            }
            DatabaseState::Denied => "check user, password and permissions in the URL of --db",
            DatabaseState::Storage => "check the disk of the database, and its log",
        }
    }

    /// Whether no statement gets through.
    pub const fn is_lost(self) -> bool {
        matches!(self, DatabaseState::Unreachable | DatabaseState::Silent)
    }
}

/// The condition of the database, since when, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseCondition {
    /// What a node can do with it.
    pub state: DatabaseState,
    /// Since when, on the clock of the node.
    pub since: Micros,
    /// What the node learned, such as the driver's error. May name hosts, users and tables.
    pub reason: String,
}

impl DatabaseCondition {
    /// Whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.state == DatabaseState::Ok
    }

    /// The condition in one sentence, without the reason.
    pub fn sentence(&self) -> String {
        format!("the database {}", self.state.predicate())
    }
}

/// Whether nodes can work with the database. `now` is on the clock of the node.
pub fn condition(condition: &DatabaseCondition, now: Micros) -> Check {
    let (name, sentence) = (CheckName::Condition, condition.sentence());
    if condition.is_ok() {
        return Check::ok(name, sentence);
    }
    let lasts = length(now.get() - condition.since.get());
    let message = format!("{sentence}, for {lasts}: {}", condition.reason);
    Check::failure(name, message, condition.state.remedy())
}

#[cfg(test)]
mod tests {
    use super::super::Finding;
    use super::*;

    #[test]
    fn a_condition_is_named_with_its_age_its_reason_and_a_remedy() {
        let at = |seconds: i64| Micros::EPOCH.offset(seconds * 1_000_000);
        let of = |state, reason: &str| DatabaseCondition { state, since: at(10), reason: reason.to_owned() };
        assert_eq!(condition(&of(DatabaseState::Ok, ""), at(20)).finding, Finding::Ok);
        let read_only = condition(&of(DatabaseState::ReadOnly, "a standby"), at(22));
        assert_eq!(read_only.finding, Finding::Failure);
        assert_eq!(read_only.message, "the database is read-only, for 12s: a standby");
        assert!(read_only.remedy.is_some_and(|remedy| remedy.contains("primary")));
    }
}
