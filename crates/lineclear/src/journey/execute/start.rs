//! Starts claims: most of them beside each other, a job on its last chance alone.

use std::sync::Arc;
use std::time::Instant;

use lineclear_model::{Outcome, Verdict};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::journey::claim::isolation::RunPermit;
use crate::journey::claim::renewer::{leased_at, trusted_until};
use crate::journey::execute::{deadline, execute};
use crate::node::Shared;
use crate::store::{Claim, ClaimRef, Settlement};

/// Starts claims, each in its own task; those that run alone come after the others.
pub(crate) fn start(
    shared: &Arc<Shared>,
    claims: Vec<Claim>,
    asked_at: Instant,
    settle: &mpsc::Sender<Settlement>,
) {
    let submitted = |claim: &Claim| shared.routing.submitter(&claim.route).map(|to| to.name.clone());
    let (elsewhere, here): (Vec<_>, Vec<_>) =
        claims.into_iter().partition(|claim| submitted(claim).is_some());
    let (alone, together): (Vec<_>, Vec<_>) =
        here.into_iter().partition(|claim| is_last_chance(shared, claim));
    let spawn = |claim: Claim, placement: Placement| {
        let deadline = deadline(shared, &claim);
        let cancel = shared.running.add(
            claim.reference(),
            trusted_until(shared, leased_at(shared, &claim, asked_at)),
            deadline,
            submitted(&claim),
        );
        tokio::spawn(run(shared.clone(), claim, placement, cancel, settle.clone()));
    };
    for claim in elsewhere {
        spawn(claim, Placement::Elsewhere);
    }
    for claim in together {
        spawn(claim, Placement::Beside(shared.isolation.beside_others()));
    }
    for claim in alone {
        // Requested here, not in its task: from now on the node leases nothing more.
        let placement = if shared.isolation.request() { Placement::Alone } else { Placement::GiveBack };
        spawn(claim, placement);
    }
}

/// The next vanished worker would bury it.
fn is_last_chance(shared: &Shared, claim: &Claim) -> bool {
    let options = &shared.options;
    options.crashed_alone && claim.crashes > 0 && claim.crashes + 1 >= options.crash_budget
}

/// Where a job runs.
enum Placement {
    Beside(RunPermit),
    Alone,
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
    let settlement = match placement {
        Placement::Beside(permit) => run_permitted(&shared, claim, Some(permit), cancel).await,
        Placement::Alone => run_alone(&shared, claim, cancel).await,
        Placement::Elsewhere => run_permitted(&shared, claim, None, cancel).await,
        Placement::GiveBack => Some(Settlement::new(&claim, Outcome::Released, Verdict::Release)),
    };
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
    _permit: Option<RunPermit>,
    cancel: CancellationToken,
) -> Option<Settlement> {
    if !has_half_its_lease(shared, claim.reference()) {
        if let Some(left_out) = shared.store.monitor.log.note(&"late answers") {
            tracing::warn!(job.id = %claim.job, left_out, "the answer came so late that little of the lease is left; the job is given back");
        }
        shared.caution.note_answer(shared.options.lease);
        return Some(Settlement::new(&claim, Outcome::Released, Verdict::Release));
    }
    // From here on it is charged if its worker vanishes.
    if claim.crashes > 0 && !matches!(shared.loop_store.mark_started(claim.reference()).await, Ok(true)) {
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

/// Waits until the others have ended, for a while; told to stop meanwhile, it gives the job back.
async fn run_alone(shared: &Arc<Shared>, claim: Claim, cancel: CancellationToken) -> Option<Settlement> {
    let _end = EndOfIsolation(shared);
    tracing::info!(job.id = %claim.job, crashes = claim.crashes, "a job whose workers vanished waits to run alone");
    let permit = tokio::select! {
        permit = shared.isolation.alone(shared.options.lease) => permit,
        () = cancel.cancelled() => return Some(Settlement::new(&claim, Outcome::Released, Verdict::Release)),
    };
    run_permitted(shared, claim, Some(permit), cancel).await
}

/// However the job ends, the node leases jobs again.
struct EndOfIsolation<'a>(&'a Shared);

impl Drop for EndOfIsolation<'_> {
    fn drop(&mut self) {
        self.0.isolation.end();
        self.0.nudge.notify_one();
    }
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
