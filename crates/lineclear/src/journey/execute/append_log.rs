//! Log lines that remote workers send: the store numbers them, and keeps each log within its limits.

use std::collections::{HashMap, HashSet};

use lineclear_model::Micros;

use crate::db::statements::Statement;
use crate::db::{Params, Row, Session, Verb, values};
use crate::journey::claim::renew::claim_columns;
use crate::journey::execute::logs::log_columns;
use crate::store::{
    ClaimRef, JobId, LOG_BYTES_MAX, LOG_LINE_BYTES_MAX, LOG_LINES_MAX, LogLine, NodeId, Store, StoreResult,
};
use crate::validate;

/// Where a line of a remote worker comes from.
const TARGET: &str = "worker";

/// A log line of a remote worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLogLine {
    /// When it was written, on the clock of the worker; `None`: now.
    pub logged_at: Option<Micros>,
    /// TRACE, DEBUG, INFO, WARN or ERROR.
    pub level: String,
    /// Its text.
    pub message: String,
}

/// How long a log is.
#[derive(Clone, Copy, Default)]
struct Length {
    lines: u32,
    bytes: usize,
}

/// Verb: append lines to the logs of claims that a worker holds. Answers which of the claims it holds.
struct AppendLog {
    node: NodeId,
    logs: Vec<(ClaimRef, Vec<NewLogLine>)>,
    now: Micros,
}

impl Verb for AppendLog {
    type Answer = HashSet<ClaimRef>;

    async fn run(&self, session: &mut Session) -> StoreResult<HashSet<ClaimRef>> {
        let claims: HashSet<ClaimRef> = self.logs.iter().map(|(claim, _)| *claim).collect();
        let claims: Vec<ClaimRef> = claims.into_iter().collect();
        let lock = Params { values: values![self.node.0], batch: claim_columns(&claims) };
        let held = session.rows(Statement::LogLock, lock).await?;
        let held = held.iter().map(|row| claim(row, "id")).collect::<StoreResult<HashSet<_>>>()?;
        if held.is_empty() {
            return Ok(held);
        }
        // After the lock: the statement that waits for it sees the log as it was before.
        let claims: Vec<ClaimRef> = held.iter().copied().collect();
        let mut lengths: HashMap<ClaimRef, Length> = HashMap::new();
        for row in session.rows(Statement::LogLength, claim_columns(&claims)).await? {
            let bytes = usize::try_from(row.get::<i64>("bytes")?).unwrap_or(usize::MAX);
            lengths.insert(claim(&row, "job_id")?, Length { lines: row.get("lines")?, bytes });
        }
        let mut lines = Vec::new();
        for (claim, new) in self.logs.iter().filter(|(claim, _)| held.contains(claim)) {
            let length = lengths.entry(*claim).or_default();
            lines.extend(self.numbered(new, length).into_iter().map(|line| (*claim, line)));
        }
        if !lines.is_empty() {
            session.rows(Statement::LogWrite, log_columns(&lines)).await?;
        }
        Ok(held)
    }
}

impl AppendLog {
    /// The lines with their numbers. A log that is full ends with a line that says so.
    fn numbered(&self, new: &[NewLogLine], length: &mut Length) -> Vec<LogLine> {
        let line = |line_no: u32, logged_at: Option<Micros>, level: &str, message: &str| LogLine {
            line_no,
            logged_at: logged_at.unwrap_or(self.now),
            level: level.to_owned(),
            target: TARGET.to_owned(),
            message: message.to_owned(),
        };
        let mut lines = Vec::new();
        for NewLogLine { logged_at, level, message } in new {
            if length.lines > LOG_LINES_MAX {
                break;
            }
            let bytes = TARGET.len() + message.len().min(LOG_LINE_BYTES_MAX);
            if length.lines == LOG_LINES_MAX || length.bytes + bytes > LOG_BYTES_MAX {
                // Its number keeps later lines out: a log with holes would mislead.
                length.lines = LOG_LINES_MAX + 1;
                lines.push(line(length.lines, None, "WARN", "the log is full; later lines were dropped"));
                break;
            }
            length.lines += 1;
            length.bytes += bytes;
            lines.push(line(length.lines, *logged_at, level, message));
        }
        lines
    }
}

fn claim(row: &Row, id: &'static str) -> StoreResult<ClaimRef> {
    Ok(ClaimRef { job: JobId(row.get(id)?), no: row.get("claim_no")? })
}

impl Store {
    /// Appends lines to the logs of claims that `node` holds. Says for each of them whether the node holds it; lines of others are
    /// dropped.
    pub async fn append_log(
        &self,
        node: NodeId,
        logs: Vec<(ClaimRef, Vec<NewLogLine>)>,
    ) -> StoreResult<Vec<bool>> {
        validate::check_batch(logs.iter().map(|(_, lines)| lines.len().max(1)).sum())?;
        if logs.is_empty() {
            return Ok(Vec::new());
        }
        let claims: Vec<ClaimRef> = logs.iter().map(|(claim, _)| *claim).collect();
        let now = Micros::from(jiff::Timestamp::now());
        let held = self.run(AppendLog { node, logs, now }).await?;
        Ok(claims.iter().map(|claim| held.contains(claim)).collect())
    }
}
