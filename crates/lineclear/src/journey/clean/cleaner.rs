//! The cleaner of a node: removes history that is older than its retention, and repairs what a dead node left behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::journey::clean::pages::{Page, Pages};
use crate::journey::clean::{Batch, Cleaned};
use crate::node::Shared;
use crate::node::pacer::Loop;
use crate::store::StoreResult;

/// Rows that one batch removes.
const BATCH_MAX: u32 = 1_000;

pub(crate) struct Cleaner {
    shared: Arc<Shared>,
    pages: Pages,
    /// When to wake forgotten jobs again, also during a cleaning that takes long.
    wake_at: Instant,
}

impl Cleaner {
    pub(crate) fn new(shared: &Arc<Shared>) -> Cleaner {
        Cleaner { shared: shared.clone(), pages: Pages::default(), wake_at: Instant::now() }
    }

    /// Wakes and unparks jobs that were forgotten.
    async fn wake_forgotten(&mut self) -> StoreResult<()> {
        self.wake_at = Instant::now() + self.shared.options.clean_interval;
        self.shared.loop_store.wake_forgotten().await?;
        turn_pages(&self.shared, &mut self.pages.parked).await?;
        Ok(())
    }
}

impl Loop for Cleaner {
    const NAME: &'static str = "cleaner";
    const IS_VITAL: bool = false;

    async fn run_once(&mut self, _hurried: bool) -> StoreResult<Duration> {
        let shared = &*self.shared.clone();
        if let Err(error) = shared.loop_store.roll_up().await {
            shared.warn_folded("stats could not be rolled up", &error);
        }
        rerank(shared).await;
        self.wake_forgotten().await?;
        let (retention, mut cleaned) = (shared.tunable().retention, Cleaned::default());
        // Batch by batch, each until it is short: what there is much of does not repeat the rest.
        for batch in Batch::ALL {
            while shared.loop_store.clean_batch(batch, &retention, BATCH_MAX, &mut cleaned).await?
                && !shared.stopping.is_cancelled()
            {
                if Instant::now() >= self.wake_at {
                    self.wake_forgotten().await?;
                }
            }
        }
        cleaned.keys += turn_pages(shared, &mut self.pages.unique_keys).await?;
        cleaned.keys += turn_pages(shared, &mut self.pages.limit_keys).await?;
        if !cleaned.is_nothing() {
            tracing::debug!(node.id = %shared.id, ?cleaned, "cleaned");
        }
        Ok(shared.options.clean_interval)
    }
}

/// Cleans page after page while there is something to clean; returns how many rows it changed.
async fn turn_pages(shared: &Shared, page: &mut Page) -> StoreResult<u64> {
    let mut all = 0;
    loop {
        let cleaned = shared.loop_store.turn_page(page).await?;
        all += cleaned;
        if cleaned == 0 || shared.stopping.is_cancelled() {
            return Ok(all);
        }
    }
}

/// Finishes reranking a group whose priority changed, if the node that changed it died or got no answer.
async fn rerank(shared: &Shared) {
    while !shared.stopping.is_cancelled() {
        match shared.loop_store.rerank().await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                shared.warn_folded("waiting jobs have not all got their new rank; trying again", &error);
                return;
            }
        }
    }
}
