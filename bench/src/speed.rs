//! Speed: the engine compared with its own SQL statements.
//!
//! The baseline is the statements of the store, sent over four connections without handlers, renewals or notifications. Everything
//! runs in one process, on all cores, beside the server.

mod backlog;
mod baseline;
mod drain;
mod enqueue;
mod events;
mod gate;
mod http;
mod latency;
mod lock;
mod outbox;
mod push;
mod pull;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use lineclear::{Node, NodeOptions, StoreOptions};
use lineclear_measure::{RunCounter, median, start_counting_node};

use crate::measure::{grouped, spread};
use crate::report::{Bound, Unit};
use crate::{Database, Experiment, Figure, Scale, ScratchDb};

/// Slots of a node for many short jobs. The default, four per core, suits jobs that take a while.
const WIDE: u32 = 1_000;

/// The kind of all jobs, also of those that `load` inserts.
const KIND: &str = "mail.send";
/// Longest time without a job that runs.
const STALL_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) async fn run(experiment: Experiment, database: Database, scale: Scale) -> Result<Vec<Figure>> {
    // On a multi-threaded runtime, as programs use it.
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
                Experiment::Push => push::run(database, scale).await,
                Experiment::Pull => pull::run(database, scale).await,
                Experiment::Outbox => outbox::run(database, scale).await,
                Experiment::Events => events::run(database, scale).await,
                Experiment::Plan
                | Experiment::Claim
                | Experiment::Cached
                | Experiment::InTheWay
                | Experiment::Pages => Ok(Vec::new()),
            }
        })
    })
    .await?
}

/// A node whose handler only counts.
async fn node(db: &ScratchDb, slots: u32, counter: Arc<RunCounter>) -> Result<Node> {
    let options = NodeOptions { slots, ..NodeOptions::default() };
    start_counting_node(StoreOptions::new(db.url())?, KIND, options, counter).await
}

/// Waits until every job is in history: then the database has acknowledged the last one.
async fn until_settled(db: &ScratchDb) -> Result<()> {
    // From the end of the index: the beginning is full of dead rows.
    while db.number("select id from {t}background_job order by id desc limit 1").await? != 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Ok(())
}

/// Rates of the engine compared with those of the baseline, if there is one.
fn figure(database: Database, name: String, baseline: &[f64], engine: &[f64], least: f64) -> Figure {
    if baseline.is_empty() {
        let note = format!("{} rounds", engine.len());
        return Figure::new(database, name, Unit::JobsPerSecond, None, median(engine)).note(note);
    }
    Figure::new(database, name, Unit::JobsPerSecond, Some(median(baseline)), median(engine))
        .bound(Some(Bound::AtLeast(least)))
        .note(spread(baseline, engine))
}

fn announce(database: Database, jobs: u32, what: &str) {
    crate::measure::progress(&format!("{}: {} {what}", database.label(), grouped(jobs)));
}
