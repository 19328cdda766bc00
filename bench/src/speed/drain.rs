//! Drain: jobs that do nothing, from a full queue to history.

use std::time::Instant;

use anyhow::{Result, ensure};
use lineclear::NodeOptions;

use super::floor::Bare;
use super::{Progress, WIDE, figure, node, rate, say, slots, until_settled};
use crate::load::Waiting;
use crate::measure::{grouped, in_turns};
use crate::{Bed, Database, Figure, Purpose, Scale};

const JOBS: u32 = 100_000;
/// With few slots a rate shows after fewer jobs.
const FEW_JOBS: u32 = 10_000;
const LEAST: f64 = 0.5;
const ROUNDS: u32 = 5;

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let (jobs, few) = (scale.of(JOBS), scale.of(FEW_JOBS));
    say(database, jobs, "jobs are drained in turns");
    let bed = Bed::new(database, Purpose::Speed).await?;
    let has_floor = database == Database::Postgres;
    let sides = if has_floor { 3 } else { 2 };
    let measured = in_turns(sides, scale.rounds(ROUNDS), async |side| {
        fill(&bed, if side == 1 { few } else { jobs }).await?;
        match side {
            0 => by_a_node(&bed, jobs, slots(WIDE)).await,
            1 => by_a_node(&bed, few, NodeOptions::default()).await,
            _ => bare(&bed, jobs).await,
        }
    })
    .await?;
    let floor = measured.get(2).map_or(&[][..], Vec::as_slice);
    let figures = [(0, jobs, WIDE), (1, few, NodeOptions::default().slots)].map(|(side, jobs, slots)| {
        let name = format!("drain {} no-op jobs: bare → node, {} slots", grouped(jobs), grouped(slots));
        let figure = figure(database, name, floor, &measured[side], LEAST);
        // The bound is for a node that was told that its jobs are short.
        if slots == WIDE { figure } else { figure.bound(None) }
    });
    Ok(figures.to_vec())
}

/// A queue with nothing else in the tables.
pub(super) async fn fill(bed: &Bed, jobs: u32) -> Result<()> {
    bed.clear_jobs().await?;
    Waiting { first_id: 1, rows: jobs, route: "main", priority: 0, due_in: 0, group: None }.load(bed).await?;
    bed.settle_down().await
}

async fn by_a_node(bed: &Bed, jobs: u32, options: NodeOptions) -> Result<f64> {
    let progress = Progress::of(jobs);
    let start = Instant::now();
    let node = node(bed, options, progress.clone()).await?;
    progress.over.notified().await;
    until_settled(bed).await?;
    let rate = rate(jobs, start);
    node.stop().await;
    expect_history(bed, jobs).await?;
    Ok(rate)
}

async fn bare(bed: &Bed, jobs: u32) -> Result<f64> {
    let start = Instant::now();
    let mut all = Vec::new();
    for connection in Bare::several(&bed.store, bed.url()).await? {
        let node = bed.lease.node;
        all.push(tokio::spawn(async move { connection.drain(node).await }));
    }
    for one in all {
        one.await??;
    }
    let rate = rate(jobs, start);
    expect_history(bed, jobs).await?;
    Ok(rate)
}

/// Speed without the work would be no speed.
pub(super) async fn expect_history(bed: &Bed, jobs: u32) -> Result<()> {
    let kept = bed.number("select count(*) from {t}execution where final and outcome = 'completed'").await?;
    ensure!(kept == i64::from(jobs), "{kept} executions of {jobs} jobs");
    Ok(())
}
