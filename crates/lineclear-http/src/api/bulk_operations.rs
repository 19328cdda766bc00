//! Batches: the same done to many jobs, in the background, by whichever server is there.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lineclear::store::{Action, Batch, BatchId, Created, Creation, Mode, NewBatch};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::jobs::query;
use super::page::{Page, Paging, cursor, limit};
use super::shape::{Asked, At, Id, id, time, unprocessable};
use crate::App;
use crate::access::Who;
use crate::audit::Note;
use crate::once::{KeyHeader, Keyed, Reply, make};
use crate::problem::Problem;

/// How long a batch can be taken back, if nothing is said.
const STARTS_IN_MS: u64 = 5_000;

/// What to do, and to which jobs.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchBody {
    /// `cancel`, `retry`, `revive` or `acknowledge`.
    pub(crate) action: String,
    /// In the search language; of those that exist now. Say `id:>0` for all.
    pub(crate) q: String,
    /// Only count.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// Why; kept with the batch, and with dead letters that it resolves.
    pub(crate) reason: Option<String>,
    /// So many milliseconds it can be taken back; 5,000 if nothing is said, a day at most.
    #[schema(maximum = 86_400_000)]
    pub(crate) starts_in_ms: Option<u64>,
    /// `all` if nothing is said; for `retry` and `revive` also `spread`: jobs become due one after the other, evenly over `over_ms`, and
    /// `canary`: one job goes first, and the rest only when that one has completed.
    pub(crate) mode: Option<String>,
    /// With `spread`: over so many milliseconds; a week at most.
    #[schema(minimum = 1, maximum = 604_800_000)]
    pub(crate) over_ms: Option<u64>,
}

impl BatchBody {
    fn mode(&self, action: Action) -> Result<Mode, Problem> {
        let refused = |why: String, at: &str| Err(unprocessable("mode", why).at(at));
        let mode = match (self.mode.as_deref().unwrap_or("all"), self.over_ms) {
            ("spread", Some(over_ms)) => Mode::Spread(Duration::from_millis(over_ms)),
            ("spread", None) => {
                return refused("spread over how long? 600000 is ten minutes".to_owned(), "/over_ms");
            }
            ("all" | "canary", Some(_)) => {
                return refused("over_ms is for the mode spread".to_owned(), "/over_ms");
            }
            ("all", None) => Mode::All,
            ("canary", None) => Mode::Canary,
            (word, _) => {
                return refused(format!("{word:?} is none of {}", Mode::WORDS.join(", ")), "/mode");
            }
        };
        mode.check(action).map_err(|error| Problem::of_field(error, FIELDS))?;
        Ok(mode)
    }
}

/// Where what the store refuses was said.
const FIELDS: &[(&str, &str)] = &[
    ("starts_in", "/starts_in_ms"),
    ("text", "/reason"),
    ("q", "/q"),
    ("mode", "/mode"),
    ("over", "/over_ms"),
];

/// How many jobs would be treated.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CountAnswer {
    /// So many.
    count: u64,
    /// And no more; otherwise at least so many: counting stops at a bound.
    exact: bool,
    /// What is looked for, in its one form.
    q: String,
}

/// A batch, and how far it is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BatchShape {
    id: Id,
    action: &'static str,
    /// In the search language, with every moment fixed.
    q: String,
    reason: Option<String>,
    created_by: String,
    created_at: String,
    /// Until then it can be taken back.
    starts_at: String,
    /// `waiting`, `running`, `done` or `cancelled`.
    status: &'static str,
    /// Jobs that it meant when it was made.
    total: u64,
    /// Whether that is all: counting stops at a bound.
    total_is_exact: bool,
    /// Jobs that were treated.
    done: u64,
    /// Jobs that could not be treated any more when their turn came.
    skipped: u64,
    finished_at: Option<String>,
    /// `all`, `spread` or `canary`.
    mode: &'static str,
    /// With `spread`: over so many milliseconds jobs become due.
    over_ms: Option<u64>,
    /// With `canary`: the job that went first. While the batch is `running` and has done one job, the rest waits for it.
    canary_job_id: Option<Id>,
    /// Why it stopped, if no person stopped it: its canary died again, was cancelled, or did not end within a day.
    stopped_because: Option<String>,
}

impl BatchShape {
    pub(crate) fn of(batch: Batch) -> BatchShape {
        BatchShape {
            id: Id::of(batch.id),
            action: batch.action.as_str(),
            q: batch.q,
            reason: batch.reason,
            created_by: batch.created_by,
            created_at: time(batch.created_at),
            starts_at: time(batch.starts_at),
            status: batch.status.as_str(),
            total: batch.total,
            total_is_exact: batch.total_is_exact,
            done: batch.done,
            skipped: batch.skipped,
            finished_at: batch.finished_at.map(time),
            mode: batch.mode.as_str(),
            over_ms: batch.mode.over().map(|over| u64::try_from(over.as_millis()).unwrap_or(u64::MAX)),
            canary_job_id: batch.canary.map(Id::of),
            stopped_because: batch.stopped_because,
        }
    }
}

/// Does the same to all jobs that a query finds, of those that exist now. It begins after a few seconds, until which it can be
/// cancelled without a trace.
#[utoipa::path(
    post, path = "/batches", operation_id = "create_batch", tag = "batches", request_body = BatchBody, params(KeyHeader),
    security(("token" = ["operate"])),
    responses((status = 201, body = BatchShape), (status = 200, body = CountAnswer, description = "only counted"),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn create(
    state: State<App>,
    who: Who,
    note: Note,
    asked: Keyed<BatchBody>,
) -> Result<Response, Problem> {
    let body = asked.body;
    let action = action(&body.action)?;
    let query = query(&body.q).map_err(|problem| problem.at("/q"))?;
    if body.q.trim().is_empty() {
        return Err(unprocessable("which", "say which jobs; id:>0 is all of them").at("/q"));
    }
    body.mode(action)?;
    if body.dry_run {
        let count = state.reading.count(&action.of(query.clone())).await?;
        let q = query.to_string();
        note.say(json!({"dry_run": true, "action": action.as_str(), "q": q, "count": count.count}));
        return Ok(Json(CountAnswer { count: count.count, exact: count.is_exact, q }).into_response());
    }
    let asked = Keyed { once: asked.once, body };
    Ok(make_one(&state, &who, &note, asked).await?.into_response())
}

/// A batch, wherever it was asked for.
pub(crate) async fn make_one(
    state: &App,
    who: &Who,
    note: &Note,
    asked: Keyed<BatchBody>,
) -> Result<Reply, Problem> {
    let body = asked.body;
    let action = action(&body.action)?;
    let query = query(&body.q).map_err(|problem| problem.at("/q"))?;
    let starts_in = Duration::from_millis(body.starts_in_ms.unwrap_or(STARTS_IN_MS));
    let mode = body.mode(action)?;
    let new = NewBatch { action, query, reason: body.reason, by: who.0.who(), starts_in, mode };
    // Counting is looking, and may take a while: it must not keep the engine's connections.
    let counted = state.reading.count_batch(new).await.map_err(|error| Problem::of_field(error, FIELDS))?;
    let creation = Creation::Batch(Box::new(counted));
    make(&state.client, asked.once, creation, note, |created| {
        let Created::Batch(batch) = created else { return None };
        Reply::of_batch(batch.id, &BatchShape::of(batch.clone()))
    })
    .await
}

fn action(word: &str) -> Result<Action, Problem> {
    Action::from_word(word).ok_or_else(|| {
        let words: Vec<&str> = Action::ALL.iter().map(|action| action.as_str()).collect();
        unprocessable("action", format!("{word:?} is none of {}", words.join(", "))).at("/action")
    })
}

/// Lists batches, newest first.
#[utoipa::path(
    get, path = "/batches", operation_id = "list_batches", tag = "batches", params(Paging),
    security(("token" = ["read"])),
    responses((status = 200, body = Page<BatchShape>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>, asked: Asked<Paging>) -> Result<Json<Page<BatchShape>>, Problem> {
    let before = cursor(asked.0.cursor.as_deref(), |text| id(text, "").ok().map(BatchId))?;
    let page = state.reading.batches(before, limit(asked.0.limit)?).await?;
    let items = page.items.into_iter().map(BatchShape::of).collect();
    Ok(Json(Page::new(items, page.next.map(|id| id.to_string()))))
}

/// One batch, and how far it is.
#[utoipa::path(
    get, path = "/batches/{id}", operation_id = "get_batch", tag = "batches", params(("id" = String, Path)),
    security(("token" = ["read"])),
    responses((status = 200, body = BatchShape), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(state: State<App>, at: At) -> Result<Json<BatchShape>, Problem> {
    let found = state.reading.batch(BatchId(id(&at.0, "batch")?)).await?;
    let found = found.ok_or_else(|| Problem::not_found(format_args!("batch {}", at.0)))?;
    Ok(Json(BatchShape::of(found)))
}

/// Stops a batch. What it has done stays done; one that has not begun has done nothing.
#[utoipa::path(
    post, path = "/batches/{id}/cancel", operation_id = "cancel_batch", tag = "batches", params(("id" = String, Path)),
    security(("token" = ["operate"])),
    responses((status = 200, body = BatchShape), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn cancel(state: State<App>, note: Note, at: At) -> Result<Json<BatchShape>, Problem> {
    let batch = BatchId(id(&at.0, "batch")?);
    if let Some(stopped) = state.client.store().cancel_batch(batch).await? {
        note.say(json!({"done": stopped.done}));
        return Ok(Json(BatchShape::of(stopped)));
    }
    match state.reading.batch(batch).await? {
        Some(over) => {
            let detail = format!("batch {batch} is over: {}", over.status.as_str());
            Err(Problem::new(StatusCode::CONFLICT, "batch_over", detail))
        }
        None => Err(Problem::not_found(format_args!("batch {batch}"))),
    }
}
