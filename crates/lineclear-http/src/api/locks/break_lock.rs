//! Taking a lock away from a holder that hangs or cannot be reached.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lineclear_lock::{Inspection, LockError, LockName, LockOptions, Locks};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::locks::{failed, shown};
use super::shape::{At, unprocessable};
use crate::access::Who;
use crate::audit::Note;
use crate::body::Body;
use crate::problem::Problem;
use crate::{App, ShownLocks};

/// Longest reason, in bytes.
pub(crate) const REASON_BYTES_MAX: usize = 500;

/// Why it is taken away, and from whom.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BreakBody {
    /// Why; it is kept in the lock's history, and in the audit.
    #[schema(max_length = 500)]
    pub(crate) reason: String,
    /// The epoch of the holder that is meant, as `GET /locks` has it: if another has the lock by now, nothing is changed. Without it, it is taken from
    /// whoever has it.
    pub(crate) epoch: Option<String>,
}

/// A lock that was taken away.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Broken {
    name: String,
    /// Who had it: `machine/pid/incarnation`.
    holder: String,
    epoch: String,
    by_whom: String,
    reason: String,
}

/// A lock of the server's own database, looked at where it is.
pub(crate) struct Found {
    locks: Locks,
    pub(crate) name: LockName,
    pub(crate) seen: Inspection,
}

/// The word that the registry has for the locks of the server's own database.
pub(crate) fn own_store(app: &App) -> &'static str {
    if app.client.store().options().is_postgres() { "postgres" } else { "sqlite" }
}

/// Looks for a lock that somebody holds. Its store is opened for this one question, and only if a lock of it was recorded: opening it may make its
/// tables, and looking changes nothing.
pub(crate) async fn find(app: &App, name: &str) -> Result<Found, Problem> {
    let name = LockName::new(name).map_err(|_| Problem::not_found(format_args!("lock {name:?}")))?;
    let conflict = |code: &str, detail: String| Problem::new(StatusCode::CONFLICT, code, detail);
    let ShownLocks { registry, url } = shown(app)?;
    let leases = registry.lease(name.as_str()).await.map_err(failed)?;
    if !leases.iter().any(|lease| lease.store == own_store(app)) {
        return Err(match leases.first() {
            Some(lease) if lease.store == "engine" => conflict(
                "no_lock",
                format!("{name} is what a node does, and no lock: drain or stop the node {}", lease.node),
            ),
            Some(lease) => conflict(
                "lock_elsewhere",
                format!(
                    "{name} is a lock of {}, not of this server's database: `lineclear lock break` takes it away there, with --store",
                    lease.store
                ),
            ),
            None => Problem::not_found(format_args!("lock {name}")),
        });
    }
    let options = LockOptions::default();
    let backend = lineclear_lock::backend(url, &options).map_err(unavailable)?;
    let locks = Locks::recorded(backend, options, registry.clone()).await.map_err(unavailable)?;
    let seen = locks.inspect(name.as_str()).await.map_err(unavailable)?;
    let seen = seen.ok_or_else(|| Problem::not_found(format_args!("lock {name}")))?;
    if seen.holding.ends_in.is_none() {
        let detail = format!("nobody holds {name}; {} held it last", seen.holding.holder);
        return Err(conflict("not_held", detail));
    }
    Ok(Found { locks, name, seen })
}

fn unavailable(error: LockError) -> Problem {
    tracing::warn!(%error, "the store of the locks does not do what it is asked");
    match error {
        LockError::Refused { why, .. } => Problem::new(StatusCode::CONFLICT, "lock_store", why),
        _ => {
            let detail = "the store of the locks does not answer; ask again";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "lock_store_unavailable", detail)
        }
    }
}

/// Takes a lock away. It is written down by whom and why.
pub(crate) async fn take_away(
    app: &App,
    who: &Who,
    note: &Note,
    name: &str,
    body: BreakBody,
) -> Result<Broken, Problem> {
    let reason = body.reason.trim();
    if reason.is_empty() || reason.len() > REASON_BYTES_MAX {
        let detail =
            format!("say why, in {REASON_BYTES_MAX} bytes at most; it is kept in the lock's history");
        return Err(unprocessable("reason", detail).at("/reason"));
    }
    let Found { locks, name, seen } = find(app, name).await?;
    let changed = || {
        let detail = format!("{name} is not held any more as you saw it; nothing was changed, look again");
        Problem::new(StatusCode::CONFLICT, "changed", detail)
    };
    let (holder, epoch) = (seen.holding.holder.clone(), seen.holding.epoch.to_string());
    if body.epoch.is_some_and(|meant| meant != epoch) {
        return Err(changed());
    }
    let by_whom = who.0.who();
    if !locks.end_hold(name.as_str(), &seen, &by_whom, Some(reason)).await.map_err(unavailable)? {
        return Err(changed());
    }
    note.say(json!({"holder": holder, "epoch": epoch, "reason": reason}));
    Ok(Broken { name: name.to_string(), holder, epoch, by_whom, reason: reason.to_owned() })
}

/// Takes a lock of the server's database away from its holder, which hears of it when it next renews, **and may go on working until then**; its fenced
/// transactions are refused at once. For holders that are frozen or cannot be reached.
#[utoipa::path(
    post, path = "/locks/{name}/break", operation_id = "break_lock", tag = "locks", security(("token" = ["operate"])),
    params(("name" = String, Path)), request_body = BreakBody,
    responses((status = 200, body = Broken), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn break_lock(
    state: State<App>,
    who: Who,
    note: Note,
    at: At,
    body: Body<BreakBody>,
) -> Result<Json<Broken>, Problem> {
    take_away(&state, &who, &note, &at.0, body.0).await.map(Json)
}
