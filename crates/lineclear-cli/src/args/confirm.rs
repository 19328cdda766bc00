//! `--yes`: commands that cannot be undone ask first.

use std::io::{BufRead, IsTerminal};

use clap::Args;

use crate::failure::Failure;
use crate::output::print_stderr;

/// Whether to ask first.
#[derive(Args, Clone, Copy)]
pub(crate) struct Confirm {
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

impl Confirm {
    /// Asks before a change to many things. Without a terminal nothing is changed unless `--yes` is given.
    pub(crate) fn for_many(self, what: &str) -> Result<(), Failure> {
        if !self.yes && !std::io::stdin().is_terminal() {
            return Err(Failure::usage(format!(
                "{what}; standard input is not a terminal, so this cannot be confirmed"
            ))
            .hint("add --yes to skip the confirmation"));
        }
        self.prompt(what)
    }

    /// Asks before a change to one thing that was named. Without a terminal the change is made.
    pub(crate) fn for_one(self, what: &str) -> Result<(), Failure> {
        if !std::io::stdin().is_terminal() {
            return Ok(());
        }
        self.prompt(what)
    }

    /// Whether a question would be printed.
    pub(crate) fn would_prompt(self) -> bool {
        !self.yes && std::io::stdin().is_terminal()
    }

    fn prompt(self, what: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        print_stderr(&format!("{what}; continue? [y/N] "));
        let mut typed = String::new();
        let read = std::io::stdin().lock().read_line(&mut typed);
        read.map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
        match typed.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::failed("not confirmed; nothing was changed")),
        }
    }
}
