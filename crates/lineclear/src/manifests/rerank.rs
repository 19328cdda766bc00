//! Beside the journey: waiting jobs get the rank that the new priority of their group asks for.
//!
//! There may be millions of them, so it is not part of the change itself. The group remembers how far it is: whoever dies on the way
//! leaves the rest to the next cleaner.

use std::time::Duration;

use crate::manifests::groups::{RERANK_MAX, RerankBatch};
use crate::store::{Store, StoreResult};

/// Who changes a priority waits so long for it to show, and no longer: the rest is done behind the answer.
const WITHIN: Duration = Duration::from_secs(2);

impl Store {
    /// One batch; false if all waiting jobs have their rank.
    pub(crate) async fn rerank(&self) -> StoreResult<bool> {
        self.run(RerankBatch { most: RERANK_MAX }).await
    }

    /// After a change that is committed, and so can no longer fail. In a task of its own: a request that is given up does not end it.
    pub(crate) async fn rerank_soon(&self) {
        let store = self.clone();
        let done = tokio::spawn(async move {
            loop {
                match store.rerank().await {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => {
                        tracing::warn!(%error, "waiting jobs have not all got their new rank; the next cleaner goes on");
                        return;
                    }
                }
            }
        });
        if tokio::time::timeout(WITHIN, done).await.is_err() {
            tracing::debug!("waiting jobs still get their new rank");
        }
    }
}
