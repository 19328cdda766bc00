//! A lock that we hold.

use std::ops::Deref;
use std::sync::Arc;

use tokio::time::timeout;

use crate::backend::{Ask, Kept, Released, Taken};
use crate::clock::Moment;
use crate::error::LockError;
use crate::keep::{self, no_answer};
use crate::locks::{Core, patience};
use crate::name::Epoch;
use crate::right::{Lost, Right};

/// A lock that we hold. It is renewed in the background until it is released, dropped or lost.
///
/// Dropping it releases it in the background. If the process ends before that, the lock ends by itself.
#[derive(Debug)]
#[must_use = "a lock that is dropped is released"]
pub struct Held {
    right: Right,
    core: Arc<Core>,
}

impl Held {
    pub(crate) fn new(core: Arc<Core>, ask: Ask, taken: Taken, asked_at: Moment) -> Held {
        let class = core.backend.promises().fence;
        let until = keep::trust(&core.options, asked_at);
        let right = Right::new(ask, taken.epoch, class, until);
        let (backend, options) = (core.backend.clone(), core.options.clone());
        if let Some(limit) = options.soft_limit {
            core.keeper.spawn(right.clone().watch(limit));
        }
        core.keeper.spawn(keep::keep(backend, options, right.clone(), taken.alarm, asked_at));
        Held { right, core }
    }

    /// The right that it gives, to hand to the work that it guards.
    pub fn right(&self) -> Right {
        self.right.clone()
    }

    /// Asks the store whether the lock is still ours, and renews it.
    pub async fn confirm(&self) -> Result<Result<(), Lost>, LockError> {
        let (core, right) = (self.core.clone(), self.right.clone());
        let confirmed = self.core.keeper.run(async move {
            if let Some(why) = right.lost_why() {
                return Ok(Err(why));
            }
            let asked_at = Moment::now();
            let within = core.options.answer_within;
            let extend = core.backend.extend(&right.0.ask, right.epoch());
            match timeout(within, extend).await.unwrap_or_else(|_| Err(no_answer(within)))? {
                // An answer that came after its alarm had rung proves nothing; the keeper asks again.
                Kept::Yes(alarm) if alarm.has_rung() => {}
                // The alarm that the keeper watches still stands; this one would ring at the same time.
                Kept::Yes(_) => right.trust_until(keep::trust(&core.options, asked_at)),
                Kept::No => right.lose(Lost::TakenOver),
            }
            Ok(right.lost_why().map_or(Ok(()), Err))
        });
        confirmed.await
    }

    /// Gives it back, within [`LockOptions::release_within`](crate::LockOptions::release_within). It goes on when this
    /// future is dropped, and needs no runtime of the caller's. Do so after the guarded work has ended, not before.
    pub async fn release(self) -> Result<Released, LockError> {
        self.right.0.let_go.cancel();
        let (core, ask, epoch) = (self.core.clone(), self.right.0.ask.clone(), self.right.epoch());
        self.core.keeper.run(async move { let_go(&core, &ask, Some(epoch)).await }).await
    }
}

impl Held {
    /// Stops renewing it, and does not release it: for when the guarded work cannot be ended. A lease ends by itself; a session lock
    /// with its connection.
    pub(crate) fn abandon(self) {
        self.right.0.let_go.cancel();
    }
}

impl Deref for Held {
    type Target = Right;

    fn deref(&self) -> &Right {
        &self.right
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Released already, or being so.
        if self.right.0.let_go.is_cancelled() {
            return;
        }
        self.right.0.let_go.cancel();
        let_go_in_background(&self.core, self.right.0.ask.clone(), Some(self.right.epoch()));
    }
}

/// Releases on the keeper's thread; nobody waits for it. If it fails, the lock ends by itself.
pub(crate) fn let_go_in_background(core: &Arc<Core>, ask: Ask, epoch: Option<Epoch>) {
    let core = core.clone();
    core.clone().keeper.spawn_background(async move {
        if let Err(error) = let_go(&core, &ask, epoch).await {
            tracing::warn!(%error, lock.name = %ask.name, "a lock was not released; it ends by itself");
        }
    });
}

/// Releases, trying again until the deadline: the store may just be coming back.
async fn let_go(core: &Core, ask: &Ask, epoch: Option<Epoch>) -> Result<Released, LockError> {
    let within = core.options.release_within;
    let deadline = Moment::now().plus(within);
    let mut failures = 0;
    loop {
        let release = core.backend.release(ask, epoch);
        let error = match timeout(deadline.remaining(), release).await {
            Ok(Ok(released)) => {
                tracing::debug!(lock.name = %ask.name, ?released, "released a lock");
                return Ok(released);
            }
            Ok(Err(error)) if error.is_unavailable() => error,
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(no_answer(within)),
        };
        failures += 1;
        let pause = patience(core.options.retry, failures);
        if deadline.remaining() <= pause {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
    }
}
