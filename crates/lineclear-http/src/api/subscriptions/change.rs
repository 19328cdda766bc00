//! Pauses, resumes, resets a subscription, and skips the event at which it fails.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lineclear_outbox::Start;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::{changed_unknown, failed, find};
use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::{Id, PathParam, id, unprocessable};
use crate::audit::AuditDetails;
use crate::auth::Caller;
use crate::database_outboxes::in_time;
use crate::problem::Problem;

/// Longest reason, in bytes.
pub(crate) const REASON_BYTES_MAX: usize = 500;

/// Why it is paused.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PauseBody {
    /// Shown with the subscription, and kept in the audit. The default names the caller.
    #[schema(max_length = 500)]
    pub(crate) reason: Option<String>,
}

/// Which event to skip.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkipBody {
    /// The `failed_position` that was seen: if the subscription fails at another event by now, nothing changes. Without it, any event is skipped.
    pub(crate) position: Option<String>,
}

/// Where a subscription goes on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetBody {
    /// `beginning`, `end`, or a position: it goes on with the event after that.
    pub(crate) to: String,
}

/// What became of a subscription.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SubscriptionChange {
    name: String,
    /// Whether this request changed anything: a subscription that is paused already is not paused again.
    pub(crate) changed: bool,
    /// Its state now.
    state: &'static str,
    /// Its position now.
    pub(crate) position: Id,
}

fn conflict(code: &str, detail: String) -> Problem {
    Problem::new(StatusCode::CONFLICT, code, detail)
}

async fn answer(app: &App, name: &str, changed: bool) -> Result<SubscriptionChange, Problem> {
    let (_, shown) = find(app, name).await?;
    Ok(SubscriptionChange {
        name: shown.view.name.clone(),
        changed,
        state: shown.view.state.as_str(),
        position: Id::of(shown.view.position),
    })
}

/// For the API and for the page.
pub(crate) async fn run_pause(
    app: &App,
    caller: &Caller,
    audit: &AuditDetails,
    name: &str,
    body: PauseBody,
) -> Result<SubscriptionChange, Problem> {
    let given = body.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
    if given.is_some_and(|reason| reason.len() > REASON_BYTES_MAX) {
        let detail = format!("`reason` must have at most {REASON_BYTES_MAX} bytes");
        return Err(unprocessable("reason", detail).at("/reason"));
    }
    let reason = given.map_or_else(|| format!("paused by {}", caller.0.audit_name()), str::to_owned);
    let (log, _) = find(app, name).await?;
    audit.set(json!({"reason": reason}));
    let changed = log.pause(name, &reason).await.map_err(changed_unknown)?;
    audit.add("changed", json!(changed));
    answer(app, name, changed).await
}

/// For the API and for the page.
pub(crate) async fn run_resume(
    app: &App,
    audit: &AuditDetails,
    name: &str,
) -> Result<SubscriptionChange, Problem> {
    let (log, _) = find(app, name).await?;
    let changed = log.resume(name).await.map_err(changed_unknown)?;
    audit.set(json!({"changed": changed}));
    answer(app, name, changed).await
}

/// For the API and for the page.
pub(crate) async fn run_skip(
    app: &App,
    audit: &AuditDetails,
    name: &str,
    body: SkipBody,
) -> Result<SubscriptionChange, Problem> {
    let wrong = |text: &str| unprocessable("position", format!("{text:?} is not a position")).at("/position");
    let expected = body.position.as_deref();
    let expected = expected.map(|text| id(text, "event").map_err(|_| wrong(text))).transpose()?;
    let (log, shown) = find(app, name).await?;
    let Some(fails_at) = shown.view.failed_position else {
        return Err(conflict("not_failing", format!("{name} fails at no event, so there is none to skip")));
    };
    let position = expected.unwrap_or(fails_at);
    audit.set(json!({"position": position.to_string()}));
    if !log.skip_at(name, position).await.map_err(changed_unknown)? {
        let detail = format!(
            "{name} does not fail at the event {position} any more, and nothing was changed; look again"
        );
        return Err(conflict("changed", detail));
    }
    answer(app, name, true).await
}

/// Where to.
fn start(text: &str) -> Result<Start, Problem> {
    match text {
        "beginning" => Ok(Start::Beginning),
        "end" => Ok(Start::End),
        "0" => Ok(Start::After(0)),
        position => id(position, "event").map(Start::After).map_err(|_| {
            let detail = format!("`to` must be `beginning`, `end` or a position; it is {position:?}");
            unprocessable("to", detail).at("/to")
        }),
    }
}

/// For the API and for the page.
pub(crate) async fn run_reset(
    app: &App,
    audit: &AuditDetails,
    name: &str,
    body: &ResetBody,
) -> Result<SubscriptionChange, Problem> {
    let to = start(body.to.trim())?;
    let (log, shown) = find(app, name).await?;
    let head = in_time(log.head()).await.map_err(failed)?;
    if let Start::After(position) = to
        && position > head
    {
        let detail = format!(
            "the last event of the log is {head}: events up to {position} would be left out when they come"
        );
        return Err(unprocessable("to", detail).at("/to"));
    }
    audit.set(json!({"from": shown.view.position.to_string(), "to": body.to.trim()}));
    let position = log.reset(name, to).await.map_err(changed_unknown)?;
    let changed = answer(app, name, true).await?;
    Ok(SubscriptionChange { position: Id::of(position), ..changed })
}

/// Pauses a subscription, and its rebuild if there is one. When this returns, no effect of its transactions is committed any more. It can be repeated.
#[utoipa::path(
    post, path = "/subscriptions/{name}/pause", operation_id = "pause_subscription", tag = "subscriptions", security(("token" = ["operate"])),
    params(("name" = String, Path)), request_body = Option<PauseBody>,
    responses((status = 200, body = SubscriptionChange), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn pause(
    state: State<App>,
    caller: Caller,
    audit: AuditDetails,
    path: PathParam,
    body: JsonBody<Option<PauseBody>>,
) -> Result<Json<SubscriptionChange>, Problem> {
    run_pause(&state, &caller, &audit, &path.0, body.0.unwrap_or_default()).await.map(Json)
}

/// Resumes a subscription that is paused or stopped, with a new budget of attempts. It can be repeated.
#[utoipa::path(
    post, path = "/subscriptions/{name}/resume", operation_id = "resume_subscription", tag = "subscriptions", security(("token" = ["operate"])),
    params(("name" = String, Path)),
    responses((status = 200, body = SubscriptionChange), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn resume(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
) -> Result<Json<SubscriptionChange>, Problem> {
    run_resume(&state, &audit, &path.0).await.map(Json)
}

/// Skips the event at which a subscription fails: it is never handled. 409 if it fails at none, or at another one than `position`.
#[utoipa::path(
    post, path = "/subscriptions/{name}/skip", operation_id = "skip_subscription_event", tag = "subscriptions", security(("token" = ["operate"])),
    params(("name" = String, Path)), request_body = Option<SkipBody>,
    responses((status = 200, body = SubscriptionChange), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn skip(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    body: JsonBody<Option<SkipBody>>,
) -> Result<Json<SubscriptionChange>, Problem> {
    run_skip(&state, &audit, &path.0, body.0.unwrap_or_default()).await.map(Json)
}

/// Moves the checkpoint of a subscription: it handles events again, or leaves some out. What its handler has written is not touched. Parked events
/// that it handles again are parked no longer.
#[utoipa::path(
    post, path = "/subscriptions/{name}/reset", operation_id = "reset_subscription", tag = "subscriptions", security(("token" = ["operate"])),
    params(("name" = String, Path)), request_body = ResetBody,
    responses((status = 200, body = SubscriptionChange), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn reset(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    body: JsonBody<ResetBody>,
) -> Result<Json<SubscriptionChange>, Problem> {
    run_reset(&state, &audit, &path.0, &body.0).await.map(Json)
}
