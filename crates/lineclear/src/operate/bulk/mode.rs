//! How the jobs of a batch follow each other.

use std::time::Duration;

use crate::operate::bulk::BulkAction;
use crate::store::{StoreError, StoreResult};

/// Longest time over which a batch spreads its jobs.
pub const SPREAD_MAX: Duration = Duration::from_secs(7 * 86_400);

/// How the jobs of a batch follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BulkMode {
    /// All of them, as fast as it goes.
    #[default]
    All,
    /// They become due one after the other, evenly over so long.
    Spread(Duration),
    /// One goes first. The rest follows when it has completed, and never if it ends in another way.
    Canary,
}

impl BulkMode {
    /// The words.
    pub const WORDS: &[&str] = &["all", "spread", "canary"];

    /// The word.
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

    /// Whether an action can be done so: only what runs again can follow something.
    pub fn check(self, action: BulkAction) -> StoreResult<()> {
        if self != BulkMode::All && !matches!(action, BulkAction::Retry | BulkAction::Revive) {
            let why = format!("{} is for retry and revive, not for {}", self.as_str(), action.as_str());
            return Err(StoreError::refused("mode", why));
        }
        match self.over() {
            Some(over) if over < Duration::from_millis(1) || over > SPREAD_MAX => Err(StoreError::refused(
                "over",
                "a batch is spread over a millisecond at least, and a week at most",
            )),
            _ => Ok(()),
        }
    }

    /// As it is stored.
    pub(crate) fn of(word: &str, over_ms: Option<i64>) -> Option<BulkMode> {
        match word {
            "all" => Some(BulkMode::All),
            "spread" => Some(BulkMode::Spread(Duration::from_millis(u64::try_from(over_ms?).ok()?))),
            "canary" => Some(BulkMode::Canary),
            _ => None,
        }
    }
}
