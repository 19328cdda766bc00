//! Gives waiting jobs the rank of their group's new priority.
//!
//! There may be millions of them, so this is not part of the change itself. The group's row stores the position: if a node dies
//! on the way, the next cleaner continues.

use std::time::Duration;

use crate::db::statements::Statement;
use crate::db::{Session, Verb, values};
use crate::store::{Store, StoreError, StoreResult};

/// Rows per batch.
const RERANK_MAX: i64 = 5_000;

/// The pause before locked jobs are tried again.
const LOCKED_PAUSE: Duration = Duration::from_millis(200);

/// How long a change of priority waits for its jobs; the rest continues in the background.
const WAIT: Duration = Duration::from_secs(2);

/// Gives a batch of waiting jobs the rank of their group's new priority; false if none needs it. The group's row stores the
/// position, so any node can continue, and running a batch twice changes nothing.
pub(crate) struct RerankBatch {
    pub(crate) most: i64,
}

impl Verb for RerankBatch {
    type Answer = bool;

    // Without a transaction, the locks on the jobs are released before the group is written: the lock order is group, then jobs.
    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<bool> {
        let rows = session.rows(Statement::GroupRerankNext, values![]).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        let (group, version, after): (i64, i64, i64) =
            (row.get("id")?, row.get("version")?, row.get("restamp_after")?);
        let rows = session.rows(Statement::GroupRerank, values![group, after, self.most]).await?;
        let last: Option<i64> = rows.first().map_or(Ok(None), |row| row.get("last"))?;
        session.rows(Statement::GroupReranked, values![group, version, after, last]).await?;
        Ok(true)
    }
}

impl Store {
    /// Reranks one batch; false if all waiting jobs have their rank.
    pub(crate) async fn rerank(&self) -> StoreResult<bool> {
        self.run(RerankBatch { most: RERANK_MAX }).await
    }

    /// Reranks after a committed change, which can no longer fail. Runs in a task of its own, which a cancelled request does not
    /// end.
    pub(crate) async fn rerank_soon(&self) {
        let store = self.clone();
        let done = tokio::spawn(async move {
            loop {
                match store.rerank().await {
                    Ok(true) => {}
                    Ok(false) => return,
                    // Another transaction holds some of them: they wait for it, and the caller need not.
                    Err(StoreError::Locked { .. }) => tokio::time::sleep(LOCKED_PAUSE).await,
                    Err(error) => {
                        tracing::warn!(%error, "cannot rerank all waiting jobs; the next cleaner continues");
                        return;
                    }
                }
            }
        });
        if tokio::time::timeout(WAIT, done).await.is_err() {
            tracing::debug!("reranking continues in the background");
        }
    }
}
