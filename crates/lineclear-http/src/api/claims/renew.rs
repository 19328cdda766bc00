//! A worker renews its leases.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use lineclear::store::{ClaimRef, NodeId, Renewal, RenewalStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ClaimBody, SKIPPED, STALE, claims_at, worker_id, worker_uuid};
use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::Id;
use crate::auth::Caller;
use crate::problem::Problem;

/// Leases to renew.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenewBody {
    /// The id of the worker.
    worker: String,
    /// At most 1,000.
    #[schema(max_items = 1000)]
    claims: Vec<ClaimBody>,
}

/// The leases of a worker.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Renewed {
    /// How long renewed leases last, from the moment of the request.
    lease_ms: u64,
    /// The worker was told to drain: it should ask for no more jobs.
    drain: bool,
    /// In the order of the request.
    claims: Vec<RenewedClaim>,
}

/// The lease of one claim.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RenewedClaim {
    job: Id,
    no: u32,
    /// `renewed`; `skipped`: the row was locked, renew again soon; `stale_claim`: the worker does not have the job any more, and must stop.
    status: &'static str,
    /// The job is to be cancelled: stop, and settle it as `cancelled`.
    cancel: bool,
}

/// What a worker learns of one renewal.
pub(super) fn status_of(renewal: Option<&Renewal>) -> (&'static str, bool) {
    match renewal.map(|renewal| (renewal.status, renewal.cancel_requested)) {
        Some((RenewalStatus::Renewed, cancel)) => ("renewed", cancel),
        Some((RenewalStatus::Skipped, cancel)) => (SKIPPED, cancel),
        Some((RenewalStatus::Lost, _)) | None => (STALE, false),
    }
}

/// Renews leases; those that are not ours any more are missing or lost.
pub(super) async fn renewed(
    app: &App,
    node: Option<NodeId>,
    claims: Vec<ClaimRef>,
) -> Result<HashMap<ClaimRef, Renewal>, Problem> {
    let Some(node) = node else { return Ok(HashMap::new()) };
    // Without claims, too: it is a sign of life of a worker that drains.
    let renewals = app.client.renew_claims(node, claims).await?;
    lineclear::crash::point("claims.renewed");
    Ok(renewals.into_iter().map(|renewal| (renewal.claim, renewal)).collect())
}

/// How long a lease lasts.
pub(super) fn lease_ms(app: &App) -> u64 {
    u64::try_from(app.client.lease_length().as_millis()).unwrap_or(u64::MAX)
}

/// Renews the leases of a worker. Send it every third of `lease_ms`, with all claims that the worker has.
#[utoipa::path(
    post, path = "/claims/renew", operation_id = "renew_claims", tag = "claims", request_body = RenewBody, security(("token" = ["worker"])),
    responses((status = 200, body = Renewed), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn renew(
    state: State<App>,
    caller: Caller,
    body: JsonBody<RenewBody>,
) -> Result<Json<Renewed>, Problem> {
    let RenewBody { worker, claims } = body.0;
    let claims = claims_at("claims", claims.iter().map(|claim| (claim.job.as_str(), claim.no)))?;
    let worker = worker_id(&caller.0, worker_uuid(&worker, "/worker")?);
    let known = state.workers.look_up(&state.client, &worker).await?;
    let node = known.map(|known| known.node);
    let renewals = renewed(&state, node, claims.clone()).await?;
    let drain = known.is_some_and(|known| known.drains);
    let claims = claims.into_iter().map(|claim| {
        let (status, cancel) = status_of(renewals.get(&claim));
        RenewedClaim { job: Id::of(claim.job), no: claim.no, status, cancel }
    });
    Ok(Json(Renewed { lease_ms: lease_ms(&state), drain, claims: claims.collect() }))
}
