//! What a row keeps of what was made: ids, never inputs.

use lineclear::store::{Created, Mode, Retried};
use serde_json::{Value, json};

use super::many;

/// The jobs that there are now.
pub(crate) fn made(created: &Created) -> Value {
    match created {
        Created::Jobs(jobs) => match jobs.as_slice() {
            [one] => json!({"job": one.id.to_string()}),
            all => json!({"jobs": many(all.iter().map(|job| job.id))}),
        },
        Created::Run(job) => json!({"job": job.map(|job| job.to_string())}),
        Created::RunGroup(jobs) => json!({"jobs": many(jobs.iter().flatten().map(|(_, job)| job))}),
        Created::Backfill(done) => {
            json!({"jobs": many(done.iter().flat_map(|done| &done.jobs)), "known": done.as_ref().map(|done| done.known)})
        }
        Created::Retry(job, became) => match became {
            Retried::Due => json!({"became": "due", "job": job.to_string()}),
            Retried::Revived(_) => json!({"became": "revived", "job": job.to_string()}),
            Retried::Again(new) => json!({"became": "again", "job": new.to_string()}),
            Retried::InputGone | Retried::NotOver(_) | Retried::Unknown => json!({"became": null}),
        },
        Created::Batch(batch) => {
            let (id, action) = (batch.id.to_string(), batch.action.as_str());
            let mut said = json!({"batch": id, "action": action, "q": batch.q, "total": batch.total});
            if batch.mode != Mode::All {
                said["mode"] = json!(batch.mode.as_str());
            }
            said
        }
    }
}
