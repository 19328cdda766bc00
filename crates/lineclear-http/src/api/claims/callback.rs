//! Callbacks of push workers: each is about one claim, and its token is good for that claim only.

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use lineclear::remote::BadClaimToken;
use lineclear::store::{ClaimRef, JobId, NodeId, ProgressView};
use lineclear_model::outcome_object::OutcomeObject;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::logs::{self, LinesBody};
use super::steps::{self, StepBody};
use super::{STALE, held, progress, renew, settle, stale_claim};
use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::{id, unprocessable};
use crate::auth::{ClientAddress, bearer};
use crate::problem::Problem;

/// Extracts the claim that the path names, if the token is for it.
pub(crate) struct ClaimCaller {
    claim: ClaimRef,
    /// The nodes that may have its lease.
    holders: Vec<NodeId>,
}

impl ClaimCaller {
    /// Writes, or reads, as the node that has the lease. If the lease moves from the first to the second meanwhile, the write is stale for the first
    /// only.
    async fn write<T, F>(&self, write: impl Fn(ClaimRef, NodeId) -> F) -> Result<Json<T>, Problem>
    where
        F: Future<Output = Result<Json<T>, Problem>>,
    {
        let mut written = Err(stale_claim());
        for holder in self.holders.clone() {
            written = write(self.claim, holder).await;
            if !written.as_ref().is_err_and(|problem| problem.code() == STALE) {
                break;
            }
        }
        written
    }
}

impl FromRequestParts<App> for ClaimCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<ClaimCaller, Problem> {
        let Ok(ClientAddress(address)) = ClientAddress::from_request_parts(parts, app).await;
        let Some(token) = bearer(&parts.headers) else {
            let is_given = parts.headers.contains_key(header::AUTHORIZATION);
            let detail =
                "authentication required: send `Authorization: Bearer lcc_…`, the `token` of the claim";
            return Err(match is_given {
                true => app.guard.wrong_claim_token(address, detail),
                false => Problem::unauthorized(detail),
            });
        };
        let (claim, holders) = match app.client.verify_claim_token(token).await? {
            Ok(verified) => verified,
            Err(BadClaimToken::Forged) => {
                return Err(app.guard.wrong_claim_token(address, "this is not the token of a claim"));
            }
            Err(BadClaimToken::Expired) => {
                return Err(Problem::unauthorized(
                    "the token of this claim has expired; the job was given to another worker, or is over",
                ));
            }
        };
        let Ok(Path((job, no))) = Path::<(String, String)>::from_request_parts(parts, app).await else {
            return Err(Problem::not_found("such claim"));
        };
        let named = ClaimRef { job: JobId(id(&job, "job")?), no: no.parse().unwrap_or_default() };
        if named != claim {
            let detail =
                format!("the token is for claim {} of job {}, and for no other", claim.no, claim.job);
            return Err(Problem::new(StatusCode::FORBIDDEN, "wrong_claim", detail));
        }
        Ok(ClaimCaller { claim, holders })
    }
}

/// What a push worker learns of its claim.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallbackResult {
    /// `renewed`, `recorded`, or `skipped`: the row was locked, send it again.
    status: &'static str,
    /// The job is to be cancelled: stop, and settle it as `cancelled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancel: Option<bool>,
    /// How long the renewed lease lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
}

fn result(status: &'static str) -> Result<Json<CallbackResult>, Problem> {
    match status {
        STALE => Err(stale_claim()),
        status => Ok(Json(CallbackResult { status, cancel: None, lease_ms: None })),
    }
}

/// Why what was sent cannot be recorded.
fn refused(why: String) -> Problem {
    unprocessable("refused", why)
}

/// Renews the lease of a claim.
#[utoipa::path(
    post, path = "/claims/{id}/{no}/renew", operation_id = "renew_claim", tag = "callbacks", params(("id" = String, Path), ("no" = u32, Path)),
    security(("claim" = [])),
    responses((status = 200, body = CallbackResult), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn renew(state: State<App>, caller: ClaimCaller) -> Result<Json<CallbackResult>, Problem> {
    let app = &state;
    let renew = move |claim, node| async move {
        let renewals = renew::renewed(app, Some(node), vec![claim]).await?;
        let (status, cancel) = renew::status_of(renewals.get(&claim));
        let lease_ms = renew::lease_ms(app);
        let Json(known) = result(status)?;
        Ok(Json(CallbackResult { cancel: Some(cancel), lease_ms: Some(lease_ms), ..known }))
    };
    caller.write(renew).await
}

/// The progress of the job that the path names.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimProgressBody {
    /// From 0 to 1.
    fraction: f64,
    /// A text for people; more than 1,024 bytes are cut.
    #[serde(default)]
    text: String,
}

/// Records the progress of a job.
#[utoipa::path(
    post, path = "/claims/{id}/{no}/progress", operation_id = "report_claim_progress", tag = "callbacks", request_body = ClaimProgressBody,
    params(("id" = String, Path), ("no" = u32, Path)), security(("claim" = [])),
    responses((status = 200, body = CallbackResult), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn progress(
    state: State<App>,
    caller: ClaimCaller,
    body: JsonBody<ClaimProgressBody>,
) -> Result<Json<CallbackResult>, Problem> {
    let view = ProgressView::new(body.0.fraction, &body.0.text);
    let (app, view) = (&state, &view);
    let report = move |claim, node| async move {
        let written = progress::write(app, Some(node), vec![(claim, view.clone())]).await?;
        result(written.first().copied().unwrap_or(STALE))
    };
    caller.write(report).await
}

/// Appends lines to the log of a job.
#[utoipa::path(
    post, path = "/claims/{id}/{no}/logs", operation_id = "append_claim_log", tag = "callbacks", request_body = LinesBody,
    params(("id" = String, Path), ("no" = u32, Path)), security(("claim" = [])),
    responses((status = 200, body = CallbackResult), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn log(
    state: State<App>,
    caller: ClaimCaller,
    body: JsonBody<LinesBody>,
) -> Result<Json<CallbackResult>, Problem> {
    logs::check_count(body.0.lines.len(), "/lines")?;
    let lines = logs::lines(body.0.lines, "")?;
    let (app, lines) = (&state, &lines);
    let append = move |claim, node| async move {
        let appended = logs::append(app, Some(node), vec![(claim, lines.clone())]).await?;
        result(appended.first().copied().unwrap_or(STALE))
    };
    caller.write(append).await
}

/// Records a step of a job that has ended.
#[utoipa::path(
    post, path = "/claims/{id}/{no}/steps", operation_id = "record_claim_step", tag = "callbacks", request_body = StepBody,
    params(("id" = String, Path), ("no" = u32, Path)), security(("claim" = [])),
    responses((status = 200, body = CallbackResult), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn step(
    state: State<App>,
    caller: ClaimCaller,
    body: JsonBody<StepBody>,
) -> Result<Json<CallbackResult>, Problem> {
    let step = body.0.read().map_err(refused)?;
    let (app, step) = (&state, &step);
    let record = move |claim, node| async move {
        match held(app, Some(node), &[claim]).await?.first() {
            Some(true) => result(steps::record_one(app, claim, step.clone()).await?),
            _ => Err(stale_claim()),
        }
    };
    caller.write(record).await
}

/// A step of the job that the path names.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimStepName {
    /// Its name.
    name: String,
}

/// A step, and what it returned.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimStep {
    name: String,
    /// Whether it has finished.
    found: bool,
    /// What it returned.
    #[schema(value_type = Option<Object>)]
    output: Option<Box<RawValue>>,
}

/// Returns the output of a step that an earlier attempt of the job has finished.
#[utoipa::path(
    post, path = "/claims/{id}/{no}/steps/read", operation_id = "read_claim_step", tag = "callbacks", request_body = ClaimStepName,
    params(("id" = String, Path), ("no" = u32, Path)), security(("claim" = [])),
    responses((status = 200, body = ClaimStep), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn read_step(
    state: State<App>,
    caller: ClaimCaller,
    body: JsonBody<ClaimStepName>,
) -> Result<Json<ClaimStep>, Problem> {
    let (app, name) = (&state, &body.0.name);
    let read = move |claim, node| async move {
        if held(app, Some(node), &[claim]).await?.first() != Some(&true) {
            return Err(stale_claim());
        }
        let output = steps::read_one(app, claim, name).await?;
        Ok(Json(ClaimStep { name: name.clone(), found: output.is_some(), output }))
    };
    caller.write(read).await
}

/// Settles a claim. A request whose response was lost can be repeated.
#[utoipa::path(
    post, path = "/claims/{id}/{no}/settle", operation_id = "settle_claim", tag = "callbacks", request_body = OutcomeObject,
    params(("id" = String, Path), ("no" = u32, Path)), security(("claim" = [])),
    responses((status = 200, body = CallbackResult), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn settle(
    state: State<App>,
    caller: ClaimCaller,
    body: JsonBody<OutcomeObject>,
) -> Result<Json<CallbackResult>, Problem> {
    let outcome = body.0.read().map_err(refused)?;
    let (app, outcome) = (&state, &outcome);
    let settle = move |claim, node| async move {
        let settled = settle::settled(app, Some(node), vec![(claim, outcome.clone())]).await?;
        result(settled.first().copied().unwrap_or(STALE))
    };
    caller.write(settle).await
}
