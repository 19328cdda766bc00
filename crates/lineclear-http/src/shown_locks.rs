//! The locks of a database, for a server that shows who holds them.

use std::fmt;
use std::sync::Arc;

use lineclear_lock::{LockError, Registry, RegistryOptions};

/// Who holds which lock of a database, and where a lock can be taken away from its holder.
#[derive(Clone)]
pub struct ShownLocks {
    pub(crate) registry: Registry,
    /// May have a password in it.
    pub(crate) url: Arc<str>,
}

impl fmt::Debug for ShownLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShownLocks").finish_non_exhaustive()
    }
}

impl ShownLocks {
    /// Those of the database that a URL names. Nothing is asked of it yet.
    pub fn of(url: &str) -> Result<ShownLocks, LockError> {
        Ok(ShownLocks { registry: Registry::new(url, RegistryOptions::default())?, url: Arc::from(url) })
    }

    /// The registry that they are recorded in.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }
}
