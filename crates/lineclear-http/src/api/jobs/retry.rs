//! Retries a job.

use axum::extract::State;
use axum::http::StatusCode;
use lineclear::store::{Created, Creation, JobId, Retried, RetryOptions};
use lineclear_model::JobState;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::App;
use crate::api::json_types::{Id, PathParam, id, name_at, payload};
use crate::audit::AuditDetails;
use crate::auth::Caller;
use crate::idempotency::{IdempotencyKeyHeader, KeyedBody, StoredReply, create_idempotently_or};
use crate::problem::Problem;

/// Options of a retry.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryBody {
    /// A note, kept with the dead letter if there is one.
    pub(crate) note: Option<String>,
    /// The route of the new job if the job is over and has no manifest: history does not record it. The default is `main`.
    pub(crate) route: Option<String>,
    /// An input instead of the old one. Only for a dead letter, or for a job that is over.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(crate) input: Option<Box<RawValue>>,
}

/// The result of a retry.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RetryResponse {
    /// `due`: the job waited for its next attempt, which is now due. `revived`: it was a dead letter, and is queued again. `again`: it was
    /// over, and a new job runs.
    became: &'static str,
    /// The job that will run.
    id: Id,
}

/// Retries a job. A job that waits for its next attempt becomes due now, a dead letter is revived, and a job that is over runs again as a
/// new job with the same input, or with the given one.
#[utoipa::path(
    post, path = "/jobs/{id}/retry", operation_id = "retry_job", tag = "jobs", params(("id" = String, Path), IdempotencyKeyHeader),
    request_body = Option<RetryBody>,
    security(("token" = ["operate"])),
    responses((status = 200, body = RetryResponse), (status = 201, body = RetryResponse),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn retry(
    state: State<App>,
    caller: Caller,
    audit: AuditDetails,
    path: PathParam,
    request: KeyedBody<Option<RetryBody>>,
) -> Result<StoredReply, Problem> {
    let job = JobId(id(&path.0, "job")?);
    let RetryBody { note, route, input } = request.body.unwrap_or_default();
    let route = route.as_deref().map(|route| name_at(route, "/route")).transpose()?;
    let input = input.map(|raw| payload(&raw, "/input")).transpose()?;
    let (audited_note, has_input) = (note.clone(), input.is_some());
    let creation = Creation::Retry(job, RetryOptions { by: caller.0.audit_name(), note, route, input });
    let reply = create_idempotently_or(&state.client, request.key, creation, &audit, move |created| {
        retried(job, created)
    })
    .await;
    let reply = reply.map_err(|problem| problem.when("input", "/input"));
    // Otherwise only a dead letter keeps the note.
    if let Some(note) = audited_note {
        audit.add("note", json!(note));
    }
    if has_input {
        audit.add("other_input", json!(true));
    }
    reply
}

fn retried(job: JobId, created: &Created) -> Result<StoredReply, Problem> {
    let unknown = || Problem::not_found(format_args!("job {job}"));
    let answer = |became, id: JobId| RetryResponse { became, id: Id::of(id) };
    let conflict = |code, detail: String| Err(Problem::new(StatusCode::CONFLICT, code, detail));
    let Created::Retry(_, became) = created else { return Err(unknown()) };
    let reply = match became {
        Retried::Due => StoredReply::new(StatusCode::OK, None, &answer("due", job)),
        Retried::Revived(_) => StoredReply::new(StatusCode::OK, None, &answer("revived", job)),
        Retried::Again(new) => StoredReply::new(StatusCode::CREATED, Some(*new), &answer("again", *new)),
        Retried::NotOver(JobState::Retrying) => {
            let detail =
                format!("job {job} waits for its next attempt and keeps its input; retry it without `input`");
            return conflict("job_not_over", detail);
        }
        Retried::NotOver(state) => {
            let detail = format!("job {job} is {state}; only a job that failed or is over can be retried");
            return conflict("job_not_over", detail);
        }
        Retried::InputGone => {
            return conflict("input_gone", format!("the input of job {job} is no longer stored"));
        }
        Retried::Unknown => None,
    };
    reply.ok_or_else(unknown)
}
