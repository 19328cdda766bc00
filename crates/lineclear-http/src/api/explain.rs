//! Why is this not running? Every gate, open or closed, with the reason.

use axum::Json;
use axum::extract::State;
use lineclear::store::JobId;
use lineclear_model::explain::{Explanation, Gate};
use serde::Serialize;
use utoipa::ToSchema;

use super::shape::{At, id, name, time};
use crate::App;
use crate::problem::Problem;

/// Every gate between a job and its worker.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ExplainAnswer {
    /// In one sentence: the first gate that is closed.
    verdict: String,
    /// When it was so, on the database's clock.
    now: String,
    /// Each gate once, always in the same order.
    gates: Vec<GateShape>,
}

/// One gate.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GateShape {
    name: &'static str,
    /// Whether it lets the job through; null: it does not apply.
    open: Option<bool>,
    /// Why.
    why: String,
    /// What stands in the way; a few at most.
    blockers: Vec<BlockerShape>,
}

/// Something that stands in the way.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BlockerShape {
    /// `job`, `manifest`, `group`, `dead_letter` or `node`.
    what: &'static str,
    /// Its id, or its name.
    id: String,
    /// The node that has it.
    node: Option<String>,
}

impl ExplainAnswer {
    fn of(explanation: Explanation) -> ExplainAnswer {
        let gate = |gate: Gate| GateShape {
            name: gate.name.as_str(),
            open: gate.open,
            why: gate.why,
            blockers: gate
                .blockers
                .into_iter()
                .map(|way| BlockerShape { what: way.what, id: way.id, node: way.node })
                .collect(),
        };
        let gates = explanation.gates.into_iter().map(gate).collect();
        ExplainAnswer { verdict: explanation.verdict, now: time(explanation.now), gates }
    }
}

/// Why a job does not run, or how it ended.
#[utoipa::path(
    get, path = "/jobs/{id}/explain", operation_id = "explain_job", tag = "jobs", params(("id" = String, Path)),
    security(("token" = ["read"])),
    responses((status = 200, body = ExplainAnswer), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn job(state: State<App>, at: At) -> Result<Json<ExplainAnswer>, Problem> {
    let found = state.reading.explain_job(JobId(id(&at.0, "job")?)).await?;
    let found = found.ok_or_else(|| Problem::not_found(format_args!("job {}", at.0)))?;
    Ok(Json(ExplainAnswer::of(found)))
}

/// Why a manifest makes no job now, and whether the next one would run.
#[utoipa::path(
    get, path = "/manifests/{key}/explain", operation_id = "explain_manifest", tag = "manifests", params(("key" = String, Path)),
    security(("token" = ["read"])),
    responses((status = 200, body = ExplainAnswer), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn manifest(state: State<App>, at: At) -> Result<Json<ExplainAnswer>, Problem> {
    let key = name(&at.0, "manifest")?;
    let found = state.reading.explain_manifest(key.clone()).await?;
    let found = found.ok_or_else(|| Problem::not_found(format_args!("manifest {key}")))?;
    Ok(Json(ExplainAnswer::of(found)))
}
