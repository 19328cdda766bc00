//! Jobs: made, looked at, cancelled.

pub(super) mod change;
pub(super) mod create;
pub(super) mod detail;
pub(super) mod logs;

use axum::Json;
use axum::extract::State;
use lineclear::store::JobId;
use lineclear::store::views::{JobFilter, JobView};
use lineclear_model::JobState;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::page::{Page, cursor, limit};
use super::shape::{Asked, Id, id, name_at, time};
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
    last_error: Option<String>,
}

impl Job {
    pub(super) fn of(job: JobView) -> Job {
        Job {
            id: Id::of(job.id),
            state: job.state.as_str().to_owned(),
            kind: job.kind,
            manifest_id: job.manifest.map(Id::of),
            manifest: job.manifest_key,
            group: job.group,
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
            last_error: job.last_error,
        }
    }
}

/// Which jobs.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// In one of these states, with commas between them.
    state: Option<String>,
    /// Of this kind.
    kind: Option<String>,
    /// How many at most: 1 to 1,000, and 50 if nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// Lists jobs, newest first.
#[utoipa::path(
    get, path = "/jobs", operation_id = "list_jobs", tag = "jobs", params(Which),
    security(("token" = ["read"])),
    responses((status = 200, body = Page<Job>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>, asked: Asked<Which>) -> Result<Json<Page<Job>>, Problem> {
    let asked = asked.0;
    let states = asked.state.iter().flat_map(|states| states.split(','));
    let states = states.map(|word| {
        JobState::from_word(word)
            .ok_or_else(|| Problem::malformed("state", format!("{word:?} is no state of a job")))
    });
    let kind = asked.kind.as_deref().map(|kind| name_at(kind, "/kind")).transpose()?;
    let filter = JobFilter { states: states.collect::<Result<_, _>>()?, kind, manifest: None };
    let before = cursor(asked.cursor.as_deref(), |text| id(text, "").ok().map(JobId))?;
    let page = state.reading.jobs(&filter, before, limit(asked.limit)?).await?;
    Ok(Json(Page::new(page.items.into_iter().map(Job::of).collect(), page.next.map(|id| id.to_string()))))
}
