//! Gate: a limit for all jobs that is never reached costs little.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use lineclear::model::GroupSpec;
use lineclear::store::{ChangeSource, GLOBAL_GROUP};
use lineclear_measure::{RunCounter, interleave, rate};

use super::drain::{expect_history, fill};
use super::{STALL_TIMEOUT, WIDE, announce, figure, node, until_settled};
use crate::measure::grouped;
use crate::{Database, Figure, Purpose, Scale, ScratchDb};

const JOBS: u32 = 100_000;
const NODES: u32 = 4;
/// More than all nodes have slots.
const LIMIT: u32 = 1_000_000;
const LEAST: f64 = 0.8;
const ROUNDS: u32 = 5;

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    if database == Database::Sqlite {
        return Ok(Vec::new());
    }
    let jobs = scale.of(JOBS);
    announce(database, jobs, "jobs are drained by four nodes, alternately with a global limit and without");
    let db = ScratchDb::new(database, Purpose::Speed).await?;
    let measured = interleave(2, scale.rounds(ROUNDS), async |side| {
        let spec = GroupSpec { limit: (side == 0).then_some(LIMIT), ..GroupSpec::default() };
        let groups = BTreeMap::from([(GLOBAL_GROUP.to_owned(), spec)]);
        db.store.upsert_groups(groups, ChangeSource::Declaration).await?;
        fill(&db, jobs).await?;
        drain(&db, jobs).await
    })
    .await?;
    let name = format!("{NODES} nodes drain {}: unlimited → under a global limit", grouped(jobs));
    Ok(vec![figure(database, name, &measured[1], &measured[0], LEAST)])
}

async fn drain(db: &ScratchDb, jobs: u32) -> Result<f64> {
    let counter = RunCounter::new(jobs);
    let start = Instant::now();
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(node(db, WIDE / NODES, counter.clone()).await?);
    }
    counter.wait(STALL_TIMEOUT).await?;
    until_settled(db).await?;
    let rate = rate(jobs, start);
    for node in nodes {
        node.stop().await;
    }
    expect_history(db, jobs).await?;
    Ok(rate)
}
