//! retry: a job that ended badly, or ended at all, runs again because somebody said so.

use std::collections::{BTreeSet, HashMap};

use lineclear_model::job::Origin;
use lineclear_model::{JobState, Name, Payload};

use crate::db::statements::Statement;
use crate::db::{Row, Session, Value, Verb};
use crate::error::no_answer;
use crate::journey::enqueue::insert::{QueueRow, main_route, queue};
use crate::journey::plan::firing::JobTemplate;
use crate::operate::dead_letters::{Revival, Revive};
use crate::store::{DeadLetterId, JobId, Store, StoreResult};
use crate::validate;

/// How to try a job again.
#[derive(Clone, Debug, Default)]
pub struct RetryOptions {
    /// Who does it.
    pub by: String,
    /// What they want to say about it; kept with the dead letter, if it was one.
    pub note: Option<String>,
    /// The lane of a new job without a manifest, because history does not keep it; `None` is `main`.
    pub route: Option<Name>,
    /// What its handler gets this time, instead of what it got. Only for dead letters and for what is over: a job that waits for its next try keeps its input.
    pub input: Option<Payload>,
}

/// What became of a request to try a job again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// It waited for its next try, which is now.
    Due,
    /// It was a dead letter, and waits again, with no failures counted.
    Revived(DeadLetterId),
    /// It was over: this new job has the same kind and input.
    Again(JobId),
    /// It is over, and its input is not kept any more.
    InputGone,
    /// It is in this state, in which there is nothing to try again.
    NotOver(JobState),
    /// There is no such job (any more).
    Unknown,
}

impl Retried {
    /// Whether the job may have been on its way from one table to the other, so that it is worth another look.
    pub(crate) fn may_be_moving(&self) -> bool {
        use JobState::{Cancelled, Completed, Dead};
        matches!(self, Retried::NotOver(Completed | Cancelled | Dead) | Retried::Unknown)
    }
}

/// Verb: jobs are tried again, each in the way that its state allows.
pub(crate) struct Retry {
    pub(crate) jobs: Vec<JobId>,
    pub(crate) options: RetryOptions,
}

impl Verb for Retry {
    type Answer = Vec<(JobId, Retried)>;

    async fn run(&self, session: &mut Session) -> StoreResult<Self::Answer> {
        let mut answers: HashMap<JobId, Retried> = HashMap::new();
        let left = |answers: &HashMap<JobId, Retried>| {
            let left = self.jobs.iter().filter(|job| !answers.contains_key(job));
            vec![Value::Ints(left.map(|job| job.0).collect())]
        };
        if self.options.input.is_none() {
            for row in session.rows(Statement::RetryNow, left(&answers)).await? {
                answers.insert(JobId(row.get("id")?), Retried::Due);
            }
        }
        let dead = session.rows(Statement::RetryDead, left(&answers)).await?;
        let over = session.rows(Statement::RetryFinished, left(&answers)).await?;
        lock_manifests(session, dead.iter().chain(&over)).await?;
        let mut letters = Vec::new();
        for row in &dead {
            let letter = DeadLetterId(row.get("id")?);
            letters.push(letter);
            answers.insert(JobId(row.get("job_id")?), Retried::Revived(letter));
        }
        if !letters.is_empty() {
            let RetryOptions { by, note, input, .. } = self.options.clone();
            Revive { ids: letters, revival: Revival { by, note, input, ..Revival::default() } }
                .run(session)
                .await?;
        }
        self.again(session, &over, &mut answers).await?;
        let mut all = Vec::with_capacity(self.jobs.len());
        for job in &self.jobs {
            let answer = match answers.get(job) {
                Some(answer) => *answer,
                None => not_over(session, *job).await?,
            };
            all.push((*job, answer));
        }
        Ok(all)
    }
}

impl Retry {
    /// New jobs like those that are over.
    async fn again(
        &self,
        session: &mut Session,
        over: &[Row],
        answers: &mut HashMap<JobId, Retried>,
    ) -> StoreResult<()> {
        let mut keys = BTreeSet::new();
        for row in over {
            keys.extend(row.get::<Option<String>>("manifest_key")?);
        }
        let mut orders: HashMap<String, JobTemplate> = HashMap::new();
        if !keys.is_empty() {
            let keys = vec![Value::Texts(keys.into_iter().collect())];
            for row in session.rows(Statement::ManifestRead, keys).await? {
                orders.insert(row.get("key")?, JobTemplate::of(&row)?);
            }
        }
        let (mut rows, mut jobs) = (Vec::new(), Vec::new());
        for row in over {
            let job = JobId(row.get("job_id")?);
            let edited = self.options.input.as_ref().map(|input| input.as_str().to_owned());
            let Some(input) = edited.or(row.get("input")?) else {
                answers.insert(job, Retried::InputGone);
                continue;
            };
            let order = row.get::<Option<String>>("manifest_key")?.and_then(|key| orders.get(&key));
            let new = match order {
                Some(order) => order.job(Origin::Trigger),
                None => self.alone(row)?,
            };
            rows.push(QueueRow { input, ..new });
            jobs.push(job);
        }
        for (job, id) in jobs.into_iter().zip(queue(session, &rows).await?) {
            if let Some(id) = id {
                answers.insert(job, Retried::Again(id));
            }
        }
        Ok(())
    }

    /// A job that no manifest orders any more. It still names the one that did: that says which of its input is secret.
    fn alone(&self, row: &Row) -> StoreResult<QueueRow> {
        let manifest_id: Option<i64> = row.get("manifest_id")?;
        let route: Option<String> = row.get("route")?;
        let said = self.options.route.as_ref().map(ToString::to_string);
        Ok(QueueRow {
            id: None,
            manifest_id,
            tick_at: None,
            origin: if manifest_id.is_some() { Origin::Trigger } else { Origin::Adhoc },
            fresh: false,
            kind: row.get("kind")?,
            route: said.or(route).unwrap_or_else(|| main_route().to_string()),
            input: String::new(),
            group_id: row.get("group_id")?,
            priority: row.get("priority")?,
            due_at: None,
            limit_key: None,
            unique_key: None,
            retries: None,
            timeout_ms: None,
            trace: None,
            tags: row.get("tags")?,
        })
    }
}

/// All of them, in one order: some are let go by a revival, others are run.
async fn lock_manifests<'a>(session: &mut Session, rows: impl Iterator<Item = &'a Row>) -> StoreResult<()> {
    let mut ids = BTreeSet::new();
    for row in rows {
        ids.extend(row.get::<Option<i64>>("manifest_id")?);
    }
    if !ids.is_empty() {
        let ids = vec![Value::Ints(ids.into_iter().collect())];
        session.rows(Statement::ManifestLock, ids).await?;
    }
    Ok(())
}

async fn not_over(session: &mut Session, job: JobId) -> StoreResult<Retried> {
    let rows = session.rows(Statement::JobState, vec![Value::Int(Some(job.0))]).await?;
    let state = rows.first().map(|row| row.word("state", JobState::from_word)).transpose()?;
    Ok(state.map_or(Retried::Unknown, Retried::NotOver))
}

impl Store {
    /// Tries a job again: one that waits for its next try is due now, a dead letter is revived, and one that is over is run again as
    /// a new job with the same input, or with the one that the options have.
    pub async fn retry(&self, job: JobId, options: RetryOptions) -> StoreResult<Retried> {
        validate::check_retry(&options)?;
        let mut answer = self.retry_now(job, &options).await?;
        if answer.may_be_moving() {
            answer = self.retry_now(job, &options).await?;
        }
        self.orders_changed().await;
        Ok(answer)
    }

    async fn retry_now(&self, job: JobId, options: &RetryOptions) -> StoreResult<Retried> {
        let answers = self.run(Retry { jobs: vec![job], options: options.clone() }).await?;
        answers.first().map(|(_, answer)| *answer).ok_or_else(|| no_answer("retry"))
    }
}
