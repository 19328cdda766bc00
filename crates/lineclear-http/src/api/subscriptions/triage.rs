//! Replays or discards parked events.

use axum::Json;
use axum::extract::State;
use serde_json::json;

use super::{failed, find};
use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::PathParam;
use crate::api::triage::{Chosen, IDS_MAX, Triage, TriageBody, TriageResponse, repeatable};
use crate::audit::AuditDetails;
use crate::database_outboxes::in_time;
use crate::problem::Problem;

/// Replays or discards, and records in the audit what and how many. All are taken as they are listed: newest first.
pub(crate) async fn run(
    app: &App,
    audit: &AuditDetails,
    name: &str,
    body: &TriageBody,
    triage: Triage,
) -> Result<TriageResponse, Problem> {
    let chosen = body.chosen("parked event")?;
    let (log, _) = find(app, name).await?;
    audit.set(chosen.details());
    let (ids, next) = match chosen {
        Chosen::Ids(ids) => (ids, None),
        Chosen::AllAfter(after) => {
            let most = u32::try_from(IDS_MAX).unwrap_or(u32::MAX);
            let found = in_time(log.parked_without_payloads(name, after, most)).await.map_err(failed)?;
            let ids: Vec<i64> = found.iter().map(|parked| parked.id).collect();
            let next = ids.last().copied().filter(|_| ids.len() == IDS_MAX);
            (ids, next)
        }
    };
    let count = match triage {
        Triage::Replay => log.replay_parked(name, &ids).await,
        Triage::Discard => log.discard_parked(name, &ids).await,
    };
    let count = count.map_err(repeatable)?;
    audit.add("count", json!(count));
    Ok(TriageResponse::new(count, next))
}

/// Lets the subscription handle parked events again, each once, after events that came later. One that fails again stays parked. It can be repeated.
#[utoipa::path(
    post, path = "/subscriptions/{name}/parked:replay", operation_id = "replay_parked_events", tag = "subscriptions", security(("token" = ["operate"])),
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

/// Forgets parked events: the subscription never handles them. They stay in the log.
#[utoipa::path(
    post, path = "/subscriptions/{name}/parked:discard", operation_id = "discard_parked_events", tag = "subscriptions", security(("token" = ["operate"])),
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
