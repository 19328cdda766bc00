//! The claims that a worker has.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use lineclear::remote::RemoteRun;
use lineclear::store::ClaimRef;
use tokio::sync::Notify;

struct Active {
    run: Arc<RemoteRun>,
    /// Its handler has ended, and its result is not recorded yet.
    has_ended: bool,
    /// The server said that another has the job: no result is sent.
    is_stale: bool,
}

/// The claims of a worker. Shared with the thread that renews leases, so its lock is never held across an await.
#[derive(Default)]
pub(crate) struct ActiveClaims {
    claims: Mutex<HashMap<ClaimRef, Active>>,
    /// A slot may have become free.
    freed: Notify,
}

impl ActiveClaims {
    fn claims(&self) -> MutexGuard<'_, HashMap<ClaimRef, Active>> {
        self.claims.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Adds a claim; false if the worker has it already.
    pub(crate) fn add(&self, run: Arc<RemoteRun>) -> bool {
        let mut claims = self.claims();
        if claims.contains_key(&run.claim()) {
            return false;
        }
        claims.insert(run.claim(), Active { run, has_ended: false, is_stale: false });
        true
    }

    /// The handler of a claim has ended.
    pub(crate) fn end(&self, claim: ClaimRef) {
        if let Some(active) = self.claims().get_mut(&claim) {
            active.has_ended = true;
        }
        self.freed.notify_one();
    }

    pub(crate) fn remove(&self, claim: ClaimRef) {
        self.claims().remove(&claim);
        self.freed.notify_one();
    }

    /// Jobs that can be started now. Results that are on their way keep no slot, unless there are many.
    fn free(&self, slots: u32) -> u32 {
        let claims = self.claims();
        let running = claims.values().filter(|active| !active.has_ended).count();
        let (slots, free) = (slots as usize, (slots as usize).saturating_sub(running));
        u32::try_from(free.min((2 * slots).saturating_sub(claims.len()))).unwrap_or_default()
    }

    /// Waits until jobs can be started, and returns how many.
    pub(crate) async fn until_free(&self, slots: u32) -> u32 {
        loop {
            match self.free(slots) {
                0 => self.freed.notified().await,
                free => return free,
            }
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.claims().len()
    }

    /// All claims.
    pub(crate) fn references(&self) -> Vec<ClaimRef> {
        self.claims().keys().copied().collect()
    }

    /// Claims whose leases are to be renewed.
    pub(crate) fn to_renew(&self) -> Vec<ClaimRef> {
        self.claims().iter().filter(|(_, active)| !active.is_stale).map(|(claim, _)| *claim).collect()
    }

    pub(crate) fn runs(&self) -> Vec<Arc<RemoteRun>> {
        self.claims().values().map(|active| active.run.clone()).collect()
    }

    pub(crate) fn run(&self, claim: ClaimRef) -> Option<Arc<RemoteRun>> {
        self.claims().get(&claim).map(|active| active.run.clone())
    }

    pub(crate) fn is_stale(&self, claim: ClaimRef) -> bool {
        self.claims().get(&claim).is_some_and(|active| active.is_stale)
    }

    /// The server said that the worker does not have this job any more.
    pub(crate) fn lose(&self, claim: ClaimRef) {
        if let Some(active) = self.claims().get_mut(&claim) {
            active.is_stale = true;
            active.run.lose();
        }
    }

    pub(crate) fn shut_down_all(&self) {
        self.runs().iter().for_each(|run| run.shut_down());
    }

    /// When the first lease can no longer be trusted.
    pub(crate) fn earliest_trust(&self) -> Option<Instant> {
        let claims = self.claims();
        let running = claims.values().filter(|active| !active.has_ended && !active.run.is_stopped());
        running.map(|active| active.run.trusted_until()).min()
    }

    /// Stops handlers whose lease may have ended without our knowledge.
    pub(crate) fn stop_untrusted(&self, now: Instant) {
        let claims = self.claims();
        let untrusted = claims.values().filter(|active| active.run.trusted_until() <= now);
        untrusted.for_each(|active| active.run.lose());
    }
}
