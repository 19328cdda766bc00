//! Types of JSON values: ids are strings, times are RFC 3339 in UTC.

use std::time::Duration;

use axum::extract::{FromRequestParts, Path, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use lineclear_model::duration::DURATION_MAX;
use lineclear_model::{Micros, Name, Payload, secret};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::problem::Problem;

/// A time, as RFC 3339 in UTC.
pub(super) fn time(micros: Micros) -> String {
    micros.to_string()
}

/// A name in a path; 404 if it is invalid.
pub(super) fn name(text: &str, what: &str) -> Result<Name, Problem> {
    Name::new(text).map_err(|bad| {
        Problem::new(StatusCode::NOT_FOUND, "not_found", format!("there is no {what} {text:?}: {bad}"))
    })
}

/// A name in a body.
pub(super) fn name_at(text: &str, pointer: &str) -> Result<Name, Problem> {
    Name::new(text).map_err(|bad| unprocessable("name", bad.to_string()).at(pointer))
}

pub(crate) fn unprocessable(code: &str, detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
}

/// Extracts query parameters. The types refuse unknown ones.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<QueryParams<T>, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(QueryParams(params)),
            Err(rejection) => Err(Problem::malformed("query", rejection.body_text())),
        }
    }
}

/// Extracts the parameter of a path.
pub(crate) struct PathParam(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for PathParam {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathParam, Problem> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(PathParam(text)),
            Err(rejection) => Err(Problem::malformed("path", rejection.body_text())),
        }
    }
}

/// An id in JSON: a string, because numbers above 2⁵³ do not survive every parser.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(transparent)]
pub(crate) struct Id(String);

impl Id {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn of(id: impl std::fmt::Display) -> Id {
        Id(id.to_string())
    }
}

/// An id in a path; 404 if it is invalid.
pub(crate) fn id(text: &str, what: &str) -> Result<i64, Problem> {
    let is_plain =
        text.starts_with(|c: char| matches!(c, '1'..='9')) && text.chars().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain).ok_or_else(|| Problem::not_found(format_args!("{what} {text:?}")))
}

/// A time in a body.
pub(super) fn moment(text: &str, pointer: &str) -> Result<Micros, Problem> {
    let at: jiff::Timestamp = text.parse().map_err(|_| {
        let shown: String = text.chars().take(64).collect();
        let detail = format!(
            "{shown:?} is not a time; write 2026-03-29T02:30:00Z, or a time with an offset, not after {}",
            lineclear_model::text::MOMENT_MAX
        );
        unprocessable("time", detail).at(pointer)
    })?;
    Ok(Micros::from(at))
}

/// When a job may run, as a body says it. A delay stays one: the database adds it to its own clock.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) at: Option<Micros>,
    pub(super) delay: Option<Duration>,
}

/// A delay in milliseconds.
fn delay(ms: i64, pointer: &str) -> Result<Duration, Problem> {
    let delay = u64::try_from(ms)
        .map(Duration::from_millis)
        .map_err(|_| unprocessable("time", "`in_ms` must not be negative; 0 is now").at(pointer))?;
    if delay > DURATION_MAX {
        return Err(
            unprocessable("time", "`in_ms` must not be more than 3650 days; use `due_at`").at(pointer)
        );
    }
    Ok(delay)
}

/// The due time of a body, as `due_at` or as `in_ms`.
pub(super) fn due(due_at: Option<&str>, in_ms: Option<i64>, pointer: &str) -> Result<Due, Problem> {
    let field = |field: &str| format!("{pointer}/{field}");
    match (due_at, in_ms) {
        (Some(_), Some(_)) => {
            Err(unprocessable("due_at", "give `due_at` or `in_ms`, not both").at(field("in_ms")))
        }
        (Some(text), None) => Ok(Due { at: Some(moment(text, &field("due_at"))?), delay: None }),
        (None, Some(ms)) => Ok(Due { at: None, delay: Some(delay(ms, &field("in_ms"))?) }),
        (None, None) => Ok(Due::default()),
    }
}

/// The input of a job. The mask in place of a secret is refused: it comes from a response that hides secrets.
pub(super) fn payload(raw: &RawValue, pointer: &str) -> Result<Payload, Problem> {
    let input =
        Payload::parse(raw.get()).map_err(|bad| unprocessable("input", bad.to_string()).at(pointer))?;
    match secret::find_mask(input.as_str()) {
        None => Ok(input),
        Some(place) => {
            let detail = format!("{} masks a secret; send the secret itself", secret::MASK);
            Err(unprocessable("masked", detail).at(format!("{pointer}{place}")))
        }
    }
}
