//! How a subscription runs.

use std::time::Duration;

use lineclear_lock::LockOptions;
use uuid::Uuid;

use crate::error::OutboxError;
use crate::events::Filter;
use crate::options::{backoff, check_attempts, check_times};

/// Where a subscription begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// With the first event of the log.
    #[default]
    Beginning,
    /// With the events that are appended from now on.
    End,
    /// After this position.
    After(i64),
}

impl Start {
    /// As statements have it.
    pub(super) fn number(self) -> Result<i64, OutboxError> {
        match self {
            Start::Beginning => Ok(0),
            Start::End => Ok(-1),
            Start::After(position) if position >= 0 => Ok(position),
            Start::After(position) => Err(OutboxError::refused(
                "start",
                format!("a position must not be negative, as {position} is"),
            )),
        }
    }
}

/// What happens to an event that fails [too often](SubscriptionOptions::attempts_max).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPoison {
    /// The subscription stops before it, and says why, until an operator resumes it or skips the event.
    #[default]
    Stop,
    /// The event is parked, and the subscription goes on. Parked events can be replayed or discarded.
    Park,
}

/// Options of a subscription.
#[derive(Clone, Debug)]
pub struct SubscriptionOptions {
    /// Which events it wants. Default: all.
    pub filter: Filter,
    /// Where it begins when it has no checkpoint yet. Default: with the first event.
    pub start: Start,
    /// What happens to an event that fails too often. Default: the subscription stops.
    pub on_poison: OnPoison,
    /// So many failed attempts are too many. Default: 5.
    pub attempts_max: u32,
    /// The pause after the first failed attempt; it doubles with each further one. Default: 1 s.
    pub backoff_first: Duration,
    /// The longest pause between attempts. Default: 1 minute.
    pub backoff_max: Duration,
    /// Events of one page. Default: 500.
    pub page_size: u32,
    /// How long the handler may take: for a page in its transaction, or for one event. In a transaction of SQLite, it is not interrupted.
    /// Default: 5 s.
    pub timeout: Duration,
    /// How often an idle subscription looks for events. Default: 100 ms.
    pub poll_interval: Duration,
    /// How long the lock lasts without renewal: a frozen node is replaced after so long, a dead one mostly sooner. More than `timeout` for
    /// handlers with a transaction. Default: 10 s.
    pub lock_ttl: Duration,
}

impl Default for SubscriptionOptions {
    fn default() -> SubscriptionOptions {
        SubscriptionOptions {
            filter: Filter::all(),
            start: Start::Beginning,
            on_poison: OnPoison::Stop,
            attempts_max: 5,
            backoff_first: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
            page_size: 500,
            timeout: Duration::from_secs(5),
            poll_interval: Duration::from_millis(100),
            lock_ttl: Duration::from_secs(10),
        }
    }
}

impl SubscriptionOptions {
    /// Checks the options; the error names the invalid one.
    pub fn check(&self) -> Result<(), OutboxError> {
        let refused = |what, why: &str| Err(OutboxError::refused(what, why.to_owned()));
        self.filter.check()?;
        self.start.number()?;
        if !(1..=10_000).contains(&self.page_size) {
            return refused("page_size", "must be 1 to 10,000");
        }
        check_attempts(self.attempts_max)?;
        check_times(&[
            ("timeout", self.timeout),
            ("poll_interval", self.poll_interval),
            ("backoff_first", self.backoff_first),
            ("backoff_max", self.backoff_max),
        ])?;
        Ok(LockOptions::with_ttl(self.lock_ttl).check()?)
    }

    /// For a handler with a transaction: the server ends one that idles for longer than the lock lasts.
    pub(super) fn check_transaction(&self) -> Result<(), OutboxError> {
        if self.timeout < self.lock_ttl {
            return Ok(());
        }
        let why = format!("must be less than lock_ttl ({:?}), not {:?}", self.lock_ttl, self.timeout);
        Err(OutboxError::refused("timeout", why))
    }

    pub(super) fn backoff(&self, failed: u32) -> Duration {
        backoff((self.backoff_first, self.backoff_max), failed, Uuid::new_v4().as_u64_pair().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_option_is_named() {
        let good = SubscriptionOptions::default();
        good.check().unwrap();
        good.check_transaction().unwrap();
        for (what, bad) in [
            ("start", SubscriptionOptions { start: Start::After(-1), ..good.clone() }),
            ("page_size", SubscriptionOptions { page_size: 0, ..good.clone() }),
            ("attempts_max", SubscriptionOptions { attempts_max: 0, ..good.clone() }),
            ("poll_interval", SubscriptionOptions { poll_interval: Duration::ZERO, ..good.clone() }),
            ("filter.kinds", SubscriptionOptions { filter: Filter::all().kinds([""]), ..good.clone() }),
            ("ttl", SubscriptionOptions { lock_ttl: Duration::ZERO, ..good.clone() }),
        ] {
            let error = bad.check().unwrap_err().to_string();
            assert!(error.contains(&format!("refused by {what}")), "{error}");
        }
        let long = SubscriptionOptions { timeout: good.lock_ttl, ..good };
        assert!(long.check_transaction().unwrap_err().to_string().starts_with("refused by timeout"));
    }

    #[test]
    fn pauses_grow_to_their_limit() {
        let options = SubscriptionOptions::default();
        let second = Duration::from_secs(1);
        assert!((second / 2..second).contains(&options.backoff(1)));
        assert!((second * 2..second * 4).contains(&options.backoff(3)));
        assert!(options.backoff(u32::MAX) <= options.backoff_max);
    }
}
