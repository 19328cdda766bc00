//! A worker reports the progress of its jobs.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use lineclear::store::{ClaimRef, NodeId, ProgressView};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{ClaimResult, ClaimResults, RECORDED, SKIPPED, STALE, claims_at, held, node_of};
use crate::App;
use crate::api::json_body::JsonBody;
use crate::auth::Caller;
use crate::problem::Problem;

/// Attempts at a row that another transaction has locked.
const ATTEMPTS: u32 = 3;
/// The pause between them.
const PAUSE: Duration = Duration::from_millis(20);

/// The progress of jobs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgressBody {
    /// The id of the worker.
    worker: String,
    /// At most 1,000.
    #[schema(max_items = 1000)]
    claims: Vec<ProgressOfClaim>,
}

/// The progress of one job.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgressOfClaim {
    /// The id of the job.
    job: String,
    /// The number of the claim.
    no: u32,
    /// From 0 to 1.
    fraction: f64,
    /// A text for people; more than 1,024 bytes are cut.
    #[serde(default)]
    text: String,
}

/// Writes the progress of claims, and returns what happened to each.
pub(super) async fn write(
    app: &App,
    node: Option<NodeId>,
    progress: Vec<(ClaimRef, ProgressView)>,
) -> Result<Vec<&'static str>, Problem> {
    let claims: Vec<ClaimRef> = progress.iter().map(|(claim, _)| *claim).collect();
    let is_held = held(app, node, &claims).await?;
    // The last one of each claim.
    let open: HashMap<_, _> =
        progress.into_iter().zip(&is_held).filter_map(|(one, held)| held.then_some(one)).collect();
    let mut open: Vec<(ClaimRef, ProgressView)> = open.into_iter().collect();
    let mut written = HashSet::new();
    for attempt in 1..=ATTEMPTS {
        written.extend(app.client.store().write_progress(open.clone()).await?);
        open.retain(|(claim, _)| !written.contains(claim));
        if open.is_empty() || attempt == ATTEMPTS {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let status = |(claim, held): (&ClaimRef, &bool)| match held {
        true if written.contains(claim) => RECORDED,
        true => SKIPPED,
        false => STALE,
    };
    Ok(claims.iter().zip(&is_held).map(status).collect())
}

/// Records the progress of jobs. The last one counts, so send it once a second at most.
#[utoipa::path(
    post, path = "/claims/progress", operation_id = "report_progress", tag = "claims", request_body = ProgressBody, security(("token" = ["worker"])),
    responses((status = 200, body = ClaimResults), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn report(
    state: State<App>,
    caller: Caller,
    body: JsonBody<ProgressBody>,
) -> Result<Json<ClaimResults>, Problem> {
    let ProgressBody { worker, claims: progress } = body.0;
    let claims = claims_at("claims", progress.iter().map(|one| (one.job.as_str(), one.no)))?;
    let node = node_of(&state, &caller.0, &worker).await?;
    let progress = progress.iter().map(|one| ProgressView::new(one.fraction, &one.text));
    let statuses = write(&state, node, claims.iter().copied().zip(progress).collect()).await?;
    let results = claims.into_iter().zip(statuses).map(|(claim, status)| ClaimResult::of(claim, status));
    Ok(Json(ClaimResults { claims: results.collect() }))
}
