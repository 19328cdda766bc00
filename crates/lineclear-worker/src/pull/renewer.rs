//! Renewal, on a thread and a connection of its own: a handler that blocks the runtime keeps its lease.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use lineclear::store::{ClaimRef, JobId};
use serde::{Deserialize, Serialize};

use crate::error::WorkerError;
use crate::pull::session::Session;
use crate::wire::api::{self, Api, CallError};
use crate::wire::job::trusted_until;
use crate::wire::{ClaimId, RENEWED, STALE};

/// How often the thread looks, at the least.
const LOOK: Duration = Duration::from_secs(1);
/// Claims in one call.
const CLAIMS_MAX: usize = 1_000;

#[derive(Serialize)]
struct Renew<'a> {
    worker: &'a str,
    claims: Vec<ClaimId>,
}

#[derive(Deserialize)]
struct Renewed {
    lease_ms: u64,
    drain: bool,
    claims: Vec<RenewedClaim>,
}

#[derive(Deserialize)]
struct RenewedClaim {
    job: String,
    no: u32,
    status: String,
    cancel: bool,
}

/// What became of a lease.
pub(crate) struct Renewal {
    pub(crate) claim: ClaimRef,
    /// `None`: its row was locked, so it is to be renewed again soon.
    pub(crate) is_ours: Option<bool>,
    /// The job was cancelled.
    pub(crate) cancel: bool,
}

/// Renews leases in one call.
pub(crate) async fn renew(
    session: &Session,
    api: &Api,
    claims: &[ClaimRef],
    timeout: Duration,
) -> Result<Vec<Renewal>, CallError> {
    let claims = claims.iter().copied().map(ClaimId::from).collect();
    let body = Renew { worker: &session.worker.id, claims };
    let renewed: Renewed = api.post("/claims/renew", &body, timeout).await?;
    session.set_lease(Duration::from_millis(renewed.lease_ms));
    session.set_drains(renewed.drain);
    let renewal = |one: RenewedClaim| {
        let claim = ClaimRef { job: JobId(one.job.parse().ok()?), no: one.no };
        let is_ours = match one.status.as_str() {
            RENEWED => Some(true),
            STALE => Some(false),
            _ => None,
        };
        Some(Renewal { claim, is_ours, cancel: one.cancel })
    };
    Ok(renewed.claims.into_iter().filter_map(renewal).collect())
}

/// The thread; it ends when this is dropped.
pub(crate) struct Renewer {
    _alive: Sender<()>,
}

impl Renewer {
    pub(crate) fn start(session: Arc<Session>) -> Result<Renewer, WorkerError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Connections belong to the runtime that made them.
        let api = session.api.with_client(api::client()?);
        let (alive, ended) = channel::<()>();
        std::thread::Builder::new().name("lineclear-renew".to_owned()).spawn(move || {
            let mut due = Instant::now();
            loop {
                let trust = until(session.active.earliest_trust());
                let pause = LOOK.min(session.lease() / 10).min(trust);
                if ended.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                if due <= Instant::now() && (session.active.count() > 0 || *session.drains.borrow()) {
                    due = runtime.block_on(renew_all(&session, &api));
                }
                session.active.stop_untrusted(Instant::now());
            }
        })?;
        Ok(Renewer { _alive: alive })
    }
}

fn until(moment: Option<Instant>) -> Duration {
    moment.map_or(Duration::MAX, |moment| moment.saturating_duration_since(Instant::now()))
}

/// Renews all leases; returns when to do it again.
async fn renew_all(session: &Session, api: &Api) -> Instant {
    let (claims, began) = (session.active.to_renew(), Instant::now());
    let (mut again_soon, mut parts) = (false, claims.chunks(CLAIMS_MAX));
    // Without claims, only to learn whether the worker still drains.
    let mut part = Some(parts.next().unwrap_or_default());
    while let Some(claims) = part {
        // Handlers must be told in time even if the server does not answer.
        let timeout = session.call_timeout().min(until(session.active.earliest_trust()));
        let asked_at = Instant::now();
        match renew(session, api, claims, timeout.max(Duration::from_millis(1))).await {
            Ok(renewals) => again_soon |= note(session, renewals, asked_at),
            Err(error) => {
                session.warn("cannot renew leases; trying again", &error);
                again_soon = true;
            }
        }
        part = parts.next();
    }
    began + if again_soon { (session.lease() / 15).min(LOOK) } else { session.lease() / 3 }
}

/// True: a lease was not renewed because its row was locked.
fn note(session: &Session, renewals: Vec<Renewal>, asked_at: Instant) -> bool {
    let mut was_locked = false;
    for Renewal { claim, is_ours, cancel } in renewals {
        let Some(run) = session.active.run(claim) else { continue };
        match is_ours {
            Some(true) => run.trust(trusted_until(asked_at, session.lease())),
            Some(false) => {
                tracing::warn!(job.id = %claim.job, claim.no = claim.no, "the lease was lost; its handler is told to stop");
                session.active.lose(claim);
            }
            None => was_locked = true,
        }
        if cancel {
            run.cancel();
        }
    }
    was_locked
}
