//! Enqueue: by the thousand, and one at a time.

use std::time::Instant;

use anyhow::{Result, ensure};
use lineclear::Store;
use lineclear::model::{Name, Payload};
use lineclear::store::NewJob;

use super::floor::{Bare, CONNECTIONS};
use super::{KIND, figure, rate, say};
use crate::measure::{grouped, in_turns};
use crate::{Bed, Database, Figure, Purpose, Scale};

/// What the handler would get.
pub(super) const INPUT: &str = r#"{"to":"somebody"}"#;

const BULK_JOBS: u32 = 100_000;
const BATCH: u32 = 1_000;
const BULK_LEAST: f64 = 0.5;

pub(super) const SINGLE_JOBS: u32 = 16_000;
pub(super) const CALLERS: u32 = 16;
const SINGLE_LEAST: f64 = 0.7;

const ROUNDS: u32 = 5;

pub(crate) async fn bulk(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let batch = scale.of(BATCH);
    let load =
        Load { callers: CONNECTIONS as u32, batch, calls: scale.of(BULK_JOBS / BATCH / CONNECTIONS as u32) };
    let name =
        format!("enqueue {} by {}: bare → {} callers", grouped(load.jobs()), grouped(batch), load.callers);
    compare(database, scale, load, name, BULK_LEAST).await
}

pub(crate) async fn single(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let load = Load { callers: CALLERS, batch: 1, calls: scale.of(SINGLE_JOBS / CALLERS) };
    let name = format!("enqueue {} one by one: bare → {CALLERS} callers", grouped(load.jobs()));
    compare(database, scale, load, name, SINGLE_LEAST).await
}

/// What is enqueued, and how.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) callers: u32,
    pub(super) batch: u32,
    pub(super) calls: u32,
}

impl Load {
    pub(super) fn jobs(self) -> u32 {
        self.callers * self.batch * self.calls
    }
}

async fn compare(
    database: Database,
    scale: Scale,
    load: Load,
    name: String,
    least: f64,
) -> Result<Vec<Figure>> {
    say(database, load.jobs(), "jobs are enqueued in turns");
    let bed = Bed::new(database, Purpose::Speed).await?;
    let sides = if database == Database::Postgres { 2 } else { 1 };
    let measured = in_turns(sides, scale.rounds(ROUNDS), async |side| {
        bed.clear_jobs().await?;
        bed.settle_down().await?;
        let rate = if side == 0 { by_the_store(&bed, load).await? } else { bare(&bed, load).await? };
        let queued = bed.number("select count(*) from {t}work_queue").await?;
        ensure!(queued == i64::from(load.jobs()), "{queued} of {} jobs are queued", load.jobs());
        Ok(rate)
    })
    .await?;
    let floor = measured.get(1).map_or(&[][..], Vec::as_slice);
    Ok(vec![figure(database, name, floor, &measured[0], least)])
}

pub(super) async fn by_the_store(bed: &Bed, load: Load) -> Result<f64> {
    // A store of its own, as a program has it; connected before the clock runs, as the floor is.
    let store = Store::open(lineclear::StoreOptions::new(bed.url())?.migrate(false)).await?;
    let job = NewJob::new(Name::new(KIND)?, Payload::parse(INPUT)?);
    let start = Instant::now();
    let mut callers = Vec::new();
    for _ in 0..load.callers {
        let (store, job) = (store.clone(), job.clone());
        callers.push(tokio::spawn(async move {
            for _ in 0..load.calls {
                match load.batch {
                    1 => drop(store.enqueue(job.clone()).await?),
                    batch => drop(store.enqueue_many(vec![job.clone(); batch as usize]).await?),
                }
            }
            anyhow::Ok(())
        }));
    }
    for caller in callers {
        caller.await??;
    }
    Ok(rate(load.jobs(), start))
}

async fn bare(bed: &Bed, load: Load) -> Result<f64> {
    let connections = Bare::several(&bed.store, bed.url()).await?;
    let each = load.callers * load.calls / CONNECTIONS as u32;
    let start = Instant::now();
    let mut all = Vec::new();
    for connection in connections {
        all.push(tokio::spawn(async move {
            for _ in 0..each {
                connection.enqueue(load.batch as usize, "main").await?;
            }
            anyhow::Ok(())
        }));
    }
    for one in all {
        one.await??;
    }
    Ok(rate(load.jobs(), start))
}
