//! `lineclear session`: browsers that are logged in. Works on the database unless a server is named.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::api_client::{ApiTarget, Json, path_segment};
use crate::api_command::{PageArgs, print_answer, print_list_or_empty, with_optional_api};
use crate::commands::token::server_help;
use crate::display::{Cell, Column};
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  lineclear session list
  lineclear session revoke 3f9a0c1d2b4e5f60
  lineclear session list --server https://scheduler.internal     (through the server; requires the scope admin)

A browser that logs in with a token has a session for twelve hours. Revoking the token ends all of its sessions.
Without --server it works on the database that `serve` would use here.";

/// Exit code.
const NOT_FOUND: u8 = 3;
const EMPTY: &str = "no browser is logged in";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// List the sessions of browsers, those that end last first.
    #[command(after_help = EXAMPLES)]
    List(List),
    /// End a session; its cookie is refused at once.
    #[command(after_help = EXAMPLES)]
    Revoke(Revoke),
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
    /// Id of the session, from `lineclear session list`
    id: String,
    #[command(flatten)]
    target: ApiTarget,
}

const COLUMNS: &[Column] = &[
    Column { head: "ID", of: |session| Cell::text(session.get("id")) },
    Column { head: "TOKEN", of: |session| Cell::text(session.get("token")) },
    Column { head: "ADDRESS", of: |session| Cell::text(session.get("address")) },
    Column { head: "CREATED", of: |session| Cell::time(session.get("created_at")) },
    Column { head: "EXPIRES", of: |session| Cell::time(session.get("expires_at")) },
];

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::List(List { page, target }) => {
                print_list_or_empty(&target, "sessions", &page, COLUMNS, EMPTY)
            }
            Command::Revoke(Revoke { id, target }) => {
                with_optional_api(target.open_server_or_database(false), async |api| {
                    let Some(api) = api else {
                        return Err(Failure::coded(NOT_FOUND, format!("there is no session {id:?}")));
                    };
                    api.request("DELETE", &format!("sessions/{}", path_segment(&id)), None).await?;
                    print_answer(&target, &Json::default(), &format!("ended session {id}"))
                })
            }
        }
    }
}
