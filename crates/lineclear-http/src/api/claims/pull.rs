//! A worker asks for jobs, and waits for them.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lineclear::remote::{KINDS_MAX, PullError, RemoteWorker};
use lineclear::store::{Claim, ClaimRef, NodeId, RenewalStatus};
use lineclear_model::{Name, Outcome};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{ClaimBody, claims_at, worker_id, worker_uuid};
use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::{Id, name_at, time, unprocessable};
use crate::auth::{Caller, Principal, Revalidation};
use crate::long_poll::LongPoll;
use crate::problem::Problem;

/// Longest wait, in milliseconds.
const WAIT_MS_MAX: u64 = 60_000;
/// The wait of a request that does not say: shorter than what proxies allow.
const WAIT_MS: u64 = 25_000;
/// Jobs for one request.
const SLOTS_MAX: u32 = 1_000;
/// Longest name, host or version of a worker, in bytes.
const TEXT_BYTES_MAX: usize = 128;

/// A worker that asks for jobs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PullBody {
    worker: WorkerBody,
    /// The kinds of jobs that it runs: 1 to 100.
    #[schema(min_items = 1, max_items = 100)]
    kinds: Vec<String>,
    /// How many jobs it can start now, 1 to 1,000.
    #[schema(minimum = 1, maximum = 1000)]
    slots: u32,
    /// How long to wait for the first job, in milliseconds: at most 60,000, by default 25,000.
    #[schema(maximum = 60000)]
    wait_ms: Option<u64>,
    /// The response to an earlier request was lost: first return claims that the worker was given and that are not in `held`.
    #[serde(default)]
    resume: bool,
    /// All claims that the worker knows it has, with `resume`.
    #[serde(default)]
    #[schema(max_items = 1000)]
    held: Vec<ClaimBody>,
}

/// A worker, as it describes itself.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkerBody {
    /// A UUID, new for each start of the process.
    id: String,
    /// A name for people.
    name: String,
    /// The machine.
    host: String,
    /// The process.
    pid: u32,
    /// The program and its version.
    version: String,
}

impl WorkerBody {
    fn read(self, principal: &Principal, kinds: Vec<Name>, slots: u32) -> Result<RemoteWorker, Problem> {
        let id = worker_id(principal, worker_uuid(&self.id, "/worker/id")?);
        let (name, host) = (text(self.name, "name")?, text(self.host, "host")?);
        let version = text(self.version, "version")?;
        Ok(RemoteWorker { id, name, host, pid: self.pid, version, kinds, slots })
    }
}

/// A text that lists of nodes show.
fn text(text: String, field: &str) -> Result<String, Problem> {
    let is_plain = !text.contains(lineclear_model::text::is_hidden);
    if text.is_empty() || text.len() > TEXT_BYTES_MAX || !is_plain {
        let detail = format!("`{field}` must have 1 to {TEXT_BYTES_MAX} bytes and no control characters");
        return Err(unprocessable("worker", detail).at(format!("/worker/{field}")));
    }
    Ok(text)
}

fn kinds(kinds: &[String]) -> Result<Vec<Name>, Problem> {
    if kinds.is_empty() || kinds.len() > KINDS_MAX {
        let detail = format!("`kinds` must name 1 to {KINDS_MAX} kinds");
        return Err(unprocessable("kinds", detail).at("/kinds"));
    }
    let kinds = kinds.iter().enumerate().map(|(n, kind)| name_at(kind, &format!("/kinds/{n}")));
    Ok(kinds.collect::<Result<BTreeSet<_>, _>>()?.into_iter().collect())
}

/// A token may be bound to kinds.
fn check_allowed(principal: &Principal, kinds: &[Name]) -> Result<(), Problem> {
    let Some(allowed) = &principal.kinds else { return Ok(()) };
    let Some(other) = kinds.iter().find(|kind| !allowed.contains(kind)) else { return Ok(()) };
    let allowed: Vec<&str> = allowed.iter().map(Name::as_str).collect();
    let (who, allowed) = (principal.audit_name(), allowed.join(", "));
    let detail = format!(
        "{who} may claim jobs of {allowed} only, not of {other}; create a token with --kinds {other}"
    );
    Err(Problem::new(StatusCode::FORBIDDEN, "kind_not_allowed", detail))
}

/// The claims of a worker.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pulled {
    worker: WorkerNode,
    /// Jobs that the worker runs now; empty if there were none in time.
    claims: Vec<PulledClaim>,
}

/// A worker, as the server knows it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkerNode {
    /// Its id among the nodes.
    node: Id,
    /// The worker was told to drain: it should ask for no more jobs until `/claims/renew`, which may be empty, says that it should not drain.
    drain: bool,
}

/// A job, and the terms under which a worker has it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PulledClaim {
    job: ClaimedJob,
    claim: ClaimTerms,
}

/// A job to run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimedJob {
    id: Id,
    kind: String,
    /// The input.
    #[schema(value_type = Object)]
    input: Option<Box<RawValue>>,
    /// The key of its manifest.
    manifest: Option<String>,
    /// The tick that it stands for.
    tick_at: Option<String>,
    /// The number of this attempt, from 1.
    attempt: u32,
    /// The `traceparent` of the request that created it.
    trace: Option<String>,
}

/// The terms of a claim.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimTerms {
    /// The number of the claim. It grows with each one, and fences every write.
    no: u32,
    /// How long the worker has the job unless it renews the lease.
    lease_ms: u64,
    /// How long the job may run; the worker ends it then.
    timeout_ms: u64,
}

impl PulledClaim {
    fn of(claim: Claim, manifest: Option<String>, timeout: Duration) -> PulledClaim {
        let lease_us = claim.lease_ends_at.get().saturating_sub(claim.claimed_at.get()).max(0);
        let terms = ClaimTerms {
            no: claim.no,
            lease_ms: lease_us.unsigned_abs() / 1_000,
            timeout_ms: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        };
        let job = ClaimedJob {
            id: Id::of(claim.job),
            kind: claim.kind.to_string(),
            input: RawValue::from_string(claim.input.into()).ok(),
            manifest,
            tick_at: claim.tick_at.map(time),
            attempt: claim.failures.saturating_add(1),
            trace: claim.trace,
        };
        PulledClaim { job, claim: terms }
    }
}

/// Claims jobs for a worker. The request waits until there is one, or `wait_ms` have passed. The worker must renew each lease before it
/// ends (`/claims/renew`), and settle each claim (`/claims/settle`). 409 `kind_routed_elsewhere`: a node or a submitter runs a kind itself.
#[utoipa::path(
    post, path = "/claims", operation_id = "pull_claims", tag = "claims", request_body = PullBody, security(("token" = ["worker"])),
    responses((status = 200, body = Pulled), (status = 503, body = Problem, content_type = "application/problem+json", description = "The server stops, or its database does not answer; ask again after `Retry-After`, with `resume`."),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn pull(
    state: State<App>,
    caller: Caller,
    revalidation: Revalidation,
    poll: LongPoll,
    body: JsonBody<PullBody>,
) -> Result<Json<Pulled>, Problem> {
    let PullBody { worker, kinds: names, slots, wait_ms, resume, held } = body.0;
    let wait_ms = wait_ms.unwrap_or(WAIT_MS);
    if wait_ms > WAIT_MS_MAX {
        let detail = format!("`wait_ms` must be at most {WAIT_MS_MAX}");
        return Err(unprocessable("wait_ms", detail).at("/wait_ms"));
    }
    if slots == 0 || slots > SLOTS_MAX {
        let detail =
            format!("`slots` must be between 1 and {SLOTS_MAX}; a worker without a free slot does not ask");
        return Err(unprocessable("slots", detail).at("/slots"));
    }
    let held = claims_at("held", held.iter().map(|claim| (claim.job.as_str(), claim.no)))?;
    let kinds = kinds(&names)?;
    check_allowed(&caller.0, &kinds)?;
    let worker = worker.read(&caller.0, kinds, slots)?;
    if state.ended.is_cancelled() || state.client.is_stopping() {
        return Err(stopping());
    }
    let node = state.workers.register(&state.client, &worker).await?;
    if resume {
        let lost = resumed(&state, node, &held).await?;
        if !lost.is_empty() {
            return pulled(&state, node, lost).await;
        }
    }
    let wait = Duration::from_millis(wait_ms);
    let waiting = poll.begin(wait)?;
    let claims = tokio::select! {
        // Dropped, it gives back what it was about to return.
        claims = state.client.pull(&worker, wait) => claims.map_err(|error| problem_of(error, &names))?,
        () = state.ended.cancelled() => return Err(stopping()),
    };
    drop(waiting);
    if !claims.is_empty() {
        lineclear::crash::point("claims.pulled");
    }
    // The token may have been revoked while the request waited.
    if !claims.is_empty() && !revalidation.is_valid().await.unwrap_or(true) {
        let released = claims.iter().map(|claim| (claim.reference(), Outcome::Released)).collect();
        state.client.settle_claims(node, released).await?;
        return Err(Problem::unauthorized("the token is expired or revoked"));
    }
    pulled(&state, node, claims).await
}

/// Claims that the worker was given by a response that it did not get. Their leases begin again.
async fn resumed(app: &App, node: NodeId, held: &[ClaimRef]) -> Result<Vec<Claim>, Problem> {
    let mut lost = app.client.unknown_claims(node, held).await?;
    if lost.is_empty() {
        return Ok(lost);
    }
    let renewals = app.client.renew_claims(node, lost.iter().map(Claim::reference).collect()).await?;
    // Without this, a claim whose row is locked for a moment would be lost until its lease ends.
    if renewals.iter().any(|renewal| renewal.status == RenewalStatus::Skipped) {
        let detail = "another transaction holds a claim of this worker: ask again, with `resume`";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "locked", detail));
    }
    lost.retain(|claim| {
        let renewal = renewals.iter().find(|renewal| renewal.claim == claim.reference());
        renewal.is_some_and(|renewal| renewal.status == RenewalStatus::Renewed)
    });
    Ok(lost)
}

async fn pulled(app: &App, node: NodeId, claims: Vec<Claim>) -> Result<Json<Pulled>, Problem> {
    let keys = app.client.manifest_keys_of(&claims).await;
    let claims = claims.into_iter().map(|claim| {
        let (key, timeout) =
            (claim.manifest.and_then(|id| keys.get(&id)).cloned(), app.client.timeout_of(&claim));
        PulledClaim::of(claim, key, timeout)
    });
    let claims = claims.collect();
    let worker = WorkerNode { node: Id::of(node), drain: app.client.is_draining(node) };
    Ok(Json(Pulled { worker, claims }))
}

fn stopping() -> Problem {
    let detail = "this server stops or drains, and gives out no jobs; ask again, or ask another server";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", detail)
}

fn problem_of(error: PullError, kinds: &[String]) -> Problem {
    let pointer = |kind: &Name| {
        let at = kinds.iter().position(|name| name == kind.as_str());
        format!("/kinds/{}", at.unwrap_or_default())
    };
    match error {
        PullError::Store(error) => Problem::from(error),
        PullError::RoutedElsewhere { kind, to } => {
            let detail = format!("jobs of {kind} go to {to}; a worker can pull them only when they do not");
            Problem::new(StatusCode::CONFLICT, "kind_routed_elsewhere", detail).at(pointer(&kind))
        }
        PullError::BadKind(ref kind) => unprocessable("kinds", error.to_string()).at(pointer(kind)),
        PullError::TooManyKinds => Problem::new(StatusCode::CONFLICT, "kinds_max", error.to_string()),
        PullError::Kinds => unprocessable("kinds", error.to_string()).at("/kinds"),
        PullError::TooManyPolls => {
            let detail = "too many requests wait for work on this node; wait and try again";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "polls_max", detail)
        }
        PullError::NoDispatcher => {
            let detail = "this server gives out no jobs: it has not the role dispatcher; ask another server";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no_dispatcher", detail)
        }
        // Stopping, and what a newer engine adds.
        _ => stopping(),
    }
}
