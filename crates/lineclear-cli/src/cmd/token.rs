//! `lineclear token`: who may use a server. Straight on the database, so that the first token needs no server.

use clap::{Args, Subcommand};
use lineclear::Store;
use lineclear::store::{AuditEnd, NewAudit, NewToken, Secret, StoreResult, TokenView, WhichToken};
use lineclear_model::{Micros, Name, Scopes};
use serde::Serialize;
use serde_json::{Value, json};

use super::person::person;
use super::place::{Place, look};
use crate::config::span;
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
        let time = |at: Option<Micros>| at.map(|at| at.to_string());
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

impl Create {
    async fn run(self) -> Result<(), Failure> {
        let name = Name::new(&self.name).map_err(|bad| Failure::usage(format!("{:?}: {bad}", self.name)))?;
        let scopes = Scopes::parse(&self.scope).map_err(|bad| Failure::usage(format!("--scope: {bad}")))?;
        let lives = self.expires.as_deref().map(span).transpose();
        let lives = lives.map_err(|why| Failure::usage(format!("--expires: {why}")))?;
        let store = Store::open(self.place.options()?).await?;
        let target = name.to_string();
        let token = NewToken { name, scopes, lives, created_by: cli_person() };
        let made = |(view, _): &(TokenView, Secret)| {
            let (scopes, ends) = (view.scopes.to_string(), view.expires_at.map(|at| at.to_string()));
            json!({"token": view.id.to_string(), "name": view.name, "scopes": scopes, "expires_at": ends})
        };
        let making = store.create_token(token);
        let (view, secret) = audited(&store, "create_token", &target, 201, making, made).await?;
        if self.place.json {
            return print_json(&Report { token: Some(secret.expose().to_owned()), ..Report::of(&view) });
        }
        say(&format!("token {} ({}); keep it, it is not shown again:\n", view.name, view.scopes));
        print(&format!("{}\n", secret.expose()))
    }
}

async fn list(place: Place) -> Result<(), Failure> {
    let tokens = match look(place.options()?).await? {
        Some(store) => store.tokens(None, LISTED_MAX).await?.items,
        None => Vec::new(),
    };
    if place.json {
        return print_json(&tokens.iter().map(Report::of).collect::<Vec<_>>());
    }
    if tokens.is_empty() {
        return print("there are no tokens; make one with: lineclear token create NAME --scope admin\n");
    }
    let mut rows = vec![
        ["NAME", "PREFIX", "SCOPES", "STATE", "MADE", "BY", "LAST USED", "ENDS"].map(str::to_owned).to_vec(),
    ];
    rows.extend(tokens.iter().map(row));
    print(&table(&rows))
}

fn row(token: &TokenView) -> Vec<String> {
    let (state, ended) = match (token.revoked_at, token.is_live()) {
        (Some(at), _) => ("revoked", Some(at)),
        (None, false) => ("expired", token.expires_at),
        (None, true) => ("live", None),
    };
    let ends = match ended {
        Some(at) => format!("ended {}", seconds(at)),
        None => token.expires_at.map_or_else(|| "never".to_owned(), seconds),
    };
    vec![
        token.name.clone(),
        token.prefix.clone(),
        token.scopes.to_string(),
        state.to_owned(),
        seconds(token.created_at),
        token.created_by.clone(),
        token.last_used_at.map_or_else(|| "never".to_owned(), seconds),
        ends,
    ]
}

/// A moment, as exactly as people read it.
fn seconds(at: Micros) -> String {
    at.offset(-at.get().rem_euclid(1_000_000)).to_string()
}

async fn revoke(name: &str, place: Place) -> Result<(), Failure> {
    let unknown = || {
        Failure::coded(NOT_FOUND, format!("there is no living token {name:?}"))
            .hint("see: lineclear token list")
    };
    let store = look(place.options()?).await?.ok_or_else(unknown)?;
    let revoking = store.revoke_token(WhichToken::Name(name.to_owned()));
    let details =
        |revoked: &Option<TokenView>| json!({"token": revoked.as_ref().map(|one| one.id.to_string())});
    let revoked = audited(&store, "revoke_token", name, 204, revoking, details).await?.ok_or_else(unknown)?;
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
    details: impl FnOnce(&T) -> Value,
) -> Result<T, Failure> {
    let target: String = target.chars().take(TARGET_CHARS_MAX).collect();
    let (who, action, request_id) = (cli_person(), action.to_owned(), format!("cli-{}", std::process::id()));
    let begun = store.audit_begin(vec![NewAudit { who, token: None, action, target, request_id }]).await?;
    let done = act.await;
    let status = if done.is_ok() { status } else { REFUSED };
    let details = done.as_ref().ok().map(|done| details(done).to_string());
    let ends = begun.into_iter().map(|id| AuditEnd { id, status, details: details.clone() });
    store.audit_end(ends.collect()).await?;
    Ok(done?)
}

/// Whoever runs this command, as the audit has it.
fn cli_person() -> String {
    format!("cli:{}", person())
}
