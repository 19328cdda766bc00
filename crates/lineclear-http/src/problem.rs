//! Problem details (RFC 9457): a stable code for programs, a sentence for people.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use lineclear::StoreError;
use lineclear::store::Location;
use lineclear_model::doctor::DatabaseCondition;
use serde::Serialize;
use utoipa::ToSchema;

use crate::middleware::request_id::RequestId;
use crate::pages::ProblemSummary;

/// Seconds after which a client may repeat a request that failed temporarily.
const RETRY_AFTER: &str = "2";

/// What is wrong, and what to do.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Problem {
    #[serde(skip)]
    status_code: StatusCode,
    /// The status code.
    status: u16,
    /// A stable code for programs.
    code: Box<str>,
    /// The kind of problem.
    title: &'static str,
    /// What is wrong, and what to do.
    detail: Box<str>,
    /// The wrong fields.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldProblem>,
    /// Further members of the problem, such as the results of the items of a batch.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    #[schema(ignore)]
    more: Option<Box<serde_json::Map<String, serde_json::Value>>>,
    /// The id of the request, as in the server's log and in the audit.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<Box<str>>,
    /// A header of the response.
    #[serde(skip)]
    header: Option<Box<(HeaderName, HeaderValue)>>,
    /// What is not part of the response.
    #[serde(skip)]
    internal: Option<Box<Internal>>,
}

/// What a handler and the log learn, and the caller does not. In a box: problems are returned by value.
#[derive(Debug, Default)]
struct Internal {
    /// The item and field that the store refused.
    location: Option<Box<Location>>,
    /// The cause for the log, such as the text of a driver.
    cause: Option<Box<str>>,
}

/// The code of a problem and its cause, which the response carries for the log.
#[derive(Clone, Debug)]
pub(crate) struct ProblemCause {
    pub(crate) code: Box<str>,
    pub(crate) cause: Box<str>,
}

/// A wrong field.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FieldProblem {
    /// A JSON pointer to the field.
    pointer: String,
    /// What is wrong with it.
    detail: String,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Problem {
        Problem {
            status_code: status,
            status: status.as_u16(),
            code: code.into(),
            title: status.canonical_reason().unwrap_or("Problem"),
            detail: detail.into().into_boxed_str(),
            errors: Vec::new(),
            more: None,
            request_id: RequestId::current().map(String::into_boxed_str),
            header: None,
            internal: None,
        }
    }

    /// Adds a cause for the log.
    pub(crate) fn because(mut self, cause: impl Into<Box<str>>) -> Problem {
        self.internal.get_or_insert_default().cause = Some(cause.into());
        self
    }

    /// The database cannot be used now.
    pub(crate) fn database(condition: &DatabaseCondition) -> Problem {
        let detail = format!("{}; {}", describe(condition), condition.state.remedy());
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail)
            .because(condition.reason.as_str())
    }

    /// Adds a header; the last one wins.
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Problem {
        self.header = Some(Box::new((name, value)));
        self
    }

    /// The caller is not authenticated.
    pub(crate) fn unauthorized(detail: &str) -> Problem {
        let challenge = HeaderValue::from_static("Bearer realm=\"lineclear\"");
        Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
            .with(header::WWW_AUTHENTICATE, challenge)
    }

    /// The address presented too many wrong tokens.
    pub(crate) fn too_many_failures(wait: Duration) -> Problem {
        let detail = "too many wrong tokens from this address; wait and try again";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many_failures", detail).retry_after(wait)
    }

    /// The caller exceeds its rate limit.
    pub(crate) fn too_often(wait: Duration) -> Problem {
        let detail = "too many requests; slow down";
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_often", detail).retry_after(wait)
    }

    fn retry_after(self, wait: Duration) -> Problem {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        self.with(header::RETRY_AFTER, HeaderValue::from(seconds.max(1)))
    }

    /// The request is malformed.
    pub(crate) fn malformed(code: &str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// The resource does not exist.
    pub(crate) fn not_found(what: impl std::fmt::Display) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {what}"))
    }

    /// A refusal of the store, with a pointer for the rule.
    pub(crate) fn by_rule(error: StoreError, pointer: impl FnOnce(&str) -> Option<String>) -> Problem {
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

    /// A refusal of the store, with a table of rules and pointers.
    pub(crate) fn of_field(error: StoreError, fields: &[(&str, &str)]) -> Problem {
        Problem::by_rule(error, |rule| {
            fields.iter().find(|(of, _)| *of == rule).map(|(_, pointer)| (*pointer).to_owned())
        })
    }

    /// Turns a wrong field of a body into a wrong query parameter.
    pub(crate) fn in_query(self) -> Problem {
        let code = self.errors.first().map_or(&*self.code, |field| field.pointer.trim_start_matches('/'));
        Problem::malformed(code, self.detail.clone())
    }

    /// Adds a pointer if the problem has this code.
    pub(crate) fn when(self, code: &str, pointer: &str) -> Problem {
        if *self.code == *code && self.errors.is_empty() { self.at(pointer) } else { self }
    }

    /// Adds a pointer to the field that the store refused.
    pub(crate) fn locate(mut self, pointer: impl FnOnce(&Location) -> Option<String>) -> Problem {
        let location = self.internal.as_mut().and_then(|internal| internal.location.take());
        match location.and_then(|location| pointer(&location)) {
            Some(pointer) => self.at(pointer),
            None => self,
        }
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status_code
    }

    /// What is wrong, and what to do.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// The summary for an error page.
    fn summary(&self) -> ProblemSummary {
        ProblemSummary {
            title: self.title,
            detail: self.detail.to_string(),
            code: self.code.to_string(),
            request_id: self.request_id.as_deref().map(str::to_owned),
        }
    }

    /// The JSON pointer to the first wrong field.
    pub(crate) fn pointer(&self) -> Option<&str> {
        self.errors.first().map(|field| field.pointer.as_str())
    }

    /// Replaces the detail.
    pub(crate) fn detailed(mut self, detail: &str) -> Problem {
        self.detail = detail.into();
        self
    }

    /// Adds a member.
    pub(crate) fn and(mut self, name: &str, value: impl Serialize) -> Problem {
        let value = serde_json::to_value(value).unwrap_or_default();
        self.more.get_or_insert_default().insert(name.to_owned(), value);
        self
    }

    /// Adds a pointer to a wrong field.
    pub(crate) fn at(mut self, pointer: impl Into<String>) -> Problem {
        self.errors.push(FieldProblem { pointer: pointer.into(), detail: self.detail.to_string() });
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status_code;
        let own = self.header.clone();
        let cause = self.internal.as_ref().and_then(|internal| internal.cause.clone());
        let cause =
            ProblemCause { code: self.code.clone(), cause: cause.unwrap_or_else(|| self.detail.clone()) };
        // The error page of browsers needs it.
        let summary = self.summary();
        let mut response = (status, Json(self)).into_response();
        response.extensions_mut().insert(summary);
        response.extensions_mut().insert(cause);
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
            // The reason of a rule is for the caller; the text of a driver is not.
            StoreError::Refused { rule, why, at } => {
                let internal = at.map(|at| Box::new(Internal { location: Some(at), cause: None }));
                Problem { internal, ..Problem::new(refused(&rule), &rule, why) }
            }
            StoreError::Unavailable { maybe_applied, .. } => {
                let detail = if maybe_applied {
                    "the database did not answer; the change may have happened: check before you retry"
                } else {
                    "the database does not answer; nothing was changed: retry later"
                };
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", detail).because(text)
            }
            StoreError::Contended { .. } => {
                let detail = "a concurrent change was in the way, and nothing was changed: retry";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "contended", detail).because(text)
            }
            StoreError::Locked { .. } => {
                let detail =
                    "another transaction holds a lock on what this needs, and nothing was changed: retry";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "locked", detail).because(text)
            }
            StoreError::CannotWrite { block, .. } => {
                let detail = format!("{block}; nothing was changed: retry when it can be written");
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "store_cannot_write", detail).because(text)
            }
            _ => {
                let detail = "stored data was not written by this version; see the server's log";
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "stored_data", detail).because(text)
            }
        }
    }
}

/// The condition of the database and since when, without what only operators may see.
pub(crate) fn describe(condition: &DatabaseCondition) -> String {
    format!("{} since {}", condition.sentence(), condition.since)
}

/// The status of a refusal: a conflict with the current state, or an invalid request.
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
