//! What the registry writes, and which rows it reads.

use std::sync::Arc;

use super::record::LockEventKind;
use crate::holder::Holder;
use crate::name::{Epoch, LockName};

/// What a process reports of a lock that it holds or has held.
#[derive(Clone, Debug)]
pub(crate) struct LeaseUpdate {
    /// The lock.
    pub(crate) name: LockName,
    /// Where the lock itself is.
    pub(crate) store: Arc<str>,
    /// The process.
    pub(crate) holder: Arc<Holder>,
    /// What kind of work the lock guards.
    pub(crate) kind: Option<Arc<str>>,
    /// The holder's number.
    pub(crate) epoch: Epoch,
    /// How long ago the first of the unwritten acquisitions was, in microseconds, as all these.
    pub(crate) since_ago: i64,
    /// How long ago the last acquisition was.
    pub(crate) acquired_ago: i64,
    /// How long ago the lock was released; none: it is held.
    pub(crate) ended_ago: Option<i64>,
    /// How often the process renews the row, in milliseconds.
    pub(crate) renew_ms: i64,
    /// How often the lock was acquired since the last update; zero: this update only renews.
    pub(crate) acquisitions: i64,
}

/// How often a process found a lock busy.
#[derive(Clone, Debug)]
pub(crate) struct Contention {
    /// The lock.
    pub(crate) name: LockName,
    /// Where the lock itself is.
    pub(crate) store: Arc<str>,
    /// How often.
    pub(crate) busy: i64,
}

/// A hold that ended without a release.
#[derive(Clone, Debug)]
pub(crate) struct HoldEnd {
    /// The lock.
    pub(crate) name: LockName,
    /// Where the lock itself is.
    pub(crate) store: Arc<str>,
    /// Who held it: `machine/pid/incarnation`.
    pub(crate) holder: String,
    /// The holder's incarnation; none: any holder of this epoch.
    pub(crate) incarnation: Option<String>,
    /// The holder's number.
    pub(crate) epoch: Epoch,
    /// What happened.
    pub(crate) what: LockEventKind,
    /// Who did it.
    pub(crate) by_whom: Option<String>,
    /// Why, for people.
    pub(crate) why: Option<String>,
}

/// A row whose holder vanished.
#[derive(Clone, Debug)]
pub(crate) struct VanishedHold {
    /// The lock.
    pub(crate) name: String,
    /// Where the lock itself is.
    pub(crate) store: String,
    /// The holder's incarnation.
    pub(crate) incarnation: String,
    /// Who held it: `machine/pid/incarnation`.
    pub(crate) holder: String,
    /// The holder's number.
    pub(crate) epoch: Epoch,
    /// Only if the row was not renewed for this many microseconds.
    pub(crate) quiet: i64,
}

/// Which leases to read.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseFilter {
    /// Of this lock.
    pub(crate) name: Option<String>,
    /// After this name and store.
    pub(crate) after: Option<(String, String)>,
    /// Held, and not renewed for this many microseconds.
    pub(crate) quiet: Option<i64>,
    /// At most this many.
    pub(crate) limit: u32,
}
