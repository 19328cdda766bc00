//! `lineclear help TOPIC`: what all commands have in common.

use crate::config::SETTINGS;

const EXIT_CODES: &[(&str, &str)] = &[
    ("0", "success"),
    ("1", "failed"),
    ("2", "invalid usage"),
    ("3", "not found"),
    ("4", "not allowed"),
    ("5", "conflict: it has changed, or is finished"),
    ("6", "unreachable"),
    ("7", "timed out"),
    ("8, 9", "the awaited job failed, was cancelled"),
    ("10", "unhealthy"),
    ("11", "stored data is corrupt"),
    ("130", "interrupted"),
];

/// Variables that are no settings.
const VARIABLES: &[(&str, &str)] = &[
    ("LINECLEAR_SERVER", "URL of the server, like --server"),
    ("LINECLEAR_TOKEN", "token of the server, like --token"),
    ("LINECLEAR_REQUEST_TIMEOUT", "how long to wait for each response, like --request-timeout"),
    ("LINECLEAR_REGISTRY", "database of the lock registry, like --registry of `lock`"),
    ("NO_COLOR", "no colour on terminals if it is not empty"),
    ("COLUMNS", "width of tables, instead of the terminal's"),
    ("LC_ALL, LC_CTYPE, LANG", "print non-ASCII characters if the first one that is set contains UTF-8"),
    ("XDG_CONFIG_HOME", "folder of the user's own lineclear/config.toml [default: ~/.config]"),
];

/// The text of a topic, if these words ask for one.
pub(crate) fn topic(words: &[String]) -> Option<String> {
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
        "Exit codes:\n\n{}\n`lock run` exits with the code of its command; see `lineclear lock run --help`.\n",
        rows(EXIT_CODES.iter().copied())
    )
}

fn environment() -> String {
    let settings: Vec<(String, &str)> =
        SETTINGS.iter().map(|setting| (setting.variable(), setting.help)).collect();
    format!(
        "Variables of all commands:\n\n{}\nSettings of `serve` and `work`, see also `lineclear config show --origin`:\n\n{}",
        rows(VARIABLES.iter().copied()),
        rows(settings.iter().map(|(name, help)| (name.as_str(), *help)))
    )
}
