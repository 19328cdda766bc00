//! The status of a node's loops, which its heartbeat writes to the database.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use lineclear_model::Micros;
use serde::Serialize;

use crate::submitters::ReportedSubmitter;
use crate::submitters::report::SUBMITTERS;

/// The cycles of a loop so far.
#[derive(Default)]
struct Status {
    passes: u64,
    failed: u64,
    last_pass_at: Option<Instant>,
    /// The error of the last cycle, if it failed.
    error: Option<String>,
    /// When it began to work, or to fail.
    state_at: Option<Instant>,
}

/// A [`Status`] as it is written to the database.
#[derive(Serialize)]
struct Report<'a> {
    passes: u64,
    failed: u64,
    /// Time since the last cycle. A duration, because the node's clock may differ from the database's.
    idle_ms: Option<u128>,
    error: Option<&'a str>,
    /// How long it has been working, or failing.
    state_ms: Option<u128>,
}

/// The status of each loop of a node, by name, and the skew of its clock against the database's.
#[derive(Default)]
pub(crate) struct Statuses {
    runners: Mutex<BTreeMap<&'static str, Status>>,
    skew_ms: Mutex<Option<i64>>,
}

/// The key of the clock skew in the report, beside the names of the loops.
const CLOCK: &str = "clock";

impl Statuses {
    /// Records the result of a cycle and returns it.
    pub(crate) fn note<T, E: ToString>(&self, runner: &'static str, result: Result<T, E>) -> Result<T, E> {
        let mut all = self.runners.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let status = all.entry(runner).or_default();
        status.passes += 1;
        status.failed += u64::from(result.is_err());
        status.last_pass_at = Some(Instant::now());
        let is_change = status.error.is_some() != result.is_err();
        if is_change || status.state_at.is_none() {
            status.state_at = status.last_pass_at;
        }
        status.error = result.as_ref().err().map(ToString::to_string);
        result
    }

    /// Records the clock skew: the database's time against the midpoint of the request.
    pub(crate) fn clocks(&self, sent: Micros, database: Micros, received: Micros) {
        let skew = i64::midpoint(sent.get(), received.get()) - database.get();
        *self.skew_ms.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(skew / 1_000);
    }

    /// The report that a heartbeat writes.
    pub(crate) fn json(&self, submitters: &[ReportedSubmitter]) -> String {
        let all = self.runners.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let report = |status: &Status| -> serde_json::Value {
            let idle_ms = status.last_pass_at.map(|at| at.elapsed().as_millis());
            let report = Report {
                passes: status.passes,
                failed: status.failed,
                idle_ms,
                error: status.error.as_deref(),
                state_ms: status.state_at.map(|at| at.elapsed().as_millis()),
            };
            serde_json::to_value(report).unwrap_or_default()
        };
        let mut reports: BTreeMap<&str, serde_json::Value> =
            all.iter().map(|(runner, status)| (*runner, report(status))).collect();
        if let Some(ms) = *self.skew_ms.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            reports.insert(CLOCK, serde_json::json!({"skew_ms": ms}));
        }
        if !submitters.is_empty() {
            reports.insert(SUBMITTERS, serde_json::to_value(submitters).unwrap_or_default());
        }
        serde_json::to_string(&reports).unwrap_or_else(|_| "{}".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_reported_until_a_cycle_succeeds() {
        let statuses = Statuses::default();
        assert_eq!(statuses.json(&[]), "{}");
        assert!(statuses.note::<(), _>("planner", Err("no database")).is_err());
        let report: serde_json::Value = serde_json::from_str(&statuses.json(&[])).expect("JSON");
        assert_eq!(report["planner"]["error"], "no database");
        assert_eq!(statuses.note::<_, String>("planner", Ok(7)), Ok(7));
        let report: serde_json::Value = serde_json::from_str(&statuses.json(&[])).expect("JSON");
        assert_eq!(report["planner"]["error"], serde_json::Value::Null);
        assert_eq!((&report["planner"]["passes"], &report["planner"]["failed"]), (&2.into(), &1.into()));
    }

    #[test]
    fn the_clock_is_compared_at_the_midpoint_of_the_request() {
        let at = |ms: i64| Micros::new(1_000_000_000_000 + ms * 1_000).expect("a time");
        let statuses = Statuses::default();
        for (sent, database, received, skew) in [(0, 20, 40, 0), (700, 20, 740, 700), (0, 620, 40, -600)] {
            statuses.clocks(at(sent), at(database), at(received));
            let report: serde_json::Value = serde_json::from_str(&statuses.json(&[])).expect("JSON");
            assert_eq!(report["clock"]["skew_ms"], skew);
        }
    }
}
