//! Metrics: their values, and their list in the documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use lineclear::model::{JobState, Manifest, Payload, Schedule};
use lineclear::node::METRICS;
use lineclear::store::NewJob;
use lineclear::{HandlerError, JobInfo, Lineclear, NodeOptions, Permanent, State};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};

use crate::kit::{TestStore, name, quick, until};

/// Sums by key: `name label=value …`; of histograms, how often something was recorded.
#[derive(Clone, Default)]
struct Sums(Arc<Mutex<BTreeMap<String, f64>>>);

impl Sums {
    fn get(&self, key: &str) -> f64 {
        self.0.lock().unwrap().get(key).copied().unwrap_or(0.0)
    }

    fn one(&self, key: &Key) -> Arc<One> {
        let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
        let key = format!("{}{}", key.name(), labels.collect::<String>());
        self.0.lock().unwrap().entry(key.clone()).or_default();
        Arc::new(One { sums: self.clone(), key })
    }
}

struct One {
    sums: Sums,
    key: String,
}

impl One {
    fn add(&self, value: f64) {
        *self.sums.0.lock().unwrap().entry(self.key.clone()).or_default() += value;
    }
}

impl CounterFn for One {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }
    fn absolute(&self, _: u64) {
        unreachable!("we only count up");
    }
}

impl GaugeFn for One {
    fn increment(&self, value: f64) {
        self.add(value);
    }
    fn decrement(&self, value: f64) {
        self.add(-value);
    }
    fn set(&self, _: f64) {
        unreachable!("two nodes in one process would overwrite each other");
    }
}

impl HistogramFn for One {
    fn record(&self, value: f64) {
        assert!((0.0..60.0).contains(&value), "{}: {value}", self.key);
        self.add(1.0);
    }
}

impl Recorder for Sums {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.one(key))
    }
    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.one(key))
    }
    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.one(key))
    }
}

/// All tests of a process share one recorder: each uses different kinds.
fn recorder() -> Sums {
    static SUMS: OnceLock<Sums> = OnceLock::new();
    let install = || {
        let sums = Sums::default();
        metrics::set_global_recorder(sums.clone()).expect("no other recorder is installed");
        sums
    };
    SUMS.get_or_init(install).clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_to_jobs_is_counted() {
    async fn good() {}
    async fn bad() -> Result<(), HandlerError> {
        Err(Permanent::new("no").into())
    }
    async fn slow(job: JobInfo, go: State<Arc<tokio::sync::Notify>>) {
        if job.claim_no == 1 {
            go.notified().await;
        }
    }
    let (sums, db) = (recorder(), TestStore::sqlite().await);
    let go = Arc::new(tokio::sync::Notify::new());
    let hour = Duration::from_secs(3600);
    let every_second = Schedule::every(Duration::from_secs(1)).unwrap();
    let builder = |options| {
        let builder = Lineclear::builder().store(&db.url).options(options).state(go.clone());
        builder.kind("metered.good", good).kind("metered.bad", bad).kind("metered.slow", slow)
    };
    let options = NodeOptions { lease: hour, renewal: hour / 3, ..quick() };
    let manifest = Manifest::new(name("clock"), name("metered.good"), every_second);
    let node = builder(options).manifest(manifest).start().await.unwrap();
    let bad = node.enqueue("metered.bad", &()).await.unwrap().id;
    until("it is dead", async || db.state(&node, bad).await == Some(JobState::Dead)).await;
    let slow = node.enqueue("metered.slow", &()).await.unwrap().id;
    until("it runs", async || db.state(&node, slow).await == Some(JobState::Running)).await;
    until("its slot is counted", async || sums.get("lineclear_slots_busy") >= 1.0).await;
    // Another node finds the lease expired; this one trusts it for an hour.
    db.let_leases_end().await;
    let lease = Duration::from_secs(1);
    let other = builder(NodeOptions { lease, renewal: lease / 4, ..quick() }).start().await.unwrap();
    until("it runs elsewhere", async || db.state(&other, slow).await == Some(JobState::Completed)).await;
    go.notify_one();
    until("the late result is counted", async || sums.get("lineclear_settlements_stale_total") == 1.0).await;
    until("a tick is counted", async || sums.get("lineclear_ticks_queued_total") >= 1.0).await;
    node.stop().await;
    other.stop().await;

    let settled = |kind: &str, outcome: &str| {
        sums.get(&format!("lineclear_jobs_settled_total kind=metered.{kind} outcome={outcome}"))
    };
    assert_eq!(sums.get("lineclear_jobs_enqueued_total kind=metered.bad"), 1.0);
    assert_eq!(sums.get("lineclear_jobs_claimed_total kind=metered.slow"), 2.0);
    assert_eq!(sums.get("lineclear_queue_wait_seconds kind=metered.slow"), 2.0);
    assert_eq!(
        (settled("bad", "failed"), settled("slow", "completed")),
        (1.0, 1.0),
        "the late one is not settled"
    );
    assert!(settled("good", "completed") >= 1.0);
    assert_eq!(sums.get("lineclear_run_seconds kind=metered.bad outcome=failed"), 1.0);
    assert!(sums.get("lineclear_jobs_lost_total") >= 1.0);
    assert!(sums.get("lineclear_plan_cycles_total result=led") >= 1.0);
    assert_eq!(sums.get("lineclear_slots_busy"), 0.0);

    let listed: BTreeSet<String> = METRICS
        .iter()
        .filter(|metric| metric.name != "lineclear_events_dropped_total")
        .map(|metric| format!("{} {}", metric.name, metric.labels.join(" ")))
        .collect();
    let shape = |key: &String| {
        let mut words = key.split(' ');
        let name = words.next().unwrap_or_default();
        let labels: Vec<&str> = words.filter_map(|word| word.split('=').next()).collect();
        format!("{name} {}", labels.join(" "))
    };
    let seen: BTreeSet<String> = sums.0.lock().unwrap().keys().map(shape).collect();
    assert_eq!(seen, listed, "what is counted is what is listed, with its labels");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_that_callers_make_up_are_counted_together_beyond_a_bound() {
    async fn ours() {}
    let (sums, db) = (recorder(), TestStore::sqlite().await);
    let builder = Lineclear::builder().store(&db.url).options(quick()).kind("zz.ours", ours);
    let node = builder.start().await.unwrap();
    let made_up = (0..500).map(|n| NewJob::new(name(&format!("made-up.{n}")), Payload::empty())).collect();
    node.client().enqueue_jobs(made_up).await.unwrap();
    // Again, one by one: a kind with a label keeps it, and one without gets none.
    for n in [0, 499] {
        node.enqueue(&format!("made-up.{n}"), &()).await.unwrap();
    }
    node.enqueue("zz.ours", &()).await.unwrap();
    node.stop().await;
    let all = sums.0.lock().unwrap().clone();
    let counted = |part: &str| {
        let series = all
            .iter()
            .filter(|(key, _)| key.starts_with("lineclear_jobs_enqueued_total") && key.contains(part));
        series.map(|(_, sum)| *sum).collect::<Vec<_>>()
    };
    let named = counted("kind=made-up.");
    assert!(named.len() <= 200 && named.len() > 100, "{}", named.len());
    assert_eq!(
        named.iter().sum::<f64>() + counted("kind=other").iter().sum::<f64>(),
        502.0,
        "none is left out"
    );
    assert_eq!(counted("kind=made-up.0"), [2.0]);
    assert_eq!(counted("kind=made-up.499"), [0.0; 0]);
    assert_eq!(counted("kind=zz.ours"), [1.0], "a kind that this node runs keeps its name");
}

#[test]
fn the_document_lists_the_figures_as_they_are() {
    let page = include_str!("../../../../../docs/observe.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `lineclear_")).collect();
    let row = |metric: &lineclear::node::Metric| {
        format!("| `{}` | {} | {} | {} |", metric.name, metric.form, metric.labels.join(", "), metric.help)
    };
    assert_eq!(rows, METRICS.iter().map(row).collect::<Vec<_>>());
}
