//! The locks that a server shows.

use std::fmt;
use std::sync::Arc;

use lineclear_lock::{LockError, Registry, RegistryOptions};

/// The lease registry of a database, and the URL of its locks.
#[derive(Clone)]
pub struct DatabaseLocks {
    pub(crate) registry: Registry,
    /// May contain a password.
    pub(crate) url: Arc<str>,
}

impl fmt::Debug for DatabaseLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseLocks").finish_non_exhaustive()
    }
}

impl DatabaseLocks {
    /// The locks of the database at this URL. It does not connect yet.
    pub fn new(url: &str) -> Result<DatabaseLocks, LockError> {
        Ok(DatabaseLocks { registry: Registry::new(url, RegistryOptions::default())?, url: Arc::from(url) })
    }

    /// The lease registry.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }
}
