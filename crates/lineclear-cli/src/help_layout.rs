//! The layout of `--help` for every command: description, usage, examples; then everything else.

use clap::builder::StyledStr;
use clap::{Command, CommandFactory};

/// The text after the usage begins with examples.
const ORDER: &str = "{before-help}{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}";
const EXAMPLES: &str = "Examples";

/// All commands, with their help.
pub(crate) fn command() -> Command {
    with_examples_first(crate::Cli::command())
}

fn with_examples_first(command: Command) -> Command {
    let command = match command.get_after_help().map(move_examples_first) {
        Some(help) => command.after_help(help),
        None => command,
    };
    command.help_template(ORDER).mut_subcommands(with_examples_first)
}

/// Moves the paragraphs with examples before all others.
fn move_examples_first(help: &StyledStr) -> String {
    let help = help.to_string();
    let (examples, others): (Vec<&str>, Vec<&str>) =
        help.split("\n\n").partition(|paragraph| paragraph.trim_start().starts_with(EXAMPLES));
    [examples, others].concat().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_come_first_and_nothing_is_lost() {
        let help = StyledStr::from("States:\n  held\n\nExamples:\n  lineclear x\n\nMore.");
        assert_eq!(move_examples_first(&help), "Examples:\n  lineclear x\n\nStates:\n  held\n\nMore.");
    }
}
