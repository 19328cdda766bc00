//! Environment variables: one that begins with `LINECLEAR_` and is no setting is an error, like an unknown key in a file.

use super::settings::PREFIX;
use super::{SETTINGS, Setting, nearest};
use crate::failure::Failure;

/// Known variables that are no settings.
const OTHERS: &[&str] = &[
    // Set by `lineclear lock run` for its command, which may be `lineclear`.
    "LINECLEAR_LOCK",
    "LINECLEAR_FENCE",
    // Set for jobs of the kind `command`, likewise.
    "LINECLEAR_JOB",
    "LINECLEAR_CLAIM",
    "LINECLEAR_ATTEMPT",
    "LINECLEAR_TICK",
    // Of commands that call the API.
    "LINECLEAR_SERVER",
    "LINECLEAR_TOKEN",
    "LINECLEAR_REQUEST_TIMEOUT",
    "LINECLEAR_INSECURE_HTTP",
    // Of this process itself.
    crate::process::HIDDEN_ARGS,
    // Of `lineclear lock` and `lineclear demo`.
    "LINECLEAR_REGISTRY",
    "LINECLEAR_DEMO_DB",
    // Of tests, besides those that begin with `LINECLEAR_TEST_`.
    "LINECLEAR_CRASH_POINT",
    "LINECLEAR_UNLED",
    "LINECLEAR_UPDATE",
];
/// Prefix of variables of tests.
const TESTS: &str = "LINECLEAR_TEST_";
/// Prefixes of variables that are no settings.
const PREFIXES: [&str; 2] = [TESTS, crate::kinds::SECRET_PREFIX];

/// Refuses unknown variables.
pub(super) fn check() -> Result<(), Failure> {
    let all = std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()));
    all.into_iter().try_for_each(|(name, value)| check_one(&name, &value))
}

fn check_one(name: &str, value: &str) -> Result<(), Failure> {
    let Some(word) = name.strip_prefix(PREFIX) else { return Ok(()) };
    let is_setting = SETTINGS.iter().any(|setting| setting.variable() == name);
    let is_known =
        is_setting || OTHERS.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    // An empty variable counts as unset.
    if is_known || value.is_empty() || is_from_kubernetes(name, value) {
        return Ok(());
    }
    // The value is not printed: it may be secret.
    let failure = Failure::usage(format!("environment: unknown setting {name}"));
    Err(match nearest(&word.to_lowercase()) {
        Some(setting) => failure.hint(format!("did you mean {}?", setting.variable())),
        None => failure.hint("`lineclear config show` lists all settings"),
    })
}

/// The variable of a setting.
pub(super) fn read(setting: &Setting) -> Result<Option<String>, Failure> {
    let name = setting.variable();
    match std::env::var(&name) {
        Ok(text) if text.is_empty() || is_from_kubernetes(&name, &text) => Ok(None),
        Ok(text) => Ok(Some(text)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(Failure::usage(format!("{name} is not UTF-8"))),
    }
}

/// Kubernetes sets variables for every service of the namespace. For one named `lineclear…` they look like ours:
/// `LINECLEAR_SERVICE_HOST`, `LINECLEAR_SERVICE_PORT_HTTP`, `LINECLEAR_PORT=tcp://10.0.0.1:7171`, `LINECLEAR_PORT_7171_TCP_ADDR`.
fn is_from_kubernetes(name: &str, value: &str) -> bool {
    let of_a_port = |(_, rest): (&str, &str)| rest.starts_with(|first: char| first.is_ascii_digit());
    let is_address = ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme));
    name.ends_with("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || (name.ends_with("_PORT") && is_address)
        || name.split_once("_PORT_").is_some_and(of_a_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_kubernetes_and_tests_are_ignored() {
        for (name, value) in [
            ("PATH", "/bin"),
            ("LINECLEAR_SLOTS", "x"),
            ("LINECLEAR_FENCE", "7"),
            ("LINECLEAR_TEST_POSTGRES_URL", "x"),
            ("LINECLEAR_SECRET_API_TOKEN", "x"),
            ("LINECLEAR_SLOST", ""),
            ("LINECLEAR_SERVICE_HOST", "10.0.0.1"),
            ("LINECLEAR_SERVICE_PORT_HTTP", "7171"),
            ("LINECLEAR_API_PORT", "tcp://10.0.0.1:7171"),
            ("LINECLEAR_PORT_7171_TCP_PROTO", "tcp"),
        ] {
            assert!(check_one(name, value).is_ok(), "{name}");
        }
        for name in
            ["LINECLEAR_SLOST", "LINECLEAR_", "LINECLEAR_API_PORT", "LINECLEAR_PORT_HTTP", "LINECLEAR_slots"]
        {
            assert!(check_one(name, "hush").is_err(), "{name}");
        }
    }
}
