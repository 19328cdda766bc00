//! `--store` and `--registry`: where locks are held and recorded.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use lineclear_lock::{Backend, LockError, LockOptions, Locks, Registry, RegistryOptions};
use lineclear_tls::with_causes;

use crate::failure::Failure;

/// Hint for a store that cannot be reached.
pub(super) const CHECK_STORE: &str =
    "check that the server is running, and host, port, user and password in --store";

#[derive(Args)]
pub(super) struct LockTarget {
    /// postgres://…, mysql://…, redis://…, or a SQLite file for processes of this machine
    #[arg(
        long,
        visible_alias = "db",
        env = "LINECLEAR_DB",
        hide_env_values = true,
        default_value = "lineclear.db",
        value_name = "URL"
    )]
    store: String,
    /// Database with the registry of locks, if it is not --store; Redis has none
    #[arg(long, env = "LINECLEAR_REGISTRY", hide_env_values = true, value_name = "URL")]
    registry: Option<String>,
}

impl LockTarget {
    /// The store. It is not contacted yet.
    pub(super) fn backend(&self, options: &LockOptions) -> Result<Arc<dyn Backend>, Failure> {
        if self.store.ends_with(":memory:") {
            let why = "--store: a lock in memory does not exclude other processes";
            return Err(Failure::usage(why).hint("use a file or the URL of a server"));
        }
        lineclear_lock::backend(&self.store, options).map_err(usage)
    }

    /// The registry, in the same database unless another is named; `None` if the store cannot have one.
    pub(super) fn registry(&self, options: RegistryOptions) -> Result<Option<Registry>, Failure> {
        let named = self.registry.as_deref();
        match (Registry::new(named.unwrap_or(&self.store), options), named) {
            (Ok(registry), _) => Ok(Some(registry)),
            (Err(LockError::Refused { rule, .. }), None) if rule == "registry_url" => Ok(None),
            (Err(error), _) => Err(usage(error)),
        }
    }

    /// Opens the locks for reading; `None` if they are in a SQLite file that does not exist, which is not created.
    pub(super) async fn open_existing(&self) -> Result<Option<Locks>, Failure> {
        let options = LockOptions::default();
        let backend = self.backend(&options)?;
        let registry =
            self.registry(RegistryOptions { record_automatically: false, ..RegistryOptions::default() })?;
        if self.file().is_some_and(|file| !file.exists()) {
            return Ok(None);
        }
        let opened = match registry {
            Some(registry) => Locks::with_registry(backend, options, registry).await,
            None => Locks::new(backend, options).await,
        };
        opened.map(Some).map_err(failure)
    }

    /// Opens the locks to read the one with this name, which must exist.
    pub(super) async fn open_for(&self, name: &str) -> Result<Locks, Failure> {
        self.open_existing().await?.ok_or_else(|| never_held(name))
    }

    /// The SQLite file, if the store is one.
    fn file(&self) -> Option<&Path> {
        let path = self.store.strip_prefix("sqlite://").or_else(|| self.store.strip_prefix("sqlite:"));
        let path = path.unwrap_or(&self.store);
        (!path.contains("://")).then_some(Path::new(path))
    }
}

/// The registry of these locks. `consequence` says what does not work without one.
pub(super) fn registry_of<'a>(locks: &'a Locks, consequence: &str) -> Result<&'a Registry, Failure> {
    locks.registry().ok_or_else(|| {
        let store = locks.promises().backend;
        let why = format!("locks of {store} are not recorded, so {consequence}");
        Failure::usage(why).hint("name a database with --registry here and in `lock run`; `lock show` and `lock explain` need none")
    })
}

pub(super) fn never_held(name: &str) -> Failure {
    Failure::coded(3, format!("lock {name:?} was never held in this store"))
}

/// An error in the arguments.
pub(super) fn usage(error: LockError) -> Failure {
    match error {
        LockError::Refused { rule, why } => {
            let rule = match rule.as_str() {
                "ttl" => "--ttl",
                "lock_name" => "NAME",
                "lock_url" => "--store",
                "registry_url" => "--registry",
                rule => rule,
            };
            Failure::usage(format!("{rule}: {why}"))
        }
        error => Failure::usage(error.to_string()),
    }
}

/// An error of the store.
pub(super) fn failure(error: LockError) -> Failure {
    match &error {
        LockError::Refused { rule, .. } if rule == "lock_name" => usage(error),
        LockError::Refused { why, .. } => Failure::coded(5, why.clone()),
        LockError::Unavailable { .. } => Failure::coded(6, with_causes(&error)).hint(CHECK_STORE),
        _ => Failure::failed(with_causes(&error)),
    }
}
