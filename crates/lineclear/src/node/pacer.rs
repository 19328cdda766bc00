//! The cadence that all loops of a node share: one pass, then a wait for the next moment, a wake-up, or the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::Instrument;

use crate::node::Shared;
use crate::store::{StoreError, StoreResult};

/// How long a loop waits after a pass that failed.
pub(crate) const AFTER_ERROR: Duration = Duration::from_secs(1);

/// A loop of a node.
pub(crate) trait Loop: Send + 'static {
    /// Its name in the node's status.
    const NAME: &'static str;
    /// Whether the node is of little use while this loop fails.
    const IS_VITAL: bool = true;

    /// One pass; returns how long there is nothing to do. `hurried`: it was woken, or the last pass left work undone.
    fn run_once(&mut self, hurried: bool) -> impl Future<Output = StoreResult<Duration>> + Send;

    /// Ends when the loop is to run again before its pause is over.
    fn woken(&mut self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// A pass failed.
    fn failed(&mut self, _error: &StoreError) {}
}

/// Runs a loop until the node stops; the first pass comes after `pause`.
pub(crate) async fn run<L: Loop>(shared: Arc<Shared>, mut looped: L, mut pause: Duration) {
    let mut first = true;
    loop {
        let at_once = pause == Duration::ZERO;
        let hurried = tokio::select! {
            () = shared.stopping.cancelled() => return,
            () = looped.woken(), if !at_once => true,
            () = tokio::time::sleep(pause) => at_once && !first,
        };
        first = false;
        let began = Instant::now();
        let pass = looped
            .run_once(hurried)
            .instrument(tracing::debug_span!("pass", name = L::NAME, node.id = %shared.id))
            .await;
        if L::IS_VITAL {
            shared.store.monitor.pass_ended(L::NAME, began, pass.as_ref().err());
        }
        pause = match shared.statuses.note(L::NAME, pass) {
            Ok(pause) => {
                shared.log_success(L::NAME);
                pause
            }
            Err(error) => {
                shared.log_failure(L::NAME, &error);
                looped.failed(&error);
                AFTER_ERROR
            }
        };
        if shared.stopping.is_cancelled() {
            return;
        }
    }
}
