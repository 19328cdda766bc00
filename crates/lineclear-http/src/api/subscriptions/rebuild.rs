//! Rebuilds: the next version of a subscription reads the log from its start, and takes the place of the active one.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lineclear_outbox::{OutboxError, Swap};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::{changed_unknown, find};
use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::PathParam;
use crate::audit::AuditDetails;
use crate::problem::Problem;

/// When a rebuild takes the place of the active version.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RebuildBody {
    /// Only after `rebuild:swap`; otherwise as soon as it has caught up.
    #[serde(default)]
    pub(crate) on_request: bool,
}

/// What became of a rebuild.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RebuildChange {
    name: String,
    /// The version of the rebuild.
    pub(crate) version: i32,
    /// The node that runs the subscription, and does the work. Null: the rebuild begins when a program starts the subscription.
    pub(crate) node: Option<String>,
}

/// What to do with a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Begin { on_request: bool },
    Swap,
    Cancel,
}

fn none(name: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, "no_rebuild", format!("{name} has no rebuild; it may have ended"))
}

/// For the API and for the page.
pub(crate) async fn run(
    app: &App,
    audit: &AuditDetails,
    name: &str,
    verb: Verb,
) -> Result<RebuildChange, Problem> {
    let (log, shown) = find(app, name).await?;
    let going_on = shown.view.rebuild.as_ref().map(|rebuild| rebuild.version);
    let version = match verb {
        Verb::Begin { on_request } => {
            audit.set(json!({"on_request": on_request}));
            let swap = if on_request { Swap::OnRequest } else { Swap::WhenCaughtUp };
            log.rebuild(name, swap).await.map_err(refused)?
        }
        Verb::Swap if log.swap(name).await.map_err(changed_unknown)? => going_on.unwrap_or_default(),
        Verb::Cancel if log.cancel_rebuild(name).await.map_err(changed_unknown)? => {
            going_on.unwrap_or_default()
        }
        Verb::Swap | Verb::Cancel => return Err(none(name)),
    };
    audit.add("version", json!(version));
    let node = shown.active().map(|runner| runner.node.clone());
    Ok(RebuildChange { name: name.to_owned(), version, node })
}

/// A rebuild goes on, or the effects of the subscription are not in this database.
fn refused(error: OutboxError) -> Problem {
    match error {
        OutboxError::Refused { why, .. } => Problem::new(StatusCode::CONFLICT, "cannot_rebuild", why),
        error => changed_unknown(error),
    }
}

/// Begins a rebuild: the next version reads the log from its start, into tables of its own, while the active one goes on. The node that runs the
/// subscription does the work, with the handler of its program. 409 if a rebuild goes on, or the effects are not in this database.
#[utoipa::path(
    post, path = "/subscriptions/{name}/rebuild", operation_id = "rebuild_subscription", tag = "subscriptions", security(("token" = ["operate"])),
    params(("name" = String, Path)), request_body = Option<RebuildBody>,
    responses((status = 200, body = RebuildChange), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn begin(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    body: JsonBody<Option<RebuildBody>>,
) -> Result<Json<RebuildChange>, Problem> {
    let on_request = body.0.unwrap_or_default().on_request;
    run(&state, &audit, &path.0, Verb::Begin { on_request }).await.map(Json)
}

/// Lets a rebuild take the place of the active version as soon as it has caught up. 409 if there is none.
#[utoipa::path(
    post, path = "/subscriptions/{name}/rebuild:swap", operation_id = "swap_subscription_rebuild", tag = "subscriptions", security(("token" = ["operate"])),
    params(("name" = String, Path)),
    responses((status = 200, body = RebuildChange), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn swap(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
) -> Result<Json<RebuildChange>, Problem> {
    run(&state, &audit, &path.0, Verb::Swap).await.map(Json)
}

/// Ends a rebuild; the active version is as it was. 409 if there is none.
#[utoipa::path(
    post, path = "/subscriptions/{name}/rebuild:cancel", operation_id = "cancel_subscription_rebuild", tag = "subscriptions", security(("token" = ["operate"])),
    params(("name" = String, Path)),
    responses((status = 200, body = RebuildChange), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn cancel(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
) -> Result<Json<RebuildChange>, Problem> {
    run(&state, &audit, &path.0, Verb::Cancel).await.map(Json)
}
