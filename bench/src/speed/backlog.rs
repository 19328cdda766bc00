//! Backlog: a long queue is worked off as fast at its end as at its beginning.

use std::time::Instant;

use anyhow::Result;
use lineclear_measure::{RunCounter, median};

use super::drain::{expect_history, fill};
use super::{STALL_TIMEOUT, WIDE, announce, node, until_settled};
use crate::measure::{grouped, millis};
use crate::report::{Bound, Unit};
use crate::{Database, Figure, Purpose, Scale, ScratchDb};

const JOBS: u32 = 1_000_000;
/// Parts of the whole, and of these the first and the last ones that are compared.
const PARTS: usize = 100;
const ENDS: usize = 10;
const MOST: f64 = 1.3;

pub(crate) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    if database == Database::Sqlite {
        return Ok(Vec::new());
    }
    let jobs = scale.of(JOBS).div_ceil(100) * 100;
    announce(database, jobs, "jobs are worked off, with autovacuum on");
    let db = ScratchDb::new(database, Purpose::Endurance).await?;
    fill(&db, jobs).await?;
    let counter = RunCounter::new(jobs);
    let start = Instant::now();
    let node = node(&db, WIDE, counter.clone()).await?;
    counter.wait(STALL_TIMEOUT).await?;
    until_settled(&db).await?;
    let seconds = start.elapsed().as_secs_f64();
    node.stop().await;
    expect_history(&db, jobs).await?;

    let marks = counter.marks();
    // The first part includes the start of the node.
    let times: Vec<f64> = marks.windows(2).map(|pair| millis(pair[1].duration_since(pair[0]))).collect();
    let first = &times[..ENDS.min(times.len())];
    let last = &times[times.len().saturating_sub(ENDS)..];
    let part = grouped(jobs / PARTS as u32);
    let name = format!("{} jobs: {part} of the first tenth → of the last", grouped(jobs));
    let whole = grouped((f64::from(jobs) / seconds).round() as u32);
    // The tenths show whether it slows down or had one bad moment.
    let tenths: Vec<String> = times.chunks(ENDS).map(|tenth| format!("{:.0}", median(tenth))).collect();
    Ok(vec![
        Figure::new(database, name, Unit::Millis, Some(median(first)), median(last))
            .bound(Some(Bound::AtMost(MOST)))
            .note(format!("{whole} jobs/s; tenth by tenth {} ms", tenths.join(", "))),
    ])
}
