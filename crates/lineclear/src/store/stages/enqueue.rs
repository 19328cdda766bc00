//! Stage 2, new jobs: one or many, of a manifest or without one.

use std::collections::HashMap;
use std::sync::Arc;

use lineclear_model::{Micros, Name};

use crate::store::verbs::{backfill, enqueue, once, trigger};
use crate::store::{
    BackfillOptions, Backfilled, Created, Creation, Enqueued, JobId, NewJob, Once, OnceKey, Store,
    StoreError, StoreResult, TriggerOptions, door,
};
use crate::trace;

impl Store {
    /// Enqueues one job. Jobs that many callers enqueue at once share a commit, and each gets its own answer.
    pub async fn enqueue(&self, mut job: NewJob) -> StoreResult<Enqueued> {
        trace::carry(std::slice::from_mut(&mut job));
        door::check_jobs(std::slice::from_ref(&job))?;
        // Outside of a runtime (SQLite needs none) there is nobody who could send for others.
        if job.unique_key.is_some() || tokio::runtime::Handle::try_current().is_err() {
            let all = self.enqueue_many(vec![job]).await?;
            let unanswered = || StoreError::Corrupt { what: "enqueue did not answer".to_owned() };
            return all.into_iter().next().ok_or_else(unanswered);
        }
        let group_ids = self.group_ids(std::slice::from_ref(&job)).await?;
        let group_id = enqueue::group_id(&job, &group_ids).map_err(|error| error.of_job(0, "group"))?;
        self.gather.enqueue(&self.db, job, group_id).await
    }

    /// Enqueues many jobs, all or none, in one statement. The answers are in the order of the jobs.
    pub async fn enqueue_many(&self, mut jobs: Vec<NewJob>) -> StoreResult<Vec<Enqueued>> {
        trace::carry(&mut jobs);
        door::check_jobs(&jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let group_ids = self.group_ids(&jobs).await?;
        self.run(enqueue::Enqueue { jobs, group_ids }).await
    }

    /// Ids of the groups that jobs name, from memory where they are known.
    pub(in crate::store) async fn group_ids(&self, jobs: &[NewJob]) -> StoreResult<HashMap<Name, i64>> {
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
        let found = self.run(enqueue::GroupIds(named)).await?;
        let mut cache = self.group_ids.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        cache.extend(found.clone());
        Ok(found)
    }

    /// Runs a manifest now, or when the options say. `None`: there is no such manifest.
    pub async fn trigger(&self, key: Name, mut options: TriggerOptions) -> StoreResult<Option<JobId>> {
        options.trace = trace::or_callers(options.trace);
        door::check_due_at(options.due_at)?;
        self.run(trigger::Trigger { key, options }).await
    }

    /// Runs all enabled manifests of a group, all or none; returns the job of each. `None`: there is no such group.
    pub async fn trigger_group(
        &self,
        group: Name,
        mut options: TriggerOptions,
    ) -> StoreResult<Option<Vec<(Name, JobId)>>> {
        options.trace = trace::or_callers(options.trace);
        door::check_due_at(options.due_at)?;
        self.run(trigger::TriggerGroup { group, options }).await
    }

    /// Ticks of a manifest in `from..to` that did not run, because they were missed, skipped or before its time, become
    /// jobs, each once: doing it again adds nothing. Excluded times stay excluded. `None`: there is no such manifest.
    pub async fn backfill(
        &self,
        key: Name,
        from: Micros,
        to: Micros,
        options: BackfillOptions,
    ) -> StoreResult<Option<Backfilled>> {
        door::check_backfill(from, to, &options)?;
        self.run(backfill::Backfill { key, from, to, options }).await
    }

    /// Makes something once, whoever asks how often under this key: the same request again gets what `record` made of the
    /// first answer. Another request under the key is refused (`idempotency_key_reused`), and so is one while the first is
    /// under way (`idempotency_in_flight`). Where `record` says `None`, the key is free again.
    pub async fn create_once(
        &self,
        once: OnceKey,
        mut creation: Creation,
        record: impl Fn(&Created) -> Option<String> + Send + Sync + 'static,
    ) -> StoreResult<Once> {
        door::check_key(&once.key)?;
        [&once.principal, &once.request, &once.body_hash]
            .into_iter()
            .try_for_each(|text| door::check_text(text))?;
        let mut group_ids = HashMap::new();
        match &mut creation {
            Creation::Jobs(jobs) => {
                door::check_jobs(jobs)?;
                trace::carry(jobs);
                group_ids = self.group_ids(jobs).await?;
            }
            Creation::Run(_, options) | Creation::RunGroup(_, options) => {
                door::check_due_at(options.due_at)?;
                options.trace = trace::or_callers(options.trace.take());
            }
            Creation::Backfill { from, to, options, .. } => door::check_backfill(*from, *to, options)?,
            Creation::Retry(_, options) => door::check_retry(options)?,
            // It was checked when it was counted.
            Creation::Batch(_) => {}
        }
        let advisory_key = self.options.advisory_key(&format!("once/{}/{}", once.principal, once.key));
        let record: once::Record = Arc::new(record);
        let verb = once::CreateOnce { once, advisory_key, creation, group_ids, record };
        let mut answer = self.run(verb.clone()).await?;
        crate::crash::point("once.after_commit");
        if let Once::Now(Created::Retry(_, retried)) = &answer {
            if retried.may_be_moving() {
                answer = self.run(verb).await?;
            }
            self.orders_changed().await;
        }
        Ok(answer)
    }
}
