//! Passwords on the command line, which every user of the machine can see (`ps`). This process replaces itself by one whose command
//! line has dots in their place, and which gets the words in its environment: only the same user and root can read that.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use lineclear_model::secret::{MASK, without_passwords};

use crate::output::print_stderr;

/// The process id and the words, for this process alone.
pub(crate) const HIDDEN_ARGS: &str = "LINECLEAR_HIDDEN_ARGS";

const WARNING: &str = "WARNING  a password on the command line can be seen by other users of this machine. It is hidden from now on; \
                       put it into LINECLEAR_DB or a file of settings (docs/security.md)\n";

/// The words of the command line.
pub(crate) fn hide_passwords() -> Vec<OsString> {
    let given: Vec<OsString> = std::env::args_os().collect();
    // Only texts are hidden: a URL and a token are some.
    let Some(words) = given.iter().map(|word| word.to_str()).collect::<Option<Vec<&str>>>() else {
        return given;
    };
    if let Some(hidden) = hidden(&words) {
        return hidden.into_iter().map(OsString::from).collect();
    }
    let shown = masked(&words);
    if shown != words {
        if words.iter().any(|word| word.contains("://") && without_passwords(word) != *word) {
            print_stderr(WARNING);
        }
        // If it fails, the words are at least understood.
        replace_process(&words, &shown);
    }
    given
}

fn replace_process(words: &[&str], shown: &[String]) {
    let ([name, arguments @ ..], Ok(program)) = (shown, std::env::current_exe()) else { return };
    let hidden = format!("{} {}", std::process::id(), serde_json::json!(words));
    drop(Command::new(program).arg0(name).args(arguments).env(HIDDEN_ARGS, hidden).exec());
}

/// The words that were hidden from this process's command line. Processes that it starts inherit the variable, and ignore it.
fn hidden(words: &[&str]) -> Option<Vec<String>> {
    let variable = std::env::var(HIDDEN_ARGS).ok()?;
    let (process, hidden) = variable.split_once(' ')?;
    let hidden: Vec<String> = serde_json::from_str(hidden).ok()?;
    let is_own = process == std::process::id().to_string()
        && masked(&hidden.iter().map(String::as_str).collect::<Vec<_>>()) == words;
    is_own.then_some(hidden)
}

/// The words without passwords of URLs and tokens. Those of a command behind `--` are its own.
fn masked(words: &[&str]) -> Vec<String> {
    let own = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    let mask = |(at, word): (usize, &&str)| match word.strip_prefix("--token=") {
        _ if at >= own => (*word).to_owned(),
        Some(token) if !token.is_empty() => format!("--token={MASK}"),
        _ if at > 0 && words[at - 1] == "--token" => MASK.to_owned(),
        _ => without_passwords(word).into_owned(),
    };
    words.iter().enumerate().map(mask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_and_tokens_become_dots_and_all_else_stays() {
        let shown =
            masked(&["lineclear", "job", "list", "--token", "hush", "--db=postgres://me:hush@db/app"]);
        assert_eq!(shown[4..], [MASK.to_owned(), format!("--db=postgres://me:{MASK}@db/app")]);
        let plain = ["lineclear", "serve", "--db", "postgres://me@db/app", "--port", "0"];
        assert_eq!(masked(&plain), plain);
        let command = ["lineclear", "lock", "run", "x", "--", "psql", "postgres://me:its-own@db/app"];
        assert_eq!(masked(&command), command);
        // What is shown once is not hidden again.
        let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
        assert_eq!(masked(&shown), shown);
    }
}
