//! Writes the progress and logs of running handlers, together and about once a second.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::handler::ProgressBuffer;
use crate::node::Shared;
use crate::node::pacer::AFTER_ERROR;
use crate::store::{BATCH_MAX, ClaimRef, LogLine, Settlement, StoreResult};

/// How often they are written. Without progress and logs, nothing is written.
const REPORT: Duration = Duration::from_secs(1);

/// Log lines per statement.
const LINES_MAX: usize = 2_000;
/// Attempts at writing the last lines of a job before it is settled without them.
const LAST_LINES_ATTEMPTS: u32 = 3;

type Buffer = (ClaimRef, Arc<ProgressBuffer>);

/// Writes progress and logs until the last handler has ended.
pub(crate) async fn report(shared: Arc<Shared>) {
    // Also while the node stops: handlers may still run.
    while !shared.stopping.is_cancelled() || shared.running.count() > 0 {
        tokio::time::sleep(REPORT).await;
        let buffers = shared.running.buffers();
        if let Err(error) = write_progress(&shared, &buffers).await {
            shared.warn_folded("cannot write progress", &error);
        }
        if let Err(error) = write_lines(&shared, &buffers).await {
            shared.warn_folded("cannot write log lines; trying again", &error);
        }
    }
}

/// Writes new progress in one statement.
async fn write_progress(shared: &Shared, buffers: &[Buffer]) -> StoreResult<()> {
    let mut reported = Vec::new();
    let mut progress = Vec::new();
    for (claim, buffer) in buffers.iter().take(BATCH_MAX) {
        if let Some(new) = buffer.new_progress() {
            progress.push((*claim, new));
            reported.push((claim, buffer));
        }
    }
    let written = shared.loop_store.write_progress(progress).await;
    let known: HashSet<ClaimRef> = written.iter().flatten().copied().collect();
    for (_, buffer) in reported.iter().filter(|(claim, _)| !known.contains(claim)) {
        // The row was locked, or the database did not answer. A lost claim ends soon.
        buffer.progress_again();
    }
    written.map(drop)
}

/// Writes new log lines in as few statements as possible.
async fn write_lines(shared: &Shared, buffers: &[Buffer]) -> StoreResult<()> {
    if !buffers.iter().any(|(_, buffer)| buffer.has_log()) {
        return Ok(());
    }
    // Lines that another task is writing count as unwritten, so wait for it.
    let _guard = shared.log_turn.lock().await;
    let mut batch = Batch::default();
    for (claim, buffer) in buffers {
        batch.add(*claim, buffer);
        if batch.lines.len() >= LINES_MAX {
            std::mem::take(&mut batch).write(shared).await?;
        }
    }
    batch.write(shared).await
}

/// Lines for one statement, and the buffers they come from.
#[derive(Default)]
struct Batch {
    lines: Vec<(ClaimRef, LogLine)>,
    from: Vec<(Arc<ProgressBuffer>, Vec<LogLine>)>,
}

impl Batch {
    fn add(&mut self, claim: ClaimRef, buffer: &Arc<ProgressBuffer>) {
        let lines = buffer.drain_log();
        if !lines.is_empty() {
            self.lines.extend(lines.iter().map(|line| (claim, line.clone())));
            self.from.push((buffer.clone(), lines));
        }
    }

    async fn write(self, shared: &Shared) -> StoreResult<()> {
        let written = shared.loop_store.write_log(self.lines).await;
        for (buffer, lines) in self.from {
            match &written {
                Ok(()) => buffer.log_written(),
                Err(_) => buffer.log_again(lines),
            }
        }
        written
    }
}

/// Writes the last log lines of jobs before they are settled. A log that cannot be written delays them only briefly.
pub(crate) async fn write_last_lines(shared: &Shared, batch: &[Settlement]) {
    if !cfg!(feature = "logs") {
        return;
    }
    let buffers = shared.running.buffers_of(batch.iter().map(|settlement| settlement.claim));
    for attempt in 1..=LAST_LINES_ATTEMPTS {
        match write_lines(shared, &buffers).await {
            Ok(()) => return,
            Err(error) => shared.warn_folded("cannot write the last log lines", &error),
        }
        if attempt < LAST_LINES_ATTEMPTS {
            tokio::time::sleep(AFTER_ERROR).await;
        }
    }
}
