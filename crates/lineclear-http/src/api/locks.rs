//! Locks: who holds which, since when, and who did before.

use std::time::SystemTime;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lineclear_lock::{LeaseRecord, LockError, LockEvent, Registry};
use serde::Serialize;
use utoipa::ToSchema;

use super::page::{Page, Paging, cursor, limit};
use super::shape::{Asked, At, Id, id, time};
use crate::problem::Problem;
use crate::{App, ShownLocks};

/// Locks that are shown at most.
const LOCKS_MAX: u32 = 1_000;

/// A lock in the registry.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lock {
    name: String,
    /// Where the lock itself is; `engine` for what the scheduler's own nodes do.
    store: String,
    /// `held`, `idle`, `stale`, `orphan` or `drift`.
    state: &'static str,
    node: String,
    machine: String,
    pid: u32,
    incarnation: String,
    kind: Option<String>,
    epoch: String,
    /// From when on no other node has had it.
    since: Option<String>,
    acquired_at: Option<String>,
    renewed_at: Option<String>,
    /// None while it is held.
    released_at: Option<String>,
    /// How often this node has taken it since then.
    holds: u64,
    /// How often others found it busy since then.
    contended: u64,
}

fn at(moment: SystemTime) -> Option<String> {
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

/// A lock of a registry, as the API shows it: for programs that read a registry themselves.
pub fn lock_json(lease: LeaseRecord) -> serde_json::Value {
    serde_json::json!(Lock::of(lease))
}

pub(crate) fn shown(state: &App) -> Result<&ShownLocks, Problem> {
    state.locks.as_ref().ok_or_else(|| Problem::not_found("lease registry: this server has none"))
}

pub(crate) fn registry(state: &App) -> Result<&Registry, Problem> {
    shown(state).map(ShownLocks::registry)
}

pub(crate) fn failed(error: LockError) -> Problem {
    tracing::warn!(%error, "the lease registry cannot be read");
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "registry_unavailable",
        "the lease registry does not answer; ask again",
    )
}

/// Lists locks by name. The node that planned last is shown as the holder of `planner`: nodes say so with their heartbeats, and nothing waits
/// for it.
#[utoipa::path(
    get, path = "/locks", operation_id = "list_locks", tag = "locks", security(("token" = ["read"])),
    responses((status = 200, body = Page<Lock>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>) -> Result<Json<Page<Lock>>, Problem> {
    let leases = registry(&state)?.leases(LOCKS_MAX).await.map_err(failed)?;
    Ok(Json(Page::new(leases.into_iter().map(Lock::of).collect(), None)))
}

/// Something that happened to a lock.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LockHappening {
    id: Id,
    name: String,
    store: String,
    /// `taken`, `lost`, `vanished` or `broken`.
    what: &'static str,
    at: Option<String>,
    holder: String,
    epoch: String,
    /// Who had it before.
    before: Option<String>,
    /// Who took it away.
    by_whom: Option<String>,
    why: Option<String>,
}

impl LockHappening {
    fn of(event: LockEvent) -> LockHappening {
        LockHappening {
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

/// What happened to a lock, newest first.
#[utoipa::path(
    get, path = "/locks/{name}/history", operation_id = "lock_history", tag = "locks", security(("token" = ["read"])), params(("name" = String, Path), Paging),
    responses((status = 200, body = Page<LockHappening>),
              (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn history(
    state: State<App>,
    at: At,
    asked: Asked<Paging>,
) -> Result<Json<Page<LockHappening>>, Problem> {
    let before = cursor(asked.0.cursor.as_deref(), |text| id(text, "").ok())?;
    let most = limit(asked.0.limit)?;
    let registry = registry(&state)?;
    let events = registry.history(Some(&at.0), before, most).await.map_err(failed)?;
    // What happened to it may have been forgotten; who had it last is not.
    if events.is_empty() && registry.lease(&at.0).await.map_err(failed)?.is_empty() {
        return Err(Problem::not_found(format_args!("lock {}", at.0)));
    }
    let next = events.last().filter(|_| events.len() == most as usize).map(|event| event.id.to_string());
    Ok(Json(Page::new(events.into_iter().map(LockHappening::of).collect(), next)))
}
