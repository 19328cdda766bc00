//! How long a lock lasts, and how long requests may take.

use std::time::Duration;

use crate::error::LockError;

/// The shortest time to live. With less, a busy machine loses locks.
pub const TTL_MIN: Duration = Duration::from_secs(1);

/// Options of locks. [`LockOptions::with_ttl`] derives them from the time to live.
#[derive(Clone, Debug)]
pub struct LockOptions {
    /// How long the lock outlives its last renewal: the longest time for which a frozen holder blocks others. Default: 30 s.
    pub ttl: Duration,
    /// How often a held lock is renewed; less than a third of `ttl`. Default: 8 s.
    pub renewal_interval: Duration,
    /// How long before its end a lock that could not be renewed counts as lost. Default: 3 s.
    pub margin: Duration,
    /// How long the store may take to answer before it counts as unreachable. Default: 5 s.
    pub request_timeout: Duration,
    /// How long a release may take, also during shutdown. Default: 5 s.
    pub release_timeout: Duration,
    /// How long guarded work may take to stop before it is dropped. Default: 10 s.
    pub stop_timeout: Duration,
    /// About how long to wait before asking for a busy lock again. Default: 100 ms.
    pub retry_interval: Duration,
    /// After which time a lock that is still held is [overdue](crate::Lease::overdue): this logs a warning, and the work continues. Less than
    /// `ttl`. Default: none.
    pub soft_limit: Option<Duration>,
}

impl Default for LockOptions {
    fn default() -> LockOptions {
        LockOptions::with_ttl(Duration::from_secs(30))
    }
}

impl LockOptions {
    /// Options derived from this time to live.
    pub fn with_ttl(ttl: Duration) -> LockOptions {
        LockOptions {
            ttl,
            renewal_interval: (ttl / 4).min(Duration::from_secs(8)),
            margin: (ttl / 10).min(Duration::from_secs(3)),
            request_timeout: (ttl / 3).min(Duration::from_secs(5)),
            release_timeout: Duration::from_secs(5),
            stop_timeout: Duration::from_secs(10),
            retry_interval: Duration::from_millis(100),
            soft_limit: None,
        }
    }

    /// Checks the options; the error names the invalid one.
    pub fn check(&self) -> Result<(), LockError> {
        let refused = |option: &str, why: String| Err(LockError::refused(option, why));
        let third = self.ttl / 3;
        if self.ttl < TTL_MIN {
            return refused("ttl", format!("must be at least {TTL_MIN:?}, not {:?}", self.ttl));
        }
        if self.renewal_interval.is_zero() || self.renewal_interval >= third {
            let why = format!(
                "must be above zero and less than a third of ttl ({third:?}), not {:?}",
                self.renewal_interval
            );
            return refused("renewal_interval", why);
        }
        if self.margin.is_zero() || self.margin >= third {
            let why =
                format!("must be above zero and less than a third of ttl ({third:?}), not {:?}", self.margin);
            return refused("margin", why);
        }
        if let Some(limit) = self.soft_limit.filter(|limit| limit.is_zero() || *limit >= self.ttl) {
            let why = format!("must be above zero and less than ttl ({:?}), not {limit:?}", self.ttl);
            return refused("soft_limit", why);
        }
        let waits = [
            ("request_timeout", self.request_timeout),
            ("release_timeout", self.release_timeout),
            ("retry_interval", self.retry_interval),
        ];
        for (option, wait) in waits {
            if wait.is_zero() {
                return refused(option, "must be above zero".to_owned());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_derived_from_a_ttl_fits() {
        LockOptions::default().check().unwrap();
        for millis in [1_000, 1_500, 30_000, 600_000, 86_400_000] {
            LockOptions::with_ttl(Duration::from_millis(millis)).check().unwrap();
        }
    }

    #[test]
    fn an_option_that_cannot_work_is_named() {
        let good = LockOptions::default();
        let (ten, zero) = (Duration::from_secs(10), Duration::ZERO);
        let cases = [
            ("ttl", LockOptions { ttl: Duration::from_millis(999), ..good.clone() }),
            // A third exactly is too much.
            ("renewal_interval", LockOptions { renewal_interval: ten, ..good.clone() }),
            ("renewal_interval", LockOptions { renewal_interval: zero, ..good.clone() }),
            ("margin", LockOptions { margin: ten, ..good.clone() }),
            ("margin", LockOptions { margin: zero, ..good.clone() }),
            ("request_timeout", LockOptions { request_timeout: zero, ..good.clone() }),
            ("release_timeout", LockOptions { release_timeout: zero, ..good.clone() }),
            ("retry_interval", LockOptions { retry_interval: zero, ..good.clone() }),
            ("soft_limit", LockOptions { soft_limit: Some(zero), ..good.clone() }),
            ("soft_limit", LockOptions { soft_limit: Some(good.ttl), ..good }),
        ];
        for (option, bad) in cases {
            let error = bad.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("refused by {option}: ")), "{error}");
        }
    }
}
