//! Outboxes: how far each is, which node runs it, and its messages.

pub(crate) mod messages;
pub(crate) mod triage;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use lineclear::read::NodeView;
use lineclear_outbox::{Outbox, OutboxError};
use serde::Serialize;
use utoipa::ToSchema;

use super::nodes::NODES_MAX;
use super::runners::Runner;
use crate::App;
use crate::api::pagination::Page;
use crate::database_outboxes::{DatabaseOutboxes, OutboxView};
use crate::problem::Problem;

/// An outbox. Counts stop at 10,000.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OutboxState {
    pub(crate) name: String,
    /// Messages to deliver now: the lag in messages.
    pub(crate) ready: u64,
    /// Messages to deliver later: after their delay, after the pause before their next attempt, or behind another one of their key.
    pub(crate) waiting: u64,
    /// Messages that were not delivered, and wait for an operator.
    pub(crate) dead: u64,
    /// How long the first ready message has been due, in milliseconds.
    pub(crate) lag_ms: u64,
    /// The runner that delivers; null if no node runs this outbox.
    pub(crate) runner: Option<Runner>,
    /// Nodes with a runner, including those that wait.
    pub(crate) runners: u64,
    /// The last error of the runner.
    pub(crate) last_error: Option<String>,
}

impl OutboxState {
    pub(crate) fn of(view: &OutboxView, nodes: &[NodeView]) -> OutboxState {
        let runner = view.active().map(|record| Runner::of(record.clone(), nodes));
        let last = view.runners.iter().max_by_key(|runner| runner.failed_at);
        OutboxState {
            name: view.name.clone(),
            ready: view.counts.ready,
            waiting: view.counts.waiting,
            dead: view.counts.dead,
            lag_ms: u64::try_from(view.counts.lag.as_millis()).unwrap_or(u64::MAX),
            last_error: last.and_then(|runner| runner.last_error.clone()),
            runners: view.runners.iter().filter(|runner| !runner.is_stale()).count() as u64,
            runner,
        }
    }
}

pub(crate) fn failed(error: OutboxError) -> Problem {
    let detail = "the tables of the outbox do not answer; nothing was changed: try again";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "outbox_unavailable", detail).because(error.to_string())
}

fn missing(name: &str) -> Problem {
    let name: String = name.chars().take(100).collect();
    Problem::not_found(format_args!("outbox {name:?} in this database"))
}

pub(crate) fn outboxes(app: &App) -> Option<&DatabaseOutboxes> {
    app.outboxes.as_ref()
}

/// The outbox of this name; 404 if the database has no outboxes.
pub(crate) async fn open(app: &App, name: &str) -> Result<Outbox, Problem> {
    let Some(outboxes) = outboxes(app) else { return Err(missing(name)) };
    outboxes.open(name).await.map_err(failed)?.ok_or_else(|| missing(name))
}

/// 404 if nothing is known of an outbox: it has no messages, and no runner.
pub(crate) async fn check_known(app: &App, name: &str) -> Result<(), Problem> {
    let Some(outboxes) = outboxes(app) else { return Err(missing(name)) };
    let all = outboxes.all().await.map_err(failed)?.unwrap_or_default();
    if all.iter().any(|view| view.name == name) { Ok(()) } else { Err(missing(name)) }
}

/// All outboxes. `None`: the database has no tables of outboxes.
pub(crate) async fn all(app: &App, nodes: &[NodeView]) -> Result<Option<Vec<OutboxState>>, Problem> {
    let Some(outboxes) = outboxes(app) else { return Ok(None) };
    let views = outboxes.all().await.map_err(failed)?;
    Ok(views.map(|views| views.iter().map(|view| OutboxState::of(view, nodes)).collect()))
}

/// Lists the outboxes of the server's database that have messages or a runner, by name.
#[utoipa::path(
    get, path = "/outboxes", operation_id = "list_outboxes", tag = "outboxes", security(("token" = ["read"])),
    responses((status = 200, body = Page<OutboxState>), (status = "4XX", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(state: State<App>) -> Result<Json<Page<OutboxState>>, Problem> {
    let nodes = state.reading.nodes(NODES_MAX).await?;
    Ok(Json(Page::new(all(&state, &nodes).await?.unwrap_or_default(), None)))
}
