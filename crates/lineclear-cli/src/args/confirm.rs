//! Asks a person before something that cannot be taken back.

use std::io::{BufRead, IsTerminal};

use clap::Args;

use crate::failure::{Failure, say};

/// Whether to ask.
#[derive(Args, Clone, Copy)]
pub(crate) struct Sure {
    /// Does not ask first
    #[arg(short, long)]
    yes: bool,
}

impl Sure {
    /// Asks about many things at once: without a terminal there is nobody to ask, and it is not done.
    pub(crate) fn of_many(self, what: &str) -> Result<(), Failure> {
        if !self.yes && !std::io::stdin().is_terminal() {
            return Err(Failure::usage(format!(
                "{what}, and nobody is there to be asked; add --yes if you are sure"
            )));
        }
        self.ask(what)
    }

    /// Asks about one thing that was named: without a terminal a script has said what it means.
    pub(crate) fn of_one(self, what: &str) -> Result<(), Failure> {
        if !std::io::stdin().is_terminal() {
            return Ok(());
        }
        self.ask(what)
    }

    /// Whether there is somebody to ask, and something to ask.
    pub(crate) fn would_ask(self) -> bool {
        !self.yes && std::io::stdin().is_terminal()
    }

    fn ask(self, what: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        say(&format!("{what}; go on? [y/N] "));
        let mut typed = String::new();
        let read = std::io::stdin().lock().read_line(&mut typed);
        read.map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
        match typed.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::failed("nothing was changed")),
        }
    }
}
