//! The locks that a server shows.

use std::fmt;
use std::sync::Arc;

use lineclear_lock::{LockError, Registry, RegistryOptions};

/// The lease registry of a database, and the URL of its locks.
#[derive(Clone)]
pub struct ShownLocks {
    pub(crate) registry: Registry,
    /// May contain a password.
    pub(crate) url: Arc<str>,
}

impl fmt::Debug for ShownLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShownLocks").finish_non_exhaustive()
    }
}

impl ShownLocks {
    /// The locks of the database at this URL. It does not connect yet.
    pub fn of(url: &str) -> Result<ShownLocks, LockError> {
        Ok(ShownLocks { registry: Registry::new(url, RegistryOptions::default())?, url: Arc::from(url) })
    }

    /// The lease registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }
}
