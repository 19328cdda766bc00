//! Idempotency: a request with a key that the client chose is carried out once, however often it is repeated.
//!
//! The key, the answer and the jobs are written in one transaction: a server that is killed leaves all of it or nothing, and
//! in both cases the client may repeat the request.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lineclear_model::{Micros, Name};

use crate::db::statements::Statement;
use crate::db::{Session, Value, Verb};
use crate::error::no_answer;
use crate::journey::enqueue::insert::{Enqueue, Enqueued, NewJob, millis};
use crate::journey::plan::backfill::{Backfill, BackfillOptions, Backfilled};
use crate::journey::plan::trigger::{Trigger, TriggerGroup, TriggerOptions};
use crate::operate::bulk::{self, BulkOperation, CountedBulkOperation};
use crate::operate::retry::{Retried, Retry, RetryOptions};
use crate::store::{JobId, Store, StoreError, StoreResult};
use crate::{trace, validate};

/// A request that is carried out once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// The owner of the key.
    pub principal: String,
    /// The key that the client chose: 1 to 255 bytes.
    pub key: String,
    /// The request, such as method and path.
    pub request: String,
    /// A hash of its body.
    pub body_hash: String,
    /// How long the answer is kept.
    pub keep: Duration,
}

/// What a request creates.
#[derive(Clone, Debug)]
pub enum Creation {
    /// Jobs, all or none.
    Jobs(Vec<NewJob>),
    /// A job of a manifest.
    Run(Name, TriggerOptions),
    /// A job of each enabled manifest of a group.
    RunGroup(Name, TriggerOptions),
    /// Jobs of ticks of the past.
    Backfill {
        /// The manifest.
        key: Name,
        /// From this moment.
        from: Micros,
        /// Up to this moment, exclusive.
        to: Micros,
        /// How.
        options: BackfillOptions,
    },
    /// A job runs again.
    Retry(JobId, RetryOptions),
    /// A bulk operation.
    BulkOperation(Box<CountedBulkOperation>),
}

/// What a request created.
#[derive(Clone, Debug)]
pub enum Created {
    /// In the order of the jobs.
    Jobs(Vec<Enqueued>),
    /// `None`: there is no such manifest.
    Run(Option<JobId>),
    /// `None`: there is no such group.
    RunGroup(Option<Vec<(Name, JobId)>>),
    /// `None`: there is no such manifest.
    Backfill(Option<Backfilled>),
    /// The job, and how it was retried, if it was.
    Retry(JobId, Retried),
    /// The bulk operation.
    BulkOperation(BulkOperation),
}

/// The result of a request that is carried out once.
#[derive(Clone, Debug)]
pub enum Idempotent {
    /// It was carried out now.
    Created(Created),
    /// It was carried out before, with this answer.
    Replayed(String),
}

/// Makes the answer to record. `None`: nothing was created, and the next request with the key is a new one.
pub(crate) type Record = Arc<dyn Fn(&Created) -> Option<String> + Send + Sync>;

/// Verb: carries out a request once. Refuses it while the first one is in flight, and if the key was used for another.
#[derive(Clone)]
pub(crate) struct CreateOnce {
    pub(crate) once: IdempotencyKey,
    pub(crate) advisory_key: i64,
    pub(crate) creation: Creation,
    pub(crate) group_ids: HashMap<Name, i64>,
    pub(crate) record: Record,
}

impl Verb for CreateOnce {
    type Answer = Idempotent;

    async fn run(&self, session: &mut Session) -> StoreResult<Idempotent> {
        let lock =
            session.rows(Statement::IdempotencyLock, vec![Value::Int(Some(self.advisory_key))]).await?;
        if !lock.first().map_or(Ok(false), |row| row.get("free"))? {
            let why = "a request with this key is under way; ask again when it has been answered";
            return Err(StoreError::refused("idempotency_in_flight", why));
        }
        if let Some(response) = self.before(session).await? {
            return Ok(Idempotent::Replayed(response));
        }
        let created = self.create(session).await?;
        if let Some(response) = (self.record)(&created) {
            self.write(session, response).await?;
        }
        crate::crash::point("once.before_commit");
        Ok(Idempotent::Created(created))
    }
}

fn text(text: &str) -> Value {
    Value::Text(Some(text.to_owned()))
}

impl CreateOnce {
    /// The recorded answer, if the key was used for the same request.
    async fn before(&self, session: &mut Session) -> StoreResult<Option<String>> {
        let IdempotencyKey { principal, key, request, body_hash, .. } = &self.once;
        let rows = session.rows(Statement::IdempotencyRead, vec![text(principal), text(key)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (asked, hash): (String, String) = (row.get("request")?, row.get("body_hash")?);
        if asked != *request {
            let why = format!("the key was used for {asked}; a new request needs a new key");
            return Err(StoreError::refused("idempotency_key_reused", why));
        }
        if hash != *body_hash {
            let why = "the key was used with another body; a new request needs a new key";
            return Err(StoreError::refused("idempotency_key_reused", why));
        }
        row.get("response").map(Some)
    }

    async fn create(&self, session: &mut Session) -> StoreResult<Created> {
        match self.creation.clone() {
            Creation::Jobs(jobs) => {
                let group_ids = self.group_ids.clone();
                Enqueue { jobs, group_ids }.run(session).await.map(Created::Jobs)
            }
            Creation::Run(key, options) => Trigger { key, options }.run(session).await.map(Created::Run),
            Creation::RunGroup(group, options) => {
                TriggerGroup { group, options }.run(session).await.map(Created::RunGroup)
            }
            Creation::Backfill { key, from, to, options } => {
                Backfill { key, from, to, options }.run(session).await.map(Created::Backfill)
            }
            Creation::Retry(job, options) => {
                let answers = Retry { jobs: vec![job], options }.run(session).await?;
                let answer = answers.first().map(|(job, answer)| Created::Retry(*job, *answer));
                answer.ok_or_else(|| no_answer("retry"))
            }
            Creation::BulkOperation(counted) => {
                bulk::insert(*counted).run(session).await.map(Created::BulkOperation)
            }
        }
    }

    async fn write(&self, session: &mut Session, response: String) -> StoreResult<()> {
        let IdempotencyKey { principal, key, request, body_hash, keep } = &self.once;
        let params = vec![
            text(principal),
            text(key),
            text(request),
            text(body_hash),
            Value::Text(Some(response)),
            Value::Int(Some(millis(*keep))),
        ];
        if session.rows(Statement::IdempotencyWrite, params).await?.is_empty() {
            return Err(StoreError::Contended { source: "the key was used at this moment".into() });
        }
        Ok(())
    }
}

impl Store {
    /// Creates something once per key: a repeated request gets what `record` returned for the first answer. A different
    /// request under the key is refused (`idempotency_key_reused`), and so is one while the first is under way
    /// (`idempotency_in_flight`). If `record` returns `None`, the key is free again.
    pub async fn create_idempotent(
        &self,
        once: IdempotencyKey,
        mut creation: Creation,
        record: impl Fn(&Created) -> Option<String> + Send + Sync + 'static,
    ) -> StoreResult<Idempotent> {
        validate::check_key(&once.key)?;
        [&once.principal, &once.request, &once.body_hash]
            .into_iter()
            .try_for_each(|text| validate::check_text(text))?;
        let mut group_ids = HashMap::new();
        match &mut creation {
            Creation::Jobs(jobs) => {
                validate::check_jobs(jobs)?;
                trace::carry(jobs);
                group_ids = self.group_ids(jobs).await?;
            }
            Creation::Run(_, options) | Creation::RunGroup(_, options) => {
                validate::check_due_at(options.due_at)?;
                validate::check_delay(options.delay)?;
                validate::check_input(options.input.as_ref())?;
                options.trace = trace::or_callers(options.trace.take());
            }
            Creation::Backfill { from, to, options, .. } => validate::check_backfill(*from, *to, options)?,
            Creation::Retry(_, options) => validate::check_retry(options)?,
            // It was checked when it was counted.
            Creation::BulkOperation(_) => {}
        }
        let advisory_key = self.options.advisory_key(&format!("once/{}/{}", once.principal, once.key));
        let record: Record = Arc::new(record);
        let verb = CreateOnce { once, advisory_key, creation, group_ids, record };
        let mut answer = self.run(verb.clone()).await?;
        crate::crash::point("once.after_commit");
        if let Idempotent::Created(Created::Retry(_, retried)) = &answer {
            if retried.may_be_moving() {
                answer = self.run(verb).await?;
            }
            self.notify_manifests_changed().await;
        }
        self.announce_work();
        Ok(answer)
    }
}
