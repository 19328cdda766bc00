//! Probes and metrics.

use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use lineclear_model::doctor::{DatabaseCondition, DatabaseState};

use crate::App;
use crate::problem::{Problem, describe};

/// How long a probe waits for the database.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// How often it asks meanwhile what the node knows.
const LOOKS_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The liveness probe.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// The readiness probe: the database answers and can be written, and its schema is this version's, or a later one that this version
/// can work with.
pub(crate) async fn ready(state: State<App>) -> Response {
    if state.client.is_stopping() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
    }
    // The node may notice it while the probe waits for the database.
    let looked = tokio::select! {
        biased;
        condition = trouble(&state) => {
            let why = describe(&condition);
            return not_ready(&format!("{why}\n{}", condition.state.remedy()));
        }
        looked = tokio::time::timeout(ANSWERS_WITHIN, state.reading.migration_status()) => looked,
    };
    match looked {
        // A rolling upgrade: when the first new node migrates the schema, the old ones stay ready.
        Ok(Ok(status)) if status.pending.is_empty() => "ok\n".into_response(),
        Ok(Ok(status)) => {
            let count = status.pending.len();
            not_ready(&format!("the schema lacks {count} migrations\nrun: lineclear db migrate"))
        }
        // The error may name hosts and users: it is for the log.
        Ok(Err(error)) => match error.database_state() {
            Some(state) => of_state(state),
            None => not_ready("the schema cannot be read\nsee the server's log, and: lineclear doctor"),
        },
        Err(_) if state.reading.options().file().is_some() => of_state(DatabaseState::Locked),
        Err(_) => of_state(DatabaseState::Silent),
    }
}

/// Waits until the node knows that something is wrong with the database.
async fn trouble(state: &App) -> DatabaseCondition {
    loop {
        let condition = state.reading.known_database_condition();
        if !condition.is_ok() {
            return condition;
        }
        tokio::time::sleep(LOOKS_AGAIN_AFTER).await;
    }
}

/// The node has not noticed it yet.
fn of_state(state: DatabaseState) -> Response {
    not_ready(&format!("the database {}\n{}", state.predicate(), state.remedy()))
}

/// What is wrong, and below it what to do.
pub(crate) fn not_ready(why: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")).into_response()
}

/// Metrics for Prometheus.
pub(crate) async fn metrics(state: State<App>) -> Result<Response, Problem> {
    let Some(handle) = &state.metrics else {
        return Err(Problem::not_found("metrics endpoint on this server"));
    };
    if let Some(outboxes) = &state.outboxes {
        outboxes.measure().await;
    }
    if let Some(subscriptions) = &state.subscriptions {
        subscriptions.measure().await;
    }
    let text = handle.render();
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
