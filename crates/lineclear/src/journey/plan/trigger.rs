//! trigger: run a manifest now, whatever its schedule, overlap rule or hold.

use std::time::Duration;

use lineclear_model::job::Origin;
use lineclear_model::{Micros, Name, Payload};

use crate::db::statements::Statement;
use crate::db::{Row, Session, Value, Verb};
use crate::journey::enqueue::insert::{BATCH_MAX, group_ids, queue};
use crate::journey::plan::firing::JobTemplate;
use crate::store::{JobId, Store, StoreError, StoreResult};
use crate::{trace, validate};

/// How to run a manifest now, or later.
#[derive(Clone, Debug, Default)]
pub struct TriggerOptions {
    /// Another input for this job; `None` is the manifest's.
    pub input: Option<Payload>,
    /// Not before; `None` is now.
    pub due_at: Option<Micros>,
    /// Not before so long after `due_at`; without that, after now by the database's clock.
    pub delay: Option<Duration>,
    /// Trace context of the caller.
    pub trace: Option<String>,
}

/// Verb: one job of a manifest. `None`: there is no such manifest.
pub(crate) struct Trigger {
    pub(crate) key: Name,
    pub(crate) options: TriggerOptions,
}

impl Verb for Trigger {
    type Answer = Option<JobId>;

    async fn run(&self, session: &mut Session) -> StoreResult<Option<JobId>> {
        // Locked: the planner reads live jobs under the same lock, so it cannot miss this one.
        let mut rows =
            session.rows(Statement::ManifestRead, vec![Value::Texts(vec![self.key.to_string()])]).await?;
        rows.retain(|row| row.get("removed").is_ok_and(|removed: bool| !removed));
        let jobs = trigger(session, &rows, &self.options).await?;
        Ok(jobs.into_iter().next().map(|(_, job)| job))
    }
}

/// Verb: one job of each enabled manifest of a group, all or none, by key. `None`: there is no such group.
pub(crate) struct TriggerGroup {
    pub(crate) group: Name,
    pub(crate) options: TriggerOptions,
}

impl Verb for TriggerGroup {
    type Answer = Option<Vec<(Name, JobId)>>;

    async fn run(&self, session: &mut Session) -> StoreResult<Self::Answer> {
        let ids = group_ids(session, std::slice::from_ref(&self.group)).await?;
        let Some(&id) = ids.get(&self.group) else { return Ok(None) };
        let most = i64::try_from(BATCH_MAX).expect("a batch fits") + 1;
        let params = vec![Value::Int(Some(id)), Value::Int(Some(most))];
        let rows = session.rows(Statement::ManifestsOfGroup, params).await?;
        if rows.len() > BATCH_MAX {
            let why = format!("{} has more than {BATCH_MAX} manifests; trigger them by key", self.group);
            return Err(StoreError::refused("batch_max", why));
        }
        let mut jobs = trigger(session, &rows, &self.options).await?;
        jobs.sort_unstable();
        Ok(Some(jobs))
    }
}

/// One job of each manifest, in one statement.
async fn trigger(
    session: &mut Session,
    manifests: &[Row],
    options: &TriggerOptions,
) -> StoreResult<Vec<(Name, JobId)>> {
    let mut keys = Vec::with_capacity(manifests.len());
    let mut jobs = Vec::with_capacity(manifests.len());
    for row in manifests {
        keys.push(row.word("key", |key| Name::new(key).ok())?);
        let mut job = JobTemplate::of(row)?.job(Origin::Trigger);
        if let Some(input) = &options.input {
            job.input = input.as_str().to_owned();
        }
        (job.due_at, job.delay) = (options.due_at, options.delay);
        job.trace = options.trace.clone();
        jobs.push(job);
    }
    let ids = queue(session, &jobs).await?;
    Ok(keys.into_iter().zip(ids).filter_map(|(key, id)| Some((key, id?))).collect())
}

impl Store {
    /// Runs a manifest now, or when the options say. `None`: there is no such manifest.
    pub async fn trigger(&self, key: Name, mut options: TriggerOptions) -> StoreResult<Option<JobId>> {
        options.trace = trace::or_callers(options.trace);
        validate::check_due_at(options.due_at)?;
        validate::check_delay(options.delay)?;
        validate::check_input(options.input.as_ref())?;
        let job = self.run(Trigger { key, options }).await?;
        self.announce_work();
        Ok(job)
    }

    /// Runs all enabled manifests of a group, all or none; returns the job of each. `None`: there is no such group.
    pub async fn trigger_group(
        &self,
        group: Name,
        mut options: TriggerOptions,
    ) -> StoreResult<Option<Vec<(Name, JobId)>>> {
        options.trace = trace::or_callers(options.trace);
        validate::check_due_at(options.due_at)?;
        validate::check_delay(options.delay)?;
        validate::check_input(options.input.as_ref())?;
        let jobs = self.run(TriggerGroup { group, options }).await?;
        self.announce_work();
        Ok(jobs)
    }
}
