//! One leader among many: campaign, lead, resign, campaign again.

use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::clock::Moment;
use crate::error::LockError;
use crate::guard::LockGuard;
use crate::lease::Lease;
use crate::locks::Locks;
use crate::name::Epoch;

/// How long one who resigned waits for a successor before it stands again.
const STAND_BACK: Duration = Duration::from_secs(5);
/// How long another must have led before one who stood back for it is content.
const CONTENT: Duration = Duration::from_millis(500);
/// How long a campaign asks before it looks whether it shall stop.
const CAMPAIGN: Duration = Duration::from_secs(60);

/// A lead that several processes want, and one has. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Election {
    locks: Locks,
    name: Arc<str>,
    /// Who we are to those who name a successor.
    candidate: Arc<str>,
    /// Of the term that we lead, if we do.
    resign: Arc<Mutex<Resignation>>,
    leading: watch::Sender<Option<Epoch>>,
}

/// How a term is told to end.
#[derive(Debug, Default)]
struct Resignation {
    asked: CancellationToken,
    successor: Option<Arc<str>>,
}

/// What a leader is given: the right that its lock gives, and a signal to come to an end.
#[derive(Clone, Debug)]
pub struct Term {
    lease: Lease,
    ending: CancellationToken,
}

impl Term {
    /// Cancelled when the leader shall come to an end: the lead is lost, it was asked to resign, or the process stops.
    pub fn ending(&self) -> &CancellationToken {
        &self.ending
    }
}

impl Deref for Term {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
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
            candidate: Arc::from(self.holder().to_string()),
            resign: Arc::default(),
            leading: watch::Sender::new(None),
        }
    }
}

impl Election {
    /// Stands under this name, by which another can [hand over](Election::resign_to) to it. Without one, it is
    /// [`Locks::holder`].
    #[must_use]
    pub fn as_candidate(self, candidate: &str) -> Election {
        Election { candidate: Arc::from(candidate), ..self }
    }

    /// The epoch of the term that we lead, and every change of it.
    pub fn leading(&self) -> watch::Receiver<Option<Epoch>> {
        self.leading.subscribe()
    }

    /// Asks our own leader, if it is one, to hand over: its work is told to end; when it has, the lock is released, and we stand back
    /// until another leads, or nobody wants to for five seconds.
    pub fn resign(&self) {
        self.resignation().asked.cancel();
    }

    /// The same, in favour of the candidate that [stands under](Election::stand_as) this name: for five seconds the others leave the
    /// lead to it. If it does not take it, anybody may.
    pub fn resign_to(&self, successor: &str) {
        let mut resignation = self.resignation();
        resignation.successor = Some(Arc::from(successor));
        resignation.asked.cancel();
    }

    fn resignation(&self) -> MutexGuard<'_, Resignation> {
        self.resign.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Campaigns, and runs `work` for as long as we lead; and so on, until `stop`. A store that cannot be reached is asked again.
    ///
    /// A term ends when its work has ended. Work that does not heed [`Term::ending`] within
    /// [`LockOptions::stop_timeout`](crate::LockOptions::stop_timeout) is aborted. If it goes on even then, because it blocks its thread,
    /// the lock is neither renewed nor released, and we do not stand again before it is over.
    pub async fn run<F>(
        &self,
        stop: &CancellationToken,
        mut work: impl FnMut(Term) -> F,
    ) -> Result<(), LockError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut left_to = None;
        while !stop.is_cancelled() {
            let acquired = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                acquired = self.locks.acquire(&self.name, CAMPAIGN) => acquired,
            };
            match acquired {
                Ok(Some(held)) => {
                    let epoch = held.epoch();
                    let another_s = self.another_s_turn().await;
                    if another_s.is_some() && another_s != left_to {
                        // Once for each time that a successor was named: it may not be there.
                        left_to = another_s;
                        tracing::debug!(lock.name = %self.name, "the lead is left to the successor that was named");
                        self.release(held).await;
                        self.stand_back(epoch, CONTENT, stop).await;
                        continue;
                    }
                    let (end, succession) = self.lead(held, stop, &mut work).await;
                    tracing::info!(lock.name = %self.name, lock.epoch = %epoch, ?end, "a term has ended");
                    match end {
                        End::Stopped => return Ok(()),
                        End::Resigned if succession.is_some() => self.stand_back(epoch, CONTENT, stop).await,
                        End::Resigned => self.stand_back(epoch, Duration::ZERO, stop).await,
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

    /// The lock whose kind says who shall lead next.
    fn succession(&self) -> String {
        format!("{}/successor", self.name)
    }

    /// Which naming of a successor stands against us, if one does. Nothing is lost if it is not known.
    async fn another_s_turn(&self) -> Option<Epoch> {
        let seen = self.locks.read(&self.succession()).await.ok().flatten()?;
        let named = seen.ends_in.is_some() && seen.kind.as_deref() != Some(&*self.candidate);
        named.then_some(seen.epoch)
    }

    /// Names the successor, before the lead is released.
    async fn name_successor(&self) -> Option<LockGuard> {
        let successor = self.resignation().successor.clone()?;
        // Whoever handed over to us may still hold it for a moment.
        let named = self.locks.of_kind(&successor).acquire(&self.succession(), STAND_BACK).await;
        named.unwrap_or_else(|error| {
            tracing::warn!(%error, lock.name = %self.name, "no successor could be named; anybody may lead");
            None
        })
    }

    /// One term, from the first moment to the last of its work. If a successor was named, it is for as long as what comes back is held.
    async fn lead<F>(
        &self,
        held: LockGuard,
        stop: &CancellationToken,
        work: &mut impl FnMut(Term) -> F,
    ) -> (End, Option<LockGuard>)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let term = Term { lease: held.lease(), ending: CancellationToken::new() };
        let resign = CancellationToken::new();
        *self.resignation() = Resignation { asked: resign.clone(), successor: None };
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
                return (End::Done, None);
            }
        };
        term.ending.cancel();
        let mut succession = None;
        match self.end(running).await {
            None => {
                if end == End::Resigned {
                    succession = self.name_successor().await;
                }
                self.release(held).await;
            }
            Some(blocked) => {
                tracing::error!(lock.name = %self.name, "the leader's work cannot be ended; its lock ends by itself");
                held.abandon();
                drop(blocked.await);
            }
        }
        self.leading.send_replace(None);
        (end, succession)
    }

    /// Waits for the work to end, then aborts it; gives it back if it goes on even then.
    async fn end(&self, mut running: JoinHandle<()>) -> Option<JoinHandle<()>> {
        for limit in [self.locks.options().stop_timeout, Duration::from_secs(1)] {
            let over = self.locks.core().runtime.sleep(limit);
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

    async fn release(&self, held: LockGuard) {
        if let Err(error) = held.release().await {
            tracing::warn!(%error, lock.name = %self.name, "a lead was not released; it ends by itself");
        }
    }

    /// Until another leads, for this long, or nobody wants to.
    async fn stand_back(&self, epoch: Epoch, content: Duration, stop: &CancellationToken) {
        let deadline = Moment::now().plus(STAND_BACK);
        let mut leads = None;
        while !deadline.remaining().is_zero() && !stop.is_cancelled() {
            let seen = self.locks.read(&self.name).await;
            // Where a successor was named, others may hold the lock for a moment, and leave it to that one.
            leads = match seen {
                Ok(Some(seen)) if seen.epoch > epoch && (content.is_zero() || seen.ends_in.is_some()) => {
                    leads.filter(|(leader, _)| *leader == seen.epoch).or(Some((seen.epoch, Moment::now())))
                }
                _ => None,
            };
            if leads.is_some_and(|(_, since)| since.plus(content).remaining().is_zero()) {
                return;
            }
            self.pause(stop).await;
        }
    }

    /// Another pause for everybody, so that they do not all stand at once.
    async fn pause(&self, stop: &CancellationToken) {
        let retry = self.locks.options().retry_interval;
        let dice = u32::from(Uuid::new_v4().as_bytes()[0]);
        let pause = self.locks.core().runtime.sleep(retry / 2 + retry * dice / 256);
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
