//! Recorded steps of a running job.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use lineclear_model::{Failure, Payload};

use crate::db::statements::Statement;
use crate::db::{Column, Query};
use crate::journey::claim::renew::claim_columns;
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
        let mut found = self.finished_steps(&[(job, name)]).await?;
        Ok(found.pop().flatten())
    }

    /// The results of steps that earlier claims of their jobs have finished, in this order.
    pub async fn finished_steps(&self, steps: &[(JobId, &str)]) -> StoreResult<Vec<Option<Payload>>> {
        validate::check_batch(steps.len())?;
        for (_, name) in steps {
            validate::check_key(name)?;
        }
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        let columns = vec![
            Column::Ints(steps.iter().map(|(job, _)| Some(job.0)).collect()),
            Column::Texts(steps.iter().map(|(_, name)| Some((*name).to_owned())).collect()),
        ];
        let read = Query::each(Statement::StepRead, columns, |row| {
            let name: String = row.get("name")?;
            let corrupt = |error| StoreError::Corrupt { what: format!("the result of step {name}: {error}") };
            let output = Payload::parse(&row.get::<String>("output")?).map_err(corrupt)?;
            Ok(((JobId(row.get("job_id")?), name), output))
        });
        let found: HashMap<(JobId, String), Payload> = self.db.read(read).await?.into_iter().collect();
        Ok(steps.iter().map(|(job, name)| found.get(&(*job, (*name).to_owned())).cloned()).collect())
    }

    /// Records the result of a step.
    pub async fn record_step(&self, claim: ClaimRef, step: StepRecord) -> StoreResult<FencedWrite> {
        let mut written = self.record_steps(vec![(claim, step)]).await?;
        Ok(written.pop().unwrap_or(FencedWrite::Stale))
    }

    /// Records the results of steps, all in one statement. The answers are in the order of the steps; of two results of one step, the
    /// last counts.
    pub async fn record_steps(&self, steps: Vec<(ClaimRef, StepRecord)>) -> StoreResult<Vec<FencedWrite>> {
        validate::check_batch(steps.len())?;
        for (_, step) in &steps {
            validate::check_key(&step.name)?;
        }
        if steps.is_empty() {
            return Ok(Vec::new());
        }
        // No statement can write a row twice.
        let last: HashMap<(JobId, &str), usize> =
            steps.iter().enumerate().map(|(n, (claim, step))| ((claim.job, step.name.as_str()), n)).collect();
        let written: Vec<&(ClaimRef, StepRecord)> = (0..)
            .zip(&steps)
            .filter(|(n, (claim, step))| last[&(claim.job, step.name.as_str())] == *n)
            .map(|(_, step)| step)
            .collect();
        let claims: Vec<ClaimRef> = written.iter().map(|(claim, _)| *claim).collect();
        let texts = |text: &dyn Fn(&StepRecord) -> Option<String>| {
            Column::Texts(written.iter().map(|(_, step)| text(step)).collect())
        };
        let ints = |int: &dyn Fn(&StepRecord) -> i64| {
            Column::Ints(written.iter().map(|(_, step)| Some(int(step))).collect())
        };
        let mut columns = claim_columns(&claims);
        columns.extend([
            texts(&|step| Some(step.name.clone())),
            ints(&|step| i64::from(step.position)),
            texts(&|step| step.result.as_ref().ok().map(|output| output.as_str().to_owned())),
            texts(&|step| step.result.as_ref().err().map(|failure| failure.message.clone())),
            ints(&|step| i64::try_from(step.took.as_micros()).unwrap_or(i64::MAX)),
        ]);
        let record = Query::each(Statement::StepRecord, columns, |row| {
            Ok((JobId(row.get("job_id")?), row.get::<String>("name")?))
        });
        let recorded: HashSet<(JobId, String)> = self.run(record).await?.into_iter().collect();
        let answer = |(claim, step): (ClaimRef, StepRecord)| match recorded.contains(&(claim.job, step.name))
        {
            true => FencedWrite::Recorded,
            false => FencedWrite::Stale,
        };
        Ok(steps.into_iter().map(answer).collect())
    }
}
