//! What is measured, and the floor under it.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lineclear::model::outcome::{Outcome, Verdict};
use lineclear::model::{Name, Payload};
use lineclear::store::{Dispatch, Lease, NewJob, NodeId, NodeInfo, Settlement};
use lineclear::{Lineclear, Node, NodeOptions, Store};
use serde::Serialize;
use tokio::sync::{Notify, mpsc};

use super::bed::Bed;
use super::turns::{in_turns, quantile};
use crate::failure::{Failure, say};
use crate::show::Progress;

const KIND: &str = "bench";
/// Callers that enqueue at once, each one job a call.
const CALLERS: u32 = 16;
/// Jobs of one call, where many are enqueued by one.
const MANY: u32 = 1_000;
/// Loops that drive the bare verbs, and what each of their calls takes.
const LOOPS: u32 = 4;
const BATCH: u32 = 500;
const LEASE: Duration = Duration::from_secs(600);
/// Between two jobs of an idle system everything comes to rest.
const REST: Duration = Duration::from_millis(50);
const WITHIN: Duration = Duration::from_secs(60);

/// How much is done.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) jobs: u32,
    pub(crate) rounds: u32,
    pub(crate) slots: u32,
}

/// Two medians and their ratio.
#[derive(Serialize)]
pub(crate) struct Figure {
    what: &'static str,
    floor_is: &'static str,
    unit: &'static str,
    floor: f64,
    measured: f64,
    /// The measured by the floor.
    ratio: f64,
    /// The 99th of 100, where single ones were timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<f64>,
}

impl Figure {
    fn new(
        what: &'static str,
        floor_is: &'static str,
        unit: &'static str,
        floor: &[f64],
        measured: &[f64],
    ) -> Figure {
        let [floor, middle] = [floor, measured].map(|all| quantile(all, 0.5));
        let p99 = (unit == "ms").then(|| quantile(measured, 0.99));
        Figure { what, floor_is, unit, floor, measured: middle, ratio: middle / floor, p99 }
    }

    /// The same for programs: numbers as they are.
    pub(super) fn tabbed(&self) -> String {
        let p99 = self.p99.map_or(String::new(), |p99| p99.to_string());
        let Figure { floor_is, what, floor, measured, unit, ratio, .. } = self;
        format!("{floor_is}\t{what}\t{floor}\t{measured}\t{unit}\t{ratio}\t{p99}\n")
    }

    /// A row of the table.
    pub(super) fn row(&self, arrow: &str) -> Vec<String> {
        let shown = |value: f64| match self.unit {
            "ms" => format!("{value:.2} ms"),
            _ => format!("{value:.0}/s"),
        };
        let p99 = self.p99.map_or(String::new(), |p99| format!("99 of 100 within {p99:.2} ms"));
        let what = format!("{} {arrow} {}", self.floor_is, self.what);
        vec![what, shown(self.floor), shown(self.measured), format!("{:.2}", self.ratio), p99]
    }
}

/// In turns, and a terminal hears how far they are.
async fn told_turns(
    sides: usize,
    rounds: u32,
    measure: impl AsyncFn(usize) -> Result<f64, Failure>,
) -> Result<Vec<Vec<f64>>, Failure> {
    let total = u64::from(rounds) * sides as u64;
    let progress = Progress::new("turns measured", total, !std::io::stderr().is_terminal());
    let told = RefCell::new((0, progress));
    in_turns(sides, rounds, async |side| {
        let measured = measure(side).await?;
        let (done, progress) = &mut *told.borrow_mut();
        *done += 1;
        progress.at(*done);
        Ok(measured)
    })
    .await
}

pub(crate) async fn all(bed: &Bed, load: Load) -> Result<Vec<Figure>, Failure> {
    let node = bed.store.heartbeat(ourselves()).await?.id;
    say(&format!("… enqueueing {} jobs, {} times each way\n", load.jobs, load.rounds));
    let enqueue = told_turns(3, load.rounds, async |way| {
        let (callers, batch) = [(1, 1), (CALLERS, 1), (LOOPS, MANY)][way];
        // Who is slower needs not do all of it to show how fast it is.
        let jobs = load.jobs.div_ceil([4 * CALLERS, 4, 1][way]);
        let rate = enqueue(&bed.store, jobs, callers, batch).await?;
        bare_drain(&bed.store, node).await?;
        Ok(rate)
    })
    .await?;
    say(&format!("… running {} jobs that do nothing, {} times each way\n", load.jobs, load.rounds));
    let drain = told_turns(2, load.rounds, async |way| {
        enqueue_many(&bed.store, load.jobs).await?;
        match way {
            0 => bare_drain(&bed.store, node).await,
            _ => node_drain(bed, load).await,
        }
    })
    .await?;
    let samples = load.rounds * 20;
    say(&format!("… waiting for {samples} jobs on an idle system\n"));
    let idle = latency(bed, samples).await?;
    Ok(vec![
        Figure::new("16 callers", "enqueue one by one: one caller", "jobs/s", &enqueue[0], &enqueue[1]),
        Figure::new("by 1,000", "enqueue: 16 callers, one by one", "jobs/s", &enqueue[1], &enqueue[2]),
        Figure::new("a node", "run jobs that do nothing: bare verbs", "jobs/s", &drain[0], &drain[1]),
        Figure::new("enqueue to start", "idle: one write", "ms", &idle[0], &idle[1]),
    ])
}

fn job() -> Result<NewJob, Failure> {
    let bad = |why: String| Failure::failed(why);
    let kind = Name::new(KIND).map_err(|error| bad(error.to_string()))?;
    let input = Payload::parse(r#"{"to":"somebody"}"#).map_err(|error| bad(error.to_string()))?;
    Ok(NewJob::new(kind, input))
}

/// Jobs in a second.
fn rate(jobs: u32, since: Instant) -> f64 {
    f64::from(jobs) / since.elapsed().as_secs_f64()
}

async fn enqueue(store: &Store, jobs: u32, callers: u32, batch: u32) -> Result<f64, Failure> {
    let job = job()?;
    let left = Arc::new(AtomicU32::new(jobs));
    let begun = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..callers {
        let (store, job, left) = (store.clone(), job.clone(), left.clone());
        all.spawn(async move {
            while let Some(most) = take(&left, batch) {
                match most {
                    1 => drop(store.enqueue(job.clone()).await?),
                    most => drop(store.enqueue_many(vec![job.clone(); most as usize]).await?),
                }
            }
            Ok::<_, Failure>(())
        });
    }
    joined(all).await?;
    Ok(rate(jobs, begun))
}

/// A share of what is left.
fn take(left: &AtomicU32, most: u32) -> Option<u32> {
    let before =
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(most)));
    before.ok().map(|before| before.min(most)).filter(|mine| *mine > 0)
}

async fn enqueue_many(store: &Store, jobs: u32) -> Result<(), Failure> {
    enqueue(store, jobs, LOOPS, MANY).await.map(drop)
}

/// Takes and settles all there is by the verbs alone: no node, no handlers, no leases kept.
async fn bare_drain(store: &Store, node: NodeId) -> Result<f64, Failure> {
    let drained = Arc::new(AtomicU32::new(0));
    let begun = Instant::now();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..LOOPS {
        let (store, drained) = (store.clone(), drained.clone());
        all.spawn(async move {
            let route = Name::new("main").map_err(|error| Failure::failed(error.to_string()))?;
            let lease = Lease { node, length: LEASE };
            loop {
                let claims = store.dispatch_into_lease(Dispatch::new(route.clone(), BATCH), lease).await?;
                if claims.is_empty() {
                    return Ok(());
                }
                let done =
                    |claim| Settlement::new(claim, Outcome::Completed { output: None }, Verdict::Complete);
                store.settle(node, claims.iter().map(done).collect()).await?;
                drained.fetch_add(claims.len() as u32, Ordering::Relaxed);
            }
        });
    }
    joined(all).await?;
    Ok(rate(drained.load(Ordering::Relaxed), begun))
}

async fn joined(mut all: tokio::task::JoinSet<Result<(), Failure>>) -> Result<(), Failure> {
    while let Some(one) = all.join_next().await {
        one.map_err(|error| Failure::failed(error.to_string()))??;
    }
    Ok(())
}

/// A node that runs all there is.
async fn node_drain(bed: &Bed, load: Load) -> Result<f64, Failure> {
    let (ran, over) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let handler = {
        let (ran, over) = (ran.clone(), over.clone());
        move || {
            if ran.fetch_add(1, Ordering::Relaxed) + 1 == load.jobs {
                over.notify_one();
            }
            async {}
        }
    };
    let begun = Instant::now();
    let node = start(bed, load.slots, handler).await?;
    let ended = until_over(&ran, &over, WITHIN).await;
    // Its last ones are settled before it is; and what failed must not go on while its schema is dropped.
    node.stop().await;
    ended.map(|()| rate(load.jobs, begun))
}

/// Waits as long as jobs are run at all: how many there are is for the caller to say.
async fn until_over(ran: &AtomicU32, over: &Notify, still: Duration) -> Result<(), Failure> {
    loop {
        let before = ran.load(Ordering::Relaxed);
        if tokio::time::timeout(still, over.notified()).await.is_ok() {
            return Ok(());
        }
        let now = ran.load(Ordering::Relaxed);
        if now == before {
            let message = format!("the node ran {now} jobs, and then none for {} s", still.as_secs());
            return Err(Failure::coded(7, message));
        }
    }
}

async fn start<P>(
    bed: &Bed,
    slots: u32,
    handler: impl lineclear::handler::Handler<P>,
) -> Result<Node, Failure> {
    let options = NodeOptions { slots, ..NodeOptions::default() };
    let node =
        Lineclear::builder().store(bed.options.clone()).options(options).kind(KIND, handler).start().await;
    node.map_err(|error| Failure::failed(error.to_string()))
}

/// In turns: a bare write, and a job from its enqueueing to the first line of its handler.
async fn latency(bed: &Bed, samples: u32) -> Result<Vec<Vec<f64>>, Failure> {
    let (tell, mut began) = mpsc::unbounded_channel();
    let handler = move || {
        // Nobody may be left to hear it.
        let _ = tell.send(Instant::now());
        async {}
    };
    let node = start(bed, 4, handler).await?;
    let began = tokio::sync::Mutex::new(&mut began);
    let measured = told_turns(2, samples + 1, async |side| {
        tokio::time::sleep(REST).await;
        let asked = Instant::now();
        let until = if side == 0 {
            bed.store.heartbeat(ourselves()).await?;
            Instant::now()
        } else {
            node.enqueue(KIND, "somebody").await.map_err(|error| Failure::failed(error.to_string()))?;
            let moment = tokio::time::timeout(WITHIN, async { began.lock().await.recv().await }).await;
            moment.ok().flatten().ok_or_else(|| Failure::coded(7, "a job did not begin within a minute"))?
        };
        Ok(until.saturating_duration_since(asked).as_secs_f64() * 1_000.0)
    })
    .await;
    node.stop().await;
    // The first of each makes connections and prepares statements.
    measured.map(|sides| sides.into_iter().map(|side| side.into_iter().skip(1).collect()).collect())
}

/// Who holds the jobs that the bare verbs take.
fn ourselves() -> NodeInfo {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn many_jobs_may_take_long_and_a_node_that_stands_still_may_not() {
        const STILL: Duration = Duration::from_secs(1);
        let (ran, over) = (AtomicU32::new(0), Notify::new());
        let work = async {
            for _ in 0..6 {
                tokio::time::sleep(STILL / 4).await;
                ran.fetch_add(1, Ordering::Relaxed);
            }
            over.notify_one();
        };
        let (waited, ()) = tokio::join!(until_over(&ran, &over, STILL), work);
        assert!(waited.is_ok(), "as long as something is done");
        let waited = until_over(&ran, &over, STILL).await.unwrap_err();
        assert!(waited.message().contains("ran 6 jobs, and then none for 1 s"), "{}", waited.message());
    }
}
