//! Jobs: made, looked at, cancelled.

pub(crate) mod change;
pub(crate) mod create;
pub(super) mod detail;
pub(super) mod logs;
pub(super) mod payload;

use axum::Json;
use axum::extract::State;
use lineclear::read::JobView;
use lineclear::store::JobId;
use lineclear_model::query::Query;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::page::{cursor, limit};
use super::shape::{Asked, Id, id, time};
use crate::App;
use crate::problem::Problem;

/// A job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Job {
    id: Id,
    state: String,
    kind: String,
    manifest_id: Option<Id>,
    /// The key of its manifest.
    manifest: Option<String>,
    group: Option<String>,
    /// Words to find it by.
    tags: Vec<String>,
    /// The lane it waits in; unknown once it has completed or was cancelled.
    route: Option<String>,
    /// At most so many jobs with this key are active at a time.
    limit_key: Option<String>,
    /// Where it stands while it waits: `later`, `ready`, `held` or `parked`.
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

/// Which jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// In the search language: `state:failed group:etl since:24h kind:import-* -node:web-2 error:"connect timeout"`. All if nothing is said.
    q: Option<String>,
    /// How many at most: 1 to 1,000, and 50 if nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// How far a search looked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Searched {
    /// Rows that were looked through for this page.
    rows: u64,
    /// There is nothing older. If not, `next` looks on, also where this page has no items.
    complete: bool,
}

/// A page of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobsPage {
    /// What was found, newest first.
    items: Vec<Job>,
    /// Pass it as `cursor` to look on; none: this was the last. A page may be empty and not be the last: a search looks through a
    /// bounded number of rows at a time.
    next: Option<String>,
    searched: Searched,
}

/// Lists jobs, newest first.
#[utoipa::path(
    get, path = "/jobs", operation_id = "list_jobs", tag = "jobs", params(Which),
    security(("token" = ["read"])),
    responses((status = 200, body = JobsPage), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>, asked: Asked<Which>) -> Result<Json<JobsPage>, Problem> {
    let query = query(asked.0.q.as_deref().unwrap_or_default())?;
    let before = cursor(asked.0.cursor.as_deref(), |text| id(text, "").ok().map(JobId))?;
    let found = state.reading.search(&query, before, limit(asked.0.limit)?).await?;
    Ok(Json(JobsPage {
        searched: Searched { rows: found.looked, complete: found.next.is_none() },
        items: found.items.into_iter().map(Job::of).collect(),
        next: found.next.map(|id| id.to_string()),
    }))
}

/// A query, as people write it.
pub(super) fn query(text: &str) -> Result<Query, Problem> {
    Query::parse(text).map_err(|bad| Problem::malformed("query_language", bad.to_string()))
}
