//! How often and how soon a failed job is tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{duration, manifest::BadField};

/// Most retries of one job.
pub const RETRIES_MAX: u32 = 1000;

/// Tries after the first one, and the wait before each: `delay`, then `delay × factor`, then `delay ×
/// factor²`, never more than `max`. `retries = 3` means at most four tries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// How many times a failed job is tried again.
    pub retries: u32,
    /// The wait before the first retry.
    pub delay: Duration,
    /// How much longer each wait is than the one before.
    pub factor: f64,
    /// The longest wait.
    pub max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        Backoff::default().policy(3)
    }
}

impl RetryPolicy {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), BadField> {
        if self.retries > RETRIES_MAX {
            return Err(BadField::new(
                "retries",
                format!("must be at most {RETRIES_MAX}, not {}", self.retries),
            ));
        }
        if !self.factor.is_finite() || self.factor < 1.0 {
            let message = format!("must be at least 1.0, not {}", self.factor);
            return Err(BadField::new("retry.factor", message));
        }
        if self.max < self.delay {
            let (max, delay) = (duration::format(self.max), duration::format(self.delay));
            return Err(BadField::new(
                "retry.max",
                format!("must be at least the first delay of {delay}, not {max}"),
            ));
        }
        if self.max > duration::DURATION_MAX {
            return Err(BadField::new("retry.max", "must be at most 3650d"));
        }
        Ok(())
    }

    /// The wait before the next try of a job that has failed `failures` times.
    pub fn delay_before(&self, failures: u32) -> Duration {
        // Floats saturate at infinity instead of overflowing, and infinity is more than `max`.
        let grown = self.delay.as_secs_f64() * self.factor.powf(f64::from(failures.saturating_sub(1)));
        if grown < self.max.as_secs_f64() { Duration::from_secs_f64(grown) } else { self.max }
    }
}

/// A retry policy without the number of retries: `retry = { delay = "5m", factor = 2.0, max = "1h" }`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Backoff {
    /// The wait before the first retry.
    #[serde(with = "duration")]
    pub delay: Duration,
    /// How much longer each wait is than the one before.
    pub factor: f64,
    /// The longest wait.
    #[serde(with = "duration")]
    pub max: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { delay: Duration::from_secs(300), factor: 2.0, max: Duration::from_secs(3600) }
    }
}

impl Backoff {
    /// The policy with that many retries.
    pub fn policy(self, retries: u32) -> RetryPolicy {
        let Backoff { delay, factor, max } = self;
        RetryPolicy { retries, delay, factor, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_an_hour() {
        let minutes: Vec<u64> =
            (1..=7).map(|n| RetryPolicy::default().delay_before(n).as_secs() / 60).collect();
        assert_eq!(minutes, [5, 10, 20, 40, 60, 60, 60]);
        assert_eq!(RetryPolicy::default().delay_before(0), Duration::from_secs(300));
    }

    #[test]
    fn a_policy_that_makes_no_sense_is_refused() {
        let bad = |factor, delay, max| {
            let (delay, max) = (Duration::from_secs(delay), Duration::from_secs(max));
            RetryPolicy { retries: 3, delay, factor, max }.check().is_err()
        };
        for factor in [0.5, 0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(bad(factor, 1, 2), "{factor}");
        }
        assert!(bad(2.0, 10, 5));
        assert!(!bad(1.0, 5, 5));
        assert!(RetryPolicy { retries: 1001, ..RetryPolicy::default() }.check().is_err());
    }

    proptest::proptest! {
        #[test]
        fn the_wait_never_shrinks_and_never_passes_the_longest(
            delay in 0u64..1_000_000,
            factor in 1.0f64..1e300,
            max in 0u64..100_000_000,
            failures in 0u32..u32::MAX,
        ) {
            let (delay, max) = (Duration::from_millis(delay), Duration::from_millis(delay + max));
            let policy = RetryPolicy { retries: 3, delay, factor, max };
            let (wait, next) = (policy.delay_before(failures), policy.delay_before(failures + 1));
            proptest::prop_assert!(delay.as_millis() <= wait.as_millis() + 1 && wait <= next && next <= max);
        }
    }
}
