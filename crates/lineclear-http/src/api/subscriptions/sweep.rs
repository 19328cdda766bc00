//! Replays or discards parked events: some by their ids, or all.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::{changed_unknown, failed, find};
use crate::App;
use crate::api::json_body::JsonBody;
use crate::api::json_types::{PathParam, id, unprocessable};
use crate::api::outboxes::sweep::{IDS_MAX, Sweep};
use crate::audit::{AuditDetails, summarize};
use crate::database_outboxes::in_time;
use crate::problem::Problem;

/// Which parked events: `ids`, or `all`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParkedBody {
    /// At most 1,000. An event that is not parked is left as it is.
    #[serde(default)]
    pub(crate) ids: Vec<String>,
    /// All parked events, newest first; 1,000 in one request.
    #[serde(default)]
    pub(crate) all: bool,
    /// With `all`: only those before this id, which is the `next` of the previous response.
    pub(crate) before: Option<String>,
}

/// How many events were parked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ParkedResponse {
    pub(crate) count: u64,
    /// With `all`: there may be more. Repeat the request with this as `before`; null if there are none.
    pub(crate) next: Option<String>,
}

impl ParkedBody {
    /// The ids, if not all are meant.
    fn read(&self) -> Result<Option<Vec<i64>>, Problem> {
        if self.ids.is_empty() != self.all {
            return Err(unprocessable("which", "give `ids`, or `\"all\": true`, but not both").at("/ids"));
        }
        if self.before.is_some() && !self.all {
            return Err(unprocessable("before", "`before` needs `\"all\": true`").at("/before"));
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
            id(text, "parked event").map_err(|_| wrong())
        };
        self.ids.iter().enumerate().map(number).collect::<Result<_, _>>().map(Some)
    }

    fn before(&self) -> Result<Option<i64>, Problem> {
        let wrong = |text: &str| {
            unprocessable("before", format!("{text:?} is not the `next` of a response")).at("/before")
        };
        self.before.as_deref().map(|text| id(text, "").map_err(|_| wrong(text))).transpose()
    }
}

/// Replays or discards, and records in the audit what and how many.
pub(crate) async fn run(
    app: &App,
    audit: &AuditDetails,
    name: &str,
    body: &ParkedBody,
    sweep: Sweep,
) -> Result<ParkedResponse, Problem> {
    let (ids, before) = (body.read()?, body.before()?);
    let (log, _) = find(app, name).await?;
    audit.set(ids.as_ref().map_or_else(|| json!({"all": true}), |ids| json!({"ids": summarize(ids)})));
    let (ids, next) = match ids {
        Some(ids) => (ids, None),
        None => {
            let most = u32::try_from(IDS_MAX).unwrap_or(u32::MAX);
            let found = in_time(log.parked_without_payloads(name, before, most)).await.map_err(failed)?;
            let ids: Vec<i64> = found.iter().map(|parked| parked.id).collect();
            let next = ids.last().filter(|_| ids.len() == IDS_MAX).map(i64::to_string);
            (ids, next)
        }
    };
    let count = match sweep {
        Sweep::Replay => log.replay_parked(name, &ids).await,
        Sweep::Discard => log.discard_parked(name, &ids).await,
    };
    let count = count.map_err(changed_unknown)?;
    audit.add("count", json!(count));
    Ok(ParkedResponse { count, next })
}

/// Lets the subscription handle parked events again, each once, after events that came later. One that fails again stays parked. It can be repeated.
#[utoipa::path(
    post, path = "/subscriptions/{name}/parked:replay", operation_id = "replay_parked_events", tag = "subscriptions", security(("token" = ["operate"])),
    params(("name" = String, Path)), request_body = ParkedBody,
    responses((status = 200, body = ParkedResponse), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn replay(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    body: JsonBody<ParkedBody>,
) -> Result<Json<ParkedResponse>, Problem> {
    run(&state, &audit, &path.0, &body.0, Sweep::Replay).await.map(Json)
}

/// Forgets parked events: the subscription never handles them. They stay in the log.
#[utoipa::path(
    post, path = "/subscriptions/{name}/parked:discard", operation_id = "discard_parked_events", tag = "subscriptions", security(("token" = ["operate"])),
    params(("name" = String, Path)), request_body = ParkedBody,
    responses((status = 200, body = ParkedResponse), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn discard(
    state: State<App>,
    audit: AuditDetails,
    path: PathParam,
    body: JsonBody<ParkedBody>,
) -> Result<Json<ParkedResponse>, Problem> {
    run(&state, &audit, &path.0, &body.0, Sweep::Discard).await.map(Json)
}
