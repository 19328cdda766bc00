//! Push: jobs of 200 ms over HTTP, ten calls at once, compared with one call at a time.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lineclear::submitters::HttpPush;
use lineclear::{Lineclear, NodeOptions};
use lineclear_measure::{interleave, rate};
use lineclear_testkit::{HttpEndpoint, HttpReply};

use super::{KIND, announce, figure, until_settled};
use crate::{Database, Figure, Purpose, Scale, ScratchDb};

const JOBS: u32 = 50;
const CALLS: u32 = 10;
/// What each call takes.
const WORK: Duration = Duration::from_millis(200);
const LEAST: f64 = 7.0;
const ROUNDS: u32 = 2;
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let jobs = scale.of(JOBS);
    announce(database, jobs, "jobs of 200 ms are pushed, alternately ten at once and one after the other");
    let db = ScratchDb::new(database, Purpose::Speed).await?;
    let measured = interleave(2, scale.rounds(ROUNDS), async |side| {
        db.clear_jobs().await?;
        db.settle_down().await?;
        push(&db, jobs, if side == 0 { CALLS } else { 1 }).await
    })
    .await?;
    let name = format!("push {jobs} jobs of 200 ms: one by one → {CALLS} at once");
    Ok(vec![figure(database, name, &measured[1], &measured[0], LEAST)])
}

async fn push(db: &ScratchDb, jobs: u32, calls: u32) -> Result<f64> {
    let worker = HttpEndpoint::start(async |_| {
        tokio::time::sleep(WORK).await;
        HttpReply::new(200, r#"{"outcome":"completed"}"#)
    })
    .await?;
    let push = HttpPush::new(&worker.url())?.unsigned().max_concurrent_dispatch(calls);
    let node = Lineclear::builder().store(db.url()).options(NodeOptions::default()).submitter("worker", push);
    let node = node.submit_to("worker", [KIND]).start().await?;
    let start = Instant::now();
    for _ in 0..jobs {
        node.enqueue(KIND, "ops").await?;
    }
    // Until they are queued, claimed, called and settled.
    while db.number("select count(*) from {t}execution").await? < i64::from(jobs) {
        ensure!(start.elapsed() < TIMEOUT, "the jobs take longer than {TIMEOUT:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let rate = rate(jobs, start);
    until_settled(db).await?;
    node.stop().await;
    Ok(rate)
}
