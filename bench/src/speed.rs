//! Speed: what the engine makes of its own statements.
//!
//! The floor is these statements as the store sends them, driven bare over four connections: no handlers, no leases kept,
//! nobody told. All of it runs in one process, on all cores, beside the server.

mod backlog;
mod drain;
mod enqueue;
mod floor;
mod gate;
mod http;
mod latency;
mod lock;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use anyhow::Result;
use lineclear::{Lineclear, Node, NodeOptions};
use tokio::sync::Notify;

use crate::measure::{grouped, middle, spread};
use crate::report::{Bound, Unit};
use crate::{Bed, Database, Experiment, Figure, Scale};

/// Jobs that a node for many short jobs runs at once. The default, four for each core, suits jobs that take a while.
const WIDE: u32 = 1_000;

/// The kind of all jobs: what `load` puts into the queue.
const KIND: &str = "mail.send";

pub(crate) async fn run(experiment: Experiment, database: Database, scale: Scale) -> Result<Vec<Figure>> {
    // On a runtime as programs have it.
    tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            match experiment {
                Experiment::Drain => drain::run(database, scale).await,
                Experiment::EnqueueBulk => enqueue::bulk(database, scale).await,
                Experiment::EnqueueSingle => enqueue::single(database, scale).await,
                Experiment::EnqueueHttp => http::run(database, scale).await,
                Experiment::Latency => latency::run(database, scale).await,
                Experiment::Backlog => backlog::run(database, scale).await,
                Experiment::Gate => gate::run(database, scale).await,
                Experiment::Lock => lock::run(database, scale).await,
                Experiment::Plan | Experiment::Claim | Experiment::Cached | Experiment::Pages => {
                    Ok(Vec::new())
                }
            }
        })
    })
    .await?
}

/// Counts jobs that ran, and notes when each hundredth part of them had.
struct Progress {
    all: u32,
    ran: AtomicU32,
    marks: std::sync::Mutex<Vec<Instant>>,
    over: Notify,
}

impl Progress {
    fn of(all: u32) -> std::sync::Arc<Progress> {
        let marks = std::sync::Mutex::new(Vec::with_capacity(101));
        std::sync::Arc::new(Progress { all, ran: AtomicU32::new(0), marks, over: Notify::new() })
    }

    fn one_more(&self) {
        let ran = self.ran.fetch_add(1, Ordering::Relaxed) + 1;
        if ran.is_multiple_of(self.all.div_ceil(100)) {
            self.marks.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(Instant::now());
        }
        if ran == self.all {
            self.over.notify_one();
        }
    }
}

/// A node whose handler does nothing but count.
async fn node(bed: &Bed, options: NodeOptions, progress: std::sync::Arc<Progress>) -> Result<Node> {
    let count = move || {
        progress.one_more();
        async {}
    };
    Ok(Lineclear::builder().store(bed.url()).options(options).kind(KIND, count).start().await?)
}

fn slots(slots: u32) -> NodeOptions {
    NodeOptions { slots, ..NodeOptions::default() }
}

/// Waits until every job is in history: then the database has acknowledged the last one.
async fn until_settled(bed: &Bed) -> Result<()> {
    // By the end of the index: the table is full of what was.
    while bed.number("select id from {t}background_job order by id desc limit 1").await? != 0 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Jobs in a second.
fn rate(jobs: u32, since: Instant) -> f64 {
    f64::from(jobs) / since.elapsed().as_secs_f64()
}

/// Rates of the engine by those of the floor, where there is one.
fn figure(database: Database, name: String, floor: &[f64], engine: &[f64], least: f64) -> Figure {
    if floor.is_empty() {
        let note = format!("{} rounds", engine.len());
        return Figure::new(database, name, Unit::JobsPerSecond, None, middle(engine)).note(note);
    }
    Figure::new(database, name, Unit::JobsPerSecond, Some(middle(floor)), middle(engine))
        .bound(Some(Bound::AtLeast(least)))
        .note(spread(floor, engine))
}

fn say(database: Database, jobs: u32, what: &str) {
    crate::measure::progress(&format!("{}: {} {what}", database.label(), grouped(jobs)));
}
