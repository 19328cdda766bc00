//! Explains why a job does not run: every gate, open or closed, with the reason.

use axum::Json;
use axum::extract::State;
use lineclear::store::JobId;
use lineclear_model::explain;
use serde::Serialize;
use utoipa::ToSchema;

use crate::App;
use crate::api::json_types::{PathParam, id, name, time};
use crate::problem::Problem;

/// Every gate between a job and its worker.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Explanation {
    /// The first closed gate, in one sentence.
    verdict: String,
    /// The time of the explanation, on the database's clock.
    now: String,
    /// All gates, in a fixed order.
    gates: Vec<ExplanationGate>,
}

/// One gate.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExplanationGate {
    name: &'static str,
    /// Whether the job passes it; null if it does not apply.
    open: Option<bool>,
    /// The reason.
    why: String,
    /// A few of the things that block the job.
    blockers: Vec<ExplanationBlocker>,
}

/// Something that blocks a job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExplanationBlocker {
    /// `job`, `manifest`, `group`, `dead_letter` or `node`.
    what: &'static str,
    /// Its id, or its name.
    id: String,
    /// The node that holds it.
    node: Option<String>,
}

impl Explanation {
    fn of(explanation: explain::Explanation) -> Explanation {
        let gate = |gate: explain::Gate| ExplanationGate {
            name: gate.name.as_str(),
            open: gate.open,
            why: gate.why,
            blockers: gate
                .blockers
                .into_iter()
                .map(|way| ExplanationBlocker { what: way.what, id: way.id, node: way.node })
                .collect(),
        };
        let gates = explanation.gates.into_iter().map(gate).collect();
        Explanation { verdict: explanation.verdict, now: time(explanation.now), gates }
    }
}

/// Explains why a job does not run, or how it ended.
#[utoipa::path(
    get, path = "/jobs/{id}/explain", operation_id = "explain_job", tag = "jobs", params(("id" = String, Path)),
    security(("token" = ["read"])),
    responses((status = 200, body = Explanation), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn job(state: State<App>, path: PathParam) -> Result<Json<Explanation>, Problem> {
    let found = state.reading.explain_job(JobId(id(&path.0, "job")?)).await?;
    let found = found.ok_or_else(|| Problem::not_found(format_args!("job {}", path.0)))?;
    Ok(Json(Explanation::of(found)))
}

/// Explains why a manifest creates no job now, and whether its next job would run.
#[utoipa::path(
    get, path = "/manifests/{key}/explain", operation_id = "explain_manifest", tag = "manifests", params(("key" = String, Path)),
    security(("token" = ["read"])),
    responses((status = 200, body = Explanation), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn manifest(state: State<App>, path: PathParam) -> Result<Json<Explanation>, Problem> {
    let key = name(&path.0, "manifest")?;
    let found = state.reading.explain_manifest(key.clone()).await?;
    let found = found.ok_or_else(|| Problem::not_found(format_args!("manifest {key}")))?;
    Ok(Json(Explanation::of(found)))
}
