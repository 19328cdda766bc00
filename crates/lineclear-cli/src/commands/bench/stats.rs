//! The figures of `lineclear bench`, each with its baseline.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use lineclear::{NodeOptions, StoreError};
use lineclear_measure::{
    EnqueueLoad, RunCounter, Stalled, bench_node, drain_by_store_calls, enqueue, interleave, median,
    quantile, rate, start_counting_node, start_timing_node,
};
use serde::Serialize;

use super::scratch_db::ScratchDb;
use crate::display::Progress;
use crate::failure::Failure;
use crate::output::print_stderr;

const KIND: &str = "bench";
/// Concurrent callers that enqueue one job per call.
const CALLERS: u32 = 16;
/// Callers and jobs per call where many are enqueued at once.
const BATCH_CALLERS: u32 = 4;
const BATCH: u32 = 1_000;
/// Pause between two jobs of an idle system.
const PAUSE: Duration = Duration::from_millis(50);
/// Longest time without progress.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// How much to measure.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) jobs: u32,
    pub(crate) rounds: u32,
    pub(crate) slots: u32,
}

/// Two medians and their ratio.
#[derive(Serialize)]
pub(crate) struct Figure {
    name: &'static str,
    baseline: &'static str,
    unit: &'static str,
    baseline_value: f64,
    value: f64,
    /// `value` by `baseline_value`.
    ratio: f64,
    /// The 99th percentile of times.
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<f64>,
}

impl Figure {
    fn new(
        name: &'static str,
        baseline: &'static str,
        unit: &'static str,
        baseline_values: &[f64],
        values: &[f64],
    ) -> Figure {
        let (baseline_value, value) = (median(baseline_values), median(values));
        let p99 = (unit == "ms").then(|| quantile(values, 0.99));
        Figure { name, baseline, unit, baseline_value, value, ratio: value / baseline_value, p99 }
    }

    /// A tab-separated line, with unrounded numbers.
    pub(super) fn tsv(&self) -> String {
        let p99 = self.p99.map_or(String::new(), |p99| p99.to_string());
        let Figure { baseline, name, baseline_value, value, unit, ratio, .. } = self;
        format!("{baseline}\t{name}\t{baseline_value}\t{value}\t{unit}\t{ratio}\t{p99}\n")
    }

    /// A row of the table.
    pub(super) fn row(&self, arrow: &str) -> Vec<String> {
        let shown = |value: f64| match self.unit {
            "ms" => format!("{value:.2} ms"),
            _ => format!("{value:.0}/s"),
        };
        let p99 = self.p99.map_or(String::new(), |p99| format!("p99 {p99:.2} ms"));
        let name = format!("{} {arrow} {}", self.baseline, self.name);
        vec![name, shown(self.baseline_value), shown(self.value), format!("{:.2}", self.ratio), p99]
    }
}

/// Measures everything.
pub(crate) async fn measure(db: &ScratchDb, load: Load) -> Result<Vec<Figure>, Failure> {
    measure_all(db, load).await.map_err(|error| match error.downcast::<StoreError>() {
        Ok(error) => Failure::from(error),
        Err(error) if error.is::<Stalled>() => Failure::coded(7, error.to_string()),
        Err(error) => Failure::failed(error.to_string()),
    })
}

async fn measure_all(db: &ScratchDb, load: Load) -> anyhow::Result<Vec<Figure>> {
    let node = db.store.heartbeat(bench_node()).await?.id;
    print_stderr(&format!("… enqueueing {} jobs, {} rounds each\n", load.jobs, load.rounds));
    let enqueued = with_progress(3, load.rounds, async |side| {
        let (callers, batch) = [(1, 1), (CALLERS, 1), (BATCH_CALLERS, BATCH)][side];
        // Slower sides need fewer jobs to show their rate.
        let jobs = load.jobs.div_ceil([4 * CALLERS, 4, 1][side]);
        let rate = enqueue(&db.store, KIND, EnqueueLoad { jobs, callers, batch }).await?;
        drain_by_store_calls(&db.store, node).await?;
        Ok(rate)
    })
    .await?;
    print_stderr(&format!("… running {} jobs that do nothing, {} rounds each\n", load.jobs, load.rounds));
    let drained = with_progress(2, load.rounds, async |side| {
        let all = EnqueueLoad { jobs: load.jobs, callers: BATCH_CALLERS, batch: BATCH };
        enqueue(&db.store, KIND, all).await?;
        if side == 0 { drain_by_store_calls(&db.store, node).await } else { drain_by_node(db, load).await }
    })
    .await?;
    let samples = load.rounds * 20;
    print_stderr(&format!("… waiting for {samples} jobs on an idle system\n"));
    let idle = latency(db, samples).await?;
    Ok(vec![
        Figure::new("16 callers", "enqueue one by one: one caller", "jobs/s", &enqueued[0], &enqueued[1]),
        Figure::new("by 1,000", "enqueue: 16 callers, one by one", "jobs/s", &enqueued[1], &enqueued[2]),
        Figure::new("a node", "run jobs that do nothing: store calls", "jobs/s", &drained[0], &drained[1]),
        Figure::new("enqueue to start", "idle: one write", "ms", &idle[0], &idle[1]),
    ])
}

/// Interleaves measurements, with progress on a terminal.
async fn with_progress(
    sides: usize,
    rounds: u32,
    measure: impl AsyncFn(usize) -> anyhow::Result<f64>,
) -> anyhow::Result<Vec<Vec<f64>>> {
    let total = u64::from(rounds) * sides as u64;
    let progress = Progress::new("measurements", total, !std::io::stderr().is_terminal());
    let progress = RefCell::new((0, progress));
    interleave(sides, rounds, async |side| {
        let value = measure(side).await?;
        let (done, progress) = &mut *progress.borrow_mut();
        *done += 1;
        progress.set(*done);
        Ok(value)
    })
    .await
}

async fn drain_by_node(db: &ScratchDb, load: Load) -> anyhow::Result<f64> {
    let counter = RunCounter::new(load.jobs);
    let options = NodeOptions { slots: load.slots, ..NodeOptions::default() };
    let begun = Instant::now();
    let node = start_counting_node(db.options.clone(), KIND, options, counter.clone()).await?;
    let waited = counter.wait(STALL_TIMEOUT).await;
    // Stopping settles the last jobs; and a node must not run while its schema is dropped.
    node.stop().await;
    waited?;
    Ok(rate(load.jobs, begun))
}

/// Alternately: one write, and a job from its enqueueing to the first line of its handler.
async fn latency(db: &ScratchDb, samples: u32) -> anyhow::Result<Vec<Vec<f64>>> {
    let options = NodeOptions { slots: 4, ..NodeOptions::default() };
    let (node, starts) = start_timing_node(db.options.clone(), KIND, options).await?;
    let measured = with_progress(2, samples + 1, async |side| {
        tokio::time::sleep(PAUSE).await;
        let begun = Instant::now();
        let end = if side == 0 {
            db.store.heartbeat(bench_node()).await?;
            Instant::now()
        } else {
            node.enqueue(KIND, "ops").await?;
            starts.next(STALL_TIMEOUT).await?
        };
        Ok(end.saturating_duration_since(begun).as_secs_f64() * 1_000.0)
    })
    .await;
    node.stop().await;
    // The first of each connects and prepares statements.
    Ok(measured?.into_iter().map(|side| side.into_iter().skip(1).collect()).collect())
}
