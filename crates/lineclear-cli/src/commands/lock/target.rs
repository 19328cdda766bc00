//! Where the locks are, and who keeps a record of them.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use lineclear_lock::{Backend, LockError, LockOptions, Locks, Registry, RegistryOptions};

use crate::failure::Failure;

/// What to look at when a store cannot be reached.
pub(super) const REACHABLE: &str =
    "is the server running, and are host, port, user and password of --store right?";

#[derive(Args)]
pub(super) struct Place {
    /// postgres://…, mysql://…, redis://…, or a SQLite file, for the processes of this machine
    #[arg(
        long,
        visible_alias = "db",
        env = "LINECLEAR_DB",
        hide_env_values = true,
        default_value = "lineclear.db",
        value_name = "URL"
    )]
    store: String,
    /// The database that has the record of who holds which lock, if it is not --store: Redis keeps none
    #[arg(long, env = "LINECLEAR_REGISTRY", hide_env_values = true, value_name = "URL")]
    registry: Option<String>,
}

impl Place {
    /// The store that is named. It is not yet asked anything.
    pub(super) fn backend(&self, options: &LockOptions) -> Result<Arc<dyn Backend>, Failure> {
        if self.store.ends_with(":memory:") {
            let why = "--store: a lock in the memory of one process keeps nobody else out";
            return Err(Failure::usage(why).hint("name a file, or the URL of a server"));
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

    /// Opens the locks to look at them. A file that does not exist is not made by looking at it: then there are none.
    pub(super) async fn look(&self) -> Result<Option<Locks>, Failure> {
        let options = LockOptions::default();
        let backend = self.backend(&options)?;
        let registry = self.registry(RegistryOptions { decorate: false, ..RegistryOptions::default() })?;
        if self.file().is_some_and(|file| !file.exists()) {
            return Ok(None);
        }
        let opened = match registry {
            Some(registry) => Locks::recorded(backend, options, registry).await,
            None => Locks::new(backend, options).await,
        };
        opened.map(Some).map_err(failure)
    }

    /// The same, where something must be there. `name` is what is looked for.
    pub(super) async fn look_for(&self, name: &str) -> Result<Locks, Failure> {
        self.look().await?.ok_or_else(|| never_held(name))
    }

    /// The file, if that is what the store is.
    fn file(&self) -> Option<&Path> {
        let path = self.store.strip_prefix("sqlite://").or_else(|| self.store.strip_prefix("sqlite:"));
        let path = path.unwrap_or(&self.store);
        (!path.contains("://")).then_some(Path::new(path))
    }
}

/// The registry of these locks; a store without one cannot answer `what`.
pub(super) fn registry_of<'a>(locks: &'a Locks, what: &str) -> Result<&'a Registry, Failure> {
    locks.registry().ok_or_else(|| {
        let store = locks.promises().backend;
        let why = format!("locks of {store} are not recorded, so that {what}");
        Failure::usage(why).hint("name a database with --registry here and in `lock run`; `lock show` and `lock explain` work without")
    })
}

/// There is nothing of this name.
pub(super) fn never_held(name: &str) -> Failure {
    Failure::coded(3, format!("nobody has ever held lock {name:?} in this store"))
}

/// What was given cannot be.
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

/// A store that was asked did not do it.
pub(super) fn failure(error: LockError) -> Failure {
    match &error {
        LockError::Refused { rule, .. } if rule == "lock_name" => usage(error),
        LockError::Refused { why, .. } => Failure::coded(5, why.clone()),
        LockError::Unavailable { .. } => Failure::coded(6, in_full(&error)).hint(REACHABLE),
        _ => Failure::failed(in_full(&error)),
    }
}

/// An error with its causes, as far as they say more.
pub(super) fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(&format!(": {more}"));
        }
        cause = error.source();
    }
    text
}
