//! Variables of a crontab, for the commands below them and for cron itself.

use std::borrow::Cow;

use lineclear_model::schedule::find_zone;
use lineclear_model::secret::{is_secret_name, without_passwords};

use super::crontab::Remark;

/// Cron's default shell.
const SHELL: &str = "/bin/sh";

/// The environment of the lines below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Environment {
    shell: String,
    variables: Vec<(String, String)>,
    pub(super) zone: Zone,
}

/// The time zone of the lines below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Zone {
    /// That of the machine, or `--tz`.
    Default,
    /// Set by CRON_TZ.
    Named(String),
    /// CRON_TZ on this line is invalid.
    Bad(usize),
}

impl Default for Environment {
    fn default() -> Environment {
        Environment { shell: SHELL.to_owned(), variables: Vec::new(), zone: Zone::Default }
    }
}

impl Environment {
    /// The arguments that run a command line as cron would. `env` sets the variables, so that the line itself stays as it is.
    pub(super) fn argv(&self, line: &str) -> Vec<String> {
        let mut argv = Vec::new();
        if !self.variables.is_empty() {
            argv.push("/usr/bin/env".to_owned());
            argv.extend(self.variables.iter().map(|(name, value)| format!("{name}={value}")));
        }
        argv.extend([self.shell.clone(), "-c".to_owned(), line.to_owned()]);
        argv
    }

    /// Sets a variable. `Err` if it is left out; `Ok(Some(…))` is a note about it.
    pub(super) fn set(&mut self, line: usize, name: &str, value: &str) -> Result<Option<Remark>, Remark> {
        let note = |why: String| Ok(Some(Remark::new(line, why)));
        match name {
            // Commands see it, too.
            "SHELL" if value.starts_with('/') => {
                self.shell = value.to_owned();
                self.insert(name, value);
            }
            "SHELL" => {
                return Err(Remark::new(
                    line,
                    format!("SHELL={value}: not an absolute path; the lines below use {}", self.shell),
                ));
            }
            "CRON_TZ" => return self.set_zone(line, value),
            "MAILTO" | "MAILFROM" | "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING" => {
                return note(format!("{name}: nothing is mailed; output is in the log of the job"));
            }
            "RANDOM_DELAY" => {
                return note("RANDOM_DELAY: ignored; use `jitter` of the manifest".to_owned());
            }
            "LOGNAME" | "USER" => {
                return note(format!("{name}: ignored; commands run as the user of the server"));
            }
            // Many users may read manifests and jobs.
            name if is_secret_name(name) || matches!(without_passwords(value), Cow::Owned(_)) => {
                return Err(Remark::new(
                    line,
                    format!(
                        "{name}: looks like a secret, which a manifest would reveal; set it in the environment of the server, which commands inherit"
                    ),
                ));
            }
            _ => {
                self.insert(name, value);
                if name == "HOME" {
                    return note(
                        "HOME: set for the commands, but they start in the folder of the server".to_owned(),
                    );
                }
                if name == "TZ" {
                    return note("TZ: set for the commands; as with cron, it does not change when they are due (CRON_TZ does)".to_owned());
                }
            }
        }
        Ok(None)
    }

    fn insert(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    fn set_zone(&mut self, line: usize, value: &str) -> Result<Option<Remark>, Remark> {
        if value.is_empty() {
            self.zone = Zone::Default;
            return Ok(None);
        }
        match find_zone(value) {
            Ok(_) => {
                self.zone = Zone::Named(value.to_owned());
                Ok(Some(Remark::new(line, "CRON_TZ: used, as in cronie; Debian's cron ignores it")))
            }
            Err(bad) => {
                self.zone = Zone::Bad(line);
                Err(Remark { hint: bad.hint, ..Remark::new(line, format!("CRON_TZ: {}", bad.message)) })
            }
        }
    }
}

/// Parses `NAME = value`, with or without quotes.
pub(super) fn variable(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = match line.chars().next()? {
        quote @ ('"' | '\'') => line[1..].split_once(quote)?,
        _ => line.split_at(line.find([' ', '\t', '='])?),
    };
    let value = rest.trim_start_matches([' ', '\t']).strip_prefix('=')?.trim_matches([' ', '\t']);
    let mut letters = name.bytes();
    let first = letters.next()?;
    let is_name = (first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_');
    is_name.then(|| (name, unquoted(value)))
}

fn unquoted(value: &str) -> &str {
    let inside = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_distinguished_from_lines_with_schedules() {
        for (line, want) in [
            ("PATH=/usr/bin:/bin", Some(("PATH", "/usr/bin:/bin"))),
            ("A = b c ", Some(("A", "b c"))),
            ("A=\"b c \"", Some(("A", "b c "))),
            ("'A'='b'", Some(("A", "b"))),
            ("A=", Some(("A", ""))),
            ("A='", Some(("A", "'"))),
            ("A=x=y", Some(("A", "x=y"))),
            ("* * * * * A=b true", None),
            ("@daily A=b true", None),
            ("1A=b", None),
            ("A", None),
            ("", None),
            ("\"A", None),
            ("é=b", None),
        ] {
            assert_eq!(variable(line), want, "{line}");
        }
    }

    #[test]
    fn variables_hold_for_the_lines_below_and_secrets_are_not_written_down() {
        let mut environment = Environment::default();
        assert_eq!(environment.argv("date"), ["/bin/sh", "-c", "date"]);
        assert_eq!(environment.set(1, "SHELL", "/bin/bash"), Ok(None));
        assert_eq!(environment.set(2, "PATH", "/opt/bin"), Ok(None));
        assert_eq!(environment.set(3, "PATH", "/opt/bin:/bin"), Ok(None));
        assert_eq!(
            environment.argv("date"),
            ["/usr/bin/env", "SHELL=/bin/bash", "PATH=/opt/bin:/bin", "/bin/bash", "-c", "date"]
        );
        assert!(environment.set(4, "DB_PASSWORD", "hunter2").unwrap_err().why.contains("secret"));
        assert!(environment.set(5, "SHELL", "bash").unwrap_err().why.contains("/bin/bash"));
        assert!(environment.set(6, "MAILTO", "ops").unwrap().unwrap().why.contains("log of the job"));
        assert_eq!(environment.argv("x").len(), 6, "only SHELL and PATH are set");
        assert!(environment.set(7, "CRON_TZ", "Europe/Belin").is_err());
        assert_eq!(environment.zone, Zone::Bad(7));
        environment.set(8, "CRON_TZ", "").unwrap();
        assert_eq!(environment.zone, Zone::Default);
    }
}
