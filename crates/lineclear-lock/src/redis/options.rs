//! Options in the URL of a Redis, and the values of a known scheduler lock.

use std::time::Duration;

use crate::error::LockError;
use crate::options::LockOptions;

/// Options of locks in Redis. In a URL: `redis://host:6379/0?prefix=app:&replicas=1&replicas_timeout=500`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisOptions {
    /// Prefix of the lock's key; the lock's name follows. Default: empty.
    pub prefix: String,
    /// How many replicas must have a lock before it counts as granted (`WAIT`). Default: 0.
    pub replicas: u32,
    /// How long the replicas may take, in a URL in milliseconds; less than half of
    /// [`LockOptions::request_timeout`]. Default: 500 ms.
    pub replicas_timeout: Duration,
}

impl Default for RedisOptions {
    fn default() -> RedisOptions {
        RedisOptions { prefix: String::new(), replicas: 0, replicas_timeout: Duration::from_millis(500) }
    }
}

impl RedisOptions {
    /// Splits a URL into the address and its options.
    pub(super) fn of_url(url: &str) -> Result<(&str, RedisOptions), LockError> {
        let (address, said) = url.split_once('?').unwrap_or((url, ""));
        let mut options = RedisOptions::default();
        for (name, value) in said.split('&').filter_map(|part| part.split_once('=')) {
            let bad = |_| LockError::refused(name, format!("must be a number, not {value:?}"));
            match name {
                "prefix" => options.prefix = value.to_owned(),
                "replicas" => options.replicas = value.parse().map_err(bad)?,
                "replicas_timeout" => {
                    options.replicas_timeout = Duration::from_millis(value.parse().map_err(bad)?);
                }
                _ => {
                    let why = format!(
                        "unknown option {name}; the options are prefix, replicas and replicas_timeout"
                    );
                    return Err(LockError::refused("lock_url", why));
                }
            }
        }
        Ok((address, options))
    }

    pub(super) fn check(&self, lock: &LockOptions) -> Result<(), LockError> {
        let half = lock.request_timeout / 2;
        if self.replicas > 0 && (self.replicas_timeout.is_zero() || self.replicas_timeout >= half) {
            let why = format!(
                "must be above zero and less than half of request_timeout ({half:?}), not {:?}",
                self.replicas_timeout
            );
            return Err(LockError::refused("replicas_timeout", why));
        }
        Ok(())
    }
}

/// The key of the scheduler lock for blue-green deployments that [`auto_refresh`] has the times of.
pub const AUTO_REFRESH_LOCK: &str = "scheduler:auto-refresh:lock";

/// Times for a scheduled job of some minutes: the lock lasts 10 minutes, is renewed every 3, and work that takes more than 5 is
/// [overdue](crate::Lease::overdue). With [`AUTO_REFRESH_LOCK`] as name these are the values of schedulers that keep a UUID under that
/// key, and old and new ones may overlap.
pub fn auto_refresh() -> LockOptions {
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    LockOptions {
        renewal_interval: minutes(3),
        soft_limit: Some(minutes(5)),
        ..LockOptions::with_ttl(minutes(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preset_has_the_documented_values_and_fits() {
        let preset = auto_refresh();
        preset.check().unwrap();
        assert_eq!(preset.ttl, Duration::from_secs(600));
        assert_eq!(preset.renewal_interval, Duration::from_secs(180));
        assert_eq!(preset.soft_limit, Some(Duration::from_secs(300)));
        assert_eq!(AUTO_REFRESH_LOCK, "scheduler:auto-refresh:lock");
    }

    #[test]
    fn options_of_a_url_are_read_or_refused_by_name() {
        let (address, options) =
            RedisOptions::of_url("redis://h:1/2?prefix=a:&replicas=2&replicas_timeout=70").unwrap();
        let replicas_timeout = Duration::from_millis(70);
        assert_eq!(address, "redis://h:1/2");
        assert_eq!(options, RedisOptions { prefix: "a:".to_owned(), replicas: 2, replicas_timeout });
        for (url, named) in [("redis://h?replica=1", "replica"), ("redis://h?replicas=many", "replicas")] {
            let error = RedisOptions::of_url(url).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        let slow = RedisOptions { replicas_timeout: Duration::from_secs(60), ..options };
        let error = slow.check(&LockOptions::default()).unwrap_err().to_string();
        assert!(error.starts_with("refused by replicas_timeout: "), "{error}");
    }
}
