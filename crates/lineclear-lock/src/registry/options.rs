//! Options of the registry.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::LockError;

type Classify = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Derives the kind of a lock from its name, for locks that were acquired without one.
#[derive(Clone)]
pub struct Classifier(Arc<Classify>);

impl Classifier {
    /// A classifier of your own.
    pub fn new(classify: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Classifier {
        Classifier(Arc::new(classify))
    }
}

impl fmt::Debug for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Classifier")
    }
}

/// `outbox-…` and `nagare-outbox-…` are of the kind `outbox`, `event-route-…` is a `subscription`, all others have none.
pub fn kind_by_prefix(name: &str) -> Option<String> {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if begins(&["outbox-", "nagare-outbox-"]) {
        Some("outbox".to_owned())
    } else if begins(&["event-route-"]) {
        Some("subscription".to_owned())
    } else {
        None
    }
}

/// Options of a registry.
#[derive(Clone, Debug)]
pub struct RegistryOptions {
    /// The database that has the tables; none: the one that has the locks.
    pub url: Option<String>,
    /// Whether locks are recorded automatically. Otherwise the program reports them with
    /// [`Registry::acquired`](super::Registry::acquired) and the other methods. Default: true.
    pub record_automatically: bool,
    /// How often the rows of held locks are renewed, in one statement; a row that missed three renewals is stale. Default: 5 s.
    pub heartbeat: Duration,
    /// How long after its last renewal the row of a holder that vanished is removed. Default: 60 s.
    pub sweep_after: Duration,
    /// How long the row of a released lock is kept. Default: 1 day.
    pub idle_retention: Duration,
    /// How long events are kept. Default: 7 days.
    pub history_retention: Duration,
    /// The kind of locks that were acquired without one. Default: [`kind_by_prefix`].
    pub classifier: Classifier,
}

impl Default for RegistryOptions {
    fn default() -> RegistryOptions {
        let day = Duration::from_secs(24 * 3600);
        RegistryOptions {
            url: None,
            record_automatically: true,
            heartbeat: Duration::from_secs(5),
            sweep_after: Duration::from_secs(60),
            idle_retention: day,
            history_retention: day * 7,
            classifier: Classifier::new(kind_by_prefix),
        }
    }
}

impl RegistryOptions {
    /// Checks the options; the error names the invalid one.
    pub fn check(&self) -> Result<(), LockError> {
        if self.heartbeat.is_zero() {
            return Err(LockError::refused("heartbeat", "must be above zero"));
        }
        let stale = self.heartbeat * 3;
        if self.sweep_after < stale {
            let why =
                format!("must be at least three times heartbeat ({stale:?}), not {:?}", self.sweep_after);
            return Err(LockError::refused("sweep_after", why));
        }
        Ok(())
    }

    pub(crate) fn kind_of(&self, name: &str) -> Option<Arc<str>> {
        (self.classifier.0)(name).map(Arc::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_the_usual_prefixes() {
        let kind = |name| kind_by_prefix(name).unwrap_or_default();
        assert_eq!(kind("outbox-orders"), "outbox");
        assert_eq!(kind("nagare-outbox-main"), "outbox");
        assert_eq!(kind("event-route-InterLibraryLoan-BookEvent"), "subscription");
        assert_eq!(kind("book-catalog"), "");
        assert_eq!(kind("outboxes"), "");
    }

    #[test]
    fn an_option_that_cannot_work_is_named() {
        RegistryOptions::default().check().unwrap();
        let bad = RegistryOptions { heartbeat: Duration::ZERO, ..RegistryOptions::default() };
        assert!(bad.check().unwrap_err().to_string().starts_with("refused by heartbeat: "));
        let bad = RegistryOptions { sweep_after: Duration::from_secs(14), ..RegistryOptions::default() };
        assert!(bad.check().unwrap_err().to_string().starts_with("refused by sweep_after: "));
    }
}
