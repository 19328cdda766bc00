//! Settings that confine commands: their environment, their user and their limits.

use std::ffi::OsString;

use crate::config::{Config, parse_duration};
use crate::failure::Failure;
use crate::process::{CommandUser, Confinement, Limit};

/// Variables that every command gets from the server; `LC_*` means all that begin with `LC_`.
const PASSED: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_*", "TZ", "TMPDIR"];

/// Variables of a command's environment.
pub(super) type Variables = Vec<(OsString, OsString)>;

/// The user and the limits of commands. Fails if this process cannot run commands so.
pub(super) fn confinement(config: &Config) -> Result<Confinement, Failure> {
    let limits = limits(config.text("command_limits")).map_err(|why| config.bad("command_limits", &why))?;
    let user = match config.text("command_user") {
        "" => None,
        name => Some(user(name).map_err(|why| config.bad("command_user", &why))?),
    };
    Ok(Confinement { user, limits })
}

fn user(name: &str) -> Result<CommandUser, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root can run commands as another user; start the server as root, or as this user"
            .to_owned());
    }
    CommandUser::find(name)
}

/// The environment of commands, without that of the server: it may hold passwords.
pub(super) fn variables(config: &Config, user: Option<&CommandUser>) -> Result<Variables, Failure> {
    let more = names(config.text("command_env")).map_err(|why| config.bad("command_env", &why))?;
    let names: Vec<&str> = PASSED.into_iter().chain(more.iter().map(String::as_str)).collect();
    let mut passed: Variables = std::env::vars_os()
        .filter(|(name, _)| name.to_str().is_some_and(|name| is_named(name, &names)))
        .collect();
    if let Some(user) = user {
        let own = [
            ("HOME", user.home.clone().into_os_string()),
            ("USER", OsString::from(&user.name)),
            ("LOGNAME", OsString::from(&user.name)),
            ("SHELL", user.shell.clone().into_os_string()),
        ];
        // The last one counts.
        passed.extend(own.map(|(name, value)| (OsString::from(name), value)));
    }
    Ok(passed)
}

fn is_named(variable: &str, names: &[&str]) -> bool {
    names.iter().any(|name| match name.strip_suffix('*') {
        Some(start) => variable.starts_with(start),
        None => variable == *name,
    })
}

/// `PGHOST,AWS_*`
pub(crate) fn names(text: &str) -> Result<Vec<String>, String> {
    let name = |word: &str| {
        let plain = word.strip_suffix('*').unwrap_or(word);
        let is_name =
            !plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_name {
            Ok(word.to_owned())
        } else {
            Err(format!("{word:?} is not the name of a variable, such as PGHOST or AWS_*"))
        }
    };
    words(text).map(name).collect()
}

/// `cpu=10m,memory=2G,files=256,processes=64,file_size=1G`
pub(crate) fn limits(text: &str) -> Result<Vec<Limit>, String> {
    words(text).map(limit).collect()
}

fn limit(word: &str) -> Result<Limit, String> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    match name.trim() {
        "cpu" => match parse_duration(value.trim())?.as_secs() {
            0 => Err("cpu: must be at least 1s".to_owned()),
            seconds => Ok(Limit::Cpu(seconds)),
        },
        "memory" => size(value).map(Limit::Memory),
        "files" => size(value).map(Limit::Files),
        "processes" => size(value).map(Limit::Processes),
        "file_size" => size(value).map(Limit::FileSize),
        other => {
            Err(format!("{other:?} is not cpu, memory, files, processes or file_size, such as memory=2G"))
        }
    }
}

/// `64`, `512M`, `2G`: at least 1.
fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    number
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("{text:?} is not a number such as 64, 512M or 2G"))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_names_and_sizes() {
        assert_eq!(
            limits("cpu=2m, memory=2G,files=16,processes=8,file_size=1K").unwrap(),
            [
                Limit::Cpu(120),
                Limit::Memory(2 << 30),
                Limit::Files(16),
                Limit::Processes(8),
                Limit::FileSize(1024)
            ]
        );
        assert_eq!(limits("").unwrap(), []);
        for bad in
            ["cpu", "cpu=0s", "cpu=x", "memory=0", "memory=2T", "memory=99999999999G", "disk=1G", "files=-1"]
        {
            assert!(limits(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn variables_are_passed_by_name_or_beginning() {
        let names = names("PGHOST, AWS_*").unwrap();
        let names: Vec<&str> = PASSED.into_iter().chain(names.iter().map(String::as_str)).collect();
        for yes in ["PATH", "LC_ALL", "PGHOST", "AWS_REGION", "HOME"] {
            assert!(is_named(yes, &names), "{yes}");
        }
        for no in
            ["PGPASSWORD", "PATHS", "NOTIFY_SOCKET", "LINECLEAR_DB", "CREDENTIALS_DIRECTORY", "LD_PRELOAD"]
        {
            assert!(!is_named(no, &names), "{no}");
        }
        for bad in ["*", "A=B", "a b", "PG-HOST"] {
            assert!(super::names(bad).is_err(), "{bad}");
        }
    }
}
