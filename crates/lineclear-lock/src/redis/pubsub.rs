//! Hears of releases. It is a hint and nothing more: whoever waits asks now and then as well, because those who release in another
//! way, and locks that end by themselves, say nothing.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use redis::Client;
use tokio::sync::broadcast;
use tokio::time::{sleep, timeout};

/// Before the key of a lock that was released.
pub(super) const CHANNELS: &str = "lineclear:freed:";

/// How long it listens when nobody waits, and how long it rests when it could not.
const REST: Duration = Duration::from_secs(5);
/// How long Redis may take to let it listen.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How many releases may be unheard; who misses some asks.
const UNHEARD: usize = 64;

/// Listens for all releases of a Redis while somebody waits, on a connection of its own.
pub(super) struct ReleaseListener {
    client: Client,
    heard: broadcast::Sender<Arc<str>>,
    listens: AtomicBool,
}

impl fmt::Debug for ReleaseListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client would show its password.
        f.debug_struct("ReleaseListener").field("listens", &self.listens).finish_non_exhaustive()
    }
}

impl ReleaseListener {
    pub(super) fn new(client: Client) -> Arc<ReleaseListener> {
        Arc::new(ReleaseListener {
            client,
            heard: broadcast::Sender::new(UNHEARD),
            listens: AtomicBool::new(false),
        })
    }

    /// Returns when the lock of this key was released after this call.
    pub(super) fn freed(self: &Arc<ReleaseListener>, key: &str) -> impl Future<Output = ()> + Send + use<> {
        let (mut heard, channel) = (self.heard.subscribe(), format!("{CHANNELS}{key}"));
        if !self.listens.swap(true, Ordering::SeqCst) {
            tokio::spawn(listen(Arc::downgrade(self)));
        }
        async move {
            loop {
                match heard.recv().await {
                    Ok(freed) if *freed != *channel => {}
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                    Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
                }
            }
        }
    }
}

/// Until nobody waits any more.
async fn listen(ear: Weak<ReleaseListener>) {
    while let Some(client) = ear.upgrade().map(|ear| ear.client.clone()) {
        let begun = timeout(ANSWER_WITHIN, async {
            let mut all = client.get_async_pubsub().await?;
            all.psubscribe(format!("{CHANNELS}*")).await?;
            Ok::<_, redis::RedisError>(all.into_on_message())
        });
        match begun.await {
            Ok(Ok(releases)) => {
                let mut releases = pin!(releases);
                // Ends when the connection does.
                loop {
                    let next = timeout(REST, releases.next()).await;
                    let Some(ear) = ear.upgrade() else { return };
                    match next {
                        // Nobody may wait for anything at the moment.
                        Ok(Some(release)) => drop(ear.heard.send(Arc::from(release.get_channel_name()))),
                        Ok(None) => break,
                        Err(_) if ear.rests() => return,
                        Err(_) => {}
                    }
                }
            }
            Ok(Err(error)) => tracing::debug!(%error, "releases of locks in Redis cannot be listened for"),
            Err(_) => {}
        }
        sleep(REST).await;
        if ear.upgrade().is_some_and(|ear| ear.rests()) {
            return;
        }
    }
}

impl ReleaseListener {
    /// Whether nobody waits; then it listens no more until somebody does.
    fn rests(&self) -> bool {
        if self.heard.receiver_count() > 0 {
            return false;
        }
        self.listens.store(false, Ordering::SeqCst);
        true
    }
}
