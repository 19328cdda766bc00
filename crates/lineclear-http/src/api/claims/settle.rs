//! A worker says how its claims ended.

use axum::Json;
use axum::extract::State;
use lineclear::store::{ClaimRef, FencedWrite, NodeId};
use lineclear_model::Outcome;
use lineclear_model::outcome_object::{ErrorObject, OutcomeObject, OutcomeWord};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{ClaimResult, ClaimResults, RECORDED, SKIPPED, STALE, claims_at, node_of, stale_claim};
use crate::App;
use crate::api::json_body::JsonBodyUpTo;
use crate::auth::Caller;
use crate::problem::Problem;

/// Longest body, in bytes: outputs may be long.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The ends of claims.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleBody {
    /// The id of the worker.
    worker: String,
    /// At most 1,000.
    #[schema(max_items = 1000)]
    claims: Vec<EndOfClaim>,
}

/// The end of one claim.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndOfClaim {
    /// The id of the job.
    job: String,
    /// The number of the claim.
    no: u32,
    outcome: OutcomeWord,
    /// What a completed job returns: any JSON, up to 64 KiB.
    #[schema(value_type = Option<Object>)]
    output: Option<Box<RawValue>>,
    /// What went wrong.
    error: Option<ErrorObject>,
    /// Another attempt cannot succeed.
    permanent: Option<bool>,
    /// When to run again, in milliseconds from now.
    in_ms: Option<u64>,
}

impl EndOfClaim {
    fn outcome(self) -> OutcomeObject {
        let EndOfClaim { outcome, output, error, permanent, in_ms, .. } = self;
        OutcomeObject { outcome, output, error, permanent, in_ms }
    }
}

/// Settles claims, and returns what happened to each.
pub(super) async fn settled(
    app: &App,
    node: Option<NodeId>,
    outcomes: Vec<(ClaimRef, Outcome)>,
) -> Result<Vec<&'static str>, Problem> {
    let Some(node) = node else { return Ok(vec![STALE; outcomes.len()]) };
    if outcomes.is_empty() {
        return Ok(Vec::new());
    }
    let written = app.client.settle_claims(node, outcomes).await?;
    lineclear::crash::point("claims.settled");
    let status = |write: Option<FencedWrite>| match write {
        Some(FencedWrite::Recorded) => RECORDED,
        Some(FencedWrite::Stale) => STALE,
        None => SKIPPED,
    };
    Ok(written.into_iter().map(status).collect())
}

/// Settles claims. A request whose response was lost can be repeated: what was recorded is `recorded` again; what was `skipped` must be. If every claim is stale, the
/// response is 409 `stale_claim`, with the same list.
#[utoipa::path(
    post, path = "/claims/settle", operation_id = "settle_claims", tag = "claims", request_body = SettleBody, security(("token" = ["worker"])),
    responses((status = 200, body = ClaimResults), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn settle(
    state: State<App>,
    caller: Caller,
    body: JsonBodyUpTo<SettleBody, BODY_BYTES_MAX>,
) -> Result<Json<ClaimResults>, Problem> {
    let SettleBody { worker, claims: ends } = body.0;
    let claims = claims_at("claims", ends.iter().map(|end| (end.job.as_str(), end.no)))?;
    let node = node_of(&state, &caller.0, &worker).await?;
    let outcomes: Vec<Result<Outcome, String>> = ends.into_iter().map(|end| end.outcome().read()).collect();
    let good =
        claims.iter().zip(&outcomes).filter_map(|(claim, outcome)| Some((*claim, outcome.clone().ok()?)));
    let mut statuses = settled(&state, node, good.collect()).await?.into_iter();
    let result = |(claim, outcome): (ClaimRef, Result<Outcome, String>)| match outcome {
        Ok(_) => ClaimResult::of(claim, statuses.next().unwrap_or(STALE)),
        Err(why) => ClaimResult::refused(claim, why),
    };
    let results: Vec<ClaimResult> = claims.into_iter().zip(outcomes).map(result).collect();
    if !results.is_empty() && results.iter().all(|result| result.status == STALE) {
        return Err(stale_claim().and("claims", results));
    }
    Ok(Json(ClaimResults { claims: results }))
}
