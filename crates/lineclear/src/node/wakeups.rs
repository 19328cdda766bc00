//! Wake-ups between nodes: what one of them queues, the others need not wait a second for. Only a hint; everybody looks
//! by themselves as well.

use std::sync::Arc;
use std::time::Duration;

use crate::node::Shared;

/// The first hint goes out at once, and then there is silence for so long: a burst is one hint or two.
const SILENCE: Duration = Duration::from_millis(50);
/// How long to wait before listening again, at first and at most.
const RECONNECT: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// Tells others, whenever this node has queued something.
pub(crate) async fn announce(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = shared.stopping.cancelled() => return,
            () = shared.queued.notified() => {}
        }
        if let Err(error) = shared.store.notify().await {
            tracing::debug!(%error, node.id = %shared.id, "other nodes could not be woken; they will look by themselves");
        }
        tokio::time::sleep(SILENCE).await;
    }
}

/// Listens to others.
pub(crate) async fn listen(shared: Arc<Shared>) {
    let mut pause = RECONNECT[0];
    loop {
        let begun = std::time::Instant::now();
        let listened = tokio::select! {
            () = shared.stopping.cancelled() => return,
            listened = shared.store.listen(|| shared.nudge.notify_one()) => listened,
        };
        if begun.elapsed() > RECONNECT[1] {
            // It worked for a while: this is another trouble than the last.
            pause = RECONNECT[0];
        }
        match listened {
            Ok(Listening::Impossible) => return,
            Ok(Listening::Ended) => {}
            Err(error) => {
                tracing::warn!(%error, node.id = %shared.id, "cannot listen to other nodes; looking by myself");
                pause = (pause * 2).min(RECONNECT[1]);
            }
        }
        tokio::select! {
            () = shared.stopping.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Why listening ended.
pub(crate) enum Listening {
    /// The connection was closed.
    Ended,
    /// There is nothing to listen to.
    Impossible,
}
