//! What is done to a job.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lineclear::store::{Cancelled, Created, Creation, JobId, Retried, RetryOptions};
use lineclear_model::JobState;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::App;
use crate::access::Who;
use crate::api::input::input as given;
use crate::api::shape::{At, Id, id, name_at};
use crate::audit::Note;
use crate::once::{KeyHeader, Keyed, Reply, make_or};
use crate::problem::Problem;

/// What became of a request to cancel.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CancelAnswer {
    /// `cancelled`, or `asked`: it runs, and its node was told to stop it.
    became: &'static str,
}

/// Cancels a job: one that waits is over at once, one that runs is told to stop.
#[utoipa::path(
    post, path = "/jobs/{id}/cancel", operation_id = "cancel_job", tag = "jobs", params(("id" = String, Path)),
    security(("token" = ["operate"])),
    responses((status = 200, body = CancelAnswer), (status = 202, body = CancelAnswer),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn cancel(state: State<App>, note: Note, at: At) -> Result<Response, Problem> {
    let job = JobId(id(&at.0, "job")?);
    let answer = |status, became| {
        note.say(json!({"became": became}));
        Ok((status, Json(CancelAnswer { became })).into_response())
    };
    match state.client.store().cancel(job).await? {
        Cancelled::Over => answer(StatusCode::OK, "cancelled"),
        Cancelled::Asked(_) => answer(StatusCode::ACCEPTED, "asked"),
        Cancelled::Before(state) => {
            let detail = format!("job {job} is over: {}", state.as_str());
            Err(Problem::new(StatusCode::CONFLICT, "job_over", detail))
        }
        Cancelled::Unknown => Err(Problem::not_found(format_args!("job {job}"))),
        Cancelled::Moving => {
            Err(Problem::new(StatusCode::CONFLICT, "job_moving", "it is just being taken; ask again"))
        }
    }
}

/// How to try a job again.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetryBody {
    /// What to remember about it, if it was a dead letter.
    pub(crate) note: Option<String>,
    /// The lane of the new job, if it is over and had no manifest: history does not keep it. `main` if nothing is said.
    pub(crate) route: Option<String>,
    /// What its handler gets this time instead. Only for a dead letter, or for a job that is over.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(crate) input: Option<Box<RawValue>>,
}

/// What became of a request to try a job again.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RetryAnswer {
    /// `due`: it waited for its next try, which is now. `revived`: it was a dead letter, and waits again. `again`: it was over, and
    /// runs again as a new job.
    became: &'static str,
    /// The job that runs.
    id: Id,
}

/// Tries a job again. One that waits for its next try is due now, a dead letter is revived, and one that is over runs again as a new
/// job with the same input, or with the one that is given.
#[utoipa::path(
    post, path = "/jobs/{id}/retry", operation_id = "retry_job", tag = "jobs", params(("id" = String, Path), KeyHeader),
    request_body = Option<RetryBody>,
    security(("token" = ["operate"])),
    responses((status = 200, body = RetryAnswer), (status = 201, body = RetryAnswer),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn retry(
    state: State<App>,
    who: Who,
    audit: Note,
    at: At,
    asked: Keyed<Option<RetryBody>>,
) -> Result<Reply, Problem> {
    let job = JobId(id(&at.0, "job")?);
    let RetryBody { note, route, input } = asked.body.unwrap_or_default();
    let route = route.as_deref().map(|route| name_at(route, "/route")).transpose()?;
    let input = input.map(|raw| given(&raw, "/input")).transpose()?;
    let (said, is_other) = (note.clone(), input.is_some());
    let creation = Creation::Retry(job, RetryOptions { by: who.0.who(), note, route, input });
    let made =
        make_or(&state.client, asked.once, creation, &audit, move |created| retried(job, created)).await;
    let made = made.map_err(|problem| problem.when("input", "/input"));
    // Only a dead letter keeps the note itself.
    if let Some(said) = said {
        audit.add("note", json!(said));
    }
    if is_other {
        audit.add("other_input", json!(true));
    }
    made
}

fn retried(job: JobId, created: &Created) -> Result<Reply, Problem> {
    let unknown = || Problem::not_found(format_args!("job {job}"));
    let answer = |became, id: JobId| RetryAnswer { became, id: Id::of(id) };
    let conflict = |code, detail: String| Err(Problem::new(StatusCode::CONFLICT, code, detail));
    let Created::Retry(_, became) = created else { return Err(unknown()) };
    let reply = match became {
        Retried::Due => Reply::new(StatusCode::OK, None, &answer("due", job)),
        Retried::Revived(_) => Reply::new(StatusCode::OK, None, &answer("revived", job)),
        Retried::Again(new) => Reply::new(StatusCode::CREATED, Some(*new), &answer("again", *new)),
        Retried::NotOver(JobState::Retrying) => {
            let detail = format!(
                "job {job} waits for its next try, and keeps its input; it can be tried now with that one"
            );
            return conflict("job_not_over", detail);
        }
        Retried::NotOver(state) => {
            let detail = format!("job {job} is {state}: only what failed or is over can be tried again");
            return conflict("job_not_over", detail);
        }
        Retried::InputGone => {
            return conflict("input_gone", format!("the input of job {job} is not kept any more"));
        }
        Retried::Unknown => None,
    };
    reply.ok_or_else(unknown)
}
