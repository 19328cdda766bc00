//! Workloads: enqueueing, draining a queue, and nodes whose handlers count or report when they start.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use lineclear::model::outcome::{Outcome, Verdict};
use lineclear::model::{Name, Payload};
use lineclear::store::{Dispatch, Lease, NewJob, NodeId, NodeInfo, Settlement, main_route};
use lineclear::{Lineclear, Node, NodeOptions, Store, StoreOptions};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

/// The input of all jobs.
pub const INPUT: &str = r#"{"to":"ops"}"#;

/// Tasks that drain a queue by calls of the store, and jobs per call.
const DRAIN_TASKS: u32 = 4;
const DRAIN_BATCH: u32 = 500;
const DRAIN_LEASE: Duration = Duration::from_secs(600);

/// Jobs per second.
pub fn rate(jobs: u32, since: Instant) -> f64 {
    f64::from(jobs) / since.elapsed().as_secs_f64()
}

/// How many jobs to enqueue, and how.
#[derive(Clone, Copy, Debug)]
pub struct EnqueueLoad {
    /// Jobs in total.
    pub jobs: u32,
    /// Concurrent callers.
    pub callers: u32,
    /// Jobs per call.
    pub batch: u32,
}

/// Enqueues jobs of a kind; returns jobs per second.
pub async fn enqueue(store: &Store, kind: &str, load: EnqueueLoad) -> Result<f64> {
    let job = NewJob::new(Name::new(kind)?, Payload::parse(INPUT)?);
    let left = Arc::new(AtomicU32::new(load.jobs));
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..load.callers {
        let (store, job, left) = (store.clone(), job.clone(), left.clone());
        callers.spawn(async move {
            while let Some(jobs) = next_batch(&left, load.batch) {
                match jobs {
                    1 => drop(store.enqueue(job.clone()).await?),
                    jobs => drop(store.enqueue_many(vec![job.clone(); jobs as usize]).await?),
                }
            }
            Ok(())
        });
    }
    join_all(callers).await?;
    Ok(rate(load.jobs, begun))
}

fn next_batch(left: &AtomicU32, max: u32) -> Option<u32> {
    let before =
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(max)));
    before.ok().map(|before| before.min(max)).filter(|jobs| *jobs > 0)
}

/// Dispatches and settles all queued jobs by calls of the store, without a node and without handlers; returns jobs per second.
pub async fn drain_by_store_calls(store: &Store, node: NodeId) -> Result<f64> {
    let drained = Arc::new(AtomicU32::new(0));
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..DRAIN_TASKS {
        let (store, drained) = (store.clone(), drained.clone());
        tasks.spawn(async move {
            let lease = Lease { node, length: DRAIN_LEASE };
            loop {
                let claims =
                    store.dispatch_into_lease(Dispatch::new(main_route(), DRAIN_BATCH), lease).await?;
                if claims.is_empty() {
                    return Ok(());
                }
                let completed =
                    |claim| Settlement::new(claim, Outcome::Completed { output: None }, Verdict::Complete);
                store.settle(node, claims.iter().map(completed).collect()).await?;
                drained.fetch_add(claims.len() as u32, Ordering::Relaxed);
            }
        });
    }
    join_all(tasks).await?;
    Ok(rate(drained.load(Ordering::Relaxed), begun))
}

async fn join_all(mut tasks: JoinSet<Result<()>>) -> Result<()> {
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}

/// The node that holds the jobs that are dispatched without one.
pub fn bench_node() -> NodeInfo {
    let text = str::to_owned;
    NodeInfo {
        name: text("bench"),
        host: text("bench"),
        pid: std::process::id(),
        incarnation: format!("bench-{}", std::process::id()),
        version: text(env!("CARGO_PKG_VERSION")),
        roles: text("[]"),
        routes: text(r#"["main"]"#),
        kinds: text("[]"),
        slots: 1,
        runners: text("{}"),
    }
}

/// No job ran for too long.
#[derive(Debug, thiserror::Error)]
#[error("{ran} jobs ran, then none for {} s", .limit.as_secs())]
pub struct Stalled {
    ran: u32,
    limit: Duration,
}

/// Counts the jobs that ran, and records when each hundredth of them had.
#[derive(Debug)]
pub struct RunCounter {
    all: u32,
    ran: AtomicU32,
    marks: Mutex<Vec<Instant>>,
    done: Notify,
}

impl RunCounter {
    /// A counter that is done after this many jobs.
    pub fn new(all: u32) -> Arc<RunCounter> {
        let marks = Mutex::new(Vec::with_capacity(101));
        Arc::new(RunCounter { all, ran: AtomicU32::new(0), marks, done: Notify::new() })
    }

    fn count(&self) {
        let ran = self.ran.fetch_add(1, Ordering::Relaxed) + 1;
        if ran.is_multiple_of(self.all.div_ceil(100)) {
            self.marks.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(Instant::now());
        }
        if ran == self.all {
            self.done.notify_one();
        }
    }

    /// Waits until all jobs ran. Fails if none runs for as long as `limit`.
    pub async fn wait(&self, limit: Duration) -> Result<(), Stalled> {
        loop {
            let before = self.ran.load(Ordering::Relaxed);
            if tokio::time::timeout(limit, self.done.notified()).await.is_ok() {
                return Ok(());
            }
            let ran = self.ran.load(Ordering::Relaxed);
            if ran == before {
                return Err(Stalled { ran, limit });
            }
        }
    }

    /// When each hundredth of the jobs had run.
    pub fn marks(&self) -> Vec<Instant> {
        self.marks.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

/// Starts a node whose handler only counts.
pub async fn start_counting_node(
    store: StoreOptions,
    kind: &str,
    options: NodeOptions,
    counter: Arc<RunCounter>,
) -> Result<Node> {
    let handler = move || {
        counter.count();
        async {}
    };
    Ok(Lineclear::builder().store(store).options(options).kind(kind, handler).start().await?)
}

/// Receives the moment at which each handler starts.
#[derive(Debug)]
pub struct StartTimes(tokio::sync::Mutex<mpsc::UnboundedReceiver<Instant>>);

impl StartTimes {
    /// The start of the next job.
    pub async fn next(&self, limit: Duration) -> Result<Instant> {
        let mut times = self.0.lock().await;
        let started = tokio::time::timeout(limit, times.recv()).await;
        started.map_err(|_| Stalled { ran: 0, limit })?.context("the node has stopped")
    }
}

/// Starts a node whose handler reports when it starts.
pub async fn start_timing_node(
    store: StoreOptions,
    kind: &str,
    options: NodeOptions,
) -> Result<(Node, StartTimes)> {
    let (sender, times) = mpsc::unbounded_channel();
    let handler = move || {
        // The receiver may be dropped.
        let _ = sender.send(Instant::now());
        async {}
    };
    let node = Lineclear::builder().store(store).options(options).kind(kind, handler).start().await?;
    Ok((node, StartTimes(tokio::sync::Mutex::new(times))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_benchmark_waits_for_many_jobs_but_not_for_a_stuck_node() {
        const LIMIT: Duration = Duration::from_secs(1);
        let counter = RunCounter::new(6);
        let work = async {
            for _ in 0..6 {
                tokio::time::sleep(LIMIT / 4).await;
                counter.count();
            }
        };
        let (waited, ()) = tokio::join!(counter.wait(LIMIT), work);
        assert!(waited.is_ok(), "as long as jobs run");
        let stalled = counter.wait(LIMIT).await.unwrap_err();
        assert_eq!(stalled.to_string(), "6 jobs ran, then none for 1 s");
        assert_eq!(counter.marks().len(), 6);
    }
}
