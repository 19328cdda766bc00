//! The cleaner's loop.

use std::sync::Arc;

use tracing::Instrument;

use crate::node::Shared;
use crate::node::loops::wait;

/// Rows of each kind that one cleaning removes at most.
const CLEAN_MAX: u32 = 1_000;

/// Rolls up statistics and cleans, until the node stops.
pub(crate) async fn clean(shared: Arc<Shared>) {
    while wait(&shared, shared.options.clean_interval).await {
        if let Err(error) = shared.store.roll_up().await {
            tracing::warn!(%error, node.id = %shared.id, "cannot roll up statistics");
        }
        if !rerank(&shared).await {
            return;
        }
        loop {
            let cleaning = shared
                .store
                .clean(&shared.tunable().retention, CLEAN_MAX)
                .instrument(tracing::debug_span!("clean", node.id = %shared.id))
                .await;
            match shared.statuses.note("cleaner", cleaning) {
                Ok(cleaned) if cleaned.is_nothing() => break,
                Ok(cleaned) => tracing::debug!(node.id = %shared.id, ?cleaned, "cleaned"),
                Err(error) => {
                    tracing::warn!(%error, node.id = %shared.id, "cleaning failed");
                    break;
                }
            }
            if shared.stopping.is_cancelled() {
                return;
            }
        }
    }
}

/// Continues reranking that another node left unfinished after a change of priority; false if this node stops.
async fn rerank(shared: &Shared) -> bool {
    while !shared.stopping.is_cancelled() {
        match shared.store.rerank().await {
            Ok(true) => {}
            Ok(false) => return true,
            Err(error) => {
                tracing::warn!(%error, node.id = %shared.id, "cannot rerank all waiting jobs; trying again");
                return true;
            }
        }
    }
    false
}
