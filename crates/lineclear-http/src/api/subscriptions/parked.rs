//! Parked events of a subscription: those that failed too often.

use axum::Json;
use axum::extract::{Path, State};
use lineclear_outbox::ParkedEvent;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{failed, find};
use crate::App;
use crate::api::json_types::{Id, PathParam, QueryParams, id};
use crate::api::locks::at;
use crate::api::outboxes::messages::masked;
use crate::api::pagination::{Page, PageParams, cursor, limit};
use crate::database_outboxes::in_time;
use crate::problem::Problem;

/// A parked event.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ParkedSummary {
    /// Its number among parked events.
    id: Id,
    /// Its place in the log.
    position: Id,
    stream: String,
    #[serde(rename = "type")]
    kind: String,
    /// Its place in its stream.
    version: i64,
    /// The id of the event.
    event_id: String,
    /// Failed attempts.
    attempts: u32,
    last_error: Option<String>,
    parked_at: Option<String>,
    /// Whether its subscription is about to handle it again.
    replays: bool,
}

impl ParkedSummary {
    fn of(parked: ParkedEvent) -> ParkedSummary {
        ParkedSummary {
            id: Id::of(parked.id),
            position: Id::of(parked.event.position),
            stream: parked.event.stream,
            kind: parked.event.kind,
            version: parked.event.version,
            event_id: parked.event.id.to_string(),
            attempts: parked.attempts,
            last_error: parked.last_error,
            parked_at: at(parked.parked_at),
            replays: parked.replays,
        }
    }
}

/// A parked event with its content; values that look like secrets are masked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ParkedDetail {
    #[serde(flatten)]
    parked: ParkedSummary,
    #[schema(value_type = Object)]
    payload: Option<Box<RawValue>>,
    #[schema(value_type = Object)]
    headers: Option<Box<RawValue>>,
}

/// The headers of an event, in JSON.
pub(crate) fn headers(parked: &ParkedEvent) -> String {
    json!(parked.event.headers).to_string()
}

/// Lists the parked events of a subscription, newest first, without their payloads.
#[utoipa::path(
    get, path = "/subscriptions/{name}/parked", operation_id = "list_parked_events", tag = "subscriptions", security(("token" = ["read"])),
    params(("name" = String, Path), PageParams),
    responses((status = 200, body = Page<ParkedSummary>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(
    state: State<App>,
    path: PathParam,
    params: QueryParams<PageParams>,
) -> Result<Json<Page<ParkedSummary>>, Problem> {
    let before = cursor(params.0.cursor.as_deref(), |text| id(text, "").ok())?;
    let page_size = limit(params.0.limit)?;
    let (log, _) = find(&state, &path.0).await?;
    let found = in_time(log.parked_without_payloads(&path.0, before, page_size)).await.map_err(failed)?;
    let next = found.last().filter(|_| found.len() == page_size as usize);
    let next = next.map(|parked| parked.id.to_string());
    Ok(Json(Page::new(found.into_iter().map(ParkedSummary::of).collect(), next)))
}

/// The parked event of a path.
pub(crate) async fn one(app: &App, name: &str, text: &str) -> Result<ParkedEvent, Problem> {
    let number = id(text, "parked event")?;
    let (log, _) = find(app, name).await?;
    let found = in_time(log.show_parked(name, number)).await.map_err(failed)?;
    found.ok_or_else(|| Problem::not_found(format_args!("parked event {number} of subscription {name}")))
}

/// Returns a parked event with its payload and headers.
#[utoipa::path(
    get, path = "/subscriptions/{name}/parked/{id}", operation_id = "get_parked_event", tag = "subscriptions", security(("token" = ["read"])),
    params(("name" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = ParkedDetail), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(
    state: State<App>,
    Path((name, parked)): Path<(String, String)>,
) -> Result<Json<ParkedDetail>, Problem> {
    let found = one(&state, &name, &parked).await?;
    let raw = |text: &str| masked(Some(text)).and_then(|text| RawValue::from_string(text).ok());
    let (payload, headers) = (raw(&found.event.payload), raw(&headers(&found)));
    Ok(Json(ParkedDetail { parked: ParkedSummary::of(found), payload, headers }))
}
