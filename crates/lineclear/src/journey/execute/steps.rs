//! Recorded steps of a running job.

use std::time::Duration;

use lineclear_model::{Failure, Payload};

use crate::db::statements::Statement;
use crate::db::{Query, values};
use crate::store::{ClaimRef, FencedWrite, JobId, Store, StoreError, StoreResult};
use crate::validate;

/// The result of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRecord {
    /// Its name, the same in every attempt.
    pub name: String,
    /// Its position among the steps of this claim, from 1.
    pub position: u32,
    /// What it returned, or how it failed.
    pub result: Result<Payload, Failure>,
    /// How long it took.
    pub took: Duration,
}

impl Store {
    /// The result of a step that an earlier claim of the job has finished.
    pub async fn finished_step(&self, job: JobId, name: &str) -> StoreResult<Option<Payload>> {
        validate::check_key(name)?;
        let step = name.to_owned();
        let read = Query::first(Statement::StepRead, values![job.0, name], move |row| {
            let corrupt = |error| StoreError::Corrupt { what: format!("the result of step {step}: {error}") };
            Payload::parse(&row.get::<String>("output")?).map_err(corrupt)
        });
        self.db.read(read).await
    }

    /// Records the result of a step.
    pub async fn record_step(&self, claim: ClaimRef, step: StepRecord) -> StoreResult<FencedWrite> {
        validate::check_key(&step.name)?;
        let output = step.result.as_ref().ok().map(|output| output.as_str().to_owned());
        let error = step.result.err().map(|failure| failure.message);
        let took = i64::try_from(step.took.as_micros()).unwrap_or(i64::MAX);
        let params = values![claim.job.0, claim.no, step.name, step.position, output, error, took];
        let recorded = self.run(Query::exists(Statement::StepRecord, params)).await?;
        Ok(if recorded { FencedWrite::Recorded } else { FencedWrite::Stale })
    }
}
