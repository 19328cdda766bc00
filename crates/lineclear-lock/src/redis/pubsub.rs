//! Listens for releases. It is only a hint: waiters also ask at intervals, because programs that release in another way, and locks that expire,
//! publish nothing.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use redis::Client;
use tokio::sync::broadcast;
use tokio::time::{sleep, timeout};

/// The prefix of the channels on which releases are published; the lock's key follows.
pub(super) const CHANNEL_PREFIX: &str = "lineclear:freed:";

/// How long the listener stays without waiters, and the longest pause after a failure.
const PAUSE: Duration = Duration::from_secs(5);
/// The pause after the first failure; it doubles with each further one. Meanwhile waiters only ask at intervals, and lose against those
/// of other processes that hear of each release.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// How long Redis may take to accept the subscription.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How many releases may be queued for a waiter; one that misses some asks.
const QUEUE: usize = 64;

/// Listens for all releases of a Redis while tasks wait, on a connection of its own.
pub(super) struct ReleaseListener {
    client: Client,
    released: broadcast::Sender<Arc<str>>,
    listening: AtomicBool,
}

impl fmt::Debug for ReleaseListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client would show its password.
        f.debug_struct("ReleaseListener").field("listening", &self.listening).finish_non_exhaustive()
    }
}

impl ReleaseListener {
    pub(super) fn new(client: Client) -> Arc<ReleaseListener> {
        Arc::new(ReleaseListener {
            client,
            released: broadcast::Sender::new(QUEUE),
            listening: AtomicBool::new(false),
        })
    }

    /// Returns when the lock of this key is released after this call.
    pub(super) fn freed(self: &Arc<ReleaseListener>, key: &str) -> impl Future<Output = ()> + Send + use<> {
        let (mut released, channel) = (self.released.subscribe(), format!("{CHANNEL_PREFIX}{key}"));
        if !self.listening.swap(true, Ordering::SeqCst) {
            tokio::spawn(listen(Arc::downgrade(self)));
        }
        async move {
            loop {
                match released.recv().await {
                    Ok(freed) if *freed != *channel => {}
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                    Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
                }
            }
        }
    }
}

/// Listens until no task waits any more.
async fn listen(listener: Weak<ReleaseListener>) {
    let mut pause = FIRST_PAUSE;
    while let Some(client) = listener.upgrade().map(|listener| listener.client.clone()) {
        let begun = timeout(REQUEST_TIMEOUT, async {
            let mut all = client.get_async_pubsub().await?;
            all.psubscribe(format!("{CHANNEL_PREFIX}*")).await?;
            Ok::<_, redis::RedisError>(all.into_on_message())
        });
        match begun.await {
            Ok(Ok(releases)) => {
                let mut releases = pin!(releases);
                pause = FIRST_PAUSE;
                // Ends when the connection does.
                loop {
                    let next = timeout(PAUSE, releases.next()).await;
                    let Some(listener) = listener.upgrade() else { return };
                    match next {
                        // An error means that no task waits at the moment.
                        Ok(Some(release)) => {
                            drop(listener.released.send(Arc::from(release.get_channel_name())))
                        }
                        Ok(None) => break,
                        Err(_) if listener.stops() => return,
                        Err(_) => {}
                    }
                }
            }
            Ok(Err(error)) => tracing::debug!(%error, "cannot listen for releases of locks in Redis"),
            Err(_) => {}
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE);
        if listener.upgrade().is_some_and(|listener| listener.stops()) {
            return;
        }
    }
}

impl ReleaseListener {
    /// Whether no task waits; if so, the listener stops until one does.
    fn stops(&self) -> bool {
        if self.released.receiver_count() > 0 {
            return false;
        }
        self.listening.store(false, Ordering::SeqCst);
        true
    }
}
