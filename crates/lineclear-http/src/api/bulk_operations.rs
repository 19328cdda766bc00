//! Bulk operations: cancel, retry, revive or acknowledge all jobs that a query finds, in the background.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use lineclear::store::{self, BulkAction, BulkMode, BulkOperationId, Created, Creation, NewBulkOperation};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::jobs::query;
use crate::App;
use crate::api::json_types::{Id, PathParam, QueryParams, id, time, unprocessable};
use crate::api::pagination::{Page, PageParams, cursor, limit};
use crate::audit::AuditDetails;
use crate::auth::Caller;
use crate::idempotency::{IdempotencyKeyHeader, KeyedBody, StoredReply, create_idempotently};
use crate::problem::Problem;

/// The default delay before a bulk operation starts.
const STARTS_IN_MS: u64 = 5_000;

/// A new bulk operation.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BulkOperationBody {
    /// `cancel`, `retry`, `revive` or `acknowledge`.
    pub(crate) action: String,
    /// A query in the search language, over the jobs that exist now. `id:>0` finds all.
    pub(crate) q: String,
    /// Only count the jobs.
    #[serde(default)]
    pub(crate) dry_run: bool,
    /// The reason, kept with the operation and with the dead letters that it resolves.
    pub(crate) reason: Option<String>,
    /// The delay before it starts, in which it can be cancelled without effect: up to a day; the default is 5,000.
    #[schema(maximum = 86_400_000)]
    pub(crate) starts_in_ms: Option<u64>,
    /// `all` (the default); for `retry` and `revive` also `spread`: jobs become due evenly over `over_ms`, and `canary`: one job runs first,
    /// and the others follow when it has completed.
    pub(crate) mode: Option<String>,
    /// With `spread`: the period in milliseconds, up to a week.
    #[schema(minimum = 1, maximum = 604_800_000)]
    pub(crate) over_ms: Option<u64>,
}

impl BulkOperationBody {
    fn mode(&self, action: BulkAction) -> Result<BulkMode, Problem> {
        let refused = |why: String, pointer: &str| Err(unprocessable("mode", why).at(pointer));
        let mode = match (self.mode.as_deref().unwrap_or("all"), self.over_ms) {
            ("spread", Some(over_ms)) => BulkMode::Spread(Duration::from_millis(over_ms)),
            ("spread", None) => {
                return refused(
                    "`over_ms` is required with the mode spread; 600000 is ten minutes".to_owned(),
                    "/over_ms",
                );
            }
            ("all" | "canary", Some(_)) => {
                return refused("`over_ms` requires the mode spread".to_owned(), "/over_ms");
            }
            ("all", None) => BulkMode::All,
            ("canary", None) => BulkMode::Canary,
            (word, _) => {
                return refused(
                    format!("`mode` must be one of {}; it is {word:?}", BulkMode::WORDS.join(", ")),
                    "/mode",
                );
            }
        };
        mode.check(action).map_err(|error| Problem::of_field(error, FIELDS))?;
        Ok(mode)
    }
}

/// The field that each rule of the store concerns.
const FIELDS: &[(&str, &str)] = &[
    ("starts_in", "/starts_in_ms"),
    ("text", "/reason"),
    ("q", "/q"),
    ("mode", "/mode"),
    ("over", "/over_ms"),
];

/// The number of jobs that a bulk operation would change.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkOperationCount {
    /// The number of jobs.
    count: u64,
    /// Whether `count` is exact: counting stops at a bound.
    exact: bool,
    /// The query in its canonical form.
    q: String,
}

/// A bulk operation and its progress.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BulkOperation {
    id: Id,
    action: &'static str,
    /// The query, with relative times resolved.
    q: String,
    reason: Option<String>,
    created_by: String,
    created_at: String,
    /// When it starts; until then it can be cancelled without effect.
    starts_at: String,
    /// `waiting`, `running`, `done` or `cancelled`.
    status: &'static str,
    /// The number of jobs that it found.
    total: u64,
    /// Whether `total` is exact: counting stops at a bound.
    total_is_exact: bool,
    /// Jobs that it changed.
    done: u64,
    /// Jobs that it could not change any more.
    skipped: u64,
    finished_at: Option<String>,
    /// `all`, `spread` or `canary`.
    mode: &'static str,
    /// With `spread`: the period in milliseconds.
    over_ms: Option<u64>,
    /// With `canary`: the job that runs first. The others wait for it while the operation is `running` and `done` is 1.
    canary_job_id: Option<Id>,
    /// Why it stopped by itself: its canary died again, was cancelled, or did not finish within a day.
    stopped_because: Option<String>,
}

impl BulkOperation {
    pub(crate) fn of(operation: store::BulkOperation) -> BulkOperation {
        BulkOperation {
            id: Id::of(operation.id),
            action: operation.action.as_str(),
            q: operation.q,
            reason: operation.reason,
            created_by: operation.created_by,
            created_at: time(operation.created_at),
            starts_at: time(operation.starts_at),
            status: operation.status.as_str(),
            total: operation.total,
            total_is_exact: operation.total_is_exact,
            done: operation.done,
            skipped: operation.skipped,
            finished_at: operation.finished_at.map(time),
            mode: operation.mode.as_str(),
            over_ms: operation.mode.over().map(|over| u64::try_from(over.as_millis()).unwrap_or(u64::MAX)),
            canary_job_id: operation.canary.map(Id::of),
            stopped_because: operation.stopped_because,
        }
    }
}

/// Changes all jobs that a query finds, in the background. It starts after a few seconds, and can be cancelled without effect until
/// then.
#[utoipa::path(
    post, path = "/bulk-operations", operation_id = "create_bulk_operation", tag = "bulk operations", request_body = BulkOperationBody, params(IdempotencyKeyHeader),
    security(("token" = ["operate"])),
    responses((status = 201, body = BulkOperation), (status = 200, body = BulkOperationCount, description = "with `dry_run`: the count"),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn create(
    state: State<App>,
    caller: Caller,
    audit: AuditDetails,
    request: KeyedBody<BulkOperationBody>,
) -> Result<Response, Problem> {
    let body = request.body;
    let action = action(&body.action)?;
    let query = query(&body.q).map_err(|problem| problem.at("/q"))?;
    if body.q.trim().is_empty() {
        return Err(unprocessable("which", "`q` must not be empty; id:>0 finds all jobs").at("/q"));
    }
    body.mode(action)?;
    if body.dry_run {
        let count = state.reading.count(&action.of(query.clone())).await?;
        let q = query.to_string();
        audit.set(json!({"dry_run": true, "action": action.as_str(), "q": q, "count": count.count}));
        return Ok(Json(BulkOperationCount { count: count.count, exact: count.is_exact, q }).into_response());
    }
    let request = KeyedBody { key: request.key, body };
    Ok(start(&state, &caller, &audit, request).await?.into_response())
}

/// Starts a bulk operation, for the API and for the page.
pub(crate) async fn start(
    state: &App,
    caller: &Caller,
    audit: &AuditDetails,
    request: KeyedBody<BulkOperationBody>,
) -> Result<StoredReply, Problem> {
    let body = request.body;
    let action = action(&body.action)?;
    let query = query(&body.q).map_err(|problem| problem.at("/q"))?;
    let starts_in = Duration::from_millis(body.starts_in_ms.unwrap_or(STARTS_IN_MS));
    let mode = body.mode(action)?;
    let new =
        NewBulkOperation { action, query, reason: body.reason, by: caller.0.audit_name(), starts_in, mode };
    // Counting may take a while, so it uses the connections for reading.
    let counted =
        state.reading.count_bulk_operation(new).await.map_err(|error| Problem::of_field(error, FIELDS))?;
    let creation = Creation::BulkOperation(Box::new(counted));
    create_idempotently(&state.client, request.key, creation, audit, |created| {
        let Created::BulkOperation(operation) = created else { return None };
        StoredReply::of_bulk_operation(operation.id, &BulkOperation::of(operation.clone()))
    })
    .await
}

fn action(word: &str) -> Result<BulkAction, Problem> {
    BulkAction::from_word(word).ok_or_else(|| {
        let words: Vec<&str> = BulkAction::ALL.iter().map(|action| action.as_str()).collect();
        unprocessable("action", format!("`action` must be one of {}; it is {word:?}", words.join(", ")))
            .at("/action")
    })
}

/// Lists bulk operations, newest first.
#[utoipa::path(
    get, path = "/bulk-operations", operation_id = "list_bulk_operations", tag = "bulk operations", params(PageParams),
    security(("token" = ["read"])),
    responses((status = 200, body = Page<BulkOperation>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(
    state: State<App>,
    params: QueryParams<PageParams>,
) -> Result<Json<Page<BulkOperation>>, Problem> {
    let before = cursor(params.0.cursor.as_deref(), |text| id(text, "").ok().map(BulkOperationId))?;
    let page = state.reading.bulk_operations(before, limit(params.0.limit)?).await?;
    let items = page.items.into_iter().map(BulkOperation::of).collect();
    Ok(Json(Page::new(items, page.next.map(|id| id.to_string()))))
}

/// Returns a bulk operation and its progress.
#[utoipa::path(
    get, path = "/bulk-operations/{id}", operation_id = "get_bulk_operation", tag = "bulk operations", params(("id" = String, Path)),
    security(("token" = ["read"])),
    responses((status = 200, body = BulkOperation), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(state: State<App>, path: PathParam) -> Result<Json<BulkOperation>, Problem> {
    let found = state.reading.bulk_operation(BulkOperationId(id(&path.0, "bulk operation")?)).await?;
    let found = found.ok_or_else(|| Problem::not_found(format_args!("bulk operation {}", path.0)))?;
    Ok(Json(BulkOperation::of(found)))
}

/// Cancels a bulk operation. Jobs that it has already changed stay changed.
#[utoipa::path(
    post, path = "/bulk-operations/{id}/cancel", operation_id = "cancel_bulk_operation", tag = "bulk operations", params(("id" = String, Path)),
    security(("token" = ["operate"])),
    responses((status = 200, body = BulkOperation), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn cancel(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
) -> Result<Json<BulkOperation>, Problem> {
    let operation = BulkOperationId(id(&path.0, "bulk operation")?);
    if let Some(stopped) = state.client.store().cancel_bulk_operation(operation).await? {
        audit.set(json!({"done": stopped.done}));
        return Ok(Json(BulkOperation::of(stopped)));
    }
    match state.reading.bulk_operation(operation).await? {
        Some(over) => {
            let detail = format!("bulk operation {operation} is already {}", over.status.as_str());
            Err(Problem::new(StatusCode::CONFLICT, "bulk_operation_over", detail))
        }
        None => Err(Problem::not_found(format_args!("bulk operation {operation}"))),
    }
}
