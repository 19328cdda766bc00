//! `--db` for commands that open the database themselves: by default the one that `serve` would use here.

use std::path::PathBuf;

use clap::Args;
use lineclear::{Store, StoreOptions};

use crate::config::{Config, Flags};
use crate::failure::Failure;

#[derive(Args)]
pub(crate) struct DbArgs {
    /// postgres://user@host/database?schema=lineclear&pooler=transaction, or a SQLite file [default: as for `serve`]
    #[arg(long, value_name = "URL")]
    db: Option<String>,
    /// Read this file instead of ./lineclear.toml and the user's own
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl DbArgs {
    /// Connects with one connection.
    pub(crate) fn options(&self) -> Result<StoreOptions, Failure> {
        let flags: Flags = self.db.clone().map(|db| ("db", db)).into_iter().collect();
        let config = Config::read(&flags, self.config.clone())?;
        Ok(StoreOptions::new(config.text("db"))?.connections(1))
    }
}

/// Opens the store; `None` if it is a SQLite file that does not exist, which is not created.
pub(crate) async fn open_existing(options: StoreOptions) -> Result<Option<Store>, Failure> {
    if options.file().is_some_and(|file| !file.exists()) {
        return Ok(None);
    }
    Ok(Some(Store::open(options).await?))
}
