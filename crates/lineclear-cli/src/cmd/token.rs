//! `lineclear token`: who may use a server. Straight on the database, so that the first token needs no server.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use lineclear::store::{AuditEnd, NewAudit, NewToken, StoreResult, TokenView, WhichToken};
use lineclear::{Store, StoreOptions};
use lineclear_model::{Name, Scopes};
use serde::Serialize;

use crate::config::{Config, Flags, span};
use crate::failure::{Failure, say};
use crate::output::{print, print_json, table};

const EXAMPLES: &str = "Scopes:
  read     look at everything
  operate  and make, run, pause, cancel and revive
  admin    and change manifests, groups and settings, and make tokens
  worker   take jobs and settle them; beside the others

Examples:
  lineclear token create ci --scope operate --expires 90d
  lineclear token create prometheus --scope read --db postgres://scheduler@db.internal/app
  lineclear token list
  lineclear token revoke ci";

/// Exit code: there is nothing of that name.
const NOT_FOUND: u8 = 3;
/// Tokens that one command lists.
const LISTED_MAX: u32 = 1_000;
/// The status, as in HTTP, of what could not be done.
const REFUSED: u16 = 409;
/// Characters of a name that the audit keeps.
const TARGET_CHARS_MAX: usize = 128;

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Makes a token and prints it, this once.
    #[command(after_help = EXAMPLES)]
    Create(Create),
    /// Lists tokens, newest first; never their secrets.
    #[command(after_help = EXAMPLES)]
    List(Place),
    /// Revokes a token: servers refuse it within seconds.
    #[command(after_help = EXAMPLES)]
    Revoke {
        /// The token's name
        name: String,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Args)]
pub(crate) struct Create {
    /// A name that no other living token has: a-z, 0-9, '.', '_', '-'
    name: String,
    /// What its owner may do: read, operate, admin or worker; more than one with commas between them
    #[arg(long, value_name = "SCOPE")]
    scope: String,
    /// It ends by itself after this time, such as 90d or 12h [default: when it is revoked]
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(Args)]
pub(crate) struct Place {
    /// postgres://user@host/database?schema=lineclear, or a SQLite file [default: as for `serve`]
    #[arg(long, value_name = "URL")]
    db: Option<String>,
    /// This file, instead of ./lineclear.toml and the user's own
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// What programs get.
#[derive(Serialize)]
struct Report {
    id: String,
    name: String,
    prefix: String,
    scopes: Vec<&'static str>,
    live: bool,
    created_at: String,
    created_by: String,
    expires_at: Option<String>,
    last_used_at: Option<String>,
    revoked_at: Option<String>,
    /// The token itself, when it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl Report {
    fn of(view: &TokenView) -> Report {
        let time = |at: Option<lineclear_model::Micros>| at.map(|at| at.to_string());
        Report {
            id: view.id.to_string(),
            name: view.name.clone(),
            prefix: view.prefix.clone(),
            scopes: view.scopes.iter().map(|scope| scope.as_str()).collect(),
            live: view.is_live(),
            created_at: view.created_at.to_string(),
            created_by: view.created_by.clone(),
            expires_at: time(view.expires_at),
            last_used_at: time(view.last_used_at),
            revoked_at: time(view.revoked_at),
            token: None,
        }
    }
}

impl Command {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
        runtime.block_on(async {
            match self {
                Command::Create(create) => create.run().await,
                Command::List(place) => list(place).await,
                Command::Revoke { name, place } => revoke(&name, place).await,
            }
        })
    }
}

impl Place {
    /// The database that `serve` would take from here.
    fn options(&self) -> Result<StoreOptions, Failure> {
        let flags: Flags = self.db.clone().map(|db| ("db", db)).into_iter().collect();
        let config = Config::read(&flags, self.config.clone())?;
        Ok(StoreOptions::new(config.text("db"))?.connections(1))
    }

    /// The store, if it is there: looking does not make a file.
    async fn look(&self) -> Result<Option<Store>, Failure> {
        let options = self.options()?;
        if options.file().is_some_and(|file| !file.exists()) {
            return Ok(None);
        }
        Ok(Some(Store::open(options).await?))
    }
}

impl Create {
    async fn run(self) -> Result<(), Failure> {
        let name = Name::new(&self.name).map_err(|bad| Failure::usage(format!("{:?}: {bad}", self.name)))?;
        let scopes = Scopes::parse(&self.scope).map_err(|bad| Failure::usage(format!("--scope: {bad}")))?;
        let lives = self.expires.as_deref().map(span).transpose();
        let lives = lives.map_err(|why| Failure::usage(format!("--expires: {why}")))?;
        let store = Store::open(self.place.options()?).await?;
        let target = name.to_string();
        let token = NewToken { name, scopes, lives, created_by: person() };
        let (view, secret) = audited(&store, "create_token", &target, 201, store.create_token(token)).await?;
        if self.place.json {
            return print_json(&Report { token: Some(secret.expose().to_owned()), ..Report::of(&view) });
        }
        say(&format!("token {} ({}); keep it, it is not shown again:\n", view.name, view.scopes));
        print(&format!("{}\n", secret.expose()))
    }
}

async fn list(place: Place) -> Result<(), Failure> {
    let tokens = match place.look().await? {
        Some(store) => store.tokens(None, LISTED_MAX).await?.items,
        None => Vec::new(),
    };
    if place.json {
        return print_json(&tokens.iter().map(Report::of).collect::<Vec<_>>());
    }
    if tokens.is_empty() {
        return print("there are no tokens; make one with: lineclear token create NAME --scope admin\n");
    }
    let mut rows =
        vec![["NAME", "PREFIX", "SCOPES", "STATE", "MADE", "LAST USED", "ENDS"].map(str::to_owned).to_vec()];
    rows.extend(tokens.iter().map(row));
    print(&table(&rows))
}

fn row(token: &TokenView) -> Vec<String> {
    let time = |at: Option<lineclear_model::Micros>| at.map_or_else(|| "-".to_owned(), |at| at.to_string());
    let state = match (token.revoked_at, token.is_live()) {
        (Some(_), _) => "revoked",
        (None, false) => "expired",
        (None, true) => "live",
    };
    vec![
        token.name.clone(),
        token.prefix.clone(),
        token.scopes.to_string(),
        state.to_owned(),
        format!("{} by {}", token.created_at, token.created_by),
        time(token.last_used_at),
        time(token.revoked_at.or(token.expires_at)),
    ]
}

async fn revoke(name: &str, place: Place) -> Result<(), Failure> {
    let unknown = || {
        Failure::coded(NOT_FOUND, format!("there is no living token {name:?}"))
            .hint("see: lineclear token list")
    };
    let store = place.look().await?.ok_or_else(unknown)?;
    let revoking = store.revoke_token(WhichToken::Name(name.to_owned()));
    let revoked = audited(&store, "revoke_token", name, 204, revoking).await?.ok_or_else(unknown)?;
    match place.json {
        true => print_json(&Report::of(&revoked)),
        false => print(&format!("revoked {}; servers refuse it within seconds\n", revoked.name)),
    }
}

/// Does it, between two writes to the audit, as a server does.
async fn audited<T>(
    store: &Store,
    action: &str,
    target: &str,
    status: u16,
    act: impl Future<Output = StoreResult<T>>,
) -> Result<T, Failure> {
    let target: String = target.chars().take(TARGET_CHARS_MAX).collect();
    let (who, action, request_id) = (person(), action.to_owned(), format!("cli-{}", std::process::id()));
    let begun = store.audit_begin(vec![NewAudit { who, token: None, action, target, request_id }]).await?;
    let done = act.await;
    let status = if done.is_ok() { status } else { REFUSED };
    let ends = begun.into_iter().map(|id| AuditEnd { id, status, details: None });
    store.audit_end(ends.collect()).await?;
    Ok(done?)
}

/// Who runs this command, as far as the system says.
fn person() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let user = user.ok().filter(|user| !user.is_empty() && user.len() <= 64);
    format!("cli:{}", user.as_deref().unwrap_or("unknown"))
}
