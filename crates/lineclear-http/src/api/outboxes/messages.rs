//! Messages of an outbox.

use axum::Json;
use axum::extract::{Path, State};
use lineclear_model::secret::Secrets;
use lineclear_outbox::{MessageState, MessageView};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::{check_known, failed, open};
use crate::App;
use crate::api::json_types::{Id, PathParam, QueryParams, id};
use crate::api::locks::at;
use crate::api::pagination::{Page, cursor, limit};
use crate::database_outboxes::in_time;
use crate::problem::Problem;

/// A message.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutboxMessage {
    id: Id,
    outbox: String,
    /// `ready`, `waiting`, `dead` or `delivered`.
    state: &'static str,
    topic: String,
    /// Messages of one key are delivered one after the other.
    key: Option<String>,
    /// It is the same for every attempt.
    delivery_id: String,
    /// Failed attempts; of a delivered message, all.
    attempts: u32,
    last_error: Option<String>,
    created_at: Option<String>,
    /// When it is due; of a dead or delivered message, when that happened.
    at: Option<String>,
}

impl OutboxMessage {
    fn of(view: MessageView) -> OutboxMessage {
        OutboxMessage {
            id: Id::of(view.id),
            outbox: view.outbox,
            state: view.state.as_str(),
            topic: view.topic,
            key: view.key,
            delivery_id: view.delivery_id.to_string(),
            attempts: view.attempts,
            last_error: view.last_error,
            created_at: at(view.created_at),
            at: at(view.at),
        }
    }
}

/// A message with its content; values that look like secrets are masked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutboxMessageDetail {
    #[serde(flatten)]
    message: OutboxMessage,
    #[schema(value_type = Object)]
    payload: Option<Box<RawValue>>,
    #[schema(value_type = Option<Object>)]
    headers: Option<Box<RawValue>>,
}

/// JSON text without values that look like secrets.
pub(crate) fn masked(text: Option<&str>) -> Option<String> {
    Secrets::by_name().mask(text?)
}

/// The state of a word; the default is ready.
pub(crate) fn state_of(word: Option<&str>) -> Result<MessageState, Problem> {
    let word = word.filter(|word| !word.is_empty()).unwrap_or("ready");
    MessageState::from_word(word).ok_or_else(|| {
        let words: Vec<&str> = MessageState::ALL.iter().map(|state| state.as_str()).collect();
        Problem::malformed("state", format!("`state` must be one of {}; it is {word:?}", words.join(", ")))
    })
}

/// A filter.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// `ready`, `waiting`, `dead` or `delivered`; the default is `ready`.
    state: Option<String>,
    /// The page size, 1 to 1,000; the default is 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// The `next` of the previous page.
    cursor: Option<String>,
}

/// Lists messages of an outbox in a state, newest first, without their payloads.
#[utoipa::path(
    get, path = "/outboxes/{name}/messages", operation_id = "list_outbox_messages", tag = "outboxes", security(("token" = ["read"])),
    params(("name" = String, Path), ListParams),
    responses((status = 200, body = Page<OutboxMessage>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(
    state: State<App>,
    path: PathParam,
    params: QueryParams<ListParams>,
) -> Result<Json<Page<OutboxMessage>>, Problem> {
    let wanted = state_of(params.0.state.as_deref())?;
    let before = cursor(params.0.cursor.as_deref(), |text| id(text, "").ok())?;
    let page_size = limit(params.0.limit)?;
    let outbox = open(&state, &path.0).await?;
    let messages = in_time(outbox.list(wanted, before, page_size)).await.map_err(failed)?;
    if messages.is_empty() && before.is_none() {
        check_known(&state, &path.0).await?;
    }
    let next = messages.last().filter(|_| messages.len() == page_size as usize);
    let next = next.map(|message| message.id.to_string());
    Ok(Json(Page::new(messages.into_iter().map(OutboxMessage::of).collect(), next)))
}

/// The message of a path.
pub(crate) async fn find(app: &App, name: &str, message: &str) -> Result<MessageView, Problem> {
    let number = id(message, "message")?;
    let outbox = open(app, name).await?;
    let found = in_time(outbox.show(number)).await.map_err(failed)?;
    found.ok_or_else(|| Problem::not_found(format_args!("message {number} of outbox {name}")))
}

/// Returns a message with its payload and headers.
#[utoipa::path(
    get, path = "/outboxes/{name}/messages/{id}", operation_id = "get_outbox_message", tag = "outboxes", security(("token" = ["read"])),
    params(("name" = String, Path), ("id" = String, Path)),
    responses((status = 200, body = OutboxMessageDetail), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(
    state: State<App>,
    Path((name, message)): Path<(String, String)>,
) -> Result<Json<OutboxMessageDetail>, Problem> {
    let view = find(&state, &name, &message).await?;
    let raw = |text: Option<&str>| masked(text).and_then(|text| RawValue::from_string(text).ok());
    let (payload, headers) = (raw(view.payload.as_deref()), raw(view.headers.as_deref()));
    Ok(Json(OutboxMessageDetail { message: OutboxMessage::of(view), payload, headers }))
}
