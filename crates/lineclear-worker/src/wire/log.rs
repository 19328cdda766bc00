//! Log lines of jobs.

use lineclear::store::LogLine;
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(crate) struct LineObject {
    at: String,
    level: String,
    text: String,
}

impl LineObject {
    pub(crate) fn of(line: &LogLine) -> LineObject {
        LineObject {
            at: line.logged_at.to_string(),
            level: line.level.to_lowercase(),
            text: line.message.clone(),
        }
    }
}
