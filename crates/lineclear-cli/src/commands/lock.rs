//! `lineclear lock`: locks from the command line.

mod run;
mod process;
mod signals;
mod terminal;
mod place;
mod list;
mod explain;
mod sentences;
mod take_away;
mod report;

use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use lineclear_model::duration;

use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  lineclear lock run nightly-backup -- backup.sh --all
  lineclear lock list
  lineclear lock explain nightly-backup";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Runs a command while nobody else runs one under the same lock.
    Run(run::Run),
    /// Lists the locks that were recorded: who holds them, since when, and is it alive.
    List(list::List),
    /// Shows one lock, as its store and the registry see it.
    Show(explain::Show),
    /// Says in plain words who holds a lock, since when, whether it is alive, and what happens next.
    Explain(explain::Explain),
    /// Shows what happened to a lock: who took it from whom, who lost it or went away, who broke it and why.
    History(list::History),
    /// Takes a lock away from its holder.
    Break(take_away::Break),
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
        match self {
            Command::Run(run) => runtime.block_on(run.run()),
            Command::List(list) => runtime.block_on(list.run()),
            Command::Show(show) => runtime.block_on(show.run()),
            Command::Explain(explain) => runtime.block_on(explain.run()),
            Command::History(history) => runtime.block_on(history.run()),
            Command::Break(take_away) => runtime.block_on(take_away.run()),
        }
    }
}

/// A length of time on the command line.
fn length(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}
