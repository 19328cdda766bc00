//! How the runners of a node are, for whoever asks the database about it.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use lineclear_model::Micros;
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

/// The runners of a node, by name, and how far its clock is from the database's.
#[derive(Default)]
pub(crate) struct Statuses {
    runners: Mutex<BTreeMap<&'static str, Status>>,
    skew_ms: Mutex<Option<i64>>,
}

/// Under which name the clock stands among the runners: the report is one for all that a node says of itself.
const CLOCK: &str = "clock";

impl Statuses {
    /// Remembers how a pass went, and hands the answer on.
    pub(crate) fn note<T, E: ToString>(&self, runner: &'static str, pass: Result<T, E>) -> Result<T, E> {
        let mut all = self.runners.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let status = all.entry(runner).or_default();
        status.passes += 1;
        status.failed += u64::from(pass.is_err());
        status.last_pass_at = Some(Instant::now());
        status.error = pass.as_ref().err().map(ToString::to_string);
        pass
    }

    /// The database said that it was `theirs` between two moments of ours: somewhere in the middle, for all we know.
    pub(crate) fn clocks(&self, asked: Micros, theirs: Micros, answered: Micros) {
        let skew = i64::midpoint(asked.get(), answered.get()) - theirs.get();
        *self.skew_ms.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(skew / 1_000);
    }

    pub(crate) fn json(&self) -> String {
        let all = self.runners.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
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
        let mut reports: BTreeMap<&str, serde_json::Value> =
            all.iter().map(|(runner, status)| (*runner, report(status))).collect();
        if let Some(ms) = *self.skew_ms.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            reports.insert(CLOCK, serde_json::json!({"skew_ms": ms}));
        }
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

    #[test]
    fn a_clock_is_compared_in_the_middle_of_the_question() {
        let at = |ms: i64| Micros::new(1_000_000_000_000 + ms * 1_000).expect("a time");
        let statuses = Statuses::default();
        for (asked, theirs, answered, skew) in [(0, 20, 40, 0), (700, 20, 740, 700), (0, 620, 40, -600)] {
            statuses.clocks(at(asked), at(theirs), at(answered));
            let told: serde_json::Value = serde_json::from_str(&statuses.json()).expect("JSON");
            assert_eq!(told["clock"]["skew_ms"], skew);
        }
    }
}
