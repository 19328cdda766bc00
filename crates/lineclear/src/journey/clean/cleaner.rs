//! The cleaner of a node: removes history that is older than its retention.

use std::sync::Arc;
use std::time::Duration;

use crate::node::Shared;
use crate::node::pacer::Loop;
use crate::store::StoreResult;

/// Rows of each kind that one pass removes.
const PASS_MAX: u32 = 1_000;

pub(crate) struct Cleaner {
    pub(crate) shared: Arc<Shared>,
}

impl Loop for Cleaner {
    const NAME: &'static str = "cleaner";

    async fn run_once(&mut self, _hurried: bool) -> StoreResult<Duration> {
        let shared = &*self.shared;
        if let Err(error) = shared.loop_store.roll_up().await {
            tracing::warn!(%error, node.id = %shared.id, "stats could not be rolled up");
        }
        rerank(shared).await;
        while !shared.stopping.is_cancelled() {
            let cleaned = shared.loop_store.clean(&shared.tunable().retention, PASS_MAX).await?;
            if cleaned.is_nothing() {
                break;
            }
            tracing::debug!(node.id = %shared.id, ?cleaned, "cleaned");
        }
        Ok(shared.options.clean_interval)
    }
}

/// Finishes reranking a group whose priority changed, if the node that changed it died or got no answer.
async fn rerank(shared: &Shared) {
    while !shared.stopping.is_cancelled() {
        match shared.loop_store.rerank().await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(%error, node.id = %shared.id, "waiting jobs have not all got their new rank; trying again");
                return;
            }
        }
    }
}
