//! report: what running handlers say → the database, together and about once a second.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use crate::store::{BATCH_MAX, ClaimRef, StoreResult};

/// How often it is written down. A node whose handlers say nothing writes nothing.
const REPORT: Duration = Duration::from_secs(1);

/// Writes down what handlers say, until the last of them has ended.
pub(crate) async fn report(shared: Arc<Shared>) {
    // While it stops, too: handlers may still be at work.
    while !shared.stopping.is_cancelled() || shared.running.count() > 0 {
        tokio::time::sleep(REPORT).await;
        if let Err(error) = write_progress(&shared).await {
            tracing::warn!(%error, node.id = %shared.id, "progress could not be written");
        }
    }
}

/// One statement for all that have something new to say.
async fn write_progress(shared: &Shared) -> StoreResult<()> {
    let mut said = Vec::new();
    let mut progress = Vec::new();
    for (claim, notes) in shared.running.notes().into_iter().take(BATCH_MAX) {
        if let Some(new) = notes.new_progress() {
            progress.push((claim, new));
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
