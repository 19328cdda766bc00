//! `lineclear help TOPIC`: what is the same for all commands.

use crate::config::SETTINGS;

const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "done"),
    ("1", "failed"),
    ("2", "what was given cannot be"),
    ("3", "there is no such thing"),
    ("4", "not allowed"),
    ("5", "something is in the way: it has changed, or is over"),
    ("6", "nobody answers"),
    ("7", "it took too long"),
    ("8, 9", "the job that was waited for failed, was cancelled"),
    ("10", "not healthy"),
    ("11", "stored data cannot be read"),
    ("130", "interrupted"),
];

/// Those that are no settings.
const VARIABLES: &[(&str, &str)] = &[
    ("LINECLEAR_SERVER", "the server that commands ask, as --server"),
    ("LINECLEAR_TOKEN", "the token that they show there, as --token"),
    ("LINECLEAR_REQUEST_TIMEOUT", "how long they wait for each answer, as --request-timeout"),
    ("LINECLEAR_REGISTRY", "the database with the record of locks, as --registry of `lock`"),
    ("NO_COLOR", "if it is not empty: no colour on terminals"),
    ("COLUMNS", "how wide tables are, instead of what the terminal says"),
    (
        "LC_ALL, LC_CTYPE, LANG",
        "whether the terminal shows more than ASCII: if the first of them that is set has UTF-8 in it",
    ),
    ("XDG_CONFIG_HOME", "where the user's own lineclear/config.toml is [default: ~/.config]"),
];

/// What is printed for these words, if they ask for a topic.
pub(crate) fn asked(words: &[String]) -> Option<String> {
    let [help, topic] = words else { return None };
    match (help.as_str(), topic.as_str()) {
        ("help", "exit-codes" | "exit-code" | "exit") => Some(exit_codes()),
        ("help", "environment" | "env" | "variables") => Some(environment()),
        _ => None,
    }
}

fn rows<'a>(rows: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> String {
    let width = rows.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.map(|(name, what)| format!("  {name:width$}  {what}\n")).collect()
}

fn exit_codes() -> String {
    format!(
        "What commands end with:\n\n{}\n`lock run` ends with the code of its command; its --help says more.\n",
        rows(EXIT_CODES.iter().copied())
    )
}

fn environment() -> String {
    let settings: Vec<(String, &str)> =
        SETTINGS.iter().map(|setting| (setting.variable(), setting.help)).collect();
    format!(
        "Variables that every command heeds:\n\n{}\nSettings of `serve` and `work`, as `lineclear config show --origin` finds them:\n\n{}",
        rows(VARIABLES.iter().copied()),
        rows(settings.iter().map(|(name, help)| (name.as_str(), *help)))
    )
}
