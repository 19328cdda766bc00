//! Probes and metrics.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::App;
use crate::problem::Problem;

/// The liveness probe.
pub(crate) async fn live() -> &'static str {
    "ok\n"
}

/// The readiness probe: the database answers, and its schema is this version's, or a later one that this version can work with.
pub(crate) async fn ready(state: State<App>) -> Response {
    if state.client.is_stopping() {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
    }
    match state.reading.migration_status().await {
        // A rolling upgrade: when the first new node migrates the schema, the old ones stay ready.
        Ok(status) if status.pending.is_empty() => "ok\n".into_response(),
        Ok(_) | Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response(),
    }
}

/// Metrics for Prometheus.
pub(crate) async fn metrics(state: State<App>) -> Result<Response, Problem> {
    let Some(handle) = &state.metrics else {
        return Err(Problem::not_found("metrics endpoint on this server"));
    };
    let text = handle.render();
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
