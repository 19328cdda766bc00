//! What is refused at the door, with a reason, because it would otherwise fail inside, or only on one of the databases.

use std::time::Duration;

use lineclear_model::duration::DURATION_MAX;
use lineclear_model::manifest::PRIORITY_MAX;
use lineclear_model::retry::RETRIES_MAX;
use lineclear_model::{Micros, tag};

use crate::store::{BATCH_MAX, BackfillOptions, NewJob, RetryOptions, StoreError, StoreResult};

/// Longest note, name or list of tags, in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// Longest unique or limit key, in bytes. PostgreSQL cannot index much more than 2,700.
pub const KEY_BYTES_MAX: usize = 255;

pub(crate) fn check_priority(priority: u8) -> StoreResult<()> {
    if priority > PRIORITY_MAX {
        return Err(StoreError::refused(
            "priority",
            format!("{priority} is not between 0 and {PRIORITY_MAX}"),
        ));
    }
    Ok(())
}

/// A limit that both databases can hold.
pub(crate) fn check_limit(max: u32) -> StoreResult<()> {
    if i32::try_from(max).is_err() {
        let why = format!("{max} is more than the largest limit, {}; leave it out for no limit", i32::MAX);
        return Err(StoreError::refused("limit", why));
    }
    Ok(())
}

/// Text that a person wrote.
pub(crate) fn check_text(text: &str) -> StoreResult<()> {
    if text.len() > TEXT_BYTES_MAX || text.contains('\0') {
        return Err(StoreError::refused(
            "text",
            format!("text has at most {TEXT_BYTES_MAX} bytes and no NUL"),
        ));
    }
    Ok(())
}

/// How long something may live that ends by itself.
pub(crate) fn check_lives(lives: Option<Duration>) -> StoreResult<()> {
    if lives.is_some_and(|lives| lives < Duration::from_secs(1) || lives > DURATION_MAX) {
        return Err(StoreError::refused(
            "lives",
            "it lives for a second at least, and for 3650 days at most",
        ));
    }
    Ok(())
}

/// When a job may be due.
pub(crate) fn check_due_at(due_at: Option<Micros>) -> StoreResult<()> {
    if due_at.is_some_and(|due_at| due_at < Micros::EPOCH) {
        // PostgreSQL's calendar begins in 4713 BC, SQLite's numbers never; and rank 0 is for jobs of dead workers.
        return Err(StoreError::refused("due_at", "a job cannot be due before 1970"));
    }
    Ok(())
}

/// A range of ticks that can be.
pub(crate) fn check_backfill(from: Micros, to: Micros, options: &BackfillOptions) -> StoreResult<()> {
    check_due_at(options.due_at)?;
    if from < Micros::EPOCH || from > to {
        return Err(StoreError::refused("backfill", "the range begins before it ends, and not before 1970"));
    }
    Ok(())
}

/// What somebody says about trying again.
pub(crate) fn check_retry(options: &RetryOptions) -> StoreResult<()> {
    [Some(options.by.as_str()), options.note.as_deref()].into_iter().flatten().try_for_each(check_text)
}

/// Checks jobs to be.
pub(crate) fn check_jobs(jobs: &[NewJob]) -> StoreResult<()> {
    check_batch(jobs.len())?;
    let check = |(n, job): (usize, &NewJob)| job.check().map_err(|bad| bad.error.of_job(n, bad.field));
    jobs.iter().enumerate().try_for_each(check)
}

/// A job that cannot be, and which of its fields is the reason.
#[derive(Debug)]
pub struct BadJob {
    /// As [`NewJob`] spells it.
    pub field: &'static str,
    /// The refusal.
    pub error: StoreError,
}

impl NewJob {
    /// Checks what the types alone cannot say. Enqueueing does so, too, and its error has the job and the field.
    pub fn check(&self) -> Result<(), BadJob> {
        let in_field = |field| move |error| BadJob { field, error };
        check_priority(self.priority).map_err(in_field("priority"))?;
        if self.timeout.is_some_and(|timeout| timeout.is_zero() || timeout > DURATION_MAX) {
            let why = "a job needs some time to run, and at most 3650 days";
            return Err(in_field("timeout")(StoreError::refused("timeout", why)));
        }
        check_due_at(self.due_at).map_err(in_field("due_at"))?;
        let unique = self.unique_key.as_ref().map_or(Ok(()), |unique| check_key(&unique.key));
        unique.map_err(in_field("unique_key"))?;
        self.limit_key.as_deref().map_or(Ok(()), check_key).map_err(in_field("limit_key"))?;
        if self.retries.is_some_and(|retries| retries > RETRIES_MAX) {
            let error = StoreError::refused("retries", format!("at most {RETRIES_MAX} retries"));
            return Err(in_field("retries")(error));
        }
        self.trace.as_deref().map_or(Ok(()), check_text).map_err(in_field("trace"))?;
        self.tags.as_deref().map_or(Ok(()), check_text).map_err(in_field("tags"))?;
        let bad = |why| in_field("tags")(StoreError::refused("tags", why));
        self.tags.as_deref().map_or(Ok(()), tag::check).map_err(bad)
    }
}

pub(crate) fn check_batch(count: usize) -> StoreResult<()> {
    if count > BATCH_MAX {
        let why = format!("{count} in one call, and the most is {BATCH_MAX}; send them in parts");
        return Err(StoreError::refused("batch_max", why));
    }
    Ok(())
}

pub(crate) fn check_key(key: &str) -> StoreResult<()> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX || key.contains('\0') {
        return Err(StoreError::refused("key", format!("a key has 1 to {KEY_BYTES_MAX} bytes and no NUL")));
    }
    Ok(())
}
