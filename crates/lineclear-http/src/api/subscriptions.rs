//! Subscriptions: how far each is, and which node runs it.

pub(crate) mod change;
pub(crate) mod parked;
pub(crate) mod rebuild;
pub(crate) mod triage;

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lineclear::read::NodeView;
use lineclear_model::Micros;
use lineclear_outbox::{EventLog, OutboxError, RebuildView};
use serde::Serialize;
use utoipa::ToSchema;

use super::nodes::NODES_MAX;
use super::runners::{Runner, moment};
use crate::App;
use crate::api::json_types::{Id, PathParam};
use crate::api::locks::at;
use crate::api::pagination::Page;
use crate::database_subscriptions::Shown;
use crate::problem::Problem;

/// A subscription. Counts stop at 10,000.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SubscriptionDetail {
    pub(crate) name: String,
    /// `running`, `paused`, `stopped` (at an event that fails) or `rebuilding`. Whether a node runs it: `runner`.
    pub(crate) state: &'static str,
    /// Why it is paused or stopped.
    pub(crate) reason: Option<String>,
    /// `transaction`: its effects are in this database. `external`: they are elsewhere.
    pub(crate) kind: String,
    /// Its active version.
    pub(crate) version: i32,
    /// All events up to here are handled, parked or filtered out.
    pub(crate) position: Id,
    /// The position of the last event of the log.
    pub(crate) head: Id,
    /// Events behind its position: the lag in events.
    pub(crate) lag_events: u64,
    /// The age of the first of these, in milliseconds.
    pub(crate) lag_ms: u64,
    /// Events that this version has handled.
    pub(crate) handled: u64,
    /// Events that failed too often and wait for an operator.
    pub(crate) parked: u64,
    /// The event at which it fails.
    pub(crate) failed_position: Option<Id>,
    /// How often that one has failed.
    pub(crate) failures: u32,
    pub(crate) last_error: Option<String>,
    pub(crate) failed_at: Option<String>,
    /// When it moved last.
    pub(crate) updated_at: Option<String>,
    /// The runner that handles events; null if no node runs this subscription.
    pub(crate) runner: Option<Runner>,
    /// Nodes with a runner, including those that wait.
    pub(crate) runners: u64,
    /// The rebuild that goes on.
    pub(crate) rebuild: Option<Rebuild>,
    /// Open transactions that hold it up, of one subscription that is behind; a list leaves them out.
    pub(crate) waits_for: Vec<String>,
}

/// A rebuild: the next version reads the log from its start.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Rebuild {
    pub(crate) version: i32,
    /// `running`, `paused` or `stopped`.
    pub(crate) state: &'static str,
    /// Whether it takes the place of the active version as soon as it has caught up.
    pub(crate) swaps: bool,
    pub(crate) position: Id,
    pub(crate) lag_events: u64,
    pub(crate) last_error: Option<String>,
}

impl Rebuild {
    fn of(view: &RebuildView) -> Rebuild {
        Rebuild {
            version: view.version,
            state: view.state.as_str(),
            swaps: view.swaps,
            position: Id::of(view.position),
            lag_events: view.lag_events,
            last_error: view.last_error.clone(),
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl SubscriptionDetail {
    pub(crate) fn of(shown: &Shown, nodes: &[NodeView]) -> SubscriptionDetail {
        let view = &shown.view;
        SubscriptionDetail {
            name: view.name.clone(),
            state: view.state.as_str(),
            reason: view.reason.clone(),
            kind: view.kind.clone(),
            version: view.version,
            position: Id::of(view.position),
            head: Id::of(view.head),
            lag_events: view.lag_events,
            lag_ms: ms(view.lag),
            handled: view.handled,
            parked: view.parked,
            failed_position: view.failed_position.map(Id::of),
            failures: view.failures,
            last_error: view.last_error.clone(),
            failed_at: view.failed_at.and_then(at),
            updated_at: at(view.updated_at),
            runner: shown.active().map(|record| Runner::of(record.clone(), nodes)),
            runners: shown.runners.iter().filter(|runner| !runner.is_stale()).count() as u64,
            rebuild: view.rebuild.as_ref().map(Rebuild::of),
            waits_for: view.waits_for.iter().map(ToString::to_string).collect(),
        }
    }

    /// When it failed, for pages.
    pub(crate) fn failed_at(&self) -> Option<Micros> {
        moment(self.failed_at.as_deref())
    }
}

pub(crate) fn failed(error: OutboxError) -> Problem {
    let detail = "the tables of the event log do not answer; nothing was changed: try again";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "event_log_unavailable", detail).because(error.to_string())
}

/// A change whose answer did not come may have happened.
pub(crate) fn changed_unknown(error: OutboxError) -> Problem {
    failed(error)
        .detailed("the database did not answer; the change may have happened: look before you repeat it")
}

pub(crate) fn missing(name: &str) -> Problem {
    let name: String = name.chars().take(100).collect();
    Problem::not_found(format_args!("subscription {name:?} in this database"))
}

/// One subscription; 404 if there is none of this name.
pub(crate) async fn find(app: &App, name: &str) -> Result<(EventLog, Shown), Problem> {
    let Some(subscriptions) = &app.subscriptions else { return Err(missing(name)) };
    let Some(log) = subscriptions.log().await.map_err(failed)? else { return Err(missing(name)) };
    let shown = subscriptions.show(name).await.map_err(failed)?;
    shown.map(|shown| (log, shown)).ok_or_else(|| missing(name))
}

/// All subscriptions. `None`: the database has no tables of an event log.
pub(crate) async fn all(app: &App, nodes: &[NodeView]) -> Result<Option<Vec<SubscriptionDetail>>, Problem> {
    let Some(subscriptions) = &app.subscriptions else { return Ok(None) };
    let all = subscriptions.all().await.map_err(failed)?;
    Ok(all.map(|all| all.iter().map(|shown| SubscriptionDetail::of(shown, nodes)).collect()))
}

/// One subscription, with the node that runs it.
pub(crate) async fn show(app: &App, name: &str) -> Result<SubscriptionDetail, Problem> {
    let (_, shown) = find(app, name).await?;
    let nodes = app.reading.nodes(NODES_MAX).await?;
    Ok(SubscriptionDetail::of(&shown, &nodes))
}

/// Lists the subscriptions of the server's database by name; at most 1,000.
#[utoipa::path(
    get, path = "/subscriptions", operation_id = "list_subscriptions", tag = "subscriptions", security(("token" = ["read"])),
    responses((status = 200, body = Page<SubscriptionDetail>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>) -> Result<Json<Page<SubscriptionDetail>>, Problem> {
    let nodes = state.reading.nodes(NODES_MAX).await?;
    Ok(Json(Page::new(all(&state, &nodes).await?.unwrap_or_default(), None)))
}

/// Returns a subscription, and the open transactions that hold it up.
#[utoipa::path(
    get, path = "/subscriptions/{name}", operation_id = "get_subscription", tag = "subscriptions", security(("token" = ["read"])),
    params(("name" = String, Path)),
    responses((status = 200, body = SubscriptionDetail), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn get(state: State<App>, path: PathParam) -> Result<Json<SubscriptionDetail>, Problem> {
    show(&state, &path.0).await.map(Json)
}
