//! `lineclear token`: who may use a server. Straight on the database unless a server is named, so that the first token needs none.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use lineclear_model::{Name, Scopes};
use serde_json::{Value, json};

use super::ask::{Much, asking_of, collected, object, only, say_or_json, show_list, show_rows};
use crate::api::{Api, At, Json, piece};
use crate::config::span;
use crate::failure::{Failure, say};
use crate::output::{print, print_json};
use crate::show::{Cell, Column};

const EXAMPLES: &str = "Examples:
  lineclear token create ci --scope operate --expires 90d
  lineclear token create prometheus --scope read --db postgres://scheduler@db.internal/app
  lineclear token list
  lineclear token revoke ci
  lineclear token list --server https://scheduler.internal     (asks the server; needs the scope admin)

Scopes:
  read     look at everything
  operate  and make, run, pause, cancel and revive
  admin    and change manifests, groups and settings, and make tokens
  worker   take jobs and settle them; beside the others

Without --server it works on the database that `serve` would take from here, so that the first token needs no server.";

/// Exit code: there is nothing of that name.
const NOT_FOUND: u8 = 3;
const NONE: &str = "there are no tokens; make one with: lineclear token create NAME --scope admin";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Makes a token and prints it, this once.
    #[command(after_help = EXAMPLES)]
    Create(Create),
    /// Lists tokens, newest first; never their secrets.
    #[command(after_help = EXAMPLES)]
    List(List),
    /// Revokes a token: servers refuse it within seconds.
    #[command(after_help = EXAMPLES)]
    Revoke(Revoke),
}

/// For the help: here the database is asked unless somebody names a server.
fn named_only(server: clap::Arg) -> clap::Arg {
    server.help("Asks this server, also in LINECLEAR_SERVER [default: none; it works on the database]")
}

#[derive(Args)]
#[command(mut_arg("server", named_only))]
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
    at: At,
}

#[derive(Args)]
#[command(mut_arg("server", named_only))]
pub(crate) struct List {
    #[command(flatten)]
    much: Much,
    #[command(flatten)]
    at: At,
}

#[derive(Args)]
#[command(mut_arg("server", named_only))]
pub(crate) struct Revoke {
    /// The token's name
    name: String,
    #[command(flatten)]
    at: At,
}

const COLUMNS: &[Column] = &[
    Column { head: "NAME", of: |token| Cell::text(token.get("name")) },
    Column { head: "PREFIX", of: |token| Cell::text(token.get("prefix")) },
    Column { head: "SCOPES", of: |token| Cell::text(token.get("scopes")) },
    Column { head: "STATE", of: state },
    Column { head: "MADE", of: |token| Cell::time(token.get("created_at")) },
    Column { head: "BY", of: |token| Cell::text(token.get("created_by")) },
    Column { head: "USED", of: |token| Cell::time(token.get("last_used_at")) },
    Column { head: "ENDS", of: ends },
];

fn is(token: &Value, name: &str) -> bool {
    token.get(name).is_some_and(|value| !value.is_null() && value != &json!(false))
}

fn state(token: &Json) -> Cell {
    let word = match (is(token, "revoked_at"), is(token, "live")) {
        (true, _) => "revoked",
        (false, false) => "expired",
        (false, true) => "live",
    };
    Cell::State(word.to_owned())
}

fn ends(token: &Json) -> Cell {
    Cell::time(token.get(if is(token, "revoked_at") { "revoked_at" } else { "expires_at" }))
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::Create(create) => create.run(),
            Command::List(List { much, at }) => {
                asking_of(at.server_or_database(false), async |api| match api {
                    Some(api) => show_list(api, &at, ("tokens", &[]), &much, COLUMNS, NONE).await,
                    None => show_rows(&at, &json!({"items": [], "next": null}).into(), false, COLUMNS, NONE),
                })
            }
            Command::Revoke(Revoke { name, at }) => {
                asking_of(at.server_or_database(false), async |api| match api {
                    Some(api) => revoke(api, &at, &name).await,
                    None => Err(unknown(&name)),
                })
            }
        }
    }
}

impl Create {
    fn run(self) -> Result<ExitCode, Failure> {
        // What cannot be is said before a file is made.
        let name = Name::new(&self.name).map_err(|bad| Failure::usage(format!("{:?}: {bad}", self.name)))?;
        let scopes = Scopes::parse(&self.scope).map_err(|bad| Failure::usage(format!("--scope: {bad}")))?;
        let lives = self.expires.as_deref().map(span).transpose();
        let lives = lives.map_err(|why| Failure::usage(format!("--expires: {why}")))?;
        let millis = lives.map(|lives| json!(u64::try_from(lives.as_millis()).unwrap_or(u64::MAX)));
        let words: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
        let body = vec![
            ("name", Some(json!(name.as_str()))),
            ("scopes", Some(json!(words))),
            ("expires_in_ms", millis),
        ];
        asking_of(self.at.server_or_database(true), async |api| {
            let Some(api) = api else { return Err(Failure::failed("there is no database")) };
            let made = api.post("tokens", object(body)).await?;
            if self.at.json {
                print_json(&made)?;
                return Ok(ExitCode::SUCCESS);
            }
            say(&format!("token {name} ({scopes}); keep it, it is not shown again:\n"));
            print(&format!("{}\n", made.get("token").and_then(Value::as_str).unwrap_or_default()))?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn unknown(name: &str) -> Failure {
    Failure::coded(NOT_FOUND, format!("there is no living token {name:?}")).hint("see: lineclear token list")
}

async fn revoke(api: &Api, at: &At, name: &str) -> Result<ExitCode, Failure> {
    let (all, _) = collected(api, ("tokens", &[]), &Much::ALL).await?;
    let living: Vec<Json> = only(&all).into_iter().filter(|token| is(token, "live")).collect();
    let text =
        |token: &Value, name: &str| token.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(found) = living.iter().find(|token| text(token, "name") == name) else {
        let names = living.iter().map(|token| text(token, "name"));
        return Err(
            super::ask::nearest(names, name).map_or(unknown(name), |there| unknown(name).nearest(&there))
        );
    };
    let path = format!("tokens/{}", piece(&text(found, "id")));
    api.ask("DELETE", &path, None).await?;
    let revoked = if at.json { api.get(&path).await? } else { Json::default() };
    say_or_json(at, &revoked, &format!("revoked {name}; servers refuse it within seconds"))
}
