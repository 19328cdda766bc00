//! Variables that a crontab sets: for the commands below them, and for cron itself.

use std::borrow::Cow;

use lineclear_model::schedule::find_zone;
use lineclear_model::secret::{is_secret_name, without_passwords};

use super::crontab::Remark;

/// Cron's own shell.
const SHELL: &str = "/bin/sh";

/// What the lines from here on run with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Environment {
    shell: String,
    variables: Vec<(String, String)>,
    pub(super) zone: Zone,
}

/// Where the lines from here on have their times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Zone {
    /// Where the machine is.
    Usual,
    /// As CRON_TZ said.
    Named(String),
    /// CRON_TZ named none that exists, on this line.
    Bad(usize),
}

impl Default for Environment {
    fn default() -> Environment {
        Environment { shell: SHELL.to_owned(), variables: Vec::new(), zone: Zone::Usual }
    }
}

impl Environment {
    /// The words that run a command line as cron would. `env` sets what the crontab sets, so that the line itself stays as it is.
    pub(super) fn argv(&self, line: &str) -> Vec<String> {
        let mut argv = Vec::new();
        if !self.variables.is_empty() {
            argv.push("/usr/bin/env".to_owned());
            argv.extend(self.variables.iter().map(|(name, value)| format!("{name}={value}")));
        }
        argv.extend([self.shell.clone(), "-c".to_owned(), line.to_owned()]);
        argv
    }

    /// Takes a variable. `Err`: it is left out; `Ok(Some(…))`: it is taken or means nothing here, and there is something to say about it.
    pub(super) fn set(&mut self, line: usize, name: &str, value: &str) -> Result<Option<Remark>, Remark> {
        let say = |why: String| Ok(Some(Remark::new(line, why)));
        match name {
            // Commands find it among their variables, too.
            "SHELL" if value.starts_with('/') => {
                self.shell = value.to_owned();
                self.take(name, value);
            }
            "SHELL" => {
                return Err(Remark::new(
                    line,
                    format!(
                        "SHELL={value}: a program is named with its whole path; the lines below use {}",
                        self.shell
                    ),
                ));
            }
            "CRON_TZ" => return self.set_zone(line, value),
            "MAILTO" | "MAILFROM" | "CONTENT_TYPE" | "CONTENT_TRANSFER_ENCODING" => {
                return say(format!(
                    "{name}: nothing is mailed; what a command writes is in the log of its job"
                ));
            }
            "RANDOM_DELAY" => {
                return say("RANDOM_DELAY: not taken; `jitter` spreads a manifest's jobs".to_owned());
            }
            "LOGNAME" | "USER" => {
                return say(format!("{name}: not taken; commands run as the user that the server runs as"));
            }
            // Manifests and jobs can be read by many.
            name if is_secret_name(name) || matches!(without_passwords(value), Cow::Owned(_)) => {
                return Err(Remark::new(
                    line,
                    format!(
                        "{name}: it looks like a secret, which a manifest would show; set it in the server's own environment, which commands get"
                    ),
                ));
            }
            _ => {
                self.take(name, value);
                if name == "HOME" {
                    return say(
                        "HOME: set for the commands, but they start where the server does, and not there"
                            .to_owned(),
                    );
                }
                if name == "TZ" {
                    return say("TZ: set for the commands; as with cron, it does not move when they are due (CRON_TZ does)".to_owned());
                }
            }
        }
        Ok(None)
    }

    fn take(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    fn set_zone(&mut self, line: usize, value: &str) -> Result<Option<Remark>, Remark> {
        if value.is_empty() {
            self.zone = Zone::Usual;
            return Ok(None);
        }
        match find_zone(value) {
            Ok(_) => {
                self.zone = Zone::Named(value.to_owned());
                Ok(Some(Remark::new(line, "CRON_TZ: taken, as cronie does; Debian's cron would not heed it")))
            }
            Err(bad) => {
                self.zone = Zone::Bad(line);
                Err(Remark { hint: bad.hint, ..Remark::new(line, format!("CRON_TZ: {}", bad.message)) })
            }
        }
    }
}

/// `NAME = value`, with or without quotes, if a line is that.
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
    fn variables_are_told_from_lines_with_times() {
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
        assert!(environment.set(6, "MAILTO", "ops").unwrap().unwrap().why.contains("log of its job"));
        assert_eq!(environment.argv("x").len(), 6, "only SHELL and PATH are set");
        assert!(environment.set(7, "CRON_TZ", "Europe/Belin").is_err());
        assert_eq!(environment.zone, Zone::Bad(7));
        environment.set(8, "CRON_TZ", "").unwrap();
        assert_eq!(environment.zone, Zone::Usual);
    }
}
