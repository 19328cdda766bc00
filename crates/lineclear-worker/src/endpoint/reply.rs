//! Responses of the endpoint.

use std::sync::Arc;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// A refusal, which becomes problem details.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    /// A word for programs.
    code: &'static str,
    detail: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Refusal {
        Refusal { status, code, detail: detail.into() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Refusal { status, code, detail } = self;
        let body = json!({"status": status.as_u16(), "code": code, "detail": detail}).to_string();
        (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response()
    }
}

/// The outcome of a job.
pub(super) fn reply(outcome: Arc<str>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], outcome.to_string()).into_response()
}
