//! Where the API is: a server, or a database.

use std::path::PathBuf;

use clap::Args;
use lineclear::{Client, Lineclear, Store, StoreError, StoreOptions};
use lineclear_http::{Local, ShownLocks};
use lineclear_model::doctor::{Check, CheckName};

use super::{Api, Server};
use crate::cmd::person::cli_person;
use crate::config::{Config, Flags, Origin};
use crate::failure::Failure;

/// Which server, or which database; and how the answer is shown.
#[derive(Args, Clone)]
pub(crate) struct At {
    #[command(flatten)]
    server: Server,
    /// Straight on a database, without a server: postgres://…, or a SQLite file
    #[arg(long, value_name = "URL", conflicts_with = "server", help_heading = "Where")]
    db: Option<String>,
    /// This file, instead of ./lineclear.toml and the user's own
    #[arg(long, value_name = "FILE", help_heading = "Where")]
    config: Option<PathBuf>,
    /// Prints the JSON of the API
    #[arg(long)]
    pub(crate) json: bool,
}

impl At {
    /// As with no flag at all.
    pub(crate) fn of_this_machine() -> At {
        At { server: Server::of_this_machine(), db: None, config: None, json: false }
    }

    /// Opens it.
    pub(crate) async fn api(&self) -> Result<Api, Failure> {
        match &self.db {
            Some(db) => here(db, &self.config()?).await,
            None => self.server(),
        }
    }

    /// Opens the server if one was named, and otherwise the database that was named or that `serve` would take from here. A file that does
    /// not exist is made if `make` says so; otherwise there is nothing.
    pub(crate) async fn server_or_database(&self, make: bool) -> Result<Option<Api>, Failure> {
        if self.asks_a_server() {
            return self.server().map(Some);
        }
        let config = self.config()?;
        let options = StoreOptions::new(config.text("db"))?.connections(1);
        if !make && options.file().is_some_and(|file| !file.exists()) {
            return Ok(None);
        }
        // Whoever comes first brings the schema up to date.
        drop(Store::open(options).await?);
        here(config.text("db"), &config).await.map(Some)
    }

    /// Whether it is a server that was named.
    pub(crate) fn asks_a_server(&self) -> bool {
        self.db.is_none() && self.server.named().is_some()
    }

    /// The settings, with the database that was named.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let flags: Flags = self.db.clone().map(|db| ("db", db)).into_iter().collect();
        Config::read(&flags, self.config.clone())
    }

    /// The database that was named, or that the settings name, as it is: of an old schema, or a broken one.
    /// `None`: nobody knows which.
    pub(crate) async fn as_it_is(&self, config: Option<&Config>) -> Option<Result<Api, Check>> {
        let db = self.db.as_deref().or(config.map(|config| config.text("db")))?;
        let origin = config.and_then(|config| config.values().find(|(name, _)| *name == "db"));
        let chosen = self.db.is_some() || origin.is_some_and(|(_, value)| value.origin != Origin::Default);
        Some(as_it_is(db, chosen).await)
    }

    fn server(&self) -> Result<Api, Failure> {
        if let Some(url) = self.server.named() {
            return self.server.at(&url);
        }
        let config = Config::read(&Flags::new(), self.config.clone())?;
        self.server.at(&format!("http://{}", crate::cmd::health::reachable(config.address()?)))
    }
}

async fn here(db: &str, config: &Config) -> Result<Api, Failure> {
    let options = StoreOptions::new(db)?;
    if let Some(file) = options.file().filter(|file| !file.exists()) {
        return Err(Failure::coded(6, format!("there is no file {}", file.display()))
            .hint("`lineclear serve` or `lineclear db migrate` makes one"));
    }
    let store = Store::open(options.migrate(false)).await?;
    let pending = store.migration_status().await?.pending.len();
    if pending > 0 {
        let message = format!("{} of its migrations are not applied", pending);
        return Err(Failure::coded(5, message).hint("run: lineclear db migrate --db …"));
    }
    let locks = ShownLocks::of(db).ok();
    // Inputs are looked at as a server with these settings would.
    let builder = crate::kinds::add_checks(Lineclear::builder(), config)?;
    let client = builder.client_of(store).map_err(|error| Failure::failed(error.to_string()))?;
    Ok(Api::Here(Local::new(client, locks).by(&cli_person())))
}

/// `chosen`: somebody has named it.
async fn as_it_is(db: &str, chosen: bool) -> Result<Api, Check> {
    let cannot = |why: String| {
        let todo = "is it the right one? otherwise restore a backup; lineclear config show --origin";
        Check::failure(CheckName::Reachable, why, todo)
    };
    let options = StoreOptions::new(db).map_err(|error| cannot(error.to_string()))?;
    if let Some(file) = options.file().filter(|file| !file.exists()) {
        return Err(crate::cmd::doctor::missing(file, chosen));
    }
    let file = options.file().map(|file| file.display().to_string());
    let opened = Store::open(options.read_only()).await;
    let store = opened.map_err(|error| match (&error, file) {
        (StoreError::CannotWrite { .. }, Some(file)) => {
            let todo = format!(
                "may this user read and write it, and what is beside it ({file}-wal, {file}-shm) and their folder? ls -l {file}*; \
                 or ask as the user that runs the server: sudo -u USER lineclear doctor"
            );
            Check::failure(CheckName::Reachable, error.to_string(), todo)
        }
        _ => cannot(error.to_string()),
    })?;
    let client = Client::of_store(store).map_err(|error| cannot(error.to_string()))?;
    Ok(Api::Here(Local::new(client, None)))
}
