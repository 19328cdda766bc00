//! The words a job is described with. The same in Rust, SQL, JSON, logs and metrics.

use serde::{Deserialize, Serialize};

/// The beginning of the route of a kind that remote workers pull.
pub const PULL_PREFIX: &str = "pull.";

/// Declares an enum whose variants are words, with the text of each written once.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// Every word, in the order of the declaration.
            pub const ALL: &[$name] = &[$($name::$variant,)+];

            /// The word.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }

            /// The variant of a word, if there is one.
            pub fn from_word(word: &str) -> Option<$name> {
                match word { $($word => Some($name::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;

words! {
    /// Where a job is in its life.
    JobState {
        /// Due later, never tried.
        Scheduled = "scheduled",
        /// Waits to be dispatched.
        Queued = "queued",
        /// Waits for a limit.
        Held = "held",
        /// Paused, or no live node knows its kind.
        Parked = "parked",
        /// Dispatched, not yet claimed.
        Ready = "ready",
        /// A worker has it.
        Running = "running",
        /// Failed, and waits for its next try.
        Retrying = "retrying",
        /// Ended well.
        Completed = "completed",
        /// Ended by a person or by a rule.
        Cancelled = "cancelled",
        /// Out of tries; waits for a person.
        Dead = "dead",
    }
}

words! {
    /// What made a job.
    Origin {
        /// The planner, for a tick of a manifest.
        Tick = "tick",
        /// A person or program ran a manifest now.
        Trigger = "trigger",
        /// Its parents completed.
        Dependent = "dependent",
        /// Its running parent activated it.
        Dormant = "dormant",
        /// A past range was run again.
        Backfill = "backfill",
        /// Enqueued on its own, without a manifest.
        Adhoc = "adhoc",
    }
}

words! {
    /// How a claim ended, as history records it.
    ExecutionOutcome {
        /// The handler finished.
        Completed = "completed",
        /// The handler failed.
        Failed = "failed",
        /// The handler ran longer than it may.
        TimedOut = "timed_out",
        /// Stopped by a cancel.
        Cancelled = "cancelled",
        /// The worker vanished.
        Lost = "lost",
        /// Given back before it started.
        Released = "released",
        /// The handler asked to be run again later.
        Snoozed = "snoozed",
    }
}

words! {
    /// Why a job became a dead letter.
    DeadReason {
        /// Every try failed.
        RetriesUsedUp = "retries_used_up",
        /// The error says that another try cannot help.
        Permanent = "permanent",
        /// Its workers kept vanishing.
        WorkerLost = "worker_lost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_finds_its_way_back() {
        for &state in JobState::ALL {
            assert_eq!(JobState::from_word(state.as_str()), Some(state));
            assert_eq!(serde_json::to_string(&state).unwrap(), format!("{:?}", state.as_str()));
        }
        assert_eq!(Origin::from_word("tock"), None);
    }
}
