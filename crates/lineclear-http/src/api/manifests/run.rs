//! Runs a manifest once, beside its schedule.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use lineclear::store::{Created, Creation, TriggerOptions};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::App;
use crate::api::jobs::detail::JobDetails;
use crate::api::json_types::{Id, PathParam, due, name, payload};
use crate::api::prefer_wait::{Prefer, PreferHeader};
use crate::audit::AuditDetails;
use crate::idempotency::{IdempotencyKeyHeader, KeyedBody, StoredReply, create_idempotently};
use crate::middleware::trace::TraceParent;
use crate::problem::Problem;

/// Options of one run.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunBody {
    /// An input for this run, instead of the manifest's.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    input: Option<Box<RawValue>>,
    /// The earliest time to run; RFC 3339.
    due_at: Option<String>,
    /// The earliest time to run, in milliseconds from now.
    in_ms: Option<i64>,
}

/// The job of the run.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ManifestRun {
    id: Id,
}

/// Runs a manifest once, now or later, beside its schedule.
#[utoipa::path(
    post, path = "/manifests/{key}/run", operation_id = "run_manifest", tag = "manifests", security(("token" = ["operate"])), params(("key" = String, Path), IdempotencyKeyHeader, PreferHeader), request_body = Option<RunBody>,
    responses((status = 201, body = ManifestRun), (status = 200, body = JobDetails, description = "with `Prefer: wait`: the job is over"),
              (status = 202, body = JobDetails, description = "with `Prefer: wait`: the job is not over yet"), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn run(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    trace: TraceParent,
    prefer: Prefer,
    request: KeyedBody<Option<RunBody>>,
) -> Result<Response, Problem> {
    let key = name(&path.0, "manifest")?;
    let RunBody { input, due_at, in_ms } = request.body.unwrap_or_default();
    let input = input.map(|raw| payload(&raw, "/input")).transpose()?;
    let due = due(due_at.as_deref(), in_ms, "")?;
    let options = TriggerOptions { input, due_at: due.at, delay: due.delay, trace: trace.0 };
    let creation = Creation::Run(key, options);
    let reply = create_idempotently(&state.client, request.key, creation, &audit, |created| {
        let Created::Run(Some(job)) = created else { return None };
        StoredReply::new(StatusCode::CREATED, Some(*job), &ManifestRun { id: Id::of(job) })
    });
    let reply = reply.await.map_err(|problem| problem.when("due_at", "/due_at").when("input", "/input"))?;
    prefer.reply(&state, reply).await
}
