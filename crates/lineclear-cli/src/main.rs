//! The `lineclear` binary: reads the command line, runs one command, turns its end into an exit code.
#![forbid(unsafe_code)]

mod api;
mod cmd;
mod config;
mod failure;
mod help;
mod kinds;
mod output;
mod process;
mod show;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{FromArgMatches, Parser, Subcommand};

use failure::Failure;

const FIRST_STEPS: &str = "Examples, the first steps in an empty folder:
  lineclear serve --commands /bin/date    a server; goes on in this terminal
  lineclear manifest apply --help         in another: a small file to begin with
  lineclear manifest apply -f jobs.toml   what the file says becomes so
  lineclear job list                      what has run

More help: `lineclear COMMAND --help`, `lineclear help exit-codes`, `lineclear help environment`.";

/// A distributed job scheduler: no tick twice, no job lost.
#[derive(Parser)]
#[command(name = "lineclear", version, after_help = FIRST_STEPS)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Look at schedules before anything runs; needs no database.
    #[command(subcommand, alias = "schedules")]
    Schedule(cmd::schedule::Command),
    /// Watch a small cluster live, fail and recover. Leaves nothing behind.
    Demo(cmd::demo::Demo),
    #[command(hide = true)]
    DemoNode(cmd::demo::DemoNode),
    /// Run a node and the HTTP API.
    Serve(Box<cmd::serve::Serve>),
    /// Run a node without the HTTP API.
    Work(cmd::serve::Work),
    /// One screen: who leads, who is alive, what waits, runs and is late.
    Status(cmd::status::Status),
    /// Look at everything that may be wrong, and say what to do about it. Changes nothing.
    Doctor(cmd::doctor::Doctor),
    /// Ask a server of this machine whether it is well; for probes.
    Health(cmd::health::Health),
    /// Jobs: list, enqueue, follow, explain, retry, cancel.
    #[command(subcommand, visible_alias = "j", alias = "jobs")]
    Job(cmd::job::Command),
    /// Standing orders: list, apply, run, pause, explain.
    #[command(subcommand, visible_alias = "m", alias = "manifests")]
    Manifest(cmd::manifest::Command),
    /// Groups: the limit, priority and switch that manifests and jobs share.
    #[command(subcommand, visible_alias = "g", alias = "groups")]
    Group(cmd::group::Command),
    /// Dead letters: jobs that need a person, who brings them back or lets them rest.
    #[command(subcommand, alias = "dead-letters")]
    Dead(cmd::dead::Command),
    /// Nodes: who is there, and who takes work.
    #[command(subcommand, alias = "nodes")]
    Node(cmd::node::Command),
    /// Batches: the same done to many jobs, in the background.
    #[command(subcommand, alias = "batches")]
    Batch(cmd::batch::Command),
    /// Shows what happens, a line each.
    #[command(alias = "event")]
    Events(cmd::events::Events),
    /// Asks the API as it is.
    Api(cmd::raw::Raw),
    /// Measure what the engine makes of your database, beside a floor of the same minute.
    Bench(cmd::bench::Bench),
    /// The settings of a server, and where each comes from.
    #[command(subcommand)]
    Config(cmd::config::Command),
    /// The database's schema: bring it up to date, look how far it is, print what would run.
    #[command(subcommand)]
    Db(cmd::db::Command),
    /// Tokens: who may use a server, and how far.
    #[command(subcommand, alias = "tokens")]
    Token(cmd::token::Command),
    /// Locks: run a command while nobody else does, on this machine or any other.
    #[command(subcommand, alias = "locks")]
    Lock(cmd::lock::Command),
    /// Print what a shell needs to complete commands and options.
    Completions(cmd::completions::Completions),
    /// Print the manual, or write a page for each command.
    Man(cmd::man::Man),
    /// Ends commands of one who was killed. Started by that one, and by nobody else.
    #[command(hide = true)]
    Guard { who: String },
    /// Becomes a command. Started by who runs it, and by nobody else.
    #[command(hide = true)]
    Become {
        parent: u32,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
}

impl Command {
    fn run(self) -> Result<ExitCode, Failure> {
        match self {
            Command::Schedule(command) => command.run().map(|()| ExitCode::SUCCESS),
            Command::Demo(command) => command.run().map(|()| ExitCode::SUCCESS),
            Command::DemoNode(command) => command.run().map(|()| ExitCode::SUCCESS),
            Command::Serve(command) => command.run().map(|()| ExitCode::SUCCESS),
            Command::Work(command) => command.run().map(|()| ExitCode::SUCCESS),
            Command::Status(command) => command.run(),
            Command::Doctor(command) => command.run(),
            Command::Health(command) => command.run(),
            Command::Job(command) => command.run(),
            Command::Manifest(command) => command.run(),
            Command::Group(command) => command.run(),
            Command::Dead(command) => command.run(),
            Command::Node(command) => command.run(),
            Command::Batch(command) => command.run(),
            Command::Events(command) => command.run(),
            Command::Api(command) => command.run(),
            Command::Bench(command) => command.run(),
            Command::Config(command) => command.run().map(|()| ExitCode::SUCCESS),
            Command::Db(command) => command.run().map(|()| ExitCode::SUCCESS),
            Command::Token(command) => command.run(),
            Command::Lock(command) => command.run(),
            Command::Completions(command) => command.run(),
            Command::Man(command) => command.run(),
            Command::Guard { who } => Ok(process::watch(&who)),
            Command::Become { parent, command } => Err(process::become_it(parent, &command)),
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(topic) = cmd::topics::asked(&words) {
        return output::print(&topic).map_or_else(Failure::report, |()| ExitCode::SUCCESS);
    }
    // clap itself ends with 2 on wrong usage, and prints what is wrong.
    let given = Cli::from_arg_matches(&help::command().get_matches()).unwrap_or_else(|error| error.exit());
    let ended = match given.command {
        Some(command) => command.run(),
        None => cmd::status::bare(),
    };
    match ended {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
