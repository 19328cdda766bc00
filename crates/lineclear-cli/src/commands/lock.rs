//! `lineclear lock`: distributed locks from the command line.

mod break_lock;
mod explain;
mod history;
mod list;
mod report;
mod run;
mod runners;
mod show;
mod target;

use std::process::ExitCode;

use clap::Subcommand;

use crate::failure::Failure;
use crate::runtime::block_on;

const EXAMPLES: &str = "\
Examples:
  lineclear lock run nightly-backup -- backup.sh --all
  lineclear lock list
  lineclear lock explain nightly-backup";

#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Run a command while holding a lock.
    Run(run::Run),
    /// List recorded locks: holder, state, and since when.
    List(list::List),
    /// Show one lock, as its store and the registry see it.
    Show(show::Show),
    /// Explain who holds a lock, since when, whether the holder is alive, and what happens next.
    Explain(explain::Explain),
    /// Show the history of a lock: acquisitions, losses and breaks.
    History(history::History),
    /// List runners: work that runs on one node at a time, with its state on each node.
    Runners(runners::Runners),
    /// Break a lock: take it away from its holder.
    Break(break_lock::Break),
}

impl Command {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::Run(run) => block_on(run.run()),
            Command::List(list) => block_on(list.run()),
            Command::Show(show) => block_on(show.run()),
            Command::Explain(explain) => block_on(explain.run()),
            Command::History(history) => block_on(history.run()),
            Command::Runners(runners) => block_on(runners.run()),
            Command::Break(break_lock) => block_on(break_lock.run()),
        }
    }
}
