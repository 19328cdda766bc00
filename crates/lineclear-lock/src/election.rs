//! One leader among many: campaign, lead, resign, campaign again.

use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::clock::Moment;
use crate::error::LockError;
use crate::held::Held;
use crate::locks::Locks;
use crate::name::Epoch;
use crate::right::Right;

/// How long one who resigned waits for a successor before it stands again.
const STAND_BACK: Duration = Duration::from_secs(5);
/// How long a campaign asks before it looks whether it shall stop.
const CAMPAIGN: Duration = Duration::from_secs(60);

/// A lead that several processes want, and one has. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Election {
    locks: Locks,
    name: Arc<str>,
    /// Of the term that we lead, if we do.
    resign: Arc<Mutex<CancellationToken>>,
    leading: watch::Sender<Option<Epoch>>,
}

/// What a leader is given: the right that its lock gives, and a signal to come to an end.
#[derive(Clone, Debug)]
pub struct Term {
    right: Right,
    ending: CancellationToken,
}

impl Term {
    /// Cancelled when the leader shall come to an end: the lead is lost, it was asked to resign, or the process stops.
    pub fn ending(&self) -> &CancellationToken {
        &self.ending
    }
}

impl Deref for Term {
    type Target = Right;

    fn deref(&self) -> &Right {
        &self.right
    }
}

/// Why a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stopped,
    Resigned,
    Lost,
    /// The work returned or panicked by itself.
    Done,
}

impl Locks {
    /// An election for the lead of this name.
    pub fn election(&self, name: &str) -> Election {
        Election {
            locks: self.clone(),
            name: Arc::from(name),
            resign: Arc::default(),
            leading: watch::Sender::new(None),
        }
    }
}

impl Election {
    /// The epoch of the term that we lead, and every change of it.
    pub fn leading(&self) -> watch::Receiver<Option<Epoch>> {
        self.leading.subscribe()
    }

    /// Asks our own leader, if it is one, to hand over: its work is told to end; when it has, the lock is released, and we stand back
    /// until another leads, or nobody wants to for five seconds.
    pub fn resign(&self) {
        self.resign.lock().unwrap_or_else(PoisonError::into_inner).cancel();
    }

    /// Campaigns, and runs `work` for as long as we lead; and so on, until `stop`. A store that cannot be reached is asked again.
    ///
    /// A term ends when its work has ended. Work that does not heed [`Term::ending`] within
    /// [`LockOptions::stop_within`](crate::LockOptions::stop_within) is aborted. If it goes on even then, because it blocks its thread,
    /// the lock is neither renewed nor released, and we do not stand again before it is over.
    pub async fn run<F>(
        &self,
        stop: &CancellationToken,
        mut work: impl FnMut(Term) -> F,
    ) -> Result<(), LockError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        while !stop.is_cancelled() {
            let acquired = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                acquired = self.locks.acquire(&self.name, CAMPAIGN) => acquired,
            };
            match acquired {
                Ok(Some(held)) => {
                    let epoch = held.epoch();
                    let end = self.lead(held, stop, &mut work).await;
                    tracing::info!(lock.name = %self.name, lock.epoch = %epoch, ?end, "a term has ended");
                    match end {
                        End::Stopped => return Ok(()),
                        End::Resigned => self.stand_back(epoch, stop).await,
                        End::Lost | End::Done => self.pause(stop).await,
                    }
                }
                Ok(None) => {}
                Err(error) if error.is_unavailable() => {
                    tracing::warn!(%error, lock.name = %self.name, "a campaign could not be held");
                    self.pause(stop).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// One term, from the first moment to the last of its work.
    async fn lead<F>(&self, held: Held, stop: &CancellationToken, work: &mut impl FnMut(Term) -> F) -> End
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let term = Term { right: held.right(), ending: CancellationToken::new() };
        let resign = CancellationToken::new();
        *self.resign.lock().unwrap_or_else(PoisonError::into_inner) = resign.clone();
        tracing::info!(lock.name = %self.name, lock.epoch = %held.epoch(), "leading");
        // A task of its own: it can be aborted, and its panics are not ours.
        let mut running = tokio::spawn(work(term.clone()));
        self.leading.send_replace(Some(held.epoch()));
        let end = tokio::select! {
            biased;
            () = term.lost().cancelled() => End::Lost,
            () = stop.cancelled() => End::Stopped,
            () = resign.cancelled() => End::Resigned,
            joined = &mut running => {
                note_panic(&self.name, joined);
                self.leading.send_replace(None);
                self.release(held).await;
                return End::Done;
            }
        };
        term.ending.cancel();
        match self.end(running).await {
            None => self.release(held).await,
            Some(blocked) => {
                tracing::error!(lock.name = %self.name, "the leader's work cannot be ended; its lock ends by itself");
                held.abandon();
                drop(blocked.await);
            }
        }
        self.leading.send_replace(None);
        end
    }

    /// Waits for the work to end, then aborts it; gives it back if it goes on even then.
    async fn end(&self, mut running: JoinHandle<()>) -> Option<JoinHandle<()>> {
        for limit in [self.locks.options().stop_within, Duration::from_secs(1)] {
            let over = self.locks.core().keeper.sleep(limit);
            tokio::select! {
                biased;
                joined = &mut running => {
                    note_panic(&self.name, joined);
                    return None;
                }
                () = over => running.abort(),
            }
        }
        Some(running)
    }

    async fn release(&self, held: Held) {
        if let Err(error) = held.release().await {
            tracing::warn!(%error, lock.name = %self.name, "a lead was not released; it ends by itself");
        }
    }

    /// Until another leads, or nobody wants to.
    async fn stand_back(&self, epoch: Epoch, stop: &CancellationToken) {
        let deadline = Moment::now().plus(STAND_BACK);
        while !deadline.remaining().is_zero() && !stop.is_cancelled() {
            let seen = self.locks.look(&self.name).await;
            if matches!(seen, Ok(Some(holding)) if holding.epoch > epoch) {
                return;
            }
            self.pause(stop).await;
        }
    }

    /// Another pause for everybody, so that they do not all stand at once.
    async fn pause(&self, stop: &CancellationToken) {
        let retry = self.locks.options().retry;
        let dice = u32::from(Uuid::new_v4().as_bytes()[0]);
        let pause = self.locks.core().keeper.sleep(retry / 2 + retry * dice / 256);
        tokio::select! {
            () = stop.cancelled() => {}
            () = pause => {}
        }
    }
}

fn note_panic(name: &str, joined: Result<(), tokio::task::JoinError>) {
    if let Err(error) = joined.map_err(|error| error.to_string()) {
        tracing::error!(lock.name = %name, error, "the leader's work did not end by itself");
    }
}
