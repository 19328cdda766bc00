//! What `--help` looks like, for every command: what it is, how it is called, examples; then all the rest.

use clap::builder::StyledStr;
use clap::{Command, CommandFactory};

/// What comes after the usage begins with examples.
const ORDER: &str = "{before-help}{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}";
const EXAMPLES: &str = "Examples";

/// All commands, with their help.
pub(crate) fn command() -> Command {
    led_by_examples(crate::Cli::command())
}

fn led_by_examples(command: Command) -> Command {
    let command = match command.get_after_help().map(examples_first) {
        Some(help) => command.after_help(help),
        None => command,
    };
    command.help_template(ORDER).mut_subcommands(led_by_examples)
}

/// The same paragraphs, with the examples before all others.
fn examples_first(help: &StyledStr) -> String {
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
        assert_eq!(examples_first(&help), "Examples:\n  lineclear x\n\nStates:\n  held\n\nMore.");
    }
}
