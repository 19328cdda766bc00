//! From rows to what the registry shows.

use std::time::{Duration, SystemTime};

use super::super::record::{LeaseRecord, LeaseState, LockEvent, LockEventKind};
use super::super::runners::RunnerRecord;
use super::value::Row;
use crate::error::LockError;
use crate::name::Epoch;
use crate::singleton::RunnerState;

/// A row of `lease_list`.
pub(super) fn lease(row: &Row) -> Result<LeaseRecord, LockError> {
    let time = |column| Ok::<_, LockError>(time(row.int(column)?));
    let maybe_time = |column| Ok::<_, LockError>(row.maybe_int(column)?.map(self::time));
    let positive = |column| Ok::<_, LockError>(u64::try_from(row.int(column)?).unwrap_or(0));
    let renewed_ago = row.int("now_us")?.saturating_sub(row.int("renewed_us")?);
    Ok(LeaseRecord {
        name: row.text("lock_name")?,
        store: row.text("store")?,
        state: LeaseState::Held,
        node: row.text("node")?,
        machine: row.text("machine")?,
        pid: u32::try_from(row.int("pid")?).unwrap_or(0),
        incarnation: row.text("incarnation")?,
        kind: row.maybe_text("kind")?,
        epoch: Epoch::new(row.int("epoch")?),
        since: time("since_us")?,
        acquired_at: time("acquired_us")?,
        renewed_at: time("renewed_us")?,
        released_at: maybe_time("released_us")?,
        renewed_ago: Duration::from_micros(u64::try_from(renewed_ago).unwrap_or(0)),
        renew_every: Duration::from_millis(positive("renew_ms")?),
        holds: positive("holds")?,
        contended: positive("contended")?,
        contended_at: maybe_time("contended_us")?,
        inspection: None,
    })
}

/// A row of `runner_list`.
pub(super) fn runner(row: &Row) -> Result<RunnerRecord, LockError> {
    let word = row.text("state")?;
    let state = RunnerState::from_word(&word)
        .ok_or_else(|| LockError::failed(format!("lock_runner.state has the unknown value {word:?}")))?;
    let renewed_ago = row.int("now_us")?.saturating_sub(row.int("renewed_us")?);
    let positive = |number: i64| u64::try_from(number).unwrap_or(0);
    Ok(RunnerRecord {
        id: row.text("id")?,
        name: row.text("lock_name")?,
        store: row.text("store")?,
        node: row.text("node")?,
        machine: row.text("machine")?,
        pid: u32::try_from(row.int("pid")?).unwrap_or(0),
        incarnation: row.text("incarnation")?,
        kind: row.maybe_text("kind")?,
        state,
        since: time(row.int("since_us")?),
        epoch: row.maybe_int("epoch")?.map(Epoch::new),
        failures: u32::try_from(row.int("failures")?).unwrap_or(u32::MAX),
        last_error: row.maybe_text("last_error")?,
        failed_at: row.maybe_int("failed_us")?.map(time),
        renewed_at: time(row.int("renewed_us")?),
        renewed_ago: Duration::from_micros(positive(renewed_ago)),
        renew_every: Duration::from_millis(positive(row.int("renew_ms")?)),
    })
}

/// A row of `event_list`.
pub(super) fn event(row: &Row) -> Result<LockEvent, LockError> {
    let word = row.text("what")?;
    let what = LockEventKind::from_word(&word)
        .ok_or_else(|| LockError::failed(format!("lock_event.what has the unknown value {word:?}")))?;
    Ok(LockEvent {
        id: row.int("id")?,
        name: row.text("lock_name")?,
        store: row.text("store")?,
        what,
        at: time(row.int("at_us")?),
        holder: row.text("holder")?,
        epoch: Epoch::new(row.int("epoch")?),
        before: row.maybe_text("before")?,
        by_whom: row.maybe_text("by_whom")?,
        why: row.maybe_text("why")?,
    })
}

/// From microseconds since 1970.
fn time(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}
