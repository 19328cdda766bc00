//! The log of running handlers.

use lineclear_model::Micros;

use crate::db::statements::Statement;
use crate::db::{Column, Query};
use crate::journey::claim::renew::claim_columns;
use crate::store::{ClaimRef, Store, StoreResult};
use crate::validate;

/// Most lines that are kept of one execution; one more says how many were dropped.
pub const LOG_LINES_MAX: u32 = 1_000;
/// Most bytes that are kept of one execution.
pub const LOG_BYTES_MAX: usize = 256 * 1024;
/// Most bytes of one line; what is longer is cut.
pub const LOG_LINE_BYTES_MAX: usize = 8 * 1024;

/// One line of a job's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Its number in the log of its claim, from 1.
    pub line_no: u32,
    /// When it was written, on the clock of the node that ran the job.
    pub logged_at: Micros,
    /// TRACE, DEBUG, INFO, WARN or ERROR.
    pub level: String,
    /// Which part of the program wrote it.
    pub target: String,
    /// Its message, with its fields.
    pub message: String,
}

impl LogLine {
    /// Replaces NUL, which databases refuse, and truncates long text: a log must never fail a job.
    fn text(text: &str) -> String {
        text[..text.floor_char_boundary(LOG_LINE_BYTES_MAX)].replace('\0', " ")
    }
}

/// Log lines as columns of a batch.
pub(crate) fn log_columns(lines: &[(ClaimRef, LogLine)]) -> Vec<Column> {
    let claims: Vec<ClaimRef> = lines.iter().map(|(claim, _)| *claim).collect();
    let texts = |of: fn(&LogLine) -> &str| {
        Column::Texts(lines.iter().map(|(_, line)| Some(LogLine::text(of(line)))).collect())
    };
    let mut columns = claim_columns(&claims);
    columns.extend([
        Column::Ints(lines.iter().map(|(_, line)| Some(i64::from(line.line_no))).collect()),
        Column::Times(lines.iter().map(|(_, line)| Some(line.logged_at)).collect()),
        texts(|line| &line.level),
        texts(|line| &line.target),
        texts(|line| &line.message),
    ]);
    columns
}

impl Store {
    /// Writes log lines of claims that still run; skips those of others.
    pub async fn write_log(&self, lines: Vec<(ClaimRef, LogLine)>) -> StoreResult<()> {
        validate::check_batch(lines.len())?;
        if lines.is_empty() {
            return Ok(());
        }
        self.run(Query::execute(Statement::LogWrite, log_columns(&lines))).await
    }
}
