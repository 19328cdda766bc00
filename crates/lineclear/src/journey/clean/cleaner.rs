//! clean: what is long over goes.

use std::sync::Arc;

use tracing::Instrument;

use crate::node::Shared;
use crate::node::loops::wait;

/// Rows of each kind that one pass removes.
const PASS_MAX: u32 = 1_000;

/// Removes what is long over, until the node stops.
pub(crate) async fn clean(shared: Arc<Shared>) {
    while wait(&shared, shared.options.clean_interval).await {
        if let Err(error) = shared.store.roll_up().await {
            tracing::warn!(%error, node.id = %shared.id, "figures could not be rolled up");
        }
        if !rerank(&shared).await {
            return;
        }
        loop {
            let pass = shared
                .store
                .clean(&shared.tunable().retention, PASS_MAX)
                .instrument(tracing::debug_span!("clean", node.id = %shared.id))
                .await;
            match shared.statuses.note("cleaner", pass) {
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

/// Goes on with what a node left that died, or was not answered, after a group's priority changed; false if this one stops.
async fn rerank(shared: &Shared) -> bool {
    while !shared.stopping.is_cancelled() {
        match shared.store.rerank().await {
            Ok(true) => {}
            Ok(false) => return true,
            Err(error) => {
                tracing::warn!(%error, node.id = %shared.id, "waiting jobs have not all got their new rank; trying again");
                return true;
            }
        }
    }
    false
}
