//! How the runners of a node are, for whoever asks the database about it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use serde::Serialize;

/// A runner's passes so far.
#[derive(Default)]
struct Status {
    passes: u64,
    failed: u64,
    last_pass_at: Option<Instant>,
    /// Of the last pass, if it failed.
    error: Option<String>,
}

/// The same, as it is written.
#[derive(Serialize)]
struct Report<'a> {
    passes: u64,
    failed: u64,
    /// Since the last pass, when this was written: no clock of ours in the database.
    idle_ms: Option<u128>,
    error: Option<&'a str>,
}

/// The runners of a node, by name.
#[derive(Default)]
pub(crate) struct Statuses(Mutex<BTreeMap<&'static str, Status>>);

impl Statuses {
    /// Remembers how a pass went, and hands the answer on.
    pub(crate) fn note<T, E: ToString>(&self, runner: &'static str, pass: Result<T, E>) -> Result<T, E> {
        let mut all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let status = all.entry(runner).or_default();
        status.passes += 1;
        status.failed += u64::from(pass.is_err());
        status.last_pass_at = Some(Instant::now());
        status.error = pass.as_ref().err().map(ToString::to_string);
        pass
    }

    pub(crate) fn json(&self) -> String {
        let all = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let report = |status: &Status| -> serde_json::Value {
            let idle_ms = status.last_pass_at.map(|at| at.elapsed().as_millis());
            let report = Report {
                passes: status.passes,
                failed: status.failed,
                idle_ms,
                error: status.error.as_deref(),
            };
            serde_json::to_value(report).unwrap_or_default()
        };
        let reports: BTreeMap<&str, serde_json::Value> =
            all.iter().map(|(runner, status)| (*runner, report(status))).collect();
        serde_json::to_string(&reports).unwrap_or_else(|_| "{}".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_error_is_told_until_a_pass_succeeds() {
        let statuses = Statuses::default();
        assert_eq!(statuses.json(), "{}");
        assert!(statuses.note::<(), _>("planner", Err("no database")).is_err());
        let told: serde_json::Value = serde_json::from_str(&statuses.json()).expect("JSON");
        assert_eq!(told["planner"]["error"], "no database");
        assert_eq!(statuses.note::<_, String>("planner", Ok(7)), Ok(7));
        let told: serde_json::Value = serde_json::from_str(&statuses.json()).expect("JSON");
        assert_eq!(told["planner"]["error"], serde_json::Value::Null);
        assert_eq!((&told["planner"]["passes"], &told["planner"]["failed"]), (&2.into(), &1.into()));
    }
}
