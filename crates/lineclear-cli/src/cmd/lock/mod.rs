//! `lineclear lock`: locks from the command line.

mod run;
mod process;
mod guard;
mod signals;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use lineclear_lock::{Backend, LockError, LockOptions};
use lineclear_model::duration;

use crate::failure::Failure;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Runs a command while nobody else runs one under the same lock.
    Run(run::Run),
    /// Ends the command of a `lock run` that was killed. Started by it, and by nobody else.
    #[command(hide = true)]
    Guard,
    /// Becomes the command of a `lock run`. Started by it, and by nobody else.
    #[command(hide = true)]
    Become {
        parent: u32,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let run = match self {
            Command::Run(run) => run,
            Command::Guard => return Ok(guard::watch()),
            Command::Become { parent, command } => return Err(process::become_it(parent, &command)),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
        runtime.block_on(run.run())
    }
}

/// Where the locks are.
#[derive(Args)]
struct Place {
    /// postgres://…, mysql://…, redis://…, or a SQLite file, for the processes of this machine
    #[arg(
        long,
        visible_alias = "db",
        env = "LINECLEAR_DB",
        hide_env_values = true,
        default_value = "lineclear.db",
        value_name = "URL"
    )]
    store: String,
}

impl Place {
    /// The store that is named. It is not yet asked anything.
    fn backend(&self, options: &LockOptions) -> Result<Arc<dyn Backend>, Failure> {
        if self.store.ends_with(":memory:") {
            let why = "--store: a lock in the memory of one process keeps nobody else out";
            return Err(Failure::usage(why).hint("name a file, or the URL of a server"));
        }
        lineclear_lock::backend(&self.store, options).map_err(|error| match error {
            LockError::Refused { rule, why } if rule == "lock_url" => {
                Failure::usage(format!("--store: {why}"))
            }
            LockError::Refused { rule, why } => Failure::usage(format!("{rule}: {why}")),
            error => Failure::usage(error.to_string()),
        })
    }
}

/// A length of time on the command line.
fn length(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// What to look at when a store cannot be reached.
const REACHABLE: &str = "is the server running, and are host, port, user and password of --store right?";

/// An error with its causes, as far as they say more.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(&format!(": {more}"));
        }
        cause = error.source();
    }
    text
}
