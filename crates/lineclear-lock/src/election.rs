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

/// How long a candidate that resigned waits for another leader before it campaigns again.
const STAND_BACK: Duration = Duration::from_secs(5);
/// How long a named successor must have led before the others campaign again.
const SUCCESSOR_LEADS: Duration = Duration::from_millis(500);
/// How long a campaign waits for the lock before it checks whether to stop.
const CAMPAIGN: Duration = Duration::from_secs(60);

/// How long aborted work may take to end at its next point of waiting.
const ABORT: Duration = Duration::from_secs(1);
/// The shortest pause between looks at how long a lock can be trusted.
const TRUST_CHECK_MIN: Duration = Duration::from_millis(1);

/// An election: one of several processes leads. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Election {
    locks: Locks,
    name: Arc<str>,
    /// The name of this candidate, for a leader that names its successor.
    candidate: Arc<str>,
    /// The resignation of the current term.
    resign: Arc<Mutex<Resignation>>,
    leading: watch::Sender<Option<Epoch>>,
}

/// A request to end a term.
#[derive(Debug, Default)]
struct Resignation {
    asked: CancellationToken,
    successor: Option<Arc<str>>,
}

/// A term of a leader: the lease of its lock, and a signal to stop.
#[derive(Clone, Debug)]
pub struct Term {
    lease: Lease,
    ending: CancellationToken,
}

impl Term {
    /// Cancelled when the leader must stop: it was asked to resign, the process stops, or its lock could not be renewed and can be trusted for only
    /// [`LockOptions::margin`](crate::LockOptions::margin) more. When the lock is lost, the work is dropped.
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
    /// Names this candidate, so that a leader can [hand over](Election::resign_to) to it. The default is [`Locks::holder`].
    #[must_use]
    pub fn as_candidate(self, candidate: &str) -> Election {
        Election { candidate: Arc::from(candidate), ..self }
    }

    /// The epoch of the current term if this process leads, and every change of it.
    pub fn leading(&self) -> watch::Receiver<Option<Epoch>> {
        self.leading.subscribe()
    }

    /// Resigns, if this process leads: its work is told to stop; then the lock is released, and this candidate waits until another leads,
    /// but at most five seconds.
    pub fn resign(&self) {
        self.resignation().asked.cancel();
    }

    /// Resigns in favour of the [candidate](Election::as_candidate) of this name: for five seconds, the others leave the lead to it. If it
    /// does not lead by then, any candidate may.
    pub fn resign_to(&self, successor: &str) {
        let mut resignation = self.resignation();
        resignation.successor = Some(Arc::from(successor));
        resignation.asked.cancel();
    }

    fn resignation(&self) -> MutexGuard<'_, Resignation> {
        self.resign.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Campaigns, runs `work` while this process leads, and campaigns again, until `stop`. A store that cannot be reached is asked again.
    ///
    /// A term ends when its work has ended. Work that does not stop after [`Term::ending`] within
    /// [`LockOptions::stop_timeout`](crate::LockOptions::stop_timeout) is aborted, and at once when the lock is lost: before another process can
    /// hold it. Tasks that the work has spawned are not stopped. If it blocks its thread and continues even then, the lock is neither renewed nor released, and this candidate does not campaign again before the work has ended.
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
                    let other = self.other_successor().await;
                    if other.is_some() && other != left_to {
                        // Once for each naming of a successor: it may not exist.
                        left_to = other;
                        tracing::debug!(lock.name = %self.name, "left the lead to the named successor");
                        self.release(held).await;
                        self.stand_back(epoch, SUCCESSOR_LEADS, stop).await;
                        continue;
                    }
                    let (end, succession) = self.lead(held, stop, &mut work).await;
                    tracing::info!(lock.name = %self.name, lock.epoch = %epoch, ?end, "a term ended");
                    match end {
                        End::Stopped => return Ok(()),
                        End::Resigned if succession.is_some() => {
                            self.stand_back(epoch, SUCCESSOR_LEADS, stop).await
                        }
                        End::Resigned => self.stand_back(epoch, Duration::ZERO, stop).await,
                        End::Lost | End::Done => self.pause(stop).await,
                    }
                }
                Ok(None) => {}
                Err(error) if error.is_unavailable() => {
                    tracing::warn!(%error, lock.name = %self.name, "cannot campaign");
                    self.pause(stop).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The lock whose kind names the successor.
    fn succession(&self) -> String {
        format!("{}/successor", self.name)
    }

    /// The epoch of the succession lock, if it names another candidate. An error counts as none.
    async fn other_successor(&self) -> Option<Epoch> {
        let seen = self.locks.read(&self.succession()).await.ok().flatten()?;
        let named = seen.ends_in.is_some() && seen.kind.as_deref() != Some(&*self.candidate);
        named.then_some(seen.epoch)
    }

    /// Names the successor, before the lead is released.
    async fn name_successor(&self) -> Option<LockGuard> {
        let successor = self.resignation().successor.clone()?;
        // The leader before may still hold it for a moment.
        let named = self.locks.of_kind(&successor).acquire(&self.succession(), STAND_BACK).await;
        named.unwrap_or_else(|error| {
            tracing::warn!(%error, lock.name = %self.name, "cannot name a successor; any candidate may lead");
            None
        })
    }

    /// Runs one term, from the start of its work to its end. A successor stays named as long as the returned guard is held.
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
        // A task of its own: it can be aborted, and a panic ends only the term.
        let mut running = tokio::spawn(work(term.clone()));
        self.leading.send_replace(Some(held.epoch()));
        let end = tokio::select! {
            biased;
            () = term.lost().cancelled() => End::Lost,
            () = self.trust_is_short(&term) => End::Lost,
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
        match self.end(running, &term).await {
            None => {
                if end == End::Resigned {
                    succession = self.name_successor().await;
                }
                self.release(held).await;
            }
            Some(blocked) => {
                tracing::error!(lock.name = %self.name, "the work of the leader cannot be stopped; its lock ends by itself");
                held.abandon();
                drop(blocked.await);
            }
        }
        self.leading.send_replace(None);
        (end, succession)
    }

    /// Waits until the lock can be trusted for little more: no renewal succeeded for long.
    async fn trust_is_short(&self, term: &Term) {
        while let Some(left) = term.trusted_for().checked_sub(self.locks.options().margin) {
            self.locks.core().runtime.sleep(left.max(TRUST_CHECK_MIN)).await;
        }
    }

    /// Waits for the work to stop while the lock is held, then aborts it; returns it if it continues even then.
    async fn end(&self, mut running: JoinHandle<()>, term: &Term) -> Option<JoinHandle<()>> {
        let over = self.locks.core().runtime.sleep(self.locks.options().stop_timeout);
        tokio::select! {
            biased;
            joined = &mut running => {
                note_panic(&self.name, joined);
                return None;
            }
            () = term.lost().cancelled() => {}
            () = over => {}
        }
        running.abort();
        tokio::select! {
            biased;
            joined = &mut running => note_panic(&self.name, joined),
            () = self.locks.core().runtime.sleep(ABORT) => return Some(running),
        }
        None
    }

    async fn release(&self, held: LockGuard) {
        if let Err(error) = held.release().await {
            tracing::warn!(%error, lock.name = %self.name, "cannot release the lead; it ends by itself");
        }
    }

    /// Waits until another has led for this long, but at most [`STAND_BACK`].
    async fn stand_back(&self, epoch: Epoch, led_for: Duration, stop: &CancellationToken) {
        let deadline = Moment::now().plus(STAND_BACK);
        let mut leads = None;
        while !deadline.remaining().is_zero() && !stop.is_cancelled() {
            let seen = self.locks.read(&self.name).await;
            // If a successor is named, other candidates may hold the lock for a moment and leave it to that one.
            leads = match seen {
                Ok(Some(seen)) if seen.epoch > epoch && (led_for.is_zero() || seen.ends_in.is_some()) => {
                    leads.filter(|(leader, _)| *leader == seen.epoch).or(Some((seen.epoch, Moment::now())))
                }
                _ => None,
            };
            if leads.is_some_and(|(_, since)| since.plus(led_for).remaining().is_zero()) {
                return;
            }
            self.pause(stop).await;
        }
    }

    /// A random pause, so that candidates do not all campaign at once.
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
        tracing::error!(lock.name = %name, error, "the work of the leader panicked or was aborted");
    }
}
