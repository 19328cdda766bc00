//! report: what running handlers say → the database, together and about once a second.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::handler::ProgressBuffer;
use crate::node::Shared;
use crate::node::pacer::AFTER_ERROR;
use crate::store::{BATCH_MAX, ClaimRef, LogLine, Settlement, StoreResult};

/// How often it is written down. A node whose handlers say nothing writes nothing.
const REPORT: Duration = Duration::from_secs(1);

/// Log lines that one statement takes.
const LINES_MAX: usize = 2_000;
/// How often the last lines of a job are tried before it is settled without them.
const LAST_LINES_TRIES: u32 = 3;

type Said = (ClaimRef, Arc<ProgressBuffer>);

/// Writes down what handlers say, until the last of them has ended.
pub(crate) async fn report(shared: Arc<Shared>) {
    // While it stops, too: handlers may still be at work.
    while !shared.stopping.is_cancelled() || shared.running.count() > 0 {
        tokio::time::sleep(REPORT).await;
        let notes = shared.running.notes();
        if let Err(error) = write_progress(&shared, &notes).await {
            tracing::warn!(%error, node.id = %shared.id, "progress could not be written");
        }
        if let Err(error) = write_lines(&shared, &notes).await {
            tracing::warn!(%error, node.id = %shared.id, "log lines could not be written; they are kept for the next time");
        }
    }
}

/// One statement for all that have something new to say.
async fn write_progress(shared: &Shared, notes: &[Said]) -> StoreResult<()> {
    let mut said = Vec::new();
    let mut progress = Vec::new();
    for (claim, notes) in notes.iter().take(BATCH_MAX) {
        if let Some(new) = notes.new_progress() {
            progress.push((*claim, new));
            said.push((claim, notes));
        }
    }
    let written = shared.store.write_progress(progress).await;
    let known: HashSet<ClaimRef> = written.iter().flatten().copied().collect();
    for (_, notes) in said.iter().filter(|(claim, _)| !known.contains(claim)) {
        // Somebody had the row locked, or the database was away. A claim that is lost ends soon.
        notes.progress_again();
    }
    written.map(drop)
}

/// What was logged since the last time, in as few statements as it fits.
async fn write_lines(shared: &Shared, notes: &[Said]) -> StoreResult<()> {
    if !notes.iter().any(|(_, notes)| notes.has_log()) {
        return Ok(());
    }
    // Lines that another is just writing count as unwritten: here they are waited for.
    let _turn = shared.log_turn.lock().await;
    let mut batch = Batch::default();
    for (claim, notes) in notes {
        batch.add(*claim, notes);
        if batch.lines.len() >= LINES_MAX {
            std::mem::take(&mut batch).write(shared).await?;
        }
    }
    batch.write(shared).await
}

/// Lines for one statement, and whose they are.
#[derive(Default)]
struct Batch {
    lines: Vec<(ClaimRef, LogLine)>,
    from: Vec<(Arc<ProgressBuffer>, Vec<LogLine>)>,
}

impl Batch {
    fn add(&mut self, claim: ClaimRef, notes: &Arc<ProgressBuffer>) {
        let taken = notes.take_log();
        if !taken.is_empty() {
            self.lines.extend(taken.iter().map(|line| (claim, line.clone())));
            self.from.push((notes.clone(), taken));
        }
    }

    async fn write(self, shared: &Shared) -> StoreResult<()> {
        let written = shared.store.write_log(self.lines).await;
        for (notes, taken) in self.from {
            match &written {
                Ok(()) => notes.log_written(),
                Err(_) => notes.log_again(taken),
            }
        }
        written
    }
}

/// Before jobs are settled: what their handlers logged last. A log that cannot be written holds nothing up for long.
pub(crate) async fn write_last_lines(shared: &Shared, batch: &[Settlement]) {
    if !cfg!(feature = "logs") {
        return;
    }
    let notes = shared.running.notes_of(batch.iter().map(|settlement| settlement.claim));
    for tries in 1..=LAST_LINES_TRIES {
        match write_lines(shared, &notes).await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(%error, node.id = %shared.id, tries, "the last log lines could not be written")
            }
        }
        if tries < LAST_LINES_TRIES {
            tokio::time::sleep(AFTER_ERROR).await;
        }
    }
}
