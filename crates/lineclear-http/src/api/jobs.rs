//! Jobs: list and search.

pub(crate) mod cancel;
pub(super) mod detail;
pub(crate) mod enqueue;
pub(super) mod logs;
pub(super) mod payload;
pub(crate) mod retry;

use axum::Json;
use axum::extract::State;
use lineclear::read::JobView;
use lineclear::store::JobId;
use lineclear_model::query::Query;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::json_types::{Id, QueryParams, id, time};
use super::pagination::{cursor, limit};
use crate::App;
use crate::problem::Problem;

/// A job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Job {
    id: Id,
    state: String,
    kind: String,
    manifest_id: Option<Id>,
    /// The key of the manifest.
    manifest: Option<String>,
    group: Option<String>,
    /// Tags, for searches.
    tags: Vec<String>,
    /// The route; null once the job is completed or cancelled.
    route: Option<String>,
    /// The key of a concurrency limit.
    limit_key: Option<String>,
    /// The phase of a waiting job: `later`, `ready`, `held` or `parked`.
    phase: Option<String>,
    tick_at: Option<String>,
    origin: String,
    claim_no: u32,
    failures: Option<u32>,
    created_at: String,
    due_at: String,
    finished_at: Option<String>,
    node_id: Option<Id>,
    /// The name of that node, if it is still known.
    node: Option<String>,
    last_error: Option<String>,
}

impl Job {
    pub(crate) fn of(job: JobView) -> Job {
        Job {
            id: Id::of(job.id),
            state: job.state.as_str().to_owned(),
            kind: job.kind,
            manifest_id: job.manifest.map(Id::of),
            manifest: job.manifest_key,
            group: job.group,
            tags: job.tags,
            route: job.route,
            limit_key: job.limit_key,
            phase: job.phase,
            tick_at: job.tick_at.map(time),
            origin: job.origin.as_str().to_owned(),
            claim_no: job.claim_no,
            failures: job.failures,
            created_at: time(job.created_at),
            due_at: time(job.due_at),
            finished_at: job.finished_at.map(time),
            node_id: job.node.map(Id::of),
            node: job.node_name,
            last_error: job.last_error,
        }
    }
}

/// A search.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// A query in the search language: `state:failed group:etl since:24h kind:import-* -node:web-2 error:"connect timeout"`. The default is
    /// all jobs.
    q: Option<String>,
    /// The page size, 1 to 1,000; the default is 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the previous page.
    cursor: Option<String>,
}

/// How far the search got.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Searched {
    /// Rows that the server scanned for this page.
    rows: u64,
    /// The search is complete. If not, follow `next`, even if this page has no items.
    complete: bool,
}

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobsPage {
    /// The jobs, newest first.
    items: Vec<Job>,
    /// Pass it as `cursor` to get the next page; null on the last one. A page may be empty and not be the last: a search scans a bounded
    /// number of rows at a time.
    next: Option<String>,
    searched: Searched,
}

/// Lists jobs, newest first.
#[utoipa::path(
    get, path = "/jobs", operation_id = "list_jobs", tag = "jobs", params(ListParams),
    security(("token" = ["read"])),
    responses((status = 200, body = JobsPage), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(
    state: State<App>,
    params: QueryParams<ListParams>,
) -> Result<Json<JobsPage>, Problem> {
    let query = query(params.0.q.as_deref().unwrap_or_default())?;
    let before = cursor(params.0.cursor.as_deref(), |text| id(text, "").ok().map(JobId))?;
    let found = state.reading.search(&query, before, limit(params.0.limit)?).await?;
    Ok(Json(JobsPage {
        searched: Searched { rows: found.rows_scanned, complete: found.next.is_none() },
        items: found.items.into_iter().map(Job::of).collect(),
        next: found.next.map(|id| id.to_string()),
    }))
}

/// Parses a query of the search language.
pub(super) fn query(text: &str) -> Result<Query, Problem> {
    Query::parse(text).map_err(|bad| Problem::malformed("query_language", bad.to_string()))
}
