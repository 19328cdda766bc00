//! An outbox of one database.

use std::sync::Arc;

use crate::error::OutboxError;
use crate::message::Message;
use crate::store::{self, Store};

/// An outbox: messages that programs write in their own transactions, and that one runner delivers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Outbox {
    pub(crate) url: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) store: Arc<dyn Store>,
}

impl Outbox {
    /// Opens the outbox `main` of a database, and creates its tables unless they exist: `postgres://…`, `mysql://…`, `sqlite:FILE` or a path.
    pub async fn open(url: &str) -> Result<Outbox, OutboxError> {
        Outbox::open_named(url, "main").await
    }

    /// Opens an outbox of this name. Each outbox of a database has a runner of its own.
    pub async fn open_named(url: &str, name: &str) -> Result<Outbox, OutboxError> {
        check_name(name)?;
        let store = store::open(url)?;
        store.prepare().await?;
        Ok(Outbox { url: Arc::from(url), name: Arc::from(name), store })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The lock of its runner.
    pub fn lock_name(&self) -> String {
        format!("outbox-{}", self.name)
    }
}

/// Checks the name of an outbox.
pub(crate) fn check_name(name: &str) -> Result<(), OutboxError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 100 || !name.chars().all(fits) {
        let why = format!("must be 1 to 100 letters, digits, `-`, `_` and `.`; {name:?} is not");
        return Err(OutboxError::refused("outbox", why));
    }
    Ok(())
}

/// Checks messages before the first of them is written.
pub(crate) fn checked(messages: &[Message]) -> Result<(), OutboxError> {
    messages.iter().try_for_each(Message::check)
}
