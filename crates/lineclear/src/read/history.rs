//! The history of a job: its executions and its log, from the beginning or from the end.

use lineclear_model::{ExecutionOutcome, Micros};

use crate::db::statements::Statement;
use crate::db::{Query, Row, values};
use crate::read::{PAGE_MAX, Page, next_of};
use crate::store::{JobId, LogLine, NodeId, Store, StoreResult};

/// An execution of a job: one claim that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionView {
    /// The number of the claim.
    pub claim_no: u32,
    /// Whether it ended the job.
    pub is_final: bool,
    /// Its outcome.
    pub outcome: ExecutionOutcome,
    /// The node that ran it.
    pub node: Option<NodeId>,
    /// The name of that node, if its row still exists.
    pub node_name: Option<String>,
    /// What the handler returned.
    pub output: Option<String>,
    /// The type of the error.
    pub error_type: Option<String>,
    /// The message of the error.
    pub error_message: Option<String>,
    /// The fingerprint of the error.
    pub fingerprint: Option<String>,
    /// When it was claimed.
    pub claimed_at: Option<Micros>,
    /// When it ended.
    pub finished_at: Micros,
}

fn execution_of(row: &Row) -> StoreResult<ExecutionView> {
    Ok(ExecutionView {
        claim_no: row.get("claim_no")?,
        is_final: row.get("final")?,
        outcome: row.word("outcome", ExecutionOutcome::from_word)?,
        node: row.get::<Option<i64>>("node")?.map(NodeId),
        node_name: row.get("node_name")?,
        output: row.get("output")?,
        error_type: row.get("error_type")?,
        error_message: row.get("error_message")?,
        fingerprint: row.get("fingerprint")?,
        claimed_at: row.get("claimed_at")?,
        finished_at: row.get("finished_at")?,
    })
}

/// The last lines of a job's log.
#[derive(Clone, Debug, PartialEq)]
pub struct LastLines {
    /// Claim numbers and lines, oldest first.
    pub items: Vec<(u32, LogLine)>,
    /// Whether these are all lines.
    pub is_all: bool,
}

/// A log line, and the number of its claim.
fn log_line_of(row: &Row) -> StoreResult<(u32, LogLine)> {
    let line = LogLine {
        line_no: row.get("line_no")?,
        logged_at: row.get("logged_at")?,
        level: row.get("level")?,
        target: row.get("target")?,
        message: row.get("message")?,
    };
    Ok((row.get("claim_no")?, line))
}

impl Store {
    /// The executions of a job, oldest first, after the claim `after` if given.
    pub async fn executions(
        &self,
        job: JobId,
        after: Option<u32>,
        most: u32,
    ) -> StoreResult<Page<ExecutionView, u32>> {
        let most = most.clamp(1, PAGE_MAX);
        let params = values![job.0, most, after.unwrap_or_default()];
        let items = self.db.read(Query::each(Statement::ListExecutions, params, execution_of)).await?;
        let next = next_of(&items, most, |execution| execution.claim_no);
        Ok(Page { items, next })
    }

    /// The log of a job, oldest first: claim numbers and lines, after `after` if given.
    pub async fn log(
        &self,
        job: JobId,
        after: Option<(u32, u32)>,
        most: u32,
    ) -> StoreResult<Page<(u32, LogLine), (u32, u32)>> {
        let most = most.clamp(1, PAGE_MAX);
        let (claim_no, line_no) = after.unwrap_or_default();
        let params = values![job.0, claim_no, line_no, most];
        let items = self.db.read(Query::each(Statement::ListLog, params, log_line_of)).await?;
        let next = next_of(&items, most, |(claim_no, line)| (*claim_no, line.line_no));
        Ok(Page { items, next })
    }

    /// The last executions of a job, oldest first.
    pub async fn last_executions(&self, job: JobId, most: u32) -> StoreResult<Vec<ExecutionView>> {
        let params = values![job.0, most.clamp(1, PAGE_MAX)];
        let mut newest_first =
            self.db.read(Query::each(Statement::ListExecutionsLast, params, execution_of)).await?;
        newest_first.reverse();
        Ok(newest_first)
    }

    /// The last lines of a job's log.
    pub async fn last_log(&self, job: JobId, most: u32) -> StoreResult<LastLines> {
        let most = most.clamp(1, PAGE_MAX);
        // One more line than requested tells whether there are others.
        let params = values![job.0, most + 1];
        let mut items = self.db.read(Query::each(Statement::ListLogLast, params, log_line_of)).await?;
        let is_all = items.len() <= most as usize;
        items.truncate(most as usize);
        items.reverse();
        Ok(LastLines { items, is_all })
    }
}
