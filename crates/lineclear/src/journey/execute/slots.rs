//! The slots of a node: how many handlers run at once, and the claims that wait for one of them.
//!
//! A slot is taken from the start of a handler to its end: not while its job is leased, and not while its outcome is written. What
//! is leased and not settled is bounded, too ([`UNSETTLED_MAX`], [`UNSETTLED_BYTES_MAX`]).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use lineclear_model::{Outcome, Verdict};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::journey::execute::prefetch::Prefetch;
use crate::node::Shared;
use crate::store::{Claim, Settlement};

/// A claim that has waited for a slot for this long goes back into the queue: another node may have a free one.
pub(crate) const WAITS_AT_MOST: Duration = Duration::from_millis(250);
/// Jobs whose handlers have ended and whose outcomes are not written yet; with more, nothing is leased.
const UNSETTLED_MAX: u32 = 2_000;
/// Bytes of their outputs and errors.
const UNSETTLED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A claim that waits for a slot.
pub(crate) struct Waiting {
    pub(crate) claim: Claim,
    pub(crate) cancel: CancellationToken,
    pub(crate) settle: mpsc::Sender<Settlement>,
    /// It was leased ahead, and does not count as started.
    pub(crate) ahead: bool,
    since: Instant,
}

impl Waiting {
    pub(crate) fn new(
        claim: Claim,
        cancel: CancellationToken,
        settle: mpsc::Sender<Settlement>,
        ahead: bool,
    ) -> Waiting {
        Waiting { claim, cancel, settle, ahead, since: Instant::now() }
    }
}

/// How many jobs to lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    /// In all.
    pub(crate) most: u32,
    /// Of these, more than there are free slots.
    pub(crate) ahead: u32,
}

impl Room {
    /// As many as there are free slots.
    pub(crate) fn for_free(most: u32) -> Room {
        Room { most, ahead: 0 }
    }
}

#[derive(Default)]
struct State {
    busy: u32,
    waiting: VecDeque<Waiting>,
    prefetch: Prefetch,
}

/// The slots of a node. Its lock is never held across an await.
#[derive(Default)]
pub(crate) struct Slots {
    state: Mutex<State>,
}

impl Slots {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How many jobs to lease now.
    pub(crate) fn room(&self, shared: &Shared) -> Room {
        let unsettled = shared.running.unsettled();
        let state = self.state();
        let waiting = count(&state.waiting);
        let slots = shared.tunable().slots;
        let free = slots.saturating_sub(state.busy + waiting);
        let ahead = state.prefetch.ahead(slots);
        // Few jobs at a time would cost a round trip each.
        let wanted = if free == 0 && waiting > ahead / 2 { 0 } else { free + ahead.saturating_sub(waiting) };
        if unsettled.bytes >= UNSETTLED_BYTES_MAX {
            return Room::default();
        }
        let most = wanted.min(UNSETTLED_MAX.saturating_sub(unsettled.count));
        Room { most, ahead: most.saturating_sub(free) }
    }

    /// A dispatch asked for so many jobs and got so many.
    pub(crate) fn arrived(&self, asked: u32, got: usize, slots: u32) {
        let mut state = self.state();
        let waiting = count(&state.waiting);
        state.prefetch.arrived(asked, u32::try_from(got).unwrap_or(asked), waiting, slots);
    }

    pub(crate) fn push(&self, waiting: Waiting) {
        self.state().waiting.push_back(waiting);
    }

    /// The next claim to start, if a slot is free.
    pub(crate) fn next(shared: &Arc<Shared>) -> Option<(Waiting, SlotGuard)> {
        let slots = shared.tunable().slots;
        let mut state = shared.slots.state();
        if state.busy >= slots || shared.isolation.is_wanted() {
            return None;
        }
        let waiting = state.waiting.pop_front()?;
        state.busy += 1;
        Some((waiting, SlotGuard { shared: shared.clone(), begun_at: Instant::now() }))
    }

    /// A slot for a job that runs alone, whether or not one is free.
    pub(crate) fn one_more(shared: &Arc<Shared>) -> SlotGuard {
        shared.slots.state().busy += 1;
        SlotGuard { shared: shared.clone(), begun_at: Instant::now() }
    }

    /// Whether it is time to lease more: few claims wait, and more jobs do.
    pub(crate) fn runs_dry(&self, slots: u32) -> bool {
        let state = self.state();
        state.prefetch.more_wait() && count(&state.waiting) <= state.prefetch.ahead(slots) / 2
    }

    /// Gives claims that wait for a slot back into the queue, uncharged: all of them, or those that have waited too long.
    pub(crate) fn give_back(&self, all: bool) {
        let back: Vec<Waiting> = {
            let mut state = self.state();
            let stays = |waiting: &Waiting| !all && waiting.since.elapsed() < WAITS_AT_MOST;
            let (stay, back): (Vec<_>, Vec<_>) = state.waiting.drain(..).partition(stays);
            state.waiting = stay.into();
            if !back.is_empty() {
                state.prefetch.waited_too_long();
            }
            back
        };
        if back.is_empty() {
            return;
        }
        tokio::spawn(async move {
            for Waiting { claim, settle, .. } in back {
                // Without a settler, their leases end.
                drop(settle.send(Settlement::new(&claim, Outcome::Released, Verdict::Release)).await);
            }
        });
    }

    /// Gives back what has waited too long, when that time has come.
    pub(crate) fn give_back_later(shared: &Arc<Shared>) {
        if shared.slots.state().waiting.is_empty() {
            return;
        }
        let shared = shared.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(WAITS_AT_MOST) => shared.slots.give_back(false),
                () = shared.stopping.cancelled() => shared.slots.give_back(true),
            }
        });
    }
}

fn count(waiting: &VecDeque<Waiting>) -> u32 {
    u32::try_from(waiting.len()).unwrap_or(u32::MAX)
}

/// A slot that is taken until this is dropped.
pub(crate) struct SlotGuard {
    shared: Arc<Shared>,
    begun_at: Instant,
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        let mut state = self.shared.slots.state();
        state.busy -= 1;
        state.prefetch.ran(self.begun_at.elapsed());
    }
}
