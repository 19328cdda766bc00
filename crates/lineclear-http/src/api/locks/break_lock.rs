//! Breaks a lock whose holder hangs or cannot be reached.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lineclear_lock::{Inspection, LockError, LockName, LockOptions, Locks};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::{database_locks, registry_failed};
use crate::api::json_body::JsonBody;
use crate::api::json_types::{PathParam, unprocessable};
use crate::audit::AuditDetails;
use crate::auth::Caller;
use crate::problem::Problem;
use crate::{App, DatabaseLocks};

/// Longest reason, in bytes.
pub(crate) const REASON_BYTES_MAX: usize = 500;

/// The reason, and the expected holder.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BreakBody {
    /// The reason, kept in the history of the lock and in the audit.
    #[schema(max_length = 500)]
    pub(crate) reason: String,
    /// The epoch of the expected holder, as in `GET /locks`: if another one holds the lock now, nothing changes. Without it, the lock is broken
    /// for any holder.
    pub(crate) epoch: Option<String>,
}

/// A broken lock.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BrokenLock {
    name: String,
    /// The former holder: `machine/pid/incarnation`.
    holder: String,
    epoch: String,
    by_whom: String,
    reason: String,
}

/// A held lock of the server's own database.
pub(crate) struct Found {
    locks: Locks,
    pub(crate) name: LockName,
    pub(crate) seen: Inspection,
}

/// The name of the server's own database in the registry.
pub(crate) fn own_store(app: &App) -> &'static str {
    if app.client.store().options().is_postgres() { "postgres" } else { "sqlite" }
}

/// Finds a held lock. It opens the store only if the registry has a lock of it: opening may create tables, and a read must not.
pub(crate) async fn find_held(app: &App, name: &str) -> Result<Found, Problem> {
    let name = LockName::new(name).map_err(|_| Problem::not_found(format_args!("lock {name:?}")))?;
    let conflict = |code: &str, detail: String| Problem::new(StatusCode::CONFLICT, code, detail);
    let DatabaseLocks { registry, url } = database_locks(app)?;
    let leases = registry.lease(name.as_str()).await.map_err(registry_failed)?;
    if !leases.iter().any(|lease| lease.store == own_store(app)) {
        return Err(match leases.first() {
            Some(lease) if lease.store == "engine" => conflict(
                "no_lock",
                format!("{name} is a role of a node, not a lock: drain or stop the node {}", lease.node),
            ),
            Some(lease) => conflict(
                "lock_elsewhere",
                format!(
                    "{name} is a lock of {}, not of this server's database: use `lineclear lock break` with --store",
                    lease.store
                ),
            ),
            None => Problem::not_found(format_args!("lock {name}")),
        });
    }
    let options = LockOptions::default();
    let backend = lineclear_lock::backend(url, &options).map_err(unavailable)?;
    let locks = Locks::with_registry(backend, options, registry.clone()).await.map_err(unavailable)?;
    let seen = locks.inspect(name.as_str()).await.map_err(unavailable)?;
    let seen = seen.ok_or_else(|| Problem::not_found(format_args!("lock {name}")))?;
    if seen.holding.ends_in.is_none() {
        let detail = format!("{name} is not held; its last holder was {}", seen.holding.holder);
        return Err(conflict("not_held", detail));
    }
    Ok(Found { locks, name, seen })
}

fn unavailable(error: LockError) -> Problem {
    tracing::warn!(%error, "the lock store failed");
    match error {
        LockError::Refused { why, .. } => Problem::new(StatusCode::CONFLICT, "lock_store", why),
        _ => {
            let detail = "the lock store does not answer; try again";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "lock_store_unavailable", detail)
        }
    }
}

/// Breaks a lock, for the API and for the page.
pub(crate) async fn end_hold(
    app: &App,
    caller: &Caller,
    audit: &AuditDetails,
    name: &str,
    body: BreakBody,
) -> Result<BrokenLock, Problem> {
    let reason = body.reason.trim();
    if reason.is_empty() || reason.len() > REASON_BYTES_MAX {
        let detail = format!("`reason` is required, with at most {REASON_BYTES_MAX} bytes");
        return Err(unprocessable("reason", detail).at("/reason"));
    }
    let Found { locks, name, seen } = find_held(app, name).await?;
    let changed = || {
        let detail = format!("the holder of {name} has changed, and nothing was done; reload and try again");
        Problem::new(StatusCode::CONFLICT, "changed", detail)
    };
    let (holder, epoch) = (seen.holding.holder.clone(), seen.holding.epoch.to_string());
    if body.epoch.is_some_and(|expected| expected != epoch) {
        return Err(changed());
    }
    let by_whom = caller.0.audit_name();
    if !locks.break_lock(name.as_str(), &seen, &by_whom, Some(reason)).await.map_err(unavailable)? {
        return Err(changed());
    }
    audit.set(json!({"holder": holder, "epoch": epoch, "reason": reason}));
    Ok(BrokenLock { name: name.to_string(), holder, epoch, by_whom, reason: reason.to_owned() })
}

/// Breaks a lock of the server's database. The holder learns of it at its next renewal **and may continue to work until then**; its fenced
/// transactions are refused at once. For holders that hang or cannot be reached.
#[utoipa::path(
    post, path = "/locks/{name}/break", operation_id = "break_lock", tag = "locks", security(("token" = ["operate"])),
    params(("name" = String, Path)), request_body = BreakBody,
    responses((status = 200, body = BrokenLock), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn break_lock(
    state: State<App>,
    caller: Caller,
    audit: AuditDetails,
    path: PathParam,
    body: JsonBody<BreakBody>,
) -> Result<Json<BrokenLock>, Problem> {
    end_hold(&state, &caller, &audit, &path.0, body.0).await.map(Json)
}
