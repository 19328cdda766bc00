//! The promoter of a node: jobs whose time has come → ready, batch by batch until none is left, whatever the slots.
//!
//! A loop of its own: a dispatcher whose slots are full has no reason to hurry, and jobs that rank first must not wait behind all that
//! became due before them. It asks the database for nothing by itself: the dispatcher, which polls, wakes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::journey::dispatch::promote::{PROMOTE_MAX, PromoteCursor};
use crate::node::Shared;
use crate::node::pacer::Loop;
use crate::store::StoreResult;

/// It is woken, so its own pause does not matter.
pub(crate) const UNTIL_WOKEN: Duration = Duration::from_secs(3600);

/// What the dispatcher and the promoter of a node tell each other.
#[derive(Debug, Default)]
pub(crate) struct Promotion {
    due: Notify,
    promoted: AtomicBool,
}

impl Promotion {
    /// Jobs may have come due.
    pub(crate) fn wake(&self) {
        self.due.notify_one();
    }

    /// Whether jobs were promoted since the last call: they may rank first.
    pub(crate) fn take_promoted(&self) -> bool {
        self.promoted.swap(false, Ordering::Relaxed)
    }
}

pub(crate) struct Promoter {
    shared: Arc<Shared>,
    cursor: PromoteCursor,
}

impl Promoter {
    pub(crate) fn new(shared: &Arc<Shared>) -> Promoter {
        Promoter { shared: shared.clone(), cursor: PromoteCursor::default() }
    }
}

impl Loop for Promoter {
    const NAME: &'static str = "promoter";

    async fn run_once(&mut self, _hurried: bool) -> StoreResult<Duration> {
        let shared = &*self.shared;
        let promoted = shared.loop_store.promote_from(&mut self.cursor, PROMOTE_MAX).await?;
        if promoted > 0 {
            tracing::debug!(node.id = %shared.id, promoted, "promoted");
            shared.promotion.promoted.store(true, Ordering::Relaxed);
            // Other nodes, too: the jobs may be of their routes, and lie before their marks.
            shared.has_queued();
        }
        Ok(if promoted >= u64::from(PROMOTE_MAX) { Duration::ZERO } else { UNTIL_WOKEN })
    }

    async fn woken(&mut self) {
        self.shared.promotion.due.notified().await;
    }
}
