//! Renewal, on a separate thread and connection: a handler that blocks the runtime keeps its lease.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use lineclear_model::Micros;

use crate::journey::execute::active_jobs::Why;
use crate::node::Shared;
use crate::store::{Claim, Lease, RenewalStatus, Store, StoreResult};

const NAME: &str = "renewal";
/// How often a node checks whether a cancel of one of its jobs was requested.
const PROBE: Duration = Duration::from_secs(1);

/// A lease of this node.
pub(crate) fn lease(shared: &Shared) -> Lease {
    Lease { node: shared.id, length: shared.options.lease_length() }
}

/// A node trusts a lease from the request on, because a slow answer must not extend it, until a little before its end, so
/// that the handler is told in time.
pub(crate) fn trusted_until(shared: &Shared, asked_at: Instant) -> Instant {
    let length = shared.options.lease_length();
    asked_at + length - length / 10
}

/// When the lease of a claim began at the latest, by this process's clock. On PostgreSQL: when the node asked for it. SQLite has the
/// clock of this machine, and a statement may wait long for another process that writes: its lease begins when it has waited.
pub(crate) fn leased_at(shared: &Shared, claim: &Claim, asked_at: Instant) -> Instant {
    let options = shared.store.options();
    if options.is_postgres() || options.clock().is_some() {
        return asked_at;
    }
    let now = Micros::from(jiff::Timestamp::now());
    let held = u64::try_from(now.get() - claim.claimed_at.get()).unwrap_or(0);
    let began = Instant::now().checked_sub(Duration::from_micros(held));
    began.map_or(asked_at, |began| began.max(asked_at))
}

/// How long the node still trusts the leases of all its jobs.
fn trust_left(shared: &Shared) -> Duration {
    let earliest = shared.running.earliest_trust();
    earliest.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()))
}

/// The thread; it ends when this is dropped.
pub(crate) struct Renewal {
    _alive: Sender<()>,
}

impl Renewal {
    /// Starts renewing over `store`.
    pub(crate) fn start(shared: Arc<Shared>, store: Store) -> std::io::Result<Renewal> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (alive, ended) = channel::<()>();
        let pause = shared.options.renewal.min(PROBE).min(shared.options.lease / 5);
        std::thread::Builder::new().name("lineclear-renew".to_owned()).spawn(move || {
            let (mut renewed_at, mut took) = (Instant::now(), Duration::ZERO);
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(pause.min(trust_left(&shared))) {
                if shared.running.count() > 0 {
                    // Handlers must be told in time even if the database does not answer.
                    let attempt = async {
                        tokio::time::timeout(
                            trust_left(&shared),
                            renew_or_probe(&shared, &store, &mut renewed_at, took),
                        )
                        .await
                    };
                    let began = Instant::now();
                    if runtime.block_on(attempt).is_err() {
                        shared.caution.note_lateness();
                    }
                    took = began.elapsed();
                    shared.caution.note_answer(took);
                }
                shared.running.stop_untrusted(Instant::now());
            }
        })?;
        Ok(Renewal { _alive: alive })
    }
}

/// `took`: how long the last answer took. If answers come late, a probe would put off the renewal.
async fn renew_or_probe(shared: &Shared, store: &Store, renewed_at: &mut Instant, took: Duration) {
    // With a visibility timeout nothing is renewed.
    let renews = shared.options.visibility_timeout.is_none();
    let due = renews && renewed_at.elapsed() + took >= shared.options.renewal;
    let done = if due { renew(shared, store).await } else { probe(shared, store).await };
    match shared.statuses.note(NAME, done) {
        Ok(()) => {
            if due {
                *renewed_at = Instant::now();
            }
            shared.log_success(NAME);
        }
        // Trust runs out by itself, and with it the handlers; until then the next pass may succeed.
        Err(error) => {
            shared.caution.note_failure(&error);
            shared.log_failure(NAME, &error);
        }
    }
}

async fn renew(shared: &Shared, store: &Store) -> StoreResult<()> {
    let (asked_at, mut locked) = (Instant::now(), 0);
    for renewal in store.renew_until(lease(shared), shared.running.to_renew()).await? {
        match renewal.status {
            RenewalStatus::Renewed => shared.running.trust(renewal.claim, trusted_until(shared, asked_at)),
            RenewalStatus::Skipped => locked += 1,
            RenewalStatus::Lost => {
                shared.running.stop(renewal.claim, Why::LeaseLost);
                shared.late_claims.add([renewal.claim]);
            }
        }
        if renewal.cancel_requested {
            shared.running.stop(renewal.claim, Why::Cancelled);
        }
    }
    if locked > 0 {
        tracing::debug!(node.id = %shared.id, locked, "leases skipped until the next renewal: their rows are locked");
    }
    Ok(())
}

async fn probe(shared: &Shared, store: &Store) -> StoreResult<()> {
    for job in store.cancel_requests(shared.id).await? {
        shared.running.stop_job(job, Why::Cancelled);
    }
    Ok(())
}
