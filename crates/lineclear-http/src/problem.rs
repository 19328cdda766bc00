//! Refusals and failures, as RFC 9457 has them: a stable code for programs, a sentence for people.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lineclear::StoreError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::pages::Said;
use crate::request_id::RequestId;

/// Seconds after which a client may try again what failed for a moment.
const RETRY_AFTER: &str = "2";

/// What went wrong, and what to do next.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    #[serde(skip)]
    status_code: StatusCode,
    /// The status, once more, for those who only kept the body.
    status: u16,
    /// A stable word for programs.
    code: String,
    /// What kind of problem it is.
    title: &'static str,
    /// What is wrong here, and what to do next.
    detail: String,
    /// Fields that are wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldProblem>,
    /// The id of the request, which the server's log and the audit know it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<Box<str>>,
    /// What goes with it.
    #[serde(skip)]
    header: Option<Box<(HeaderName, HeaderValue)>>,
}

/// A field that is wrong.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FieldProblem {
    /// Where it stands in the document, as a JSON pointer.
    pointer: String,
    /// What is wrong with it.
    detail: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Problem {
        Problem {
            status_code: status,
            status: status.as_u16(),
            code: code.to_owned(),
            title: status.canonical_reason().unwrap_or("Problem"),
            detail: detail.into(),
            errors: Vec::new(),
            request_id: RequestId::current().map(String::into_boxed_str),
            header: None,
        }
    }

    /// With a header; the last one stays.
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Problem {
        self.header = Some(Box::new((name, value)));
        self
    }

    /// Nobody knows who asks.
    pub(crate) fn unauthorized(detail: &str) -> Problem {
        let challenge = HeaderValue::from_static("Bearer realm=\"lineclear\"");
        Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
            .with(header::WWW_AUTHENTICATE, challenge)
    }

    /// Too many wrong tokens came from there.
    pub(crate) fn too_many_failures(wait: Duration) -> Problem {
        let detail = "too many wrong tokens came from there; wait a while";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_failures", detail).after(wait)
    }

    /// Too many requests came from there.
    pub(crate) fn too_often(wait: Duration) -> Problem {
        let detail = "too many requests at once; ask more slowly";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_often", detail).after(wait)
    }

    fn after(self, wait: Duration) -> Problem {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        self.with(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)))
    }

    /// The request cannot be read.
    pub(crate) fn malformed(code: &str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// There is nothing of that name.
    pub(crate) fn not_found(what: impl std::fmt::Display) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {what}"))
    }

    /// What the store refused, with the field that the rule is about, if the request has it.
    pub(crate) fn placed(error: StoreError, pointer: impl FnOnce(&str) -> Option<String>) -> Problem {
        let at = match &error {
            StoreError::Refused { rule, .. } => pointer(rule),
            _ => None,
        };
        let problem = Problem::from(error);
        match at {
            Some(at) => problem.at(at),
            None => problem,
        }
    }

    /// The same for a rule that is always about one field.
    pub(crate) fn of_field(error: StoreError, fields: &[(&str, &str)]) -> Problem {
        Problem::placed(error, |rule| {
            fields.iter().find(|(of, _)| *of == rule).map(|(_, pointer)| (*pointer).to_owned())
        })
    }

    /// What is wrong stands in the parameters after `?`, and not in a document.
    pub(crate) fn in_query(self) -> Problem {
        let code =
            self.errors.first().map_or(self.code.as_str(), |field| field.pointer.trim_start_matches('/'));
        Problem::malformed(code, self.detail.clone())
    }

    /// If it is this refusal, this field is the reason.
    pub(crate) fn when(self, code: &str, pointer: &str) -> Problem {
        if self.code == code && self.errors.is_empty() { self.at(pointer) } else { self }
    }

    /// Whether it is this refusal, and says this.
    pub(crate) fn is_about(&self, code: &str, part: &str) -> bool {
        self.code == code && self.detail.contains(part)
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status_code
    }

    /// What it says to people: its title, what is wrong and what to do next, its code, and the id of the request.
    pub(crate) fn said(&self) -> (&str, &str, &str, Option<&str>) {
        (self.title, &self.detail, &self.code, self.request_id.as_deref())
    }

    /// The first field that is wrong, as a JSON pointer.
    pub(crate) fn pointer(&self) -> Option<&str> {
        self.errors.first().map(|field| field.pointer.as_str())
    }

    /// One field is wrong.
    pub(crate) fn at(mut self, pointer: impl Into<String>) -> Problem {
        self.errors.push(FieldProblem { pointer: pointer.into(), detail: self.detail.clone() });
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status_code;
        let own = self.header.clone();
        // For browsers it becomes a page.
        let said = Said::of(&self);
        let mut response = (status, Json(self)).into_response();
        response.extensions_mut().insert(said);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
        }
        if let Some(own) = own {
            headers.insert(own.0, own.1);
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let text = error.to_string();
        match error {
            // A rule's reason is meant for whoever asked; what a driver says is not.
            StoreError::Refused { rule, why } => Problem::new(refused(&rule), &rule, why),
            StoreError::Unavailable { maybe_applied, .. } => {
                tracing::warn!(error = text, "a request met a database that does not answer");
                let detail = if maybe_applied {
                    "the database did not answer; the change may have happened: look before you ask again"
                } else {
                    "the database does not answer; nothing was changed: ask again later"
                };
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail)
            }
            StoreError::Contended { .. } => {
                let detail = "others were in the way, and nothing was changed: ask again";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "contended", detail)
            }
            StoreError::CannotWrite { .. } => {
                tracing::error!(error = text, "the database cannot write");
                let detail = "the database cannot write: is its disk full, or is it a replica?";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_cannot_write", detail)
            }
            _ => {
                tracing::error!(error = text, "a request met stored data that cannot be read");
                let detail = "stored data is not what this version wrote; the server's log says more";
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "stored_data", detail)
            }
        }
    }
}

/// What is in the way of a request differs from what is wrong with it.
fn refused(rule: &str) -> StatusCode {
    match rule {
        "unreadable"
        | "idempotency_in_flight"
        | "unique_key_taken"
        | "unique_key_conflict"
        | "manifest_owner"
        | "manifest_has_dependents"
        | "manifest_edit"
        | "token_name" => StatusCode::CONFLICT,
        "waiters_max" => StatusCode::SERVICE_UNAVAILABLE,
        "changed_since" => StatusCode::PRECONDITION_FAILED,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}
