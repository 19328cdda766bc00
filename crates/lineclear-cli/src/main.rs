//! The `lineclear` binary: parses the command line, runs one command, and returns its exit code.
#![forbid(unsafe_code)]

mod api_client;
mod api_command;
mod args;
mod commands;
mod config;
mod display;
mod failure;
mod help_layout;
mod kinds;
mod node_process;
mod os_user;
mod outboxes;
mod output;
mod process;
mod runtime;
mod submitters;
mod timeout;
mod until_interrupted;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{FromArgMatches, Parser, Subcommand};

use failure::Failure;

const FIRST_STEPS: &str = "Examples, the first steps in an empty folder:
  lineclear serve --commands /bin/date --allow-open-commands    start a server in this terminal
  lineclear manifest apply --help                               in another terminal: a small file to begin with
  lineclear manifest apply -f jobs.toml                         create the manifests in the file
  lineclear job list                                            list the jobs that ran

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
    /// Preview, explain and check schedules; needs no database.
    #[command(subcommand, alias = "schedules")]
    Schedule(commands::schedule::Command),
    /// Watch a small cluster run, fail and recover; leaves nothing behind.
    Demo(commands::demo::Demo),
    #[command(hide = true)]
    DemoNode(commands::demo::DemoNode),
    /// Run a node and the HTTP API.
    Serve(Box<commands::serve::Serve>),
    /// Run a node without the HTTP API.
    Work(commands::work::Work),
    /// Show the leader, the nodes, and what waits, runs and is late.
    Status(commands::status::Status),
    /// Check everything that may be wrong, and say what to do about it. Changes nothing.
    Doctor(commands::doctor::Doctor),
    /// Check the health of the server on this machine; for probes.
    Health(commands::health::Health),
    /// List, enqueue, watch, explain, retry and cancel jobs.
    #[command(subcommand, visible_alias = "j", alias = "jobs")]
    Job(commands::job::Command),
    /// List, apply, run, pause and explain manifests.
    #[command(subcommand, visible_alias = "m", alias = "manifests")]
    Manifest(commands::manifest::Command),
    /// List, limit, pause and run groups of manifests and jobs.
    #[command(subcommand, visible_alias = "g", alias = "groups")]
    Group(commands::group::Command),
    /// List, revive and acknowledge dead letters: jobs whose retries are used up.
    #[command(subcommand, visible_alias = "dead", alias = "dead-letters")]
    DeadLetter(commands::dead_letter::Command),
    /// List, drain and resume nodes.
    #[command(subcommand, alias = "nodes")]
    Node(commands::node::Command),
    /// List where the jobs of each kind go.
    #[command(subcommand, alias = "submitters")]
    Submitter(commands::submitter::Command),
    /// List outboxes; show, replay and discard their messages.
    #[command(subcommand, alias = "outboxes")]
    Outbox(commands::outbox::Command),
    /// List, pause, resume, reset and rebuild subscriptions; replay and discard their parked events.
    #[command(subcommand, alias = "subscriptions")]
    Subscription(commands::subscription::Command),
    /// Cancel, retry, revive or acknowledge many jobs in the background.
    #[command(subcommand, visible_alias = "bulk", alias = "bulk-operations")]
    BulkOperation(commands::bulk_operation::Command),
    /// Stream events, one per line.
    #[command(alias = "event")]
    Events(commands::events::Events),
    /// Send a request to the HTTP API and print the response.
    Api(commands::api::ApiRequest),
    /// Benchmark Lineclear on your database, each figure next to a baseline.
    Bench(commands::bench::Bench),
    /// Show the settings of a server, and where each comes from.
    #[command(subcommand)]
    Config(commands::config::Command),
    /// Migrate the database's schema, show its status, or print pending migrations.
    #[command(subcommand)]
    Db(commands::db::Command),
    /// Create, list and revoke tokens of the HTTP API.
    #[command(subcommand, alias = "tokens")]
    Token(commands::token::Command),
    /// List browsers that are logged in, and log them out.
    #[command(subcommand, alias = "sessions")]
    Session(commands::session::Command),
    /// Run a command under a distributed lock; list, explain and break locks.
    #[command(subcommand, alias = "locks")]
    Lock(commands::lock::Command),
    /// Print a completion script for a shell.
    Completions(commands::completions::Completions),
    /// Print the manual, or write a page for each command.
    Man(commands::man::Man),
    /// Internal: kills orphaned child processes.
    #[command(hide = true)]
    Guard { parent: String },
    /// Internal: waits until it is guarded, then executes a command.
    #[command(hide = true)]
    Become {
        parent: u32,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Internal: waits until it is guarded, runs a command, and ends everything that the command started.
    #[command(hide = true)]
    Supervise {
        parent: u32,
        confinement: String,
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Internal: takes on a user and limits, then executes a command.
    #[command(hide = true)]
    Confine {
        confinement: String,
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
            Command::DeadLetter(command) => command.run(),
            Command::Node(command) => command.run(),
            Command::Submitter(command) => command.run(),
            Command::Outbox(command) => command.run(),
            Command::Subscription(command) => command.run(),
            Command::BulkOperation(command) => command.run(),
            Command::Events(command) => command.run(),
            Command::Api(command) => command.run(),
            Command::Bench(command) => command.run(),
            Command::Config(command) => command.run().map(|()| ExitCode::SUCCESS),
            Command::Db(command) => command.run().map(|()| ExitCode::SUCCESS),
            Command::Token(command) => command.run(),
            Command::Session(command) => command.run(),
            Command::Lock(command) => command.run(),
            Command::Completions(command) => command.run(),
            Command::Man(command) => command.run(),
            Command::Guard { parent } => Ok(process::watch(&parent)),
            Command::Become { parent, command } => Err(process::become_command(parent, &command)),
            Command::Supervise { parent, confinement, command } => {
                process::supervise(parent, &confinement, &command)
            }
            Command::Confine { confinement, command } => Err(process::confine(&confinement, &command)),
        }
    }
}

fn main() -> ExitCode {
    let given = process::hide_passwords();
    let words: Vec<String> = given.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(topic) = commands::help::topic(&words) {
        return output::print(&topic).map_or_else(Failure::report, |()| ExitCode::SUCCESS);
    }
    // On invalid usage clap prints the error and exits with 2.
    let given = Cli::from_arg_matches(&help_layout::command().get_matches_from(given))
        .unwrap_or_else(|error| error.exit());
    let ended = match given.command {
        Some(command) => command.run(),
        None => commands::status::print_summary(),
    };
    match ended {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
