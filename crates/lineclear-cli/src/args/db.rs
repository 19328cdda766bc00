//! The database that a command works on: the one that `serve` would take from here.

use std::path::PathBuf;

use clap::Args;
use lineclear::{Store, StoreOptions};

use crate::config::{Config, Flags};
use crate::failure::Failure;

#[derive(Args)]
pub(crate) struct Place {
    /// postgres://user@host/database?schema=lineclear&pooler=transaction, or a SQLite file [default: as for `serve`]
    #[arg(long, value_name = "URL")]
    db: Option<String>,
    /// This file, instead of ./lineclear.toml and the user's own
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Place {
    /// Where it is.
    pub(crate) fn options(&self) -> Result<StoreOptions, Failure> {
        let flags: Flags = self.db.clone().map(|db| ("db", db)).into_iter().collect();
        let config = Config::read(&flags, self.config.clone())?;
        Ok(StoreOptions::new(config.text("db"))?.connections(1))
    }
}

/// The store, if it is there: looking makes no file.
pub(crate) async fn look(options: StoreOptions) -> Result<Option<Store>, Failure> {
    if options.file().is_some_and(|file| !file.exists()) {
        return Ok(None);
    }
    Ok(Some(Store::open(options).await?))
}
