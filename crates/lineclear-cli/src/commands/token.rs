//! `lineclear token`: tokens of the HTTP API. Works on the database unless a server is named, so that the first token needs none.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use lineclear_model::{BadName, Name, Scope, Scopes};
use serde_json::{Value, json};

use crate::api_client::{ApiClient, ApiTarget, Json, path_segment};
use crate::api_command::{
    PageArgs, fetch_pages, items, millis, object, print_answer, print_list_or_empty, with_optional_api,
};
use crate::config::parse_duration;
use crate::display::{Cell, Column};
use crate::failure::Failure;
use crate::output::print_stderr;
use crate::output::{print, print_json};

const EXAMPLES: &str = "Examples:
  lineclear token create ci --scope operate --expires 30d
  lineclear token create prometheus --scope read --expires never --db postgres://scheduler@db.internal/app
  lineclear token create mailer --scope worker --kinds invoice,refund
  lineclear token list
  lineclear token revoke ci
  lineclear token list --server https://scheduler.internal     (through the server; requires the scope admin)

Scopes:
  read     read everything
  operate  read; enqueue, run, pause, cancel and revive
  admin    operate; change manifests, groups and settings, and create tokens
  worker   claim and settle jobs; independent of the others

Without --server it works on the database that `serve` would use here, so that the first token needs no server.";

/// Exit code.
const NOT_FOUND: u8 = 3;
const EMPTY: &str = "no tokens; create one with: lineclear token create NAME --scope admin";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Create a token and print it; it is not shown again.
    #[command(after_help = EXAMPLES)]
    Create(Create),
    /// List tokens, newest first, without their secrets.
    #[command(after_help = EXAMPLES)]
    List(List),
    /// Revoke a token; servers refuse it within seconds.
    #[command(after_help = EXAMPLES)]
    Revoke(Revoke),
}

/// The help of `--server`: without it, these commands work on the database.
pub(super) fn server_help(server: clap::Arg) -> clap::Arg {
    server.help("URL of the server, or LINECLEAR_SERVER [default: none; works on the database]")
}

#[derive(Args)]
#[command(mut_arg("server", server_help))]
pub(crate) struct Create {
    /// Unique name: a-z, 0-9, '.', '_', '-'
    name: String,
    /// Comma-separated scopes: read, operate, admin, worker
    #[arg(long, value_name = "SCOPE")]
    scope: String,
    /// Comma-separated kinds whose jobs a worker may claim [default: all]; only with the scope worker
    #[arg(long, value_name = "KINDS")]
    kinds: Option<String>,
    /// Lifetime, such as 90d or 12h; never: until it is revoked
    #[arg(long, value_name = "TIME", default_value = "90d")]
    expires: String,
    #[command(flatten)]
    target: ApiTarget,
}

#[derive(Args)]
#[command(mut_arg("server", server_help))]
pub(crate) struct List {
    #[command(flatten)]
    page: PageArgs,
    #[command(flatten)]
    target: ApiTarget,
}

#[derive(Args)]
#[command(mut_arg("server", server_help))]
pub(crate) struct Revoke {
    /// Name of the token
    name: String,
    #[command(flatten)]
    target: ApiTarget,
}

const COLUMNS: &[Column] = &[
    Column { head: "NAME", of: |token| Cell::text(token.get("name")) },
    Column { head: "PREFIX", of: |token| Cell::text(token.get("prefix")) },
    Column { head: "SCOPES", of: |token| Cell::text(token.get("scopes")) },
    Column { head: "KINDS", of: |token| Cell::text(token.get("kinds")) },
    Column { head: "STATE", of: state },
    Column { head: "CREATED", of: |token| Cell::time(token.get("created_at")) },
    Column { head: "BY", of: |token| Cell::text(token.get("created_by")) },
    Column { head: "LAST USED", of: |token| Cell::time(token.get("last_used_at")) },
    Column { head: "EXPIRES", of: expires },
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

fn expires(token: &Json) -> Cell {
    Cell::time(token.get(if is(token, "revoked_at") { "revoked_at" } else { "expires_at" }))
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::Create(create) => create.run(),
            Command::List(List { page, target }) => {
                print_list_or_empty(&target, "tokens", &page, COLUMNS, EMPTY)
            }
            Command::Revoke(Revoke { name, target }) => {
                with_optional_api(target.open_server_or_database(false), async |api| match api {
                    Some(api) => revoke(api, &target, &name).await,
                    None => Err(unknown(&name)),
                })
            }
        }
    }
}

impl Create {
    fn run(self) -> Result<ExitCode, Failure> {
        // Invalid arguments are refused before a database file is created.
        let name = Name::new(&self.name).map_err(|bad| Failure::usage(format!("{:?}: {bad}", self.name)))?;
        let scopes = Scopes::parse(&self.scope).map_err(|bad| Failure::usage(format!("--scope: {bad}")))?;
        let kinds =
            self.kinds.as_ref().map(|kinds| kinds.split(',').map(|kind| Name::new(kind.trim())).collect());
        let kinds: Option<Vec<Name>> =
            kinds.transpose().map_err(|bad: BadName| Failure::usage(format!("--kinds: {bad}")))?;
        if kinds.is_some() && !scopes.include(Scope::Worker) {
            return Err(Failure::usage("--kinds needs --scope worker: other scopes apply to all kinds"));
        }
        let expires_in = match self.expires.as_str() {
            // Explicitly: without the field, the API takes its default.
            "never" => Value::Null,
            text => millis(parse_duration(text).map_err(|why| Failure::usage(format!("--expires: {why}")))?),
        };
        let life = match self.expires.as_str() {
            "never" => "does not expire".to_owned(),
            text => format!("expires in {text}"),
        };
        let words: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
        let body = vec![
            ("name", Some(json!(name.as_str()))),
            ("scopes", Some(json!(words))),
            ("kinds", kinds.map(|kinds| json!(kinds))),
            ("expires_in_ms", Some(expires_in)),
        ];
        with_optional_api(self.target.open_server_or_database(true), async |api| {
            let Some(api) = api else { return Err(Failure::failed("the database does not exist")) };
            let made = api.post("tokens", object(body)).await?;
            if self.target.json {
                print_json(&made)?;
                return Ok(ExitCode::SUCCESS);
            }
            print_stderr(&format!("token {name} ({scopes}), {life}; store it now, it is not shown again:\n"));
            print(&format!("{}\n", made.get("token").and_then(Value::as_str).unwrap_or_default()))?;
            Ok(ExitCode::SUCCESS)
        })
    }
}

fn unknown(name: &str) -> Failure {
    Failure::coded(NOT_FOUND, format!("no live token is named {name:?}"))
        .hint("list them with: lineclear token list")
}

async fn revoke(api: &ApiClient, target: &ApiTarget, name: &str) -> Result<ExitCode, Failure> {
    let (all, _) = fetch_pages(api, ("tokens", &[]), &PageArgs::ALL).await?;
    let live: Vec<Json> = items(&all).into_iter().filter(|token| is(token, "live")).collect();
    let text =
        |token: &Value, name: &str| token.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(found) = live.iter().find(|token| text(token, "name") == name) else {
        let names = live.iter().map(|token| text(token, "name"));
        return Err(crate::api_command::nearest(names, name)
            .map_or(unknown(name), |there| unknown(name).did_you_mean(&there)));
    };
    let path = format!("tokens/{}", path_segment(&text(found, "id")));
    api.request("DELETE", &path, None).await?;
    let revoked = if target.json { api.get(&path).await? } else { Json::default() };
    print_answer(target, &revoked, &format!("revoked {name}; servers refuse it within seconds"))
}
