//! Where the API is: a server, or a database.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use lineclear::{Client, Lineclear, Store, StoreError, StoreOptions};
use lineclear_http::Local;
use lineclear_lock::{Registry, RegistryOptions};
use lineclear_model::doctor::{Check, CheckName};
use lineclear_model::duration::format as in_words;

use super::Api;
use crate::config::{Config, Flags, Origin, span};
use crate::failure::Failure;

const CONNECT: Duration = Duration::from_secs(5);
/// A server answers within 30 seconds, if only that it cannot.
const ANSWER: &str = "40s";

/// Which server, or which database; and how the answer is shown.
#[derive(Args, Clone)]
pub(crate) struct At {
    /// The server [default: that of this machine, on the port that `serve` would take from here]
    #[arg(long, env = "LINECLEAR_SERVER", value_name = "URL", help_heading = "Where")]
    server: Option<String>,
    /// A token of the server; better in LINECLEAR_TOKEN, where other users of this machine do not see it
    #[arg(
        long,
        env = "LINECLEAR_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        help_heading = "Where"
    )]
    token: Option<String>,
    /// Straight on a database, without a server: postgres://…, or a SQLite file
    #[arg(long, value_name = "URL", conflicts_with = "server", help_heading = "Where")]
    db: Option<String>,
    /// This file, instead of ./lineclear.toml and the user's own
    #[arg(long, value_name = "FILE", help_heading = "Where")]
    config: Option<PathBuf>,
    /// How long to wait for each answer of the server
    #[arg(
        long,
        env = "LINECLEAR_REQUEST_TIMEOUT",
        value_name = "TIME",
        default_value = ANSWER,
        value_parser = span,
        help_heading = "Where"
    )]
    request_timeout: Duration,
    /// Prints the JSON of the API
    #[arg(long)]
    pub(crate) json: bool,
}

impl At {
    /// As with no flag at all.
    pub(crate) fn of_this_machine() -> At {
        let said = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        At {
            server: said("LINECLEAR_SERVER"),
            token: said("LINECLEAR_TOKEN"),
            db: None,
            config: None,
            request_timeout: CONNECT,
            json: false,
        }
    }

    /// Opens it.
    pub(crate) async fn api(&self) -> Result<Api, Failure> {
        match &self.db {
            Some(db) => here(db, &self.config()?).await,
            None => self.server(),
        }
    }

    /// Whether it is a server that was named.
    pub(crate) fn asks_a_server(&self) -> bool {
        self.db.is_none() && self.server.is_some()
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
        let base = match &self.server {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => {
                let config = Config::read(&Flags::new(), self.config.clone())?;
                format!("http://{}", crate::cmd::health::reachable(config.address()?))
            }
        };
        if !base.starts_with("http://") && !base.starts_with("https://") {
            return Err(Failure::usage(format!("--server: {base:?} is no URL like http://127.0.0.1:7171")));
        }
        let client = reqwest::Client::builder()
            .user_agent(concat!("lineclear/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|error| Failure::failed(error.to_string()))?;
        Ok(Api::Server { client, base, token: self.token.clone(), answer_within: self.request_timeout })
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
    let locks = Registry::new(db, RegistryOptions::default()).ok();
    // Inputs are looked at as a server with these settings would.
    let builder = crate::kinds::add_checks(Lineclear::builder(), config)?;
    let client = builder.client_of(store).map_err(|error| Failure::failed(error.to_string()))?;
    Ok(Api::Here(Local::new(client, locks)))
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
    let opened = Store::open(options.look_only()).await;
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

/// It is there, and does not answer.
pub(super) fn too_late(base: &str, within: Duration) -> Failure {
    Failure::coded(7, format!("{base} did not answer within {}", in_words(within))).hint(
        "does the server hang? `lineclear health` asks it; --request-timeout waits longer, --db needs no server",
    )
}

/// Nobody answered.
pub(super) fn no_answer(base: &str, error: &reqwest::Error) -> Failure {
    let mut why: &dyn std::error::Error = error;
    while let Some(cause) = why.source() {
        why = cause;
    }
    let code = if error.is_timeout() { 7 } else { 6 };
    Failure::coded(code, format!("no answer from {base}: {why}"))
        .hint("is the server running (`lineclear serve`), and is --server right? --db works without one")
}
