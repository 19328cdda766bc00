//! Steps of a running job: read what is done, record what was done now.

use std::time::Duration;

use lineclear_model::{Failure, Payload};

use crate::db::statements::Statement;
use crate::db::{Session, Value, Verb};
use crate::store::{ClaimRef, FencedWrite, JobId, Store, StoreError, StoreResult};
use crate::validate;

/// What a step of a handler came to.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRecord {
    /// Its name, the same in every try.
    pub name: String,
    /// Its place among the steps of this claim.
    pub turn: u32,
    /// What it returned, or how it failed.
    pub result: Result<Payload, Failure>,
    /// How long it took.
    pub took: Duration,
}

/// Verb: the result of a step that an earlier claim has finished.
pub(crate) struct ReadStep {
    pub(crate) job: JobId,
    pub(crate) name: String,
}

impl Verb for ReadStep {
    type Answer = Option<Payload>;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<Option<Payload>> {
        let params = vec![Value::Int(Some(self.job.0)), Value::Text(Some(self.name.clone()))];
        let rows = session.rows(Statement::StepRead, params).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let corrupt =
            |error| StoreError::Corrupt { what: format!("the result of step {}: {error}", self.name) };
        Payload::parse(&row.get::<String>("output")?).map(Some).map_err(corrupt)
    }
}

/// Verb: what a step came to.
pub(crate) struct RecordStep {
    pub(crate) claim: ClaimRef,
    pub(crate) step: StepRecord,
}

impl Verb for RecordStep {
    type Answer = FencedWrite;

    fn is_transaction(&self) -> bool {
        false
    }

    async fn run(&self, session: &mut Session) -> StoreResult<FencedWrite> {
        let step = &self.step;
        let output = step.result.as_ref().ok().map(|output| output.as_str().to_owned());
        let error = step.result.as_ref().err().map(|failure| failure.message.clone());
        let params = vec![
            Value::Int(Some(self.claim.job.0)),
            Value::Int(Some(i64::from(self.claim.no))),
            Value::Text(Some(step.name.clone())),
            Value::Int(Some(i64::from(step.turn))),
            Value::Text(output),
            Value::Text(error),
            Value::Int(Some(i64::try_from(step.took.as_micros()).unwrap_or(i64::MAX))),
        ];
        let rows = session.rows(Statement::StepRecord, params).await?;
        Ok(if rows.is_empty() { FencedWrite::Stale } else { FencedWrite::Recorded })
    }
}

impl Store {
    /// The result of a step that an earlier claim of the job has finished.
    pub async fn finished_step(&self, job: JobId, name: &str) -> StoreResult<Option<Payload>> {
        validate::check_key(name)?;
        self.db.read(ReadStep { job, name: name.to_owned() }).await
    }

    /// Records what a step came to.
    pub async fn record_step(&self, claim: ClaimRef, step: StepRecord) -> StoreResult<FencedWrite> {
        validate::check_key(&step.name)?;
        self.run(RecordStep { claim, step }).await
    }
}
