//! Enqueue: by the thousand, and one at a time.

use std::time::Instant;

use anyhow::{Result, ensure};
use lineclear::{Store, StoreOptions};
use lineclear_measure::{EnqueueLoad, interleave, rate};

use super::baseline::{BareConnection, CONNECTIONS};
use super::{KIND, announce, figure};
use crate::measure::grouped;
use crate::{Database, Figure, Purpose, Scale, ScratchDb};

const BULK_JOBS: u32 = 100_000;
const BATCH: u32 = 1_000;
const BULK_LEAST: f64 = 0.5;

pub(super) const SINGLE_JOBS: u32 = 16_000;
pub(super) const CALLERS: u32 = 16;
const SINGLE_LEAST: f64 = 0.7;

const ROUNDS: u32 = 5;

pub(crate) async fn bulk(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let batch = scale.of(BATCH);
    let callers = CONNECTIONS as u32;
    let jobs = scale.of(BULK_JOBS / BATCH / callers) * callers * batch;
    let load = EnqueueLoad { jobs, callers, batch };
    let name =
        format!("enqueue {} by {}: bare → {} callers", grouped(load.jobs), grouped(batch), load.callers);
    compare(database, scale, load, name, BULK_LEAST).await
}

/// Concurrent callers that enqueue one job per call.
pub(super) fn single_load(scale: Scale) -> EnqueueLoad {
    let jobs = scale.of(SINGLE_JOBS / CALLERS) * CALLERS;
    EnqueueLoad { jobs, callers: CALLERS, batch: 1 }
}

pub(crate) async fn single(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let load = single_load(scale);
    let name = format!("enqueue {} one by one: bare → {CALLERS} callers", grouped(load.jobs));
    compare(database, scale, load, name, SINGLE_LEAST).await
}

async fn compare(
    database: Database,
    scale: Scale,
    load: EnqueueLoad,
    name: String,
    least: f64,
) -> Result<Vec<Figure>> {
    announce(database, load.jobs, "jobs are enqueued alternately");
    let db = ScratchDb::new(database, Purpose::Speed).await?;
    let sides = if database == Database::Postgres { 2 } else { 1 };
    let measured = interleave(sides, scale.rounds(ROUNDS), async |side| {
        db.clear_jobs().await?;
        db.settle_down().await?;
        let rate = if side == 0 { by_store(&db, load).await? } else { bare(&db, load).await? };
        let queued = db.number("select count(*) from {t}work_queue").await?;
        ensure!(queued == i64::from(load.jobs), "{queued} of {} jobs are queued", load.jobs);
        Ok(rate)
    })
    .await?;
    let baseline = measured.get(1).map_or(&[][..], Vec::as_slice);
    Ok(vec![figure(database, name, baseline, &measured[0], least)])
}

pub(super) async fn by_store(db: &ScratchDb, load: EnqueueLoad) -> Result<f64> {
    // A separate store, as a program has it; connected before the clock runs, like the baseline.
    let store = Store::open(StoreOptions::new(db.url())?.migrate(false)).await?;
    lineclear_measure::enqueue(&store, KIND, load).await
}

async fn bare(db: &ScratchDb, load: EnqueueLoad) -> Result<f64> {
    let connections = BareConnection::connect_all(&db.store, db.url()).await?;
    let calls = load.jobs / load.batch / CONNECTIONS as u32;
    let start = Instant::now();
    let mut all = Vec::new();
    for connection in connections {
        all.push(tokio::spawn(async move {
            for _ in 0..calls {
                connection.enqueue(load.batch as usize, "main").await?;
            }
            anyhow::Ok(())
        }));
    }
    for one in all {
        one.await??;
    }
    Ok(rate(load.jobs, start))
}
