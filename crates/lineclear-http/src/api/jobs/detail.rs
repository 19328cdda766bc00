//! One job, with all that is known of it.

use axum::extract::State;
use axum::response::Response;
use lineclear::read::{ExecutionView, JobDetail, StepView};
use lineclear::store::JobId;
use lineclear_model::secret::Secrets;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Job;
use crate::App;
use crate::api::shape::{At, Id, id, time};
use crate::api::wait::{Prefer, PreferHeader};
use crate::problem::Problem;

/// A job with what became of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Detail {
    #[serde(flatten)]
    job: Job,
    /// What its handler gets or got, with dots in place of secrets.
    #[schema(value_type = Option<Object>)]
    input: Option<Box<RawValue>>,
    /// Its ended claims, oldest first; of more than 1,000 the last ones. `/jobs/{id}/executions` has all of them.
    executions: Vec<Execution>,
    /// The recorded steps of its handler.
    steps: Vec<Step>,
}

/// An ended claim.
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

/// Stored text that was JSON when it was accepted, without its secrets; if somebody wrote something else, it is left out.
fn shown(secrets: &Secrets, text: Option<String>) -> Option<Box<RawValue>> {
    text.and_then(|text| RawValue::from_string(secrets.mask(&text)?).ok())
}

impl Execution {
    pub(super) fn of(view: ExecutionView, secrets: &Secrets) -> Execution {
        Execution {
            claim_no: view.claim_no,
            is_final: view.is_final,
            outcome: view.outcome.as_str().to_owned(),
            node_id: view.node.map(Id::of),
            output: shown(secrets, view.output),
            error_type: view.error_type,
            error_message: view.error_message,
            fingerprint: view.fingerprint,
            claimed_at: view.claimed_at.map(time),
            finished_at: time(view.finished_at),
        }
    }
}

impl Detail {
    pub(crate) fn of(detail: JobDetail) -> Detail {
        let step = |view: StepView| Step {
            name: view.name,
            claim_no: view.claim_no,
            error: view.error,
            started_at: time(view.started_at),
            finished_at: time(view.finished_at),
        };
        Detail {
            job: Job::of(detail.job),
            input: shown(&detail.secrets, detail.input),
            executions: detail
                .executions
                .into_iter()
                .map(|view| Execution::of(view, &detail.secrets))
                .collect(),
            steps: detail.steps.into_iter().map(step).collect(),
        }
    }
}

/// One job, with its input and what became of its claims.
#[utoipa::path(
    get, path = "/jobs/{id}", operation_id = "get_job", tag = "jobs", params(("id" = String, Path), PreferHeader),
    security(("token" = ["read"])),
    responses((status = 200, body = Detail), (status = 202, body = Detail, description = "with `Prefer: wait`, it is not over"),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(state: State<App>, at: At, prefer: Prefer) -> Result<Response, Problem> {
    prefer.job(&state, JobId(id(&at.0, "job")?)).await
}

/// The job of a path.
pub(super) async fn find(state: &App, text: &str) -> Result<JobDetail, Problem> {
    let found = state.reading.job(JobId(id(text, "job")?)).await?;
    found.ok_or_else(|| Problem::not_found(format_args!("job {text}")))
}
