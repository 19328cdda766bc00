//! Retries jobs on request, each in the way that its state allows.

use std::collections::{BTreeSet, HashMap};

use lineclear_model::job::Origin;
use lineclear_model::{JobState, Name, Payload};

use crate::db::statements::Statement;
use crate::db::{Row, Session, Verb, values};
use crate::error::no_answer;
use crate::journey::enqueue::insert::{QueueRow, main_route, queue};
use crate::journey::plan::firing::JobTemplate;
use crate::operate::dead_letters::{Revival, Revive};
use crate::store::{DeadLetterId, JobId, Store, StoreResult};
use crate::validate;

/// How a job is retried.
#[derive(Clone, Debug, Default)]
pub struct RetryOptions {
    /// Who retries it.
    pub by: String,
    /// A note; stored with the dead letter, if it was one.
    pub note: Option<String>,
    /// The route of a new job without a manifest, because history does not store it; `None` is `main`.
    pub route: Option<Name>,
    /// A new input. Only for dead letters and jobs that have ended: a job that waits for its next attempt keeps its input.
    pub input: Option<Payload>,
}

/// The result of a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// It waited for its next attempt, and is due now.
    Due,
    /// It was a dead letter, and is queued again with its failures reset.
    Revived(DeadLetterId),
    /// It had ended: this new job has the same kind and input.
    Again(JobId),
    /// It has ended, and its input was cleaned.
    InputGone,
    /// It is in this state, in which it cannot be retried.
    NotOver(JobState),
    /// There is no such job, or its history was cleaned.
    Unknown,
}

impl Retried {
    /// Whether the job may have been moving between tables, so that another attempt is worthwhile.
    pub(crate) fn may_be_moving(&self) -> bool {
        use JobState::{Cancelled, Completed, Dead};
        matches!(self, Retried::NotOver(Completed | Cancelled | Dead) | Retried::Unknown)
    }
}

/// Retries jobs.
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
            values![left.map(|job| job.0).collect::<Vec<i64>>()]
        };
        let dead = session.rows(Statement::RetryDead, left(&answers)).await?;
        let ended = session.rows(Statement::RetryFinished, left(&answers)).await?;
        // Manifests before the rows of waiting jobs, as a pause locks them.
        lock_manifests(session, dead.iter().chain(&ended)).await?;
        if self.options.input.is_none() {
            for row in session.rows(Statement::RetryNow, left(&answers)).await? {
                answers.insert(JobId(row.get("id")?), Retried::Due);
            }
        }
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
        self.run_again(session, &ended, &mut answers).await?;
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
    /// Queues new jobs like those that have ended.
    async fn run_again(
        &self,
        session: &mut Session,
        ended: &[Row],
        answers: &mut HashMap<JobId, Retried>,
    ) -> StoreResult<()> {
        let mut keys = BTreeSet::new();
        for row in ended {
            keys.extend(row.get::<Option<String>>("manifest_key")?);
        }
        let mut templates: HashMap<String, JobTemplate> = HashMap::new();
        if !keys.is_empty() {
            let keys: Vec<String> = keys.into_iter().collect();
            for row in session.rows(Statement::ManifestRead, values![keys]).await? {
                templates.insert(row.get("key")?, JobTemplate::of(&row)?);
            }
        }
        let (mut rows, mut jobs) = (Vec::new(), Vec::new());
        for row in ended {
            let job = JobId(row.get("job_id")?);
            let edited = self.options.input.as_ref().map(|input| input.as_str().to_owned());
            let Some(input) = edited.or(row.get("input")?) else {
                answers.insert(job, Retried::InputGone);
                continue;
            };
            let template = row.get::<Option<String>>("manifest_key")?.and_then(|key| templates.get(&key));
            let new = match template {
                Some(template) => template.job(Origin::Trigger),
                None => self.without_manifest(row)?,
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

    /// A job whose manifest was removed, or that never had one. It keeps the manifest's id, which decides what of its input is
    /// secret.
    fn without_manifest(&self, row: &Row) -> StoreResult<QueueRow> {
        let manifest_id: Option<i64> = row.get("manifest_id")?;
        let route: Option<String> = row.get("route")?;
        let requested = self.options.route.as_ref().map(ToString::to_string);
        Ok(QueueRow {
            id: None,
            manifest_id,
            tick_at: None,
            origin: if manifest_id.is_some() { Origin::Trigger } else { Origin::Adhoc },
            fresh: false,
            kind: row.get("kind")?,
            route: requested.or(route).unwrap_or_else(|| main_route().to_string()),
            input: String::new(),
            group_id: row.get("group_id")?,
            priority: row.get("priority")?,
            due_at: None,
            delay: None,
            limit_key: None,
            unique_key: None,
            retries: None,
            timeout_ms: None,
            trace: None,
            tags: row.get("tags")?,
        })
    }
}

/// Locks all manifests at once, in one order: a revival releases some of them, others are run.
async fn lock_manifests<'a>(session: &mut Session, rows: impl Iterator<Item = &'a Row>) -> StoreResult<()> {
    let mut ids = BTreeSet::new();
    for row in rows {
        ids.extend(row.get::<Option<i64>>("manifest_id")?);
    }
    if !ids.is_empty() {
        let ids: Vec<i64> = ids.into_iter().collect();
        session.rows(Statement::ManifestLock, values![ids]).await?;
    }
    Ok(())
}

async fn not_over(session: &mut Session, job: JobId) -> StoreResult<Retried> {
    let rows = session.rows(Statement::JobState, values![job.0]).await?;
    let state = rows.first().map(|row| row.word("state", JobState::from_word)).transpose()?;
    Ok(state.map_or(Retried::Unknown, Retried::NotOver))
}

impl Store {
    /// Retries a job: one that waits for its next attempt is due now, a dead letter is revived, and one that has ended runs again
    /// as a new job with the same input, or with that of the options.
    pub async fn retry(&self, job: JobId, options: RetryOptions) -> StoreResult<Retried> {
        validate::check_retry(&options)?;
        let mut answer = self.retry_now(job, &options).await?;
        if answer.may_be_moving() {
            answer = self.retry_now(job, &options).await?;
        }
        self.notify_manifests_changed().await;
        Ok(answer)
    }

    async fn retry_now(&self, job: JobId, options: &RetryOptions) -> StoreResult<Retried> {
        let answers = self.run(Retry { jobs: vec![job], options: options.clone() }).await?;
        answers.first().map(|(_, answer)| *answer).ok_or_else(|| no_answer("retry"))
    }
}
