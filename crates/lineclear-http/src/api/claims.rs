//! Claims of remote workers: a worker asks for jobs, and says how they go on and end, many at once. It needs the scope `worker`.
//!
//! Each call names the worker that makes it. A worker belongs to the token it began with: no other token can act for it.

pub(super) mod callback;
pub(super) mod logs;
pub(super) mod progress;
pub(super) mod pull;
pub(super) mod renew;
pub(super) mod settle;
pub(super) mod steps;

use lineclear::store::{ClaimRef, JobId, NodeId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::json_types::{Id, id, unprocessable};
use crate::App;
use crate::auth::Principal;
use crate::problem::Problem;

/// Claims in one request.
const CLAIMS_MAX: usize = 1_000;

/// A claim: a worker's turn at a job.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimBody {
    /// The id of the job.
    job: String,
    /// The number of the claim.
    no: u32,
}

/// The result for one claim of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimResult {
    job: Id,
    no: u32,
    /// `recorded`; `skipped`: the row was locked, send it again; `stale_claim`: the worker does not have the job any more; `refused`:
    /// what was sent cannot be recorded, `detail` says why.
    status: &'static str,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

const RECORDED: &str = "recorded";
const SKIPPED: &str = "skipped";
const STALE: &str = "stale_claim";
const REFUSED: &str = "refused";

impl ClaimResult {
    fn of(claim: ClaimRef, status: &'static str) -> ClaimResult {
        ClaimResult { job: Id::of(claim.job), no: claim.no, status, detail: None }
    }

    fn refused(claim: ClaimRef, why: String) -> ClaimResult {
        ClaimResult { detail: Some(why), ..ClaimResult::of(claim, REFUSED) }
    }
}

/// The results for the claims of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClaimResults {
    /// In the order of the request.
    claims: Vec<ClaimResult>,
}

/// A claim in a body.
fn claim_at(job: &str, no: u32, pointer: &str) -> Result<ClaimRef, Problem> {
    let job = id(job, "job").map_err(|_| {
        unprocessable("job", "`job` must be the id of a job: digits, as a string")
            .at(format!("{pointer}/job"))
    })?;
    Ok(ClaimRef { job: JobId(job), no })
}

/// The claims of a batch, each with its pointer.
fn claims_at<'a>(
    list: &str,
    claims: impl ExactSizeIterator<Item = (&'a str, u32)>,
) -> Result<Vec<ClaimRef>, Problem> {
    check_count(list, claims.len())?;
    claims.enumerate().map(|(n, (job, no))| claim_at(job, no, &format!("/{list}/{n}"))).collect()
}

fn check_count(list: &str, count: usize) -> Result<(), Problem> {
    if count > CLAIMS_MAX {
        let detail = format!(
            "`{list}` must contain at most {CLAIMS_MAX} items; it has {count}: send several requests"
        );
        return Err(unprocessable("batch_max", detail).at(format!("/{list}")));
    }
    Ok(())
}

/// The id of a worker: a UUID that it creates when it starts.
pub(super) fn worker_uuid(text: &str, pointer: &str) -> Result<Uuid, Problem> {
    Uuid::try_parse(text).map_err(|_| {
        let detail = "the id of a worker must be a UUID, a new one for each start of its process";
        unprocessable("worker", detail).at(pointer)
    })
}

/// The id of a worker among those of all principals.
pub(super) fn worker_id(principal: &Principal, worker: Uuid) -> String {
    format!("{}:{worker}", principal.worker_owner())
}

/// The node of the worker that a request names. `None`: it is not known any more, so it holds nothing.
async fn node_of(app: &App, principal: &Principal, worker: &str) -> Result<Option<NodeId>, Problem> {
    let worker = worker_id(principal, worker_uuid(worker, "/worker")?);
    Ok(app.workers.find(&app.client, &worker).await?)
}

/// Which of these claims the worker has.
async fn held(app: &App, node: Option<NodeId>, claims: &[ClaimRef]) -> Result<Vec<bool>, Problem> {
    match node {
        Some(node) if !claims.is_empty() => Ok(app.client.holds(node, claims).await?),
        _ => Ok(vec![false; claims.len()]),
    }
}

/// The refusal of a call about claims that the worker does not have.
fn stale_claim() -> Problem {
    let detail = "the worker does not have this job any more: its lease ran out, or the job was cancelled or settled; stop, and send no result";
    Problem::new(axum::http::StatusCode::CONFLICT, STALE, detail)
}
