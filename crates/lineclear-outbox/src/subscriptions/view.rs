//! What people see of subscriptions.

use std::time::{Duration, SystemTime};

use super::lag::COUNT_MAX;
use crate::database::{Row, twin, values};
use crate::error::OutboxError;
use crate::events::{EventLog, Holder};

/// The state of a subscription. Which node runs it is in the lease registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionState {
    /// It handles events, wherever it was started.
    Running,
    /// An operator paused it.
    Paused,
    /// It stopped at an event that fails.
    Stopped,
    /// It handles events, and the next version reads the log from its start.
    Rebuilding,
}

impl SubscriptionState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            SubscriptionState::Running => "running",
            SubscriptionState::Paused => "paused",
            SubscriptionState::Stopped => "stopped",
            SubscriptionState::Rebuilding => "rebuilding",
        }
    }

    fn read(word: Option<&str>, rebuilds: bool) -> SubscriptionState {
        match word {
            Some("paused") => SubscriptionState::Paused,
            Some("stopped") => SubscriptionState::Stopped,
            _ if rebuilds => SubscriptionState::Rebuilding,
            _ => SubscriptionState::Running,
        }
    }
}

/// A subscription, for people.
#[derive(Clone, Debug)]
pub struct SubscriptionView {
    /// Its name, and that of its lock.
    pub name: String,
    /// Its active version.
    pub version: i32,
    /// Where its effects are: in a `transaction` of this database, or `external`.
    pub kind: String,
    /// Its state.
    pub state: SubscriptionState,
    /// Why it is paused or stopped.
    pub reason: Option<String>,
    /// All events up to here are handled, parked or filtered out.
    pub position: i64,
    /// The position of the last event of the log.
    pub head: i64,
    /// Events behind its position; at most 10,000 are counted.
    pub lag_events: u64,
    /// The age of the first of these.
    pub lag: Duration,
    /// Events that this version has handled.
    pub handled: u64,
    /// Events that are parked; at most 10,000 are counted.
    pub parked: u64,
    /// The event at which it fails.
    pub failed_position: Option<i64>,
    /// How often that one has failed.
    pub failures: u32,
    /// Its last error.
    pub last_error: Option<String>,
    /// When that was.
    pub failed_at: Option<SystemTime>,
    /// When it moved last.
    pub updated_at: SystemTime,
    /// The rebuild that goes on.
    pub rebuild: Option<RebuildView>,
    /// Open transactions that have appended events, the longest first: no subscription goes past what they have appended. Only
    /// [`EventLog::show`] asks for them, and only if the subscription is behind.
    pub waits_for: Vec<Holder>,
}

/// A rebuild, for people.
#[derive(Clone, Debug)]
pub struct RebuildView {
    /// Its version.
    pub version: i32,
    /// Its state.
    pub state: SubscriptionState,
    /// Whether it takes the place of the active version as soon as it has caught up.
    pub swaps: bool,
    /// All events up to here are handled.
    pub position: i64,
    /// Events behind its position; at most 10,000 are counted.
    pub lag_events: u64,
    /// Its last error.
    pub last_error: Option<String>,
}

fn version(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn read(mut row: Row) -> SubscriptionView {
    let rebuild = row.int("rebuild_version").map(|number| RebuildView {
        version: version(number),
        state: SubscriptionState::read(row.text("rebuild_state").as_deref(), false),
        swaps: row.flag("rebuild_swaps"),
        position: row.number("rebuild_position"),
        lag_events: row.count("rebuild_lag"),
        last_error: row.text("rebuild_error"),
    });
    SubscriptionView {
        name: row.text("name").unwrap_or_default(),
        version: version(row.number("version")),
        kind: row.text("kind").unwrap_or_default(),
        state: SubscriptionState::read(row.text("state").as_deref(), rebuild.is_some()),
        reason: row.text("reason"),
        position: row.number("position"),
        head: row.number("head"),
        lag_events: row.count("lag_events"),
        lag: row.duration("lag_us"),
        handled: row.count("handled"),
        parked: row.count("parked"),
        failed_position: row.int("failed_position"),
        failures: u32::try_from(row.number("failures")).unwrap_or(0),
        last_error: row.text("last_error"),
        failed_at: row.time("failed_us"),
        updated_at: row.time("updated_us").unwrap_or(SystemTime::UNIX_EPOCH),
        rebuild,
        waits_for: Vec::new(),
    }
}

impl EventLog {
    /// All subscriptions by name; at most 1,000.
    pub async fn subscriptions(&self) -> Result<Vec<SubscriptionView>, OutboxError> {
        let all: Option<&str> = None;
        let rows = self.database.query(twin!("subscription_list"), values![all, COUNT_MAX]).await?;
        Ok(rows.into_iter().map(read).collect())
    }

    /// One subscription.
    pub async fn show(&self, name: &str) -> Result<Option<SubscriptionView>, OutboxError> {
        let rows = self.database.query(twin!("subscription_list"), values![name, COUNT_MAX]).await?;
        let Some(mut view) = rows.into_iter().next().map(read) else { return Ok(None) };
        if view.lag_events > 0 {
            view.waits_for = self.holders().await?;
        }
        Ok(Some(view))
    }
}
