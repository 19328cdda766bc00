//! Drain: jobs that do nothing, from a full queue to history.

use std::time::Instant;

use anyhow::{Result, ensure};
use lineclear::NodeOptions;
use lineclear_measure::{RunCounter, interleave, rate};

use super::baseline::BareConnection;
use super::{STALL_TIMEOUT, WIDE, announce, figure, node, until_settled};
use crate::load::Waiting;
use crate::measure::grouped;
use crate::{Database, Figure, Purpose, Scale, ScratchDb};

const JOBS: u32 = 100_000;
/// With few slots, fewer jobs show the rate.
const FEW_JOBS: u32 = 10_000;
const LEAST: f64 = 0.5;
const ROUNDS: u32 = 5;

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let (jobs, few) = (scale.of(JOBS), scale.of(FEW_JOBS));
    announce(database, jobs, "jobs are drained alternately");
    let db = ScratchDb::new(database, Purpose::Speed).await?;
    let has_floor = database == Database::Postgres;
    let sides = if has_floor { 3 } else { 2 };
    let measured = interleave(sides, scale.rounds(ROUNDS), async |side| {
        fill(&db, if side == 1 { few } else { jobs }).await?;
        match side {
            0 => by_node(&db, jobs, WIDE).await,
            1 => by_node(&db, few, NodeOptions::default().slots).await,
            _ => bare(&db, jobs).await,
        }
    })
    .await?;
    let baseline = measured.get(2).map_or(&[][..], Vec::as_slice);
    let figures = [(0, jobs, WIDE), (1, few, NodeOptions::default().slots)].map(|(side, jobs, slots)| {
        let name = format!("drain {} no-op jobs: bare → node, {} slots", grouped(jobs), grouped(slots));
        let figure = figure(database, name, baseline, &measured[side], LEAST);
        // The bound is for a node that is configured for short jobs.
        if slots == WIDE { figure } else { figure.bound(None) }
    });
    Ok(figures.to_vec())
}

/// Fills the queue; all other tables are empty.
pub(super) async fn fill(db: &ScratchDb, jobs: u32) -> Result<()> {
    fill_route(db, jobs, "main").await
}

/// Like `fill`, with jobs of another route.
pub(super) async fn fill_route(db: &ScratchDb, jobs: u32, route: &'static str) -> Result<()> {
    db.clear_jobs().await?;
    Waiting { first_id: 1, rows: jobs, route, priority: 0, due_in: 0, group: None }.load(db).await?;
    db.settle_down().await
}

pub(super) async fn by_node(db: &ScratchDb, jobs: u32, slots: u32) -> Result<f64> {
    let counter = RunCounter::new(jobs);
    let start = Instant::now();
    let node = node(db, slots, counter.clone()).await?;
    counter.wait(STALL_TIMEOUT).await?;
    until_settled(db).await?;
    let rate = rate(jobs, start);
    node.stop().await;
    expect_history(db, jobs).await?;
    Ok(rate)
}

async fn bare(db: &ScratchDb, jobs: u32) -> Result<f64> {
    let start = Instant::now();
    let mut all = Vec::new();
    for connection in BareConnection::connect_all(&db.store, db.url()).await? {
        let node = db.lease.node;
        all.push(tokio::spawn(async move { connection.drain(node).await }));
    }
    for one in all {
        one.await??;
    }
    let rate = rate(jobs, start);
    expect_history(db, jobs).await?;
    Ok(rate)
}

/// Checks that the work was really done.
pub(super) async fn expect_history(db: &ScratchDb, jobs: u32) -> Result<()> {
    let kept = db.number("select count(*) from {t}execution where final and outcome = 'completed'").await?;
    ensure!(kept == i64::from(jobs), "{kept} executions of {jobs} jobs");
    Ok(())
}
