//! Starts claims: most of them beside each other, a job on its last chance alone.

use std::sync::Arc;
use std::time::Instant;

use lineclear_model::{Name, Outcome, Verdict};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::journey::claim::isolation::{EndOfIsolation, RunPermit};
use crate::journey::claim::renewer::{leased_at, trusted_until};
use crate::journey::execute::slots::{SlotGuard, Slots, Waiting};
use crate::journey::execute::{deadline, execute};
use crate::node::Shared;
use crate::store::{Claim, ClaimRef, Settlement};

/// Starts claims, each in its own task, those that run alone after the others; those for which no slot is free wait for one.
/// `ahead`: some were leased ahead of a free slot, so none of them counts as started yet.
pub(crate) fn start(
    shared: &Arc<Shared>,
    claims: Vec<Claim>,
    asked_at: Instant,
    ahead: bool,
    settle: &mpsc::Sender<Settlement>,
) {
    let add = |claim: &Claim, submitter: Option<Name>| {
        let trusted = trusted_until(shared, leased_at(shared, claim, asked_at));
        shared.running.add(claim.reference(), trusted, deadline(shared, claim), submitter)
    };
    let mut alone = Vec::new();
    for claim in claims {
        if let Some(to) = shared.routing.submitter(&claim.route) {
            let cancel = add(&claim, Some(to.name.clone()));
            tokio::spawn(run(shared.clone(), claim, Placement::Elsewhere, cancel, settle.clone()));
        } else if is_last_chance(shared, &claim) {
            alone.push(claim);
        } else {
            let cancel = add(&claim, None);
            shared.slots.push(Waiting::new(claim, cancel, settle.clone(), ahead));
        }
    }
    start_waiting(shared);
    for claim in alone {
        // Requested here, not in its task: from now on the node leases nothing more.
        let placement = match shared.isolation.request() {
            Some(end) => Placement::Alone(Slots::one_more(shared), end),
            None => Placement::GiveBack,
        };
        let cancel = add(&claim, None);
        tokio::spawn(run(shared.clone(), claim, placement, cancel, settle.clone()));
    }
    Slots::give_back_later(shared);
}

/// Starts claims that wait for a slot, as many as slots are free.
pub(crate) fn start_waiting(shared: &Arc<Shared>) {
    while let Some((waiting, slot)) = Slots::next(shared) {
        let Waiting { claim, cancel, settle, ahead, .. } = waiting;
        let permit = shared.isolation.beside_others();
        let placement = Placement::Beside { permit, slot, is_marked: ahead && claim.no > 1 };
        tokio::spawn(run(shared.clone(), claim, placement, cancel, settle));
    }
    if shared.slots.runs_dry(shared.tunable().slots) {
        shared.nudge.notify_one();
    }
}

/// The next vanished worker would bury it.
fn is_last_chance(shared: &Shared, claim: &Claim) -> bool {
    let options = &shared.options;
    options.crashed_alone && claim.crashes > 0 && claim.crashes + 1 >= options.crash_budget
}

/// Where a job runs.
enum Placement {
    /// `is_marked`: its start is recorded. Claims that were leased ahead do not count as started. The first worker that such a job takes
    /// down is not charged to it; from its second claim on, its start is recorded, so that a job cannot take down one worker after the other.
    Beside {
        permit: RunPermit,
        slot: SlotGuard,
        is_marked: bool,
    },
    Alone(SlotGuard, EndOfIsolation),
    /// With a submitter: it cannot take this node down.
    Elsewhere,
    /// It must run alone, and another job does.
    GiveBack,
}

/// Runs a claim and passes its outcome on. However it ends, the claim does not stay among the active ones.
async fn run(
    shared: Arc<Shared>,
    claim: Claim,
    placement: Placement,
    cancel: CancellationToken,
    settle: mpsc::Sender<Settlement>,
) {
    let mut guard = Unsettled { shared: &shared, claim: claim.reference(), handed_over: false };
    let (settlement, permit) = match placement {
        Placement::Beside { permit, slot, is_marked } => {
            let settlement = run_permitted(&shared, claim, is_marked, cancel).await;
            drop(slot);
            (settlement, Some(permit))
        }
        Placement::Alone(slot, end) => {
            let ended = run_alone(&shared, claim, end, cancel).await;
            drop(slot);
            ended
        }
        Placement::Elsewhere => (run_permitted(&shared, claim, false, cancel).await, None),
        Placement::GiveBack => (Some(Settlement::new(&claim, Outcome::Released, Verdict::Release)), None),
    };
    if let Some(settlement) = &settlement {
        shared.running.ended(settlement, permit);
    }
    // Another handler begins before this outcome is written.
    start_waiting(&shared);
    guard.handed_over = match settlement {
        Some(settlement) => settle.send(settlement).await.is_ok(),
        // The submitter has its lease.
        None => {
            shared.running.remove(guard.claim);
            shared.nudge.notify_one();
            true
        }
    };
}

async fn run_permitted(
    shared: &Arc<Shared>,
    claim: Claim,
    is_marked: bool,
    cancel: CancellationToken,
) -> Option<Settlement> {
    // It was cancelled, or its lease was lost, while it waited for a slot.
    if cancel.is_cancelled() {
        return Some(Settlement::new(&claim, Outcome::Released, Verdict::Release));
    }
    if !has_half_its_lease(shared, claim.reference()) {
        if let Some(left_out) = shared.store.monitor.log.note(&"late answers") {
            tracing::warn!(job.id = %claim.job, left_out, "the answer came so late that little of the lease is left; the job is given back");
        }
        shared.caution.note_answer(shared.options.lease);
        return Some(Settlement::new(&claim, Outcome::Released, Verdict::Release));
    }
    // From here on it is charged if its worker vanishes.
    let is_marked = is_marked || claim.crashes > 0;
    if is_marked && !matches!(shared.loop_store.mark_started(claim.reference()).await, Ok(true)) {
        return Some(Settlement::new(&claim, Outcome::Released, Verdict::Release));
    }
    execute(shared.clone(), claim, cancel).await
}

/// No handler starts on a lease that may end before the node can renew it.
fn has_half_its_lease(shared: &Shared, claim: ClaimRef) -> bool {
    let length = shared.options.lease_length();
    // Trust ends a tenth before the lease.
    let enough = length / 2 - length / 10;
    shared.running.trusted_until(claim).is_some_and(|until| Instant::now() + enough <= until)
}

/// Waits until the outcomes of the others are written, for a while; told to stop meanwhile, it gives the job back.
async fn run_alone(
    shared: &Arc<Shared>,
    claim: Claim,
    end: EndOfIsolation,
    cancel: CancellationToken,
) -> (Option<Settlement>, Option<RunPermit>) {
    tracing::info!(job.id = %claim.job, crashes = claim.crashes, "a job whose workers vanished waits to run alone");
    let permit = tokio::select! {
        permit = shared.isolation.alone(shared.options.lease, end) => permit,
        () = cancel.cancelled() => return (Some(Settlement::new(&claim, Outcome::Released, Verdict::Release)), None),
    };
    (run_permitted(shared, claim, false, cancel).await, Some(permit))
}

/// A claim without an outcome must not be renewed: its lease ends, and another node claims the job.
pub(super) struct Unsettled<'a> {
    pub(super) shared: &'a Shared,
    pub(super) claim: ClaimRef,
    pub(super) handed_over: bool,
}

impl Drop for Unsettled<'_> {
    fn drop(&mut self) {
        if !self.handed_over {
            tracing::error!(job.id = %self.claim.job, "a claim ended without an outcome");
            self.shared.running.remove(self.claim);
        }
    }
}
