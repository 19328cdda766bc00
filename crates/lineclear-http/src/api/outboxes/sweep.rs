//! Replays or discards dead messages: some by their ids, or all.

use axum::Json;
use axum::extract::State;
use lineclear_outbox::{OutboxError, Swept};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::{failed, open};
use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::{PathParam, id, unprocessable};
use crate::audit::{AuditDetails, summarize};
use crate::problem::Problem;

/// Messages that one request may name.
pub(crate) const IDS_MAX: usize = 1_000;

/// What becomes of dead messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sweep {
    Replay,
    Discard,
}

/// Which dead messages: `ids`, or `all`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SweepBody {
    /// At most 1,000. A message that is not dead is left as it is.
    #[serde(default)]
    pub(crate) ids: Vec<String>,
    /// All dead messages, in the order of their ids; 1,000 in one request.
    #[serde(default)]
    pub(crate) all: bool,
    /// With `all`: only those after this id, which is the `next` of the previous response.
    pub(crate) after: Option<String>,
}

/// How many messages were dead.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SweepResponse {
    pub(crate) count: u64,
    /// With `all`: there may be more. Repeat the request with this as `after`; null if there are none.
    pub(crate) next: Option<String>,
}

impl SweepBody {
    /// The ids, if not all are meant.
    fn read(&self) -> Result<Option<Vec<i64>>, Problem> {
        if self.ids.is_empty() != self.all {
            return Err(unprocessable("which", "give `ids`, or `\"all\": true`, but not both").at("/ids"));
        }
        if self.after.is_some() && !self.all {
            return Err(unprocessable("after", "`after` needs `\"all\": true`").at("/after"));
        }
        if self.ids.len() > IDS_MAX {
            let detail = format!("`ids` must have at most {IDS_MAX} ids; it has {}", self.ids.len());
            return Err(unprocessable("ids", detail).at("/ids"));
        }
        if self.all {
            return Ok(None);
        }
        let number = |(place, text): (usize, &String)| {
            let wrong = || unprocessable("ids", format!("{text:?} is not an id")).at(format!("/ids/{place}"));
            id(text, "message").map_err(|_| wrong())
        };
        self.ids.iter().enumerate().map(number).collect::<Result<_, _>>().map(Some)
    }

    fn after(&self) -> Result<i64, Problem> {
        let Some(text) = &self.after else { return Ok(0) };
        id(text, "message").map_err(|_| {
            unprocessable("after", format!("{text:?} is not the `next` of a response")).at("/after")
        })
    }
}

/// Replays or discards, and records in the audit what and how many.
pub(crate) async fn run(
    app: &App,
    audit: &AuditDetails,
    name: &str,
    body: &SweepBody,
    sweep: Sweep,
) -> Result<SweepResponse, Problem> {
    let (ids, after) = (body.read()?, body.after()?);
    let outbox = open(app, name).await?;
    let details = match &ids {
        Some(ids) => json!({"ids": summarize(ids)}),
        None => json!({"all": true}),
    };
    audit.set(details);
    let swept = match (&ids, sweep) {
        (Some(ids), Sweep::Replay) => outbox.replay(ids).await.map(some),
        (Some(ids), Sweep::Discard) => outbox.discard(ids).await.map(some),
        (None, Sweep::Replay) => outbox.replay_after(after).await,
        (None, Sweep::Discard) => outbox.discard_after(after).await,
    };
    let swept = swept.map_err(changed_unknown)?;
    audit.add("count", json!(swept.count));
    Ok(SweepResponse { count: swept.count, next: swept.next.map(|id| id.to_string()) })
}

fn some(count: u64) -> Swept {
    Swept { count, next: None }
}

/// A change whose answer did not come may have happened; to repeat it does no harm.
fn changed_unknown(error: OutboxError) -> Problem {
    failed(error).detailed(
        "the database did not answer; the change may have happened: it can be repeated without harm",
    )
}

/// Makes dead messages ready again, with a new budget of attempts. A message that was replayed already is not changed, so that the request can be repeated.
#[utoipa::path(
    post, path = "/outboxes/{name}/messages:replay", operation_id = "replay_outbox_messages", tag = "outboxes", security(("token" = ["operate"])),
    params(("name" = String, Path)), request_body = SweepBody,
    responses((status = 200, body = SweepResponse), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn replay(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    body: JsonBody<SweepBody>,
) -> Result<Json<SweepResponse>, Problem> {
    run(&state, &audit, &path.0, &body.0, Sweep::Replay).await.map(Json)
}

/// Deletes dead messages. They cannot be restored.
#[utoipa::path(
    post, path = "/outboxes/{name}/messages:discard", operation_id = "discard_outbox_messages", tag = "outboxes", security(("token" = ["operate"])),
    params(("name" = String, Path)), request_body = SweepBody,
    responses((status = 200, body = SweepResponse), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn discard(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    body: JsonBody<SweepBody>,
) -> Result<Json<SweepResponse>, Problem> {
    run(&state, &audit, &path.0, &body.0, Sweep::Discard).await.map(Json)
}
