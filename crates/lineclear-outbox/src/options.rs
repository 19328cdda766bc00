//! How an outbox is run.

use std::time::Duration;

use crate::error::OutboxError;

/// Options of an outbox's runner.
#[derive(Clone, Debug)]
pub struct OutboxOptions {
    /// How long the lock of a runner lasts without renewal: a frozen node is replaced after so long, a dead one mostly sooner. Default: 10 s.
    pub lock_ttl: Duration,
    /// Messages that are on their way at once, of each partition; of each key, one at a time. Default: 32.
    pub concurrency: usize,
    /// Messages that a runner reads ahead, of each partition. Default: 1,000.
    pub window: usize,
    /// How long one attempt may take. Default: 30 s.
    pub timeout: Duration,
    /// How often an idle runner looks for messages. Default: 100 ms.
    pub poll_interval: Duration,
    /// After so many failed attempts a message is dead. Default: 25, which is about three hours.
    pub attempts_max: u32,
    /// The pause after the first failed attempt; it doubles with each further one. Default: 1 s.
    pub backoff_first: Duration,
    /// The longest pause between attempts. Default: 10 minutes.
    pub backoff_max: Duration,
    /// How long delivered messages are kept, so that they can be listed. Each costs about as much as its delivery. Default: zero, which
    /// deletes them when they are delivered.
    pub keep_delivered: Duration,
    /// How long dedup keys are kept. Default: one day.
    pub keep_dedup_keys: Duration,
    /// How long dead messages are kept. Default: 30 days.
    pub keep_dead: Duration,
}

impl Default for OutboxOptions {
    fn default() -> OutboxOptions {
        OutboxOptions {
            lock_ttl: Duration::from_secs(10),
            concurrency: 32,
            window: 1_000,
            timeout: Duration::from_secs(30),
            poll_interval: Duration::from_millis(100),
            attempts_max: 25,
            backoff_first: Duration::from_secs(1),
            backoff_max: Duration::from_secs(600),
            keep_delivered: Duration::ZERO,
            keep_dedup_keys: Duration::from_secs(86_400),
            keep_dead: Duration::from_secs(30 * 86_400),
        }
    }
}

impl OutboxOptions {
    /// Checks the options; the error names the invalid one.
    pub fn check(&self) -> Result<(), OutboxError> {
        let refused = |what, why: &str| Err(OutboxError::refused(what, why.to_owned()));
        if !(1..=10_000).contains(&self.concurrency) {
            return refused("concurrency", "must be 1 to 10,000");
        }
        if !(1..=10_000).contains(&self.window) {
            return refused("window", "must be 1 to 10,000");
        }
        check_attempts(self.attempts_max)?;
        check_times(&[
            ("timeout", self.timeout),
            ("poll_interval", self.poll_interval),
            ("backoff_first", self.backoff_first),
            ("backoff_max", self.backoff_max),
        ])?;
        Ok(lineclear_lock::LockOptions::with_ttl(self.lock_ttl).check()?)
    }

    pub(crate) fn backoff(&self, failed: u32, dice: u64) -> Duration {
        backoff((self.backoff_first, self.backoff_max), failed, dice)
    }
}

pub(crate) fn check_attempts(attempts_max: u32) -> Result<(), OutboxError> {
    if attempts_max == 0 {
        return Err(OutboxError::refused("attempts_max", "must be at least 1".to_owned()));
    }
    Ok(())
}

pub(crate) fn check_times(times: &[(&'static str, Duration)]) -> Result<(), OutboxError> {
    match times.iter().find(|(_, time)| time.is_zero()) {
        Some((what, _)) => Err(OutboxError::refused(what, "must be above zero".to_owned())),
        None => Ok(()),
    }
}

/// The pause before the next attempt, between half of the full length and the full length: receivers that come back are not met by all
/// messages at once.
pub(crate) fn backoff((first, max): (Duration, Duration), failed: u32, dice: u64) -> Duration {
    let full = first.saturating_mul(1 << failed.saturating_sub(1).min(30)).min(max);
    full / 2 + full.mul_f64((dice % 1_000) as f64 / 2_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_valid_and_pauses_grow_to_their_limit() {
        let options = OutboxOptions::default();
        options.check().unwrap();
        let second = Duration::from_secs(1);
        assert_eq!((options.backoff(1, 0), options.backoff(3, 0)), (second / 2, second * 2));
        assert!(
            options.backoff(3, 999) < second * 4 && options.backoff(u32::MAX, 999) <= options.backoff_max
        );
    }

    #[test]
    fn an_invalid_option_is_named() {
        let good = OutboxOptions::default();
        for (what, bad) in [
            ("concurrency", OutboxOptions { concurrency: 0, ..good.clone() }),
            ("window", OutboxOptions { window: 0, ..good.clone() }),
            ("attempts_max", OutboxOptions { attempts_max: 0, ..good.clone() }),
            ("timeout", OutboxOptions { timeout: Duration::ZERO, ..good.clone() }),
            ("ttl", OutboxOptions { lock_ttl: Duration::ZERO, ..good }),
        ] {
            let error = bad.check().unwrap_err().to_string();
            assert!(error.contains(&format!("refused by {what}")), "{error}");
        }
    }
}
