//! trigger: a manifest runs now because somebody said so, whatever its schedule, overlap rule or hold.

use lineclear_model::job::Origin;
use lineclear_model::{Micros, Name, Payload};

use super::enqueue::queue;
use super::turn::Order;
use crate::store::db::{Session, Value, Verb};
use crate::store::sql::Statement;
use crate::store::{JobId, StoreResult};

/// How to run a manifest now.
#[derive(Clone, Debug, Default)]
pub struct TriggerOptions {
    /// Another input for this job; `None` is the manifest's.
    pub input: Option<Payload>,
    /// Not before; `None` is now.
    pub due_at: Option<Micros>,
}

/// Verb: one job of a manifest. `None`: there is no such manifest.
pub(crate) struct Trigger {
    pub(crate) key: Name,
    pub(crate) options: TriggerOptions,
}

impl Verb for Trigger {
    type Answer = Option<JobId>;

    async fn run(&self, session: &mut Session) -> StoreResult<Option<JobId>> {
        // Locked, so that the planner, which looks for live jobs under the same lock, cannot miss this one.
        let rows =
            session.rows(Statement::ManifestRead, vec![Value::Texts(vec![self.key.to_string()])]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut job = Order::of(row)?.job(Origin::Trigger);
        if let Some(input) = &self.options.input {
            job.input = input.as_str().to_owned();
        }
        job.due_at = self.options.due_at;
        Ok(queue(session, &[job]).await?.into_iter().next().flatten())
    }
}
