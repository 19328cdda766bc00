//! What a node knows about its database: it gathers what the watch, the loops and failed writes tell, and says what follows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use lineclear_model::Micros;
use lineclear_model::doctor::{DatabaseCondition, DatabaseState};
use tokio::sync::Notify;

use crate::error::WriteBlock;
use crate::log_fold::LogFold;
use crate::store::{NodeId, StoreError};

/// A failed write counts until none has failed for so long and a heartbeat was written since.
const WRITE_COUNTS: Duration = Duration::from_secs(2);
/// Passes of a loop that fail in a row before they count: one may have met a restart, or a lock that is gone.
const PASSES_MIN: u32 = 2;
/// A loop that goes on failing is logged so often.
const LOG_EVERY: Duration = Duration::from_secs(60);

/// Why the database is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) state: DatabaseState,
    pub(crate) reason: String,
}

impl Trouble {
    /// The trouble behind an error; `None` if the error says nothing about the database.
    pub(crate) fn of(error: &StoreError) -> Option<Trouble> {
        let state = error.database_state()?;
        Some(Trouble { state, reason: error.reason() })
    }
}

/// The knowledge about a database that a node, its callers and its server share.
pub(crate) struct DatabaseMonitor {
    evidence: Mutex<Evidence>,
    /// A node watches the database.
    is_watched: AtomicBool,
    node: AtomicI64,
    /// Something failed: the watch looks now.
    pub(crate) probe_soon: Notify,
    /// A write failed: the heartbeat finds out whether writes work.
    pub(crate) beat_soon: Notify,
    /// Failures of loops that were logged.
    pub(crate) log: LogFold<&'static str>,
}

struct Evidence {
    /// What the watch saw last.
    probe: Option<Trouble>,
    /// When the watch last saw that a trouble was over.
    recovered_at: Option<Instant>,
    /// A write that failed, and when.
    write: Option<(Trouble, Instant)>,
    /// Loops whose last passes failed, and how many.
    loops: BTreeMap<&'static str, (Trouble, u32)>,
    condition: DatabaseCondition,
    changed_at: Instant,
}

impl Default for DatabaseMonitor {
    fn default() -> DatabaseMonitor {
        let condition = DatabaseCondition { state: DatabaseState::Ok, since: now(), reason: String::new() };
        let evidence = Evidence {
            probe: None,
            recovered_at: None,
            write: None,
            loops: BTreeMap::new(),
            condition,
            changed_at: Instant::now(),
        };
        DatabaseMonitor {
            evidence: Mutex::new(evidence),
            is_watched: AtomicBool::new(false),
            node: AtomicI64::new(0),
            probe_soon: Notify::new(),
            beat_soon: Notify::new(),
            log: LogFold::new(LOG_EVERY),
        }
    }
}

pub(crate) fn now() -> Micros {
    Micros::from(Timestamp::now())
}

impl DatabaseMonitor {
    fn evidence(&self) -> MutexGuard<'_, Evidence> {
        self.evidence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node watches the database from now on, or no longer.
    pub(crate) fn watched_by(&self, node: Option<NodeId>) {
        self.node.store(node.map_or(0, |node| node.0), Ordering::Relaxed);
        self.is_watched.store(node.is_some(), Ordering::Relaxed);
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    pub(crate) fn condition(&self) -> DatabaseCondition {
        self.evidence().condition.clone()
    }

    /// The watch looked.
    pub(crate) fn probed(&self, trouble: Option<Trouble>) {
        self.change(|evidence| {
            if evidence.probe.is_some() && trouble.is_none() {
                evidence.recovered_at = Some(Instant::now());
            }
            evidence.probe = trouble;
        });
    }

    /// A pass of a loop ended.
    pub(crate) fn pass_ended(&self, name: &'static str, began: Instant, error: Option<&StoreError>) {
        let Some(error) = error else {
            return self.change(|evidence| drop(evidence.loops.remove(name)));
        };
        if matches!(error, StoreError::Unavailable { .. }) {
            self.probe_soon.notify_one();
        }
        let Some(trouble) = Trouble::of(error) else {
            // It reached the database, which did what it was asked to.
            return self.change(|evidence| drop(evidence.loops.remove(name)));
        };
        let trouble = Trouble { reason: format!("{name}: {}", trouble.reason), ..trouble };
        self.change(|evidence| {
            // It waited for a database that was lost, and is back.
            if trouble.state.is_lost() && evidence.recovered_at.is_some_and(|at| began < at) {
                return drop(evidence.loops.remove(name));
            }
            let before = evidence.loops.get(name).map_or(0, |(_, passes)| *passes);
            evidence.loops.insert(name, (trouble, before.saturating_add(1)));
        });
    }

    /// A write of a loop or a caller failed. Permissions may differ from table to table, and locks from row to row: these say nothing about
    /// the database.
    pub(crate) fn write_failed(&self, error: &StoreError) {
        let StoreError::CannotWrite { block, .. } = error else { return };
        if *block == WriteBlock::Denied || !self.is_watched() {
            return;
        }
        self.change(|evidence| evidence.write = Trouble::of(error).map(|trouble| (trouble, Instant::now())));
        self.beat_soon.notify_one();
    }

    /// Whether a write failed and none has succeeded since.
    pub(crate) fn has_failed_write(&self) -> bool {
        self.evidence().write.is_some()
    }

    /// A heartbeat was written.
    pub(crate) fn heartbeat_written(&self) {
        self.change(|evidence| {
            evidence.write.take_if(|(_, at)| at.elapsed() >= WRITE_COUNTS).map_or((), drop)
        });
    }

    fn change(&self, change: impl FnOnce(&mut Evidence)) {
        let mut evidence = self.evidence();
        change(&mut evidence);
        let Evidence { probe, write, loops, .. } = &*evidence;
        let failing = loops.values().find(|(_, passes)| *passes >= PASSES_MIN).map(|(trouble, _)| trouble);
        let trouble = probe.as_ref().or(write.as_ref().map(|(trouble, _)| trouble)).or(failing).cloned();
        let (state, reason) =
            trouble.map_or((DatabaseState::Ok, String::new()), |trouble| (trouble.state, trouble.reason));
        let before = evidence.condition.state;
        evidence.condition.state = state;
        evidence.condition.reason = reason;
        // A server that stops is first unreachable, then silent: one outage.
        if before == state || (before.is_lost() && state.is_lost()) {
            return;
        }
        let lasted = std::mem::replace(&mut evidence.changed_at, Instant::now()).elapsed();
        evidence.condition.since = now();
        let condition = evidence.condition.clone();
        drop(evidence);
        if state == DatabaseState::Ok {
            // The report of the last heartbeat says that loops fail.
            self.beat_soon.notify_one();
        }
        if self.is_watched() {
            self.log_change(before, &condition, lasted);
        }
    }

    /// One line for each change.
    fn log_change(&self, before: DatabaseState, condition: &DatabaseCondition, lasted: Duration) {
        let (node, does) = (self.node.load(Ordering::Relaxed), condition.state.predicate());
        let (reason, remedy) = (&condition.reason, condition.state.remedy());
        match condition.state {
            DatabaseState::Ok => {
                let lasted = format!("{:.1} s", lasted.as_secs_f64());
                tracing::info!(node.id = node, was = %before, lasted, "database back: it {does}");
            }
            state if state.is_lost() => {
                tracing::warn!(node.id = node, reason, remedy, "database lost: it {does}")
            }
            _ => tracing::warn!(node.id = node, reason, remedy, "the database {does}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched() -> DatabaseMonitor {
        let monitor = DatabaseMonitor::default();
        monitor.watched_by(Some(NodeId(1)));
        monitor
    }

    fn lost() -> Trouble {
        Trouble { state: DatabaseState::Unreachable, reason: "refused".to_owned() }
    }

    #[test]
    fn one_failed_pass_is_no_condition_and_two_are_until_one_succeeds() {
        let monitor = watched();
        let locked = StoreError::Locked { source: "lock timeout".into() };
        monitor.pass_ended("planner", Instant::now(), Some(&locked));
        assert!(monitor.condition().is_ok());
        monitor.pass_ended("planner", Instant::now(), Some(&locked));
        let condition = monitor.condition();
        assert_eq!(
            (condition.state, condition.reason.as_str()),
            (DatabaseState::Locked, "planner: lock timeout")
        );
        monitor.pass_ended("dispatcher", Instant::now(), None);
        assert!(!monitor.condition().is_ok(), "another loop says nothing about it");
        monitor.pass_ended("planner", Instant::now(), None);
        assert!(monitor.condition().is_ok());
    }

    #[test]
    fn a_pass_that_began_in_an_outage_does_not_prolong_it() {
        let monitor = watched();
        let silent = StoreError::Unavailable { source: "timeout".into(), maybe_applied: false };
        monitor.pass_ended("planner", Instant::now(), Some(&silent));
        monitor.probed(Some(lost()));
        let began = Instant::now();
        monitor.probed(None);
        monitor.pass_ended("planner", began, Some(&silent));
        assert!(monitor.condition().is_ok(), "it began before the database was back");
        for _ in 0..PASSES_MIN {
            monitor.pass_ended("planner", Instant::now(), Some(&silent));
        }
        assert!(!monitor.condition().is_ok(), "later ones count");
    }

    #[test]
    fn a_failed_write_counts_until_a_heartbeat_is_written_a_while_later() {
        let monitor = watched();
        let full = StoreError::CannotWrite { block: WriteBlock::Full, source: "no space".into() };
        monitor.write_failed(&full);
        assert_eq!(monitor.condition().state, DatabaseState::Full);
        monitor.heartbeat_written();
        assert!(monitor.has_failed_write(), "a small write may fit where others do not");
        std::thread::sleep(WRITE_COUNTS);
        monitor.heartbeat_written();
        assert!(monitor.condition().is_ok() && !monitor.has_failed_write());
        let denied = StoreError::CannotWrite { block: WriteBlock::Denied, source: "one table".into() };
        monitor.write_failed(&denied);
        assert!(monitor.condition().is_ok());
    }

    #[test]
    fn an_outage_that_changes_its_form_is_one_outage() {
        let monitor = watched();
        monitor.probed(Some(lost()));
        let since = monitor.condition().since;
        std::thread::sleep(Duration::from_millis(2));
        monitor.probed(Some(Trouble { state: DatabaseState::Silent, ..lost() }));
        assert_eq!((monitor.condition().state, monitor.condition().since), (DatabaseState::Silent, since));
        monitor.probed(Some(Trouble { state: DatabaseState::ReadOnly, ..lost() }));
        assert!(monitor.condition().since > since, "a standby answers");
    }
}
