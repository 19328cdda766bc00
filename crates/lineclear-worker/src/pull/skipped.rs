//! Results whose jobs' rows another transaction holds: the server skips them, and they are sent again without holding up others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use crate::pull::backoff::Backoff;
use crate::pull::session::Session;
use crate::pull::settler::{Unsettled, give_up, send_all};

/// The longest pause before they are sent again: an application may hold a row for minutes.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Sends skipped results again until the server has them. A worker that stops gives up after another lease.
pub(super) async fn send_again(session: Arc<Session>, mut skipped: mpsc::UnboundedReceiver<Unsettled>) {
    let mut backoff = Backoff::up_to(PAUSE_MAX);
    let (mut waiting, mut give_up_at) = (Vec::new(), None);
    loop {
        if waiting.is_empty() {
            backoff.reset();
            match skipped.recv().await {
                Some(one) => waiting.push(one),
                None => return,
            }
        }
        tokio::time::sleep(backoff.next()).await;
        while let Ok(one) = skipped.try_recv() {
            waiting.push(one);
        }
        waiting = send_all(&session, waiting).await;
        // The settler has ended: no handler is left.
        if skipped.is_closed() && skipped.is_empty() {
            let at = *give_up_at.get_or_insert_with(|| Instant::now() + session.lease());
            if Instant::now() >= at {
                waiting.drain(..).for_each(|one| give_up(&session, one.claim()));
            }
        }
    }
}
