//! Wake-ups: nodes need not wait for their next poll when a job is queued. They are hints: a node that misses one polls.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::db::Db;
use crate::node::Shared;
use crate::store::Store;

/// After a hint nothing is sent for this long: a burst of jobs is one hint or two.
const SILENCE: Duration = Duration::from_millis(50);
/// How long to wait before listening again, at first and at most.
const RECONNECT: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// Whether a node could listen to others.
pub(crate) enum Listening {
    /// The connection was closed.
    Ended,
    /// There is nothing to listen to.
    Impossible,
}

/// What a store's clients have queued, as hints for nodes.
#[derive(Default)]
pub(crate) struct WorkHints {
    /// For nodes of this process.
    here: watch::Sender<()>,
    /// For nodes elsewhere.
    elsewhere: Mutex<Sending>,
    /// How often jobs may have begun to wait.
    announced: AtomicU64,
}

#[derive(Default)]
struct Sending {
    /// A task sends hints.
    running: bool,
    /// Something was queued after the last hint.
    again: bool,
}

impl WorkHints {
    fn sending<T>(&self, change: impl FnOnce(&mut Sending) -> T) -> T {
        change(&mut self.elsewhere.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store {
    /// Wakes idle nodes. Call it after the commit of a transaction of your own in which jobs were enqueued; without it, nodes
    /// find them with their next poll, within a second by default. Every other way of enqueueing does it by itself.
    pub fn wake_nodes(&self) {
        self.announce_work();
    }

    /// Tells nodes that jobs were queued: those of this process at once, others over PostgreSQL, after the commit and in a
    /// task of its own, so that no caller waits for it.
    pub(crate) fn announce_work(&self) {
        self.note_work();
        self.work_hints.here.send_replace(());
        let (Db::Postgres(_), Ok(runtime)) = (&self.db, tokio::runtime::Handle::try_current()) else {
            return;
        };
        let starts = self.work_hints.sending(|sending| {
            sending.again = true;
            !std::mem::replace(&mut sending.running, true)
        });
        if starts {
            runtime.spawn(send_hints(self.clone()));
        }
    }

    /// Jobs may wait now that did not before. Wakes no dispatcher.
    pub(crate) fn note_work(&self) {
        self.work_hints.announced.fetch_add(1, Ordering::SeqCst);
    }

    /// Changes whenever jobs may have begun to wait, as far as this process knows.
    pub(crate) fn announced_work(&self) -> u64 {
        self.work_hints.announced.load(Ordering::SeqCst)
    }

    /// Changes whenever a client of this process has queued something.
    pub(crate) fn work_queued(&self) -> watch::Receiver<()> {
        self.work_hints.here.subscribe()
    }
}

/// The first hint goes out at once; what is queued during the silence after it goes with the next.
async fn send_hints(store: Store) {
    loop {
        let queued = store.work_hints.sending(|sending| {
            sending.running = std::mem::take(&mut sending.again);
            sending.running
        });
        if !queued {
            return;
        }
        if let Err(error) = store.notify().await {
            tracing::debug!(%error, "other nodes could not be woken; their next poll finds the jobs");
        }
        tokio::time::sleep(SILENCE).await;
    }
}

/// Listens to other nodes until this one stops.
pub(crate) async fn listen(shared: Arc<Shared>) {
    let mut pause = RECONNECT[0];
    loop {
        let begun = Instant::now();
        let listened = tokio::select! {
            () = shared.stopping.cancelled() => return,
            listened = shared.loop_store.listen(|| {
                shared.loop_store.note_work();
                shared.nudge.notify_one();
            }) => listened,
        };
        if begun.elapsed() > RECONNECT[1] {
            // It worked for a while: this is a new trouble.
            pause = RECONNECT[0];
        }
        match listened {
            Ok(Listening::Impossible) => return,
            Ok(Listening::Ended) => {}
            Err(error) => {
                shared.warn_folded("cannot listen to other nodes; polling instead", &error);
                pause = (pause * 2).min(RECONNECT[1]);
            }
        }
        tokio::select! {
            () = shared.stopping.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}
