//! Locks: holders and history.

pub(crate) mod break_lock;

use std::time::SystemTime;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lineclear_lock::{LeaseRecord, LockError, LockEvent, Registry};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::json_types::{Id, PathParam, QueryParams, id, time};
use crate::api::pagination::{Page, PageParams, cursor, limit};
use crate::problem::Problem;
use crate::{App, DatabaseLocks};

/// Locks in a response.
const LOCKS_MAX: u32 = 1_000;

/// A lock of the registry.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lock {
    name: String,
    /// The store of the lock; `engine` for roles of the scheduler's own nodes.
    store: String,
    /// `held`, `idle`, `stale`, `orphan` or `drift`.
    state: &'static str,
    node: String,
    machine: String,
    pid: u32,
    incarnation: String,
    kind: Option<String>,
    epoch: String,
    /// Since when no other node has held it.
    since: Option<String>,
    acquired_at: Option<String>,
    renewed_at: Option<String>,
    /// Null while it is held.
    released_at: Option<String>,
    /// How often this node has acquired it since then.
    holds: u64,
    /// How often others found it held since then.
    contended: u64,
}

pub(crate) fn at(moment: SystemTime) -> Option<String> {
    jiff::Timestamp::try_from(moment).ok().map(|at| time(at.into()))
}

impl Lock {
    pub(crate) fn of(lease: LeaseRecord) -> Lock {
        Lock {
            state: lease.state.as_str(),
            epoch: lease.epoch.to_string(),
            since: at(lease.since),
            acquired_at: at(lease.acquired_at),
            renewed_at: at(lease.renewed_at),
            released_at: lease.released_at.and_then(at),
            name: lease.name,
            store: lease.store,
            node: lease.node,
            machine: lease.machine,
            pid: lease.pid,
            incarnation: lease.incarnation,
            kind: lease.kind,
            holds: lease.holds,
            contended: lease.contended,
        }
    }
}

/// The JSON of a lock, for programs that read a registry themselves.
pub fn lock_json(lease: LeaseRecord) -> serde_json::Value {
    serde_json::json!(Lock::of(lease))
}

pub(crate) fn database_locks(state: &App) -> Result<&DatabaseLocks, Problem> {
    state.locks.as_ref().ok_or_else(|| Problem::not_found("lease registry on this server"))
}

pub(crate) fn registry(state: &App) -> Result<&Registry, Problem> {
    database_locks(state).map(DatabaseLocks::registry)
}

pub(crate) fn registry_failed(error: LockError) -> Problem {
    tracing::warn!(%error, "the lease registry cannot be read");
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "registry_unavailable",
        "the lease registry does not answer; try again",
    )
}

/// Lists locks by name. The holder of `planner` is the node that planned last; nothing waits for this lock.
#[utoipa::path(
    get, path = "/locks", operation_id = "list_locks", tag = "locks", security(("token" = ["read"])),
    responses((status = 200, body = Page<Lock>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>) -> Result<Json<Page<Lock>>, Problem> {
    let leases = registry(&state)?.leases(LOCKS_MAX).await.map_err(registry_failed)?;
    Ok(Json(Page::new(leases.into_iter().map(Lock::of).collect(), None)))
}

/// An event of a lock.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LockHistoryEntry {
    id: Id,
    name: String,
    store: String,
    /// `taken`, `lost`, `vanished` or `broken`.
    what: &'static str,
    at: Option<String>,
    holder: String,
    epoch: String,
    /// The previous holder.
    before: Option<String>,
    /// Who broke it.
    by_whom: Option<String>,
    why: Option<String>,
}

impl LockHistoryEntry {
    fn of(event: LockEvent) -> LockHistoryEntry {
        LockHistoryEntry {
            id: Id::of(event.id),
            what: event.what.as_str(),
            at: at(event.at),
            name: event.name,
            store: event.store,
            holder: event.holder,
            epoch: event.epoch.to_string(),
            before: event.before,
            by_whom: event.by_whom,
            why: event.why,
        }
    }
}

/// Returns the history of a lock, newest first.
#[utoipa::path(
    get, path = "/locks/{name}/history", operation_id = "lock_history", tag = "locks", security(("token" = ["read"])), params(("name" = String, Path), PageParams),
    responses((status = 200, body = Page<LockHistoryEntry>),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn history(
    state: State<App>,
    path: PathParam,
    params: QueryParams<PageParams>,
) -> Result<Json<Page<LockHistoryEntry>>, Problem> {
    let before = cursor(params.0.cursor.as_deref(), |text| id(text, "").ok())?;
    let page_size = limit(params.0.limit)?;
    let registry = registry(&state)?;
    let events = registry.history(Some(&path.0), before, page_size).await.map_err(registry_failed)?;
    // A known lock may have no events left.
    if events.is_empty() && registry.lease(&path.0).await.map_err(registry_failed)?.is_empty() {
        return Err(Problem::not_found(format_args!("lock {}", path.0)));
    }
    let next = events.last().filter(|_| events.len() == page_size as usize).map(|event| event.id.to_string());
    Ok(Json(Page::new(events.into_iter().map(LockHistoryEntry::of).collect(), next)))
}
