//! The measurements.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::answer::quoted;
use crate::{Answer, Bulk, Peer, Request, Runs, Verb};

/// How often it looks whether all handlers began, and then whether the database knows.
const LOOK: Duration = Duration::from_millis(1);
/// Between two jobs of the latency.
const PAUSE: Duration = Duration::from_millis(20);
/// The first jobs of the latency open connections and prepare statements, and do not count; of a slow queue, those in this part of the
/// time.
const WARM_UP: usize = 5;
const WARM_UP_PART: u32 = 4;
/// A stop that takes longer is left to the end of the process.
const STOP: Duration = Duration::from_secs(5);
/// Before they are measured, queues are filled by so many callers, and by so many jobs per call.
const FILL: Bulk = Bulk { callers: 4, batch: 1_000 };

/// Does what the command line asks for, and prints the answer.
pub async fn run<P: Peer>(arguments: impl IntoIterator<Item = String>) -> Result<()> {
    let request = Request::parse(arguments)?;
    if request.verb == Verb::Describe {
        println!(r#"{{"version":{},"settings":{}}}"#, quoted(&P::version()?), quoted(&P::describe(&request)));
        return Ok(());
    }
    let peer = Arc::new(P::connect(&request).await.context("connecting")?);
    let answer = match request.verb {
        Verb::Setup | Verb::Describe => {
            peer.setup().await?;
            Answer::default()
        }
        Verb::Fill => fill(&peer, &request).await?,
        Verb::Drain => drain(&peer, &request).await?,
        Verb::End => end_to_end(&peer, &request).await?,
        Verb::Single => enqueue(&peer, &request, Bulk { callers: request.callers, batch: 1 }).await?,
        Verb::Bulk => enqueue(&peer, &request, P::bulk(&request)).await?,
        Verb::Latency => latency(&peer, &request).await?,
    };
    println!("{answer}");
    Ok(())
}

async fn fill<P: Peer>(peer: &Arc<P>, request: &Request) -> Result<Answer> {
    let begun = Instant::now();
    let enqueued = Producers::start(peer, FILL, request.jobs, Duration::MAX).all().await?;
    Ok(Answer { enqueued, jobs: enqueued, seconds: begun.elapsed().as_secs_f64(), ..Answer::default() })
}

async fn drain<P: Peer>(peer: &Arc<P>, request: &Request) -> Result<Answer> {
    let runs = Runs::counting();
    let begun = Instant::now();
    let workers = peer.start(runs.clone()).await?;
    let left = until_acknowledged(peer, &runs, request.jobs, begun, request.time).await?;
    let seconds = begun.elapsed().as_secs_f64();
    stop::<P>(workers).await?;
    Ok(Answer { jobs: request.jobs.saturating_sub(left), ran: runs.count(), seconds, ..Answer::default() })
}

async fn end_to_end<P: Peer>(peer: &Arc<P>, request: &Request) -> Result<Answer> {
    let runs = Runs::counting();
    let begun = Instant::now();
    let workers = peer.start(runs.clone()).await?;
    let producers = Producers::start(peer, P::bulk(request), request.jobs, request.time);
    let enqueued = producers.all().await?;
    // A slow queue gets as long again for what it has accepted.
    let left = until_acknowledged(peer, &runs, enqueued, begun, request.time * 2).await?;
    let seconds = begun.elapsed().as_secs_f64();
    stop::<P>(workers).await?;
    let jobs = enqueued.saturating_sub(left);
    Ok(Answer { enqueued, jobs, ran: runs.count(), seconds, ..Answer::default() })
}

/// Waits until the database knows all jobs as completed, or the time is over; returns how many are left.
async fn until_acknowledged<P: Peer>(
    peer: &Arc<P>,
    runs: &Runs,
    jobs: u64,
    begun: Instant,
    time: Duration,
) -> Result<u64> {
    // The database is not asked while handlers run: that would be part of the measurement.
    while runs.count() < jobs && begun.elapsed() < time {
        sleep(LOOK).await;
    }
    loop {
        let left = peer.left().await?;
        if left == 0 || begun.elapsed() >= time {
            return Ok(left);
        }
        sleep(LOOK).await;
    }
}

async fn stop<P: Peer>(workers: P::Workers) -> Result<()> {
    tokio::time::timeout(STOP, P::stop(workers)).await.unwrap_or(Ok(()))
}

async fn enqueue<P: Peer>(peer: &Arc<P>, request: &Request, bulk: Bulk) -> Result<Answer> {
    // Opens connections and prepares statements.
    let mut first = Producers::start(peer, bulk, (bulk.callers * bulk.batch) as u64, Duration::MAX);
    let before = first.take().await?;
    let begun = Instant::now();
    let jobs = Producers::start(peer, bulk, request.jobs, request.time).all().await?;
    let seconds = begun.elapsed().as_secs_f64();
    Ok(Answer { enqueued: before + jobs, jobs, seconds, ..Answer::default() })
}

/// Tasks that enqueue until there are enough jobs or the time is over.
struct Producers(JoinSet<Result<u64>>);

impl Producers {
    fn start<P: Peer>(peer: &Arc<P>, bulk: Bulk, jobs: u64, time: Duration) -> Producers {
        let (begun, left) = (Instant::now(), Arc::new(AtomicU64::new(jobs)));
        // All begin at once, each on a connection of its own.
        let barrier = Arc::new(Barrier::new(bulk.callers));
        let mut tasks = JoinSet::new();
        for _ in 0..bulk.callers {
            let (peer, left, barrier) = (peer.clone(), left.clone(), barrier.clone());
            tasks.spawn(async move {
                barrier.wait().await;
                let mut enqueued = 0;
                while begun.elapsed() < time
                    && let Some(jobs) = next_batch(&left, bulk.batch)
                {
                    if bulk.batch == 1 {
                        peer.enqueue().await?;
                    } else {
                        peer.enqueue_many(jobs).await?;
                    }
                    enqueued += jobs as u64;
                }
                Ok(enqueued)
            });
        }
        Producers(tasks)
    }

    async fn take(&mut self) -> Result<u64> {
        let mut enqueued = 0;
        while let Some(task) = self.0.join_next().await {
            enqueued += task??;
        }
        Ok(enqueued)
    }

    async fn all(mut self) -> Result<u64> {
        self.take().await
    }
}

fn next_batch(left: &AtomicU64, batch: usize) -> Option<usize> {
    let most = batch as u64;
    let before =
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(most)));
    // At most a batch.
    before.ok().map(|left| left.min(most) as usize).filter(|jobs| *jobs > 0)
}

async fn latency<P: Peer>(peer: &Arc<P>, request: &Request) -> Result<Answer> {
    let runs = Runs::timing();
    let workers = peer.start(runs.clone()).await?;
    let mut times_ms = Vec::new();
    let mut enqueued = 0;
    let begun = Instant::now();
    let mut warm_up = 0;
    while (times_ms.len() as u64) < request.jobs && begun.elapsed() < request.time {
        let is_warm = warm_up == WARM_UP || begun.elapsed() >= request.time / WARM_UP_PART;
        let called = Instant::now();
        peer.enqueue().await?;
        enqueued += 1;
        // The next job is enqueued only when this one has begun: a queue that looks seldom would not be idle otherwise.
        let started = runs.next(request.time * 2).await.context("a job did not begin")?;
        if is_warm {
            times_ms.push(started.saturating_duration_since(called).as_secs_f64() * 1_000.0);
        } else {
            warm_up += 1;
        }
        sleep(PAUSE.saturating_sub(called.elapsed())).await;
    }
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(
        !times_ms.is_empty(),
        "no job began within {:?} with {:?} settings",
        request.time,
        request.settings
    );
    let left = until_acknowledged(peer, &runs, enqueued, Instant::now(), request.time).await?;
    stop::<P>(workers).await?;
    Ok(Answer { enqueued, jobs: enqueued - left, ran: runs.count(), seconds, times_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A queue in memory: what it holds, and what its handlers have not yet acknowledged.
    struct Memory(Arc<AtomicU64>);

    impl Peer for Memory {
        type Workers = tokio::task::JoinHandle<()>;

        fn version() -> Result<String> {
            Ok("1".to_owned())
        }

        fn describe(_: &Request) -> String {
            "none".to_owned()
        }

        fn bulk(_: &Request) -> Bulk {
            Bulk { callers: 2, batch: 10 }
        }

        async fn connect(_: &Request) -> Result<Memory> {
            Ok(Memory(Arc::default()))
        }

        async fn setup(&self) -> Result<()> {
            Ok(())
        }

        async fn enqueue(&self) -> Result<()> {
            self.enqueue_many(1).await
        }

        async fn enqueue_many(&self, jobs: usize) -> Result<()> {
            self.0.fetch_add(jobs as u64, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(())
        }

        async fn start(&self, runs: Arc<Runs>) -> Result<Self::Workers> {
            let queue = self.0.clone();
            Ok(tokio::spawn(async move {
                loop {
                    for _ in 0..queue.swap(0, Ordering::Relaxed) {
                        runs.begin();
                    }
                    sleep(LOOK).await;
                }
            }))
        }

        async fn stop(workers: Self::Workers) -> Result<()> {
            workers.abort();
            Ok(())
        }

        async fn left(&self) -> Result<u64> {
            Ok(self.0.load(Ordering::Relaxed))
        }
    }

    async fn queue(line: &str) -> (Arc<Memory>, Request) {
        let request = Request::parse(line.split(' ').map(str::to_owned)).unwrap();
        (Arc::new(Memory::connect(&request).await.unwrap()), request)
    }

    #[tokio::test]
    async fn a_full_queue_is_drained() {
        let (peer, request) = queue("drain --jobs 2345 --seconds 60").await;
        assert_eq!(fill(&peer, &request).await.unwrap().enqueued, 2_345);
        let answer = drain(&peer, &request).await.unwrap();
        assert_eq!((answer.jobs, answer.ran), (2_345, 2_345));
    }

    #[tokio::test]
    async fn a_time_ends_what_takes_too_long() {
        let (peer, request) = queue("end --seconds 0.05").await;
        let answer = end_to_end(&peer, &request).await.unwrap();
        assert!(answer.enqueued > 0 && answer.jobs <= answer.enqueued, "{answer}");
        let answer = enqueue(&peer, &request, Memory::bulk(&request)).await.unwrap();
        assert_eq!(answer.enqueued, answer.jobs + 20, "the first call of each caller does not count");
    }

    #[tokio::test]
    async fn the_latency_is_of_jobs_after_the_first() {
        let (peer, request) = queue("latency --jobs 3 --seconds 10").await;
        let answer = latency(&peer, &request).await.unwrap();
        assert_eq!((answer.enqueued, answer.jobs, answer.ran, answer.times_ms.len()), (8, 8, 8, 3));
    }
}
