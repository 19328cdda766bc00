//! The actions of bulk operations.

use lineclear_model::JobState;
use lineclear_model::query::Query;

/// The action of a bulk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkAction {
    /// Waiting jobs end; running jobs are asked to stop.
    Cancel,
    /// Jobs run again, each in the way that its state allows.
    Retry,
    /// Dead letters are queued again.
    Revive,
    /// Dead letters are marked as resolved.
    Acknowledge,
}

impl BulkAction {
    /// All of them.
    pub const ALL: &[BulkAction] =
        &[BulkAction::Cancel, BulkAction::Retry, BulkAction::Revive, BulkAction::Acknowledge];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            BulkAction::Cancel => "cancel",
            BulkAction::Retry => "retry",
            BulkAction::Revive => "revive",
            BulkAction::Acknowledge => "acknowledge",
        }
    }

    /// The action with this name, if there is one.
    pub fn from_word(word: &str) -> Option<BulkAction> {
        BulkAction::ALL.iter().copied().find(|action| action.as_str() == word)
    }

    /// The states of a job to which it applies.
    pub const fn states(self) -> &'static [JobState] {
        use JobState::{
            Cancelled, Completed, Dead, Held, Parked, Queued, Ready, Retrying, Running, Scheduled,
        };
        match self {
            BulkAction::Cancel => &[Scheduled, Queued, Held, Parked, Ready, Running, Retrying],
            BulkAction::Retry => &[Retrying, Completed, Cancelled, Dead],
            BulkAction::Revive | BulkAction::Acknowledge => &[Dead],
        }
    }

    /// Narrows a query to the jobs to which it applies. An acknowledged dead letter is not resolved again; a retry runs it again
    /// as a new job.
    pub fn of(self, mut query: Query) -> Query {
        let states = self.states().iter().copied().filter(|state| query.wants(*state));
        query.states = Some(states.collect());
        query.only_awaiting = matches!(self, BulkAction::Revive | BulkAction::Acknowledge);
        query
    }
}
