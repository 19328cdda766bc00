//! A job that cannot be dispatched is set aside for an hour, so that it holds up no other.

use crate::db::statements::Statement;
use crate::db::{Query, Session, Verb, values};
use crate::journey::isolate::{Attempt, isolate};
use crate::store::{JobId, Store, StoreError, StoreResult};
use lineclear_model::Name;

/// The refusal that rolls back a trial that passed.
const PASSED: &str = "trial_passed";

impl Store {
    /// After a rule refused a dispatch: finds the jobs of a route that it refuses, among the next `most` of each lane, and
    /// sets them aside. Returns how many.
    pub(crate) async fn set_aside_undispatchable(&self, route: &Name, most: u32) -> StoreResult<u32> {
        let next =
            Query::each(Statement::DispatchCandidates, values![route, most], |row| row.get("id").map(JobId));
        let jobs = self.db.read(next).await?;
        let results = isolate(&Trial { store: self }, &jobs).await;
        let mut count = 0;
        for (job, result) in jobs.into_iter().zip(results) {
            match result {
                Ok(()) => {}
                Err(error) if error.may_be_one_rows_fault() => {
                    tracing::error!(%error, job.id = %job, "a job cannot be dispatched; it is tried again in an hour");
                    let why = error.to_string();
                    self.run(Query::execute(Statement::SetAside, values![job.0, why])).await?;
                    count += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }
}

/// Moves jobs as a dispatch does, and rolls it back.
struct Trial<'a> {
    store: &'a Store,
}

impl Attempt for Trial<'_> {
    type Item = JobId;
    type Answer = ();

    async fn attempt(&self, jobs: &[JobId]) -> StoreResult<Vec<()>> {
        match self.store.run(MoveAndRollBack(jobs.iter().map(|job| job.0).collect())).await {
            Err(StoreError::Refused { rule, .. }) if rule == PASSED => Ok(vec![(); jobs.len()]),
            Err(error) => Err(error),
            Ok(()) => Ok(vec![(); jobs.len()]),
        }
    }
}

struct MoveAndRollBack(Vec<i64>);

impl Verb for MoveAndRollBack {
    type Answer = ();

    async fn run(&self, session: &mut Session) -> StoreResult<()> {
        session.rows(Statement::DispatchTrial, values![self.0.clone()]).await?;
        Err(StoreError::refused(PASSED, "only a trial"))
    }
}
