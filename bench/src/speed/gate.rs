//! Gate: a limit for all jobs that is never reached costs little.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use lineclear::model::GroupSpec;
use lineclear::store::{ChangeSource, GLOBAL_GROUP};

use super::drain::{expect_history, fill};
use super::{Progress, WIDE, figure, node, rate, say, slots, until_settled};
use crate::measure::{grouped, in_turns};
use crate::{Bed, Database, Figure, Purpose, Scale};

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
    say(database, jobs, "jobs are drained by four nodes, in turns with a global limit and without");
    let bed = Bed::new(database, Purpose::Speed).await?;
    let measured = in_turns(2, scale.rounds(ROUNDS), async |side| {
        let spec = GroupSpec { limit: (side == 0).then_some(LIMIT), ..GroupSpec::default() };
        let groups = BTreeMap::from([(GLOBAL_GROUP.to_owned(), spec)]);
        bed.store.upsert_groups(groups, ChangeSource::Declaration).await?;
        fill(&bed, jobs).await?;
        drain(&bed, jobs).await
    })
    .await?;
    let name = format!("{NODES} nodes drain {}: unlimited → under a global limit", grouped(jobs));
    Ok(vec![figure(database, name, &measured[1], &measured[0], LEAST)])
}

async fn drain(bed: &Bed, jobs: u32) -> Result<f64> {
    let progress = Progress::of(jobs);
    let start = Instant::now();
    let mut nodes = Vec::new();
    for _ in 0..NODES {
        nodes.push(node(bed, slots(WIDE / NODES), progress.clone()).await?);
    }
    progress.over.notified().await;
    until_settled(bed).await?;
    let rate = rate(jobs, start);
    for node in nodes {
        node.stop().await;
    }
    expect_history(bed, jobs).await?;
    Ok(rate)
}
