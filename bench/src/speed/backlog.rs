//! Backlog: a long queue is worked off as fast at its end as at its beginning.

use std::time::Instant;

use anyhow::Result;

use super::drain::{expect_history, fill};
use super::{Progress, WIDE, node, say, slots, until_settled};
use crate::measure::{grouped, middle, millis};
use crate::report::{Bound, Unit};
use crate::{Bed, Database, Figure, Purpose, Scale};

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
    say(database, jobs, "jobs are worked off, with autovacuum on");
    // Autovacuum is on: it is part of a long run.
    let bed = Bed::new(database, Purpose::Endurance).await?;
    fill(&bed, jobs).await?;
    let progress = Progress::of(jobs);
    let start = Instant::now();
    let node = node(&bed, slots(WIDE), progress.clone()).await?;
    progress.over.notified().await;
    until_settled(&bed).await?;
    let seconds = start.elapsed().as_secs_f64();
    node.stop().await;
    expect_history(&bed, jobs).await?;

    let marks = progress.marks.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // The first part has the start in it: its time is not that of jobs.
    let times: Vec<f64> = marks.windows(2).map(|pair| millis(pair[1].duration_since(pair[0]))).collect();
    let first = &times[..ENDS.min(times.len())];
    let last = &times[times.len().saturating_sub(ENDS)..];
    let part = grouped(jobs / PARTS as u32);
    let name = format!("{} jobs: {part} of the first tenth → of the last", grouped(jobs));
    let whole = grouped((f64::from(jobs) / seconds).round() as u32);
    // How it went from end to end tells wear from a bad moment.
    let tenths: Vec<String> = times.chunks(ENDS).map(|tenth| format!("{:.0}", middle(tenth))).collect();
    Ok(vec![
        Figure::new(database, name, Unit::Millis, Some(middle(first)), middle(last))
            .bound(Some(Bound::AtMost(MOST)))
            .note(format!("{whole} jobs/s; tenth by tenth {} ms", tenths.join(", "))),
    ])
}
