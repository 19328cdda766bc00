//! `--server` or `--db`: where a command finds the API.

use std::path::PathBuf;

use clap::Args;
use lineclear::{Client, Lineclear, Store, StoreError, StoreOptions};
use lineclear_http::{DatabaseLocks, InProcessApi};
use lineclear_model::doctor::{Check, CheckName};

use super::{ApiClient, ServerArgs};
use crate::config::{Config, Flags, Origin};
use crate::failure::Failure;
use crate::os_user::audit_name;

/// A server or a database, and the format of the output.
#[derive(Args, Clone)]
pub(crate) struct ApiTarget {
    #[command(flatten)]
    server: ServerArgs,
    /// Work on a database without a server: postgres://…, or a SQLite file
    #[arg(long, value_name = "URL", conflicts_with = "server", help_heading = "Target")]
    db: Option<String>,
    /// Read this file instead of ./lineclear.toml and the user's own
    #[arg(long, value_name = "FILE", help_heading = "Target")]
    config: Option<PathBuf>,
    /// Print the JSON of the API
    #[arg(long)]
    pub(crate) json: bool,
}

impl ApiTarget {
    /// The target of a command line without flags.
    pub(crate) fn local() -> ApiTarget {
        ApiTarget { server: ServerArgs::local(), db: None, config: None, json: false }
    }

    pub(crate) async fn open(&self) -> Result<ApiClient, Failure> {
        match &self.db {
            Some(db) => open_in_process(db, &self.config()?).await,
            None => self.open_server(),
        }
    }

    /// Opens the server if one is named, otherwise the database: the one that is named, or that `serve` would use here. A SQLite file that
    /// does not exist is created if `create` is set; otherwise the result is `None`.
    pub(crate) async fn open_server_or_database(&self, create: bool) -> Result<Option<ApiClient>, Failure> {
        if self.is_server() {
            return self.open_server().map(Some);
        }
        let config = self.config()?;
        let options = StoreOptions::new(config.text("db"))?.connections(1);
        if !create && options.file().is_some_and(|file| !file.exists()) {
            return Ok(None);
        }
        // Migrates the schema.
        drop(Store::open(options).await?);
        open_in_process(config.text("db"), &config).await.map(Some)
    }

    /// Whether a server is named.
    pub(crate) fn is_server(&self) -> bool {
        self.db.is_none() && self.server.named().is_some()
    }

    /// The settings, with the database that is named.
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let flags: Flags = self.db.clone().map(|db| ("db", db)).into_iter().collect();
        Config::read(&flags, self.config.clone())
    }

    /// Opens the database for `doctor`, also one whose schema is old or broken. `None` if no database is known, because the settings cannot
    /// be read.
    pub(crate) async fn open_for_doctor(&self, config: Option<&Config>) -> Option<Result<ApiClient, Check>> {
        let db = self.db.as_deref().or(config.map(|config| config.text("db")))?;
        let origin = config.and_then(|config| config.values().find(|(name, _)| *name == "db"));
        let is_named = self.db.is_some() || origin.is_some_and(|(_, value)| value.origin != Origin::Default);
        Some(open_for_doctor(db, is_named).await)
    }

    fn open_server(&self) -> Result<ApiClient, Failure> {
        if let Some(url) = self.server.named() {
            return self.server.client(&url);
        }
        let config = Config::read(&Flags::new(), self.config.clone())?;
        if self.server.has_token() {
            config.check_token_target()?;
        }
        self.server.client(&format!("http://{}", crate::commands::health::reachable(config.address()?)))
    }
}

async fn open_in_process(db: &str, config: &Config) -> Result<ApiClient, Failure> {
    let options = StoreOptions::new(db)?;
    if let Some(file) = options.file().filter(|file| !file.exists()) {
        return Err(Failure::coded(6, format!("file {} does not exist", file.display()))
            .hint("`lineclear serve` or `lineclear db migrate` creates it"));
    }
    let store = Store::open(options.migrate(false)).await?;
    let pending = store.migration_status().await?.pending.len();
    if pending > 0 {
        let message = format!("the database lacks {pending} migrations");
        return Err(Failure::coded(5, message).hint("run: lineclear db migrate --db …"));
    }
    let locks = DatabaseLocks::new(db).ok();
    // Inputs are checked as a server with these settings would check them.
    let builder = crate::kinds::add_checks(Lineclear::builder(), config)?;
    let client = builder.client_of(store).map_err(|error| Failure::failed(error.to_string()))?;
    Ok(ApiClient::InProcess(InProcessApi::new(client, locks).with_user(&audit_name())))
}

async fn open_for_doctor(db: &str, is_named: bool) -> Result<ApiClient, Check> {
    let cannot = |why: String| {
        let remedy =
            "check that it is the right database (lineclear config show --origin), or restore a backup";
        Check::failure(CheckName::Reachable, why, remedy)
    };
    let options = StoreOptions::new(db).map_err(|error| cannot(error.to_string()))?;
    if let Some(file) = options.file().filter(|file| !file.exists()) {
        return Err(crate::commands::doctor::missing_file(file, is_named));
    }
    let file = options.file().map(|file| file.display().to_string());
    let opened = Store::open(options.read_only()).await;
    let store = opened.map_err(|error| match (&error, file) {
        (StoreError::CannotWrite { .. }, Some(file)) => {
            let remedy = format!(
                "this user needs to read and write the file, {file}-wal, {file}-shm and their folder (ls -l {file}*); or run it as \
                 the server's user: sudo -u USER lineclear doctor"
            );
            Check::failure(CheckName::Reachable, error.to_string(), remedy)
        }
        _ => cannot(error.to_string()),
    })?;
    let client = Client::of_store(store).map_err(|error| cannot(error.to_string()))?;
    Ok(ApiClient::InProcess(InProcessApi::new(client, None)))
}
