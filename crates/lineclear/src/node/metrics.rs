//! Metrics of a node, through the `metrics` facade: a program that wants them installs a recorder. Without one they cost
//! next to nothing.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use lineclear_model::{ExecutionOutcome, Name};
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::store::Claim;

/// A metric that a node reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// `counter`, `histogram` or `gauge`.
    pub form: &'static str,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it measures.
    pub help: &'static str,
}

macro_rules! metric_table {
    ($($name:ident $text:literal $form:literal [$($label:literal)*] $help:literal,)+) => {
        $(const $name: &str = $text;)+

        /// All metrics, as `docs/observe.md` lists them.
        pub const METRICS: &[Metric] =
            &[$(Metric { name: $name, form: $form, labels: &[$($label),*], help: $help },)+];
    };
}

metric_table! {
    ENQUEUED "lineclear_jobs_enqueued_total" "counter" ["kind"] "jobs that this node's clients enqueued",
    CLAIMED "lineclear_jobs_claimed_total" "counter" ["kind"] "jobs that this node began to run",
    SETTLED "lineclear_jobs_settled_total" "counter" ["kind" "outcome"] "executions whose outcome was recorded",
    STALE "lineclear_settlements_stale_total" "counter" [] "outcomes that came too late: another node had the job",
    LOST "lineclear_jobs_lost_total" "counter" [] "jobs that this node took back from vanished workers",
    PLANNED "lineclear_plan_cycles_total" "counter" ["result"] "planning cycles: led, or skipped because another node plans",
    TICKS_QUEUED "lineclear_ticks_queued_total" "counter" [] "ticks that became jobs",
    TICKS_SKIPPED "lineclear_ticks_skipped_total" "counter" [] "ticks that a rule skipped",
    EVENTS_DROPPED "lineclear_events_dropped_total" "counter" [] "events that hooks were too slow for",
    QUEUE_WAIT "lineclear_queue_wait_seconds" "histogram" ["kind"] "from when a job was due to when it was claimed, on the database's clock",
    RUN_TIME "lineclear_run_seconds" "histogram" ["kind" "outcome"] "how long the handler ran",
    SLOTS_BUSY "lineclear_slots_busy" "gauge" [] "jobs that run now",
}

/// Describes the metrics to the recorder.
pub(crate) fn describe() {
    for metric in METRICS {
        match metric.form {
            "counter" => describe_counter!(metric.name, metric.help),
            "gauge" => describe_gauge!(metric.name, metric.help),
            _ => describe_histogram!(metric.name, metrics::Unit::Seconds, metric.help),
        }
    }
}

/// Kinds without a handler here that get a label of their own: each is a time series for the life of the process.
const FOREIGN_MAX: usize = 200;
/// The label of all further kinds.
const OTHER: &str = "other";

/// The first kinds without a handler here; they have a label of their own.
struct Foreign(RwLock<BTreeSet<Name>>);

static FOREIGN: Foreign = Foreign(RwLock::new(BTreeSet::new()));

impl Foreign {
    fn label(&self, kind: &Name) -> String {
        {
            let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if known.contains(kind) {
                return kind.to_string();
            }
            if known.len() >= FOREIGN_MAX {
                return OTHER.to_owned();
            }
        }
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < FOREIGN_MAX {
            known.insert(kind.clone());
        }
        if known.contains(kind) { kind.to_string() } else { OTHER.to_owned() }
    }
}

/// `handled`: the node has a handler for this kind, so there are few such labels.
pub(crate) fn enqueued(kind: &Name, handled: bool) {
    let kind = if handled { kind.to_string() } else { FOREIGN.label(kind) };
    counter!(ENQUEUED, "kind" => kind).increment(1);
}

pub(crate) fn claimed(claim: &Claim) {
    counter!(CLAIMED, "kind" => claim.kind.to_string()).increment(1);
    let waited =
        Duration::from_micros(u64::try_from(claim.claimed_at.get() - claim.due_at.get()).unwrap_or(0));
    histogram!(QUEUE_WAIT, "kind" => claim.kind.to_string()).record(waited.as_secs_f64());
}

pub(crate) fn ran(kind: &Name, outcome: ExecutionOutcome, took: Duration) {
    histogram!(RUN_TIME, "kind" => kind.to_string(), "outcome" => outcome.as_str())
        .record(took.as_secs_f64());
}

pub(crate) fn settled(kind: &Name, outcome: ExecutionOutcome) {
    counter!(SETTLED, "kind" => kind.to_string(), "outcome" => outcome.as_str()).increment(1);
}

pub(crate) fn stale(count: usize) {
    counter!(STALE).increment(count as u64);
}

pub(crate) fn lost(count: usize) {
    counter!(LOST).increment(count as u64);
}

pub(crate) fn plan_followed() {
    counter!(PLANNED, "result" => "skipped").increment(1);
}

pub(crate) fn plan_led(queued: u64, skipped: u64) {
    counter!(PLANNED, "result" => "led").increment(1);
    counter!(TICKS_QUEUED).increment(queued);
    counter!(TICKS_SKIPPED).increment(skipped);
}

pub(crate) fn event_dropped() {
    counter!(EVENTS_DROPPED).increment(1);
}

pub(crate) fn slot_taken() {
    gauge!(SLOTS_BUSY).increment(1.0);
}

pub(crate) fn slot_free() {
    gauge!(SLOTS_BUSY).decrement(1.0);
}
