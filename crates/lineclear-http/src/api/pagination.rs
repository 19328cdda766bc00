//! Lists, page by page: each page says where the next one begins.

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::problem::Problem;

const LIMIT_DEFAULT: u32 = 50;
const LIMIT_MAX: u32 = 1_000;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    /// What was found.
    items: Vec<T>,
    /// Pass it as `cursor` to get the next page; none: this was the last. A page may be empty and not be the last: a filter
    /// looks through a bounded number of rows at a time.
    next: Option<String>,
}

impl<T> Page<T> {
    pub(super) fn new(items: Vec<T>, next: Option<String>) -> Page<T> {
        Page { items, next }
    }
}

/// Which page.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Paging {
    /// How many at most: 1 to 1,000, and 50 if nothing is said.
    #[param(minimum = 1, maximum = 1000)]
    pub(super) limit: Option<u32>,
    /// The `next` of the page before.
    pub(super) cursor: Option<String>,
}

/// How many.
pub(crate) fn limit(asked: Option<u32>) -> Result<u32, Problem> {
    match asked.unwrap_or(LIMIT_DEFAULT) {
        limit @ 1..=LIMIT_MAX => Ok(limit),
        other => Err(Problem::malformed("limit", format!("{other} is not between 1 and {LIMIT_MAX}"))),
    }
}

/// A cursor that we gave out, or none.
pub(crate) fn cursor<T>(asked: Option<&str>, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Problem> {
    let Some(text) = asked else { return Ok(None) };
    let read = read(text).ok_or_else(|| {
        let detail = "this cursor is not one of this list; begin again without it";
        Problem::new(StatusCode::BAD_REQUEST, "cursor", detail)
    })?;
    Ok(Some(read))
}
