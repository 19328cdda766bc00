//! Parses a crontab: which line runs what, when, and in which environment. Does no I/O.

use std::rc::Rc;

use super::environment::{Environment, variable};

/// Fields before the command.
const FIELDS: usize = 5;

/// A line that runs a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) line: usize,
    /// Comments directly above it.
    pub(super) comment: Vec<String>,
    /// Five fields, or a name such as `@daily`.
    pub(super) when: String,
    pub(super) user: Option<String>,
    pub(super) command: String,
    pub(super) environment: Rc<Environment>,
}

/// A remark about a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Remark {
    pub(super) line: usize,
    pub(super) why: String,
    pub(super) picture: Option<String>,
    pub(super) hint: Option<String>,
}

impl Remark {
    pub(super) fn new(line: usize, why: impl Into<String>) -> Remark {
        Remark { line, why: why.into(), picture: None, hint: None }
    }
}

/// A parsed crontab.
#[derive(Debug, Default)]
pub(super) struct Crontab {
    pub(super) entries: Vec<Entry>,
    /// Lines that cannot be converted.
    pub(super) left_out: Vec<Remark>,
    /// Notes about lines that are converted.
    pub(super) notes: Vec<Remark>,
}

/// Parses it. System crontabs have a user before each command.
pub(super) fn read(bytes: &[u8], is_system: bool) -> Crontab {
    let mut crontab = Crontab::default();
    let mut environment = Rc::new(Environment::default());
    let mut comment: Vec<String> = Vec::new();
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for (at, bytes) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = at + 1;
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let bytes = bytes.trim_ascii_start();
        if let [b'#', text @ ..] = bytes {
            comment.push(String::from_utf8_lossy(text).trim().to_owned());
            continue;
        }
        let comment = std::mem::take(&mut comment);
        let text = match std::str::from_utf8(bytes) {
            Ok("") => continue,
            Ok(text) if text.contains('\0') => Err("a zero byte"),
            Ok(text) => Ok(text),
            Err(_) => Err("bytes that are not UTF-8"),
        };
        let taken = text.map_err(|what| Remark::new(line, format!("contains {what}"))).and_then(|text| {
            if let Some((name, value)) = variable(text) {
                let note = Rc::make_mut(&mut environment).set(line, name, value)?;
                crontab.notes.extend(note);
                return Ok(None);
            }
            entry(line, text, is_system).map(Some)
        });
        match taken {
            Ok(Some((when, user, command))) => {
                let environment = environment.clone();
                if bytes.windows(2).any(|two| two == b"\\\\") {
                    let why = "two backslashes become one, as in Debian's cron; cronie keeps both";
                    crontab.notes.push(Remark::new(line, why));
                }
                crontab.entries.push(Entry { line, comment, when, user, command, environment });
            }
            Ok(None) => {}
            Err(remark) => crontab.left_out.push(remark),
        }
    }
    crontab
}

/// Schedule, user and command of a line.
fn entry(line: usize, text: &str, is_system: bool) -> Result<(String, Option<String>, String), Remark> {
    let mut rest = text;
    let named = text.starts_with('@');
    let mut fields = Vec::new();
    for _ in 0..if named { 1 } else { FIELDS } {
        fields.extend(word(&mut rest));
    }
    let when = fields.join(" ");
    if when.eq_ignore_ascii_case("@reboot") {
        return Err(Remark::new(
            line,
            "@reboot: jobs do not belong to a machine; use a systemd unit instead",
        ));
    }
    let user = if is_system { word(&mut rest).map(str::to_owned) } else { None };
    if let Some(user) = user.as_ref().filter(|user| user.contains(['/', '=', '$', '"', '\''])) {
        let why = format!("{user} is not a user; with --system, lines have a user before the command");
        return Err(Remark {
            hint: Some("crontabs of users (`crontab -l`) have none; leave out --system".to_owned()),
            ..Remark::new(line, why)
        });
    }
    if rest.is_empty() {
        let what = if is_system {
            "five fields (or a name such as @daily), a user and a command"
        } else {
            "five fields (or a name such as @daily) and a command"
        };
        return Err(Remark::new(line, format!("not a crontab line: expected {what}")));
    }
    match unescaped(rest) {
        Some(command) => Ok((when, user, command)),
        None => Err(Remark {
            hint: Some(
                "pipe the input from printf or a file; write a literal percent sign as \\%".to_owned(),
            ),
            ..Remark::new(
                line,
                "unescaped %: cron ends the command there and passes the rest to its standard input",
            )
        }),
    }
}

/// Takes the next word.
fn word<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let end = rest.find([' ', '\t']).unwrap_or(rest.len());
    let (word, left) = rest.split_at(end);
    *rest = left.trim_start_matches([' ', '\t']);
    (!word.is_empty()).then_some(word)
}

/// The command as Debian's cron passes it to the shell: `\%` becomes a percent sign, and two backslashes one. `None` if a percent sign
/// is not escaped.
fn unescaped(command: &str) -> Option<String> {
    let mut text = String::with_capacity(command.len());
    let mut escaped = false;
    for c in command.chars() {
        if c == '%' && !escaped {
            return None;
        }
        if escaped && matches!(c, '%' | '\\') {
            text.pop();
        }
        escaped = c == '\\' && !escaped;
        text.push(c);
    }
    Some(text)
}

#[cfg(test)]
mod tests;
