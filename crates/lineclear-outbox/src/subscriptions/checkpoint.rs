//! The checkpoints of a subscription, as its runner sees them.

use std::time::Duration;

use crate::database::{Database, Row, twin, values};
use crate::error::OutboxError;

/// One version of a subscription.
#[derive(Clone, Debug)]
pub(super) struct Checkpoint {
    pub(super) version: i32,
    pub(super) active: bool,
    pub(super) position: i64,
    pub(super) is_running: bool,
    /// A rebuild that replaces the active version as soon as it has caught up.
    pub(super) swaps: bool,
    pub(super) failed_position: Option<i64>,
    pub(super) failures: u32,
    /// How long until the next attempt.
    pub(super) retry_in: Duration,
    /// Parked events are to be handled again.
    pub(super) replays: bool,
}

/// What a runner asks again and again.
#[derive(Debug, Default)]
pub(super) struct Polled {
    pub(super) checkpoints: Vec<Checkpoint>,
    /// The last position that is drawn.
    pub(super) last: i64,
    /// Transactions that have drawn positions and are open.
    pub(super) holders: Vec<String>,
}

impl Checkpoint {
    fn read(row: &mut Row) -> Option<Checkpoint> {
        Some(Checkpoint {
            version: i32::try_from(row.int("version")?).ok()?,
            active: row.flag("active"),
            position: row.number("position"),
            is_running: row.text("state").as_deref() == Some("running"),
            swaps: row.flag("swaps"),
            failed_position: row.int("failed_position"),
            failures: u32::try_from(row.number("failures")).unwrap_or(0),
            retry_in: row.duration("retry_us"),
            replays: row.flag("replays"),
        })
    }
}

impl Polled {
    pub(super) fn active(&self) -> Option<&Checkpoint> {
        self.checkpoints.iter().find(|checkpoint| checkpoint.active)
    }

    pub(super) fn version(&self, version: i32) -> Option<&Checkpoint> {
        self.checkpoints.iter().find(|checkpoint| checkpoint.version == version)
    }
}

pub(super) async fn poll(database: &dyn Database, name: &str) -> Result<Polled, OutboxError> {
    let mut polled = Polled::default();
    for mut row in database.query(twin!("subscription_poll"), values![name]).await? {
        polled.last = row.number("last");
        polled.holders = row.texts("holders");
        polled.checkpoints.extend(Checkpoint::read(&mut row));
    }
    Ok(polled)
}
