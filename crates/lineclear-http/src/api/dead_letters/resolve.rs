//! Revives or acknowledges one dead letter.

use axum::extract::State;
use axum::http::StatusCode;
use lineclear::read::DeadLetterView;
use lineclear::store::{DeadLetterId, Revival};
use lineclear_model::Name;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::{PathParam, due, id, payload};
use crate::audit::AuditDetails;
use crate::auth::Caller;
use crate::problem::Problem;

/// Options of a revival.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReviveBody {
    /// An input instead of the old one.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    input: Option<Box<RawValue>>,
    /// The earliest time to run; RFC 3339.
    due_at: Option<String>,
    /// The earliest time to run, in milliseconds from now.
    in_ms: Option<i64>,
    /// A note, kept with the dead letter.
    note: Option<String>,
}

impl ReviveBody {
    fn read(self, by: String) -> Result<Revival, Problem> {
        let input = self.input.map(|raw| payload(&raw, "/input")).transpose()?;
        let due = due(self.due_at.as_deref(), self.in_ms, "")?;
        Ok(Revival { by, due_at: due.at, delay: due.delay, input, note: self.note })
    }
}

/// Revives a dead letter: its job is queued again, and its failure count is reset.
#[utoipa::path(
    post, path = "/dead-letters/{id}/revive", operation_id = "revive_dead_letter", tag = "dead letters", security(("token" = ["operate"])),
    params(("id" = String, Path)), request_body = Option<ReviveBody>,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn revive(
    state: State<App>,
    caller: Caller,
    audit: AuditDetails,
    path: PathParam,
    body: JsonBody<Option<ReviveBody>>,
) -> Result<StatusCode, Problem> {
    let letter = DeadLetterId(id(&path.0, "dead letter")?);
    let revival = body.0.unwrap_or_default().read(caller.0.audit_name())?;
    audit.set(json!({"other_input": revival.input.is_some()}));
    if let Some(input) = &revival.input
        && let Some(found) = find(&state, letter).await?
        && let Ok(kind) = Name::new(found.kind)
    {
        let checked = state.client.check_input(&kind, input);
        checked.map_err(|error| Problem::from(error).at("/input"))?;
    }
    let revived = state.client.store().revive(vec![letter], revival).await?;
    resolved(&state, revived.is_empty(), letter).await
}

/// Options of an acknowledgement.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcknowledgeBody {
    /// A note, kept with the dead letter.
    note: Option<String>,
}

/// Acknowledges a dead letter: its job does not run again.
#[utoipa::path(
    post, path = "/dead-letters/{id}/acknowledge", operation_id = "acknowledge_dead_letter", tag = "dead letters", security(("token" = ["operate"])),
    params(("id" = String, Path)), request_body = Option<AcknowledgeBody>,
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn acknowledge(
    state: State<App>,
    caller: Caller,
    path: PathParam,
    body: JsonBody<Option<AcknowledgeBody>>,
) -> Result<StatusCode, Problem> {
    let letter = DeadLetterId(id(&path.0, "dead letter")?);
    let AcknowledgeBody { note } = body.0.unwrap_or_default();
    let acknowledged =
        state.client.store().acknowledge(vec![letter], &caller.0.audit_name(), note.as_deref()).await?;
    resolved(&state, acknowledged.is_empty(), letter).await
}

async fn find(state: &App, letter: DeadLetterId) -> Result<Option<DeadLetterView>, Problem> {
    let below = Some(DeadLetterId(letter.0.saturating_add(1)));
    let page = state.reading.dead_letters(None, below, 1).await?;
    Ok(page.items.into_iter().find(|found| found.id == letter))
}

/// 204, or why the dead letter could not be resolved.
async fn resolved(state: &App, is_missing: bool, letter: DeadLetterId) -> Result<StatusCode, Problem> {
    if !is_missing {
        return Ok(StatusCode::NO_CONTENT);
    }
    let Some(found) = find(state, letter).await? else {
        return Err(Problem::not_found(format_args!("dead letter {letter}")));
    };
    let detail = format!("dead letter {letter} is already {}", found.status);
    Err(Problem::new(StatusCode::CONFLICT, "not_awaiting", detail))
}
