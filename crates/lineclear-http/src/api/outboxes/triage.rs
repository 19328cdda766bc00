//! Replays or discards dead messages.

use axum::Json;
use axum::extract::State;
use lineclear_outbox::Swept;
use serde_json::json;

use super::open;
use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::PathParam;
use crate::api::triage::{Chosen, Triage, TriageBody, TriageResponse, repeatable};
use crate::audit::AuditDetails;
use crate::problem::Problem;

/// Replays or discards, and records in the audit what and how many.
pub(crate) async fn run(
    app: &App,
    audit: &AuditDetails,
    name: &str,
    body: &TriageBody,
    triage: Triage,
) -> Result<TriageResponse, Problem> {
    let chosen = body.chosen("message")?;
    let outbox = open(app, name).await?;
    audit.set(chosen.details());
    let some = |count| Swept { count, next: None };
    let swept = match (&chosen, triage) {
        (Chosen::Ids(ids), Triage::Replay) => outbox.replay(ids).await.map(some),
        (Chosen::Ids(ids), Triage::Discard) => outbox.discard(ids).await.map(some),
        (Chosen::AllAfter(after), Triage::Replay) => outbox.replay_after(after.unwrap_or(0)).await,
        (Chosen::AllAfter(after), Triage::Discard) => outbox.discard_after(after.unwrap_or(0)).await,
    };
    let swept = swept.map_err(repeatable)?;
    audit.add("count", json!(swept.count));
    Ok(TriageResponse::new(swept.count, swept.next))
}

/// Makes dead messages ready again, with a new budget of attempts. A message that was replayed already is not changed, so that the request can be repeated.
#[utoipa::path(
    post, path = "/outboxes/{name}/messages:replay", operation_id = "replay_outbox_messages", tag = "outboxes", security(("token" = ["operate"])),
    params(("name" = String, Path)), request_body = TriageBody,
    responses((status = 200, body = TriageResponse), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn replay(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    body: JsonBody<TriageBody>,
) -> Result<Json<TriageResponse>, Problem> {
    run(&state, &audit, &path.0, &body.0, Triage::Replay).await.map(Json)
}

/// Deletes dead messages. They cannot be restored.
#[utoipa::path(
    post, path = "/outboxes/{name}/messages:discard", operation_id = "discard_outbox_messages", tag = "outboxes", security(("token" = ["operate"])),
    params(("name" = String, Path)), request_body = TriageBody,
    responses((status = 200, body = TriageResponse), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn discard(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    body: JsonBody<TriageBody>,
) -> Result<Json<TriageResponse>, Problem> {
    run(&state, &audit, &path.0, &body.0, Triage::Discard).await.map(Json)
}
