//! Pages of lists.

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::problem::Problem;

const LIMIT_DEFAULT: u32 = 50;
const LIMIT_MAX: u32 = 1_000;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    /// The items of the page.
    items: Vec<T>,
    /// Pass it as `cursor` to get the next page; null on the last one. A page may be empty and not be the last: a filter scans a bounded
    /// number of rows at a time.
    next: Option<String>,
}

impl<T> Page<T> {
    pub(super) fn new(items: Vec<T>, next: Option<String>) -> Page<T> {
        Page { items, next }
    }
}

/// The parameters of a list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    /// The page size, 1 to 1,000; the default is 50.
    #[param(minimum = 1, maximum = 1000)]
    pub(super) limit: Option<u32>,
    /// The `next` of the previous page.
    pub(super) cursor: Option<String>,
}

/// The page size.
pub(crate) fn limit(given: Option<u32>) -> Result<u32, Problem> {
    match given.unwrap_or(LIMIT_DEFAULT) {
        limit @ 1..=LIMIT_MAX => Ok(limit),
        other => {
            Err(Problem::malformed("limit", format!("it must be between 1 and {LIMIT_MAX}; it is {other}")))
        }
    }
}

/// Parses the cursor of a previous page.
pub(crate) fn cursor<T>(given: Option<&str>, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Problem> {
    let Some(text) = given else { return Ok(None) };
    let read = read(text).ok_or_else(|| {
        let detail = "`cursor` is not a cursor of this list; start again without it";
        Problem::new(StatusCode::BAD_REQUEST, "cursor", detail)
    })?;
    Ok(Some(read))
}
