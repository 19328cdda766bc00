//! Checks of arguments, before they fail in the database, or in only one of the databases.

use std::time::Duration;

use lineclear_model::duration::DURATION_MAX;
use lineclear_model::manifest::PRIORITY_MAX;
use lineclear_model::retry::RETRIES_MAX;
use lineclear_model::{Micros, Payload, secret, tag};

use crate::store::{BATCH_MAX, BackfillOptions, NewJob, RetryOptions, StoreError, StoreResult};

/// Longest note, name or list of tags, in bytes.
const TEXT_BYTES_MAX: usize = 1024;

/// Longest unique or limit key, in bytes. PostgreSQL cannot index much more than 2,700.
pub const KEY_BYTES_MAX: usize = 255;

pub(crate) fn check_priority(priority: u8) -> StoreResult<()> {
    if priority > PRIORITY_MAX {
        return Err(StoreError::refused(
            "priority",
            format!("`priority` must be between 0 and {PRIORITY_MAX}, not {priority}"),
        ));
    }
    Ok(())
}

/// Checks a limit: both databases must be able to store it.
pub(crate) fn check_limit(max: u32) -> StoreResult<()> {
    if i32::try_from(max).is_err() {
        let why = format!("`limit` must be at most {}, not {max}; leave it out for no limit", i32::MAX);
        return Err(StoreError::refused("limit", why));
    }
    Ok(())
}

/// Checks a text that a person wrote.
pub(crate) fn check_text(text: &str) -> StoreResult<()> {
    if text.len() > TEXT_BYTES_MAX || text.contains('\0') {
        return Err(StoreError::refused(
            "text",
            format!("text must have at most {TEXT_BYTES_MAX} bytes and no NUL"),
        ));
    }
    Ok(())
}

/// Checks the lifetime of a token.
pub(crate) fn check_lives(lives: Option<Duration>) -> StoreResult<()> {
    if lives.is_some_and(|lives| lives < Duration::from_secs(1) || lives > DURATION_MAX) {
        return Err(StoreError::refused("lives", "`lives` must be between a second and 3650 days"));
    }
    Ok(())
}

/// Checks a due time.
pub(crate) fn check_due_at(due_at: Option<Micros>) -> StoreResult<()> {
    if due_at.is_some_and(|due_at| due_at < Micros::EPOCH) {
        // PostgreSQL's calendar begins in 4713 BC, SQLite has none; and rank 0 is reserved for jobs of vanished workers.
        return Err(StoreError::refused("due_at", "`due_at` must not be before 1970-01-01"));
    }
    Ok(())
}

/// Checks a delay.
pub(crate) fn check_delay(delay: Option<Duration>) -> StoreResult<()> {
    if delay.is_some_and(|delay| delay > DURATION_MAX) {
        return Err(StoreError::refused("delay", "`delay` must be at most 3650 days; use `due_at`"));
    }
    Ok(())
}

/// Checks the range of a backfill.
pub(crate) fn check_backfill(from: Micros, to: Micros, options: &BackfillOptions) -> StoreResult<()> {
    check_due_at(options.due_at)?;
    check_input(options.input.as_ref())?;
    if from < Micros::EPOCH || from > to {
        return Err(StoreError::refused("backfill", "`from` must not be after `to`, nor before 1970-01-01"));
    }
    Ok(())
}

/// Checks the options of a retry.
pub(crate) fn check_retry(options: &RetryOptions) -> StoreResult<()> {
    [Some(options.by.as_str()), options.note.as_deref()].into_iter().flatten().try_for_each(check_text)?;
    check_input(options.input.as_ref())
}

/// Checks the secrets that an input names.
pub(crate) fn check_input(input: Option<&Payload>) -> StoreResult<()> {
    let Some(input) = input else { return Ok(()) };
    secret::places(input.as_str())
        .map(drop)
        .map_err(|bad| StoreError::refused("input", format!("`input`: {bad}")))
}

/// Checks jobs before they are enqueued.
pub(crate) fn check_jobs(jobs: &[NewJob]) -> StoreResult<()> {
    check_batch(jobs.len())?;
    let check = |(n, job): (usize, &NewJob)| job.check().map_err(|bad| bad.error.of_job(n, bad.field));
    jobs.iter().enumerate().try_for_each(check)
}

/// An invalid job, and which of its fields is the reason.
#[derive(Debug)]
pub struct BadJob {
    /// The name of the field of [`NewJob`].
    pub field: &'static str,
    /// The refusal.
    pub error: StoreError,
}

impl NewJob {
    /// Checks what the types cannot express. Enqueueing checks, too, and its error has the job and the field.
    pub fn check(&self) -> Result<(), BadJob> {
        let in_field = |field| move |error| BadJob { field, error };
        check_priority(self.priority).map_err(in_field("priority"))?;
        if self.timeout.is_some_and(|timeout| timeout.is_zero() || timeout > DURATION_MAX) {
            let why = "`timeout` must be more than zero, and at most 3650 days";
            return Err(in_field("timeout")(StoreError::refused("timeout", why)));
        }
        check_input(Some(&self.input)).map_err(in_field("input"))?;
        check_due_at(self.due_at).map_err(in_field("due_at"))?;
        check_delay(self.delay).map_err(in_field("delay"))?;
        let unique = self.unique_key.as_ref().map_or(Ok(()), |unique| check_key(&unique.key));
        unique.map_err(in_field("unique_key"))?;
        self.limit_key.as_deref().map_or(Ok(()), check_key).map_err(in_field("limit_key"))?;
        if self.retries.is_some_and(|retries| retries > RETRIES_MAX) {
            let error = StoreError::refused("retries", format!("`retries` must be at most {RETRIES_MAX}"));
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
        let why = format!("{count} items in one call; the maximum is {BATCH_MAX}, so split them");
        return Err(StoreError::refused("batch_max", why));
    }
    Ok(())
}

pub(crate) fn check_key(key: &str) -> StoreResult<()> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX || key.contains('\0') {
        return Err(StoreError::refused(
            "key",
            format!("a key must have 1 to {KEY_BYTES_MAX} bytes and no NUL"),
        ));
    }
    Ok(())
}
