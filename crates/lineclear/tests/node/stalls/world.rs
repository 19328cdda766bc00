//! What the handlers of all nodes see.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lineclear::model::Payload;
use lineclear::store::NewJob;
use lineclear::{Input, JobInfo, Lineclear, Node, NodeOptions, State};
use serde::{Deserialize, Serialize};

use crate::kit::{name, quick};

/// The kind `work`: it runs for a while, under limits that the test knows by name.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Work {
    pub(super) millis: u64,
    pub(super) limits: Vec<String>,
    /// When it was enqueued, in microseconds of the world; 0 is not measured.
    pub(super) asked_us: u64,
}

impl Work {
    pub(super) fn job(&self) -> NewJob {
        NewJob::new(name("work"), Payload::of(self).expect("a payload"))
    }
}

#[derive(Clone)]
pub(super) struct World {
    began: Instant,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    jobs: HashMap<i64, u32>,
    limits: HashMap<String, u32>,
    most: HashMap<String, u32>,
    twice: Vec<i64>,
    started: u64,
    waited: Vec<Duration>,
}

pub(super) struct Running {
    world: World,
    job: i64,
    limits: Vec<String>,
}

impl World {
    pub(super) fn new() -> World {
        World { began: Instant::now(), seen: Arc::default() }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    pub(super) fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap()
    }

    fn enter(&self, job: i64, work: &Work) -> Running {
        let mut seen = self.seen();
        seen.started += 1;
        if work.asked_us > 0 {
            let waited = Duration::from_micros(self.now_us().saturating_sub(work.asked_us));
            seen.waited.push(waited);
        }
        let count = seen.jobs.entry(job).or_default();
        *count += 1;
        if *count > 1 {
            seen.twice.push(job);
        }
        for limit in &work.limits {
            let now = seen.limits.entry(limit.clone()).or_default();
            *now += 1;
            let now = *now;
            let most = seen.most.entry(limit.clone()).or_default();
            *most = now.max(*most);
        }
        Running { world: self.clone(), job, limits: work.limits.clone() }
    }

    /// Jobs that ever ran beside themselves.
    pub(super) fn twice(&self) -> Vec<i64> {
        self.seen().twice.clone()
    }

    /// The most that ever ran at once under a limit.
    pub(super) fn most(&self, limit: &str) -> u32 {
        self.seen().most.get(limit).copied().unwrap_or(0)
    }

    pub(super) fn started(&self) -> u64 {
        self.seen().started
    }

    /// How long the measured jobs waited for their start, since the last call: how many, the median and p99.
    pub(super) fn waits(&self) -> (usize, Duration, Duration) {
        let mut waited = std::mem::take(&mut self.seen().waited);
        waited.sort_unstable();
        let at =
            |percent: usize| waited.get((waited.len() * percent / 100).min(waited.len().max(1) - 1)).copied();
        (waited.len(), at(50).unwrap_or_default(), at(99).unwrap_or_default())
    }

    pub(super) async fn node(&self, url: &str, options: NodeOptions) -> Node {
        let built = Lineclear::builder().store(url).options(options).state(self.clone()).kind("work", work);
        built.start().await.expect("a node")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut seen = self.world.seen();
        *seen.jobs.get_mut(&self.job).expect("it runs") -= 1;
        for limit in &self.limits {
            *seen.limits.get_mut(limit).expect("it runs") -= 1;
        }
    }
}

async fn work(Input(work): Input<Work>, job: JobInfo, State(world): State<World>) {
    let _running = world.enter(job.id.0, &work);
    tokio::time::sleep(Duration::from_millis(work.millis)).await;
}

/// Options with a short lease.
pub(super) fn with_lease(lease: Duration) -> NodeOptions {
    NodeOptions { lease, renewal: lease / 4, ..quick() }
}
