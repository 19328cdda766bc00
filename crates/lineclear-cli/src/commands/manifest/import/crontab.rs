//! Reads a crontab: which line runs what, when, and with what around it. Knows nothing of files and machines.

use std::rc::Rc;

use super::environment::{Environment, variable};

/// Fields before the command.
const FIELDS: usize = 5;

/// A line that runs something.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) line: usize,
    /// Comments right above it.
    pub(super) comment: Vec<String>,
    /// Five fields, or a name such as `@daily`.
    pub(super) when: String,
    pub(super) user: Option<String>,
    pub(super) command: String,
    pub(super) environment: Rc<Environment>,
}

/// Something to say about a line.
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

/// What is in a crontab.
#[derive(Debug, Default)]
pub(super) struct Crontab {
    pub(super) entries: Vec<Entry>,
    /// Lines that are not taken.
    pub(super) left_out: Vec<Remark>,
    /// What one should know about lines that are.
    pub(super) notes: Vec<Remark>,
}

/// Reads it. In a crontab of the system, a user stands before each command.
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
            Ok(text) if text.contains('\0') => Err("a byte that is 0"),
            Ok(text) => Ok(text),
            Err(_) => Err("bytes that are no UTF-8"),
        };
        let taken = text.map_err(|what| Remark::new(line, format!("it holds {what}"))).and_then(|text| {
            if let Some((name, value)) = variable(text) {
                let said = Rc::make_mut(&mut environment).set(line, name, value)?;
                crontab.notes.extend(said);
                return Ok(None);
            }
            entry(line, text, is_system).map(Some)
        });
        match taken {
            Ok(Some((when, user, command))) => {
                let environment = environment.clone();
                if bytes.windows(2).any(|two| two == b"\\\\") {
                    let why = "two backslashes are one, as Debian's cron has it; cronie would leave both";
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

/// When, who, what.
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
            "@reboot: jobs belong to no machine, so none of them starts with one; a unit of systemd does that",
        ));
    }
    let user = if is_system { word(&mut rest).map(str::to_owned) } else { None };
    if let Some(user) = user.as_ref().filter(|user| user.contains(['/', '=', '$', '"', '\''])) {
        let why = format!("{user} is no user: with --system, one stands before each command");
        return Err(Remark {
            hint: Some("a crontab of a user (`crontab -l`) has none: leave out --system".to_owned()),
            ..Remark::new(line, why)
        });
    }
    if rest.is_empty() {
        let what = if is_system {
            "five fields (or a name such as @daily), a user and a command"
        } else {
            "five fields (or a name such as @daily) and a command"
        };
        return Err(Remark::new(line, format!("not understood: a line has {what}")));
    }
    match unescaped(rest) {
        Some(command) => Ok((when, user, command)),
        None => Err(Remark {
            hint: Some(
                "give it its input with printf or a file; a percent sign itself is written \\% in a crontab"
                    .to_owned(),
            ),
            ..Remark::new(
                line,
                "a % that is not escaped: cron ends the command there and gives what follows to its standard input",
            )
        }),
    }
}

/// The next word; what follows it is left.
fn word<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let end = rest.find([' ', '\t']).unwrap_or(rest.len());
    let (word, left) = rest.split_at(end);
    *rest = left.trim_start_matches([' ', '\t']);
    (!word.is_empty()).then_some(word)
}

/// A command as Debian's cron gives it to the shell: `\%` is a percent sign, and two backslashes are one. `None` if a percent sign is not
/// escaped.
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
