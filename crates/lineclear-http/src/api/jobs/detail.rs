//! One job with its history.

use axum::extract::State;
use axum::response::Response;
use lineclear::read::{ExecutionView, JobDetail, StepView};
use lineclear::store::JobId;
use lineclear_model::JobState;
use lineclear_model::secret::Secrets;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Job;
use crate::App;
use crate::api::json_types::{Id, PathParam, id, time};
use crate::api::prefer_wait::{Prefer, PreferHeader};
use crate::problem::Problem;

/// A job with its history.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobDetails {
    #[serde(flatten)]
    job: Job,
    /// The input, with masked secrets.
    #[schema(value_type = Option<Object>)]
    input: Option<Box<RawValue>>,
    /// The executions, oldest first; only the last 1,000. `/jobs/{id}/executions` has all.
    executions: Vec<Execution>,
    /// The recorded steps.
    steps: Vec<Step>,
    /// What holds the job while it runs: `node`, `worker` (remote) or `submitter`.
    holder: Option<&'static str>,
    /// The name of the job in the system that has accepted it, while it runs.
    external_id: Option<String>,
}

/// An execution: one claim that ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Execution {
    claim_no: u32,
    is_final: bool,
    outcome: String,
    node_id: Option<Id>,
    #[schema(value_type = Option<Object>)]
    output: Option<Box<RawValue>>,
    error_type: Option<String>,
    error_message: Option<String>,
    fingerprint: Option<String>,
    claimed_at: Option<String>,
    finished_at: String,
}

/// A recorded step.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Step {
    name: String,
    claim_no: u32,
    error: Option<String>,
    started_at: String,
    finished_at: String,
}

/// Stored JSON with masked secrets; text that is not JSON is left out.
fn masked(secrets: &Secrets, text: Option<String>) -> Option<Box<RawValue>> {
    text.and_then(|text| RawValue::from_string(secrets.mask(&text)?).ok())
}

impl Execution {
    pub(super) fn of(view: ExecutionView, secrets: &Secrets) -> Execution {
        Execution {
            claim_no: view.claim_no,
            is_final: view.is_final,
            outcome: view.outcome.as_str().to_owned(),
            node_id: view.node.map(Id::of),
            output: masked(secrets, view.output),
            error_type: view.error_type,
            error_message: view.error_message,
            fingerprint: view.fingerprint,
            claimed_at: view.claimed_at.map(time),
            finished_at: time(view.finished_at),
        }
    }
}

impl JobDetails {
    pub(crate) fn of(detail: JobDetail) -> JobDetails {
        let step = |view: StepView| Step {
            name: view.name,
            claim_no: view.claim_no,
            error: view.error,
            started_at: time(view.started_at),
            finished_at: time(view.finished_at),
        };
        let is_held = detail.job.state == JobState::Running;
        JobDetails {
            holder: is_held.then_some(detail.holder.as_str()),
            external_id: detail.external_id,
            job: Job::of(detail.job),
            input: masked(&detail.secrets, detail.input),
            executions: detail
                .executions
                .into_iter()
                .map(|view| Execution::of(view, &detail.secrets))
                .collect(),
            steps: detail.steps.into_iter().map(step).collect(),
        }
    }
}

/// Returns a job with its input, executions and steps.
#[utoipa::path(
    get, path = "/jobs/{id}", operation_id = "get_job", tag = "jobs", params(("id" = String, Path), PreferHeader),
    security(("token" = ["read"])),
    responses((status = 200, body = JobDetails), (status = 202, body = JobDetails, description = "with `Prefer: wait`: the job is not over yet"),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(state: State<App>, path: PathParam, prefer: Prefer) -> Result<Response, Problem> {
    prefer.job(&state, JobId(id(&path.0, "job")?)).await
}

/// The job with this id.
pub(super) async fn find(state: &App, text: &str) -> Result<JobDetail, Problem> {
    let found = state.reading.job(JobId(id(text, "job")?)).await?;
    found.ok_or_else(|| Problem::not_found(format_args!("job {text}")))
}
