//! What became of a job's claims and what its handlers logged: from the beginning page by page, and how it ended.

use crate::db::Value;
use crate::db::statements::Statement;
use crate::read::rows::{execution_of, log_line_of};
use crate::read::{ExecutionView, PAGE_MAX, Page, next_of};
use crate::store::{JobId, LogLine, Store, StoreResult};

/// The last lines of a job's log.
#[derive(Clone, Debug, PartialEq)]
pub struct LastLines {
    /// Claim numbers and lines, oldest first.
    pub items: Vec<(u32, LogLine)>,
    /// Whether there are no others before them.
    pub is_all: bool,
}

impl Store {
    /// The ended claims of a job, oldest first, after the claim `after` if given.
    pub async fn executions(
        &self,
        job: JobId,
        after: Option<u32>,
        most: u32,
    ) -> StoreResult<Page<ExecutionView, u32>> {
        let most = most.clamp(1, PAGE_MAX);
        let int = |v: u32| Value::Int(Some(i64::from(v)));
        let params = vec![Value::Int(Some(job.0)), int(most), int(after.unwrap_or_default())];
        let rows = self.read_rows(Statement::ListExecutions, params).await?;
        let items = rows.iter().map(execution_of).collect::<StoreResult<Vec<_>>>()?;
        let next = next_of(&items, most, |execution| execution.claim_no);
        Ok(Page { items, next })
    }

    /// What a job's handlers logged, oldest first: claim numbers and lines, after `after` if given.
    pub async fn log(
        &self,
        job: JobId,
        after: Option<(u32, u32)>,
        most: u32,
    ) -> StoreResult<Page<(u32, LogLine), (u32, u32)>> {
        let most = most.clamp(1, PAGE_MAX);
        let (claim_no, line_no) = after.unwrap_or_default();
        let int = |v: u32| Value::Int(Some(i64::from(v)));
        let params = vec![Value::Int(Some(job.0)), int(claim_no), int(line_no), int(most)];
        let rows = self.read_rows(Statement::ListLog, params).await?;
        let items = rows.iter().map(log_line_of).collect::<StoreResult<Vec<_>>>()?;
        let next = next_of(&items, most, |(claim_no, line)| (*claim_no, line.line_no));
        Ok(Page { items, next })
    }

    /// The claims of a job that ended last, oldest first.
    pub async fn last_executions(&self, job: JobId, most: u32) -> StoreResult<Vec<ExecutionView>> {
        let most = Value::Int(Some(i64::from(most.clamp(1, PAGE_MAX))));
        let rows = self.read_rows(Statement::ListExecutionsLast, vec![Value::Int(Some(job.0)), most]).await?;
        rows.iter().rev().map(execution_of).collect()
    }

    /// What a job's handlers logged last: of a job that was tried often, the claim that people look for.
    pub async fn last_log(&self, job: JobId, most: u32) -> StoreResult<LastLines> {
        let most = most.clamp(1, PAGE_MAX);
        // One more tells whether that is all.
        let params = vec![Value::Int(Some(job.0)), Value::Int(Some(i64::from(most) + 1))];
        let rows = self.read_rows(Statement::ListLogLast, params).await?;
        let newest = rows.iter().take(most as usize).rev();
        let items = newest.map(log_line_of).collect::<StoreResult<Vec<_>>>()?;
        Ok(LastLines { is_all: items.len() == rows.len(), items })
    }
}
