//! Whether the server lives, and whether it can be used.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use lineclear::StoreError;

use crate::App;
use crate::problem::Problem;

/// It answers, so it lives.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// The database answers, and has the schema that we know, or a later one. Says no more than yes or no.
pub(crate) async fn ready(state: State<App>) -> Response {
    if state.client.is_stopping() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
    }
    match state.reading.migration_status().await {
        Ok(status) if status.pending.is_empty() => "ok\n".into_response(),
        // A rolling upgrade: the first new node has moved the schema on, and all old ones must not drop out at once.
        Err(StoreError::Refused { rule, .. }) if rule == "schema_newer" => "ok\n".into_response(),
        Ok(_) | Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response(),
    }
}

/// Figures for Prometheus.
pub(crate) async fn metrics(state: State<App>) -> Result<Response, Problem> {
    let Some(handle) = &state.metrics else {
        return Err(Problem::not_found("metrics: none are recorded here"));
    };
    let text = handle.render();
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
