//! How a bulk operation releases its jobs.

use std::time::Duration;

use crate::operate::bulk::BulkAction;
use crate::store::{StoreError, StoreResult};

/// Longest time over which a bulk operation spreads its jobs.
pub const SPREAD_MAX: Duration = Duration::from_secs(7 * 86_400);

/// How a bulk operation releases its jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BulkMode {
    /// All of them, as fast as possible.
    #[default]
    All,
    /// They become due one after the other, evenly over this time.
    Spread(Duration),
    /// One runs first. The others follow if it completes, and never otherwise.
    Canary,
}

impl BulkMode {
    /// All names.
    pub const WORDS: &[&str] = &["all", "spread", "canary"];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            BulkMode::All => "all",
            BulkMode::Spread(_) => "spread",
            BulkMode::Canary => "canary",
        }
    }

    /// The time over which jobs are spread.
    pub const fn over(self) -> Option<Duration> {
        match self {
            BulkMode::Spread(over) => Some(over),
            BulkMode::All | BulkMode::Canary => None,
        }
    }

    /// Refuses spread and canary for actions that do not run jobs again.
    pub fn check(self, action: BulkAction) -> StoreResult<()> {
        if self != BulkMode::All && !matches!(action, BulkAction::Retry | BulkAction::Revive) {
            let why =
                format!("`mode` {} applies to retry and revive, not to {}", self.as_str(), action.as_str());
            return Err(StoreError::refused("mode", why));
        }
        match self.over() {
            Some(over) if over < Duration::from_millis(1) || over > SPREAD_MAX => {
                Err(StoreError::refused("over", "`over` must be between a millisecond and a week"))
            }
            _ => Ok(()),
        }
    }

    /// Decodes the stored form.
    pub(crate) fn of(word: &str, over_ms: Option<i64>) -> Option<BulkMode> {
        match word {
            "all" => Some(BulkMode::All),
            "spread" => Some(BulkMode::Spread(Duration::from_millis(u64::try_from(over_ms?).ok()?))),
            "canary" => Some(BulkMode::Canary),
            _ => None,
        }
    }
}
