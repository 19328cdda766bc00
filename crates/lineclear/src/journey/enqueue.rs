//! enqueue: a caller → work_queue, one job or many.

pub(crate) mod batcher;
pub(crate) mod caller_tx;
pub(crate) mod idempotency;
pub(crate) mod insert;
pub(crate) mod unique_key;

use std::collections::HashMap;

use lineclear_model::Name;

use crate::store::{Enqueued, NewJob, Store, StoreError, StoreResult};
use crate::{trace, validate};

impl Store {
    /// Enqueues one job. Jobs that many callers enqueue at once share a commit, and each gets its own answer.
    pub async fn enqueue(&self, mut job: NewJob) -> StoreResult<Enqueued> {
        trace::carry(std::slice::from_mut(&mut job));
        validate::check_jobs(std::slice::from_ref(&job))?;
        // Outside of a runtime (SQLite needs none) no task can send the shared statement.
        if job.unique_key.is_some() || tokio::runtime::Handle::try_current().is_err() {
            let all = self.enqueue_many(vec![job]).await?;
            let unanswered = || StoreError::Corrupt { what: "enqueue did not answer".to_owned() };
            return all.into_iter().next().ok_or_else(unanswered);
        }
        let group_ids = self.group_ids(std::slice::from_ref(&job)).await?;
        let group_id = insert::group_id(&job, &group_ids).map_err(|error| error.of_job(0, "group"))?;
        let enqueued = self.batcher.enqueue(&self.db, job, group_id).await;
        let enqueued = enqueued.inspect_err(|error| self.monitor.write_failed(error))?;
        self.announce_work();
        Ok(enqueued)
    }

    /// Enqueues many jobs, all or none, in one statement. The answers are in the order of the jobs.
    pub async fn enqueue_many(&self, mut jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        trace::carry(&mut jobs);
        validate::check_jobs(&jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let group_ids = self.group_ids(&jobs).await?;
        let enqueued = self.run(insert::Enqueue { jobs, group_ids }).await?;
        self.announce_work();
        Ok(enqueued)
    }

    /// Ids of the groups that jobs name, cached.
    pub(crate) async fn group_ids(&self, jobs: &[NewJob]) -> StoreResult<HashMap<Name, i64>> {
        let mut named: Vec<Name> = jobs.iter().filter_map(|job| job.group.clone()).collect();
        named.sort_unstable();
        named.dedup();
        let known = |cache: &HashMap<Name, i64>| -> Option<HashMap<Name, i64>> {
            named.iter().map(|name| Some((name.clone(), *cache.get(name)?))).collect()
        };
        let cached = known(&self.group_ids.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        if let Some(found) = cached {
            return Ok(found);
        }
        let found = self.run(insert::GroupIds(named)).await?;
        let mut cache = self.group_ids.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        cache.extend(found.clone());
        Ok(found)
    }
}
