//! What is said about an import, beside what it prints.

use std::borrow::Cow;
use std::path::Path;

use lineclear_model::secret::{is_secret_name, without_passwords};

use super::crontab::Remark;
use super::machine::Usual;
use super::write::{Import, allowed};

/// All of it.
pub(super) fn told(made: &Import, zone: &Usual, written: Option<&Path>, owner: &str) -> String {
    let count = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let mut text = format!(
        "{} of the crontab, {} left out; times in {} ({}) where it says nothing else\n",
        count(made.manifests.len(), "manifest"),
        count(made.left_out.len(), "line"),
        zone.name,
        zone.why
    );
    for (head, remarks) in [("left out:", &made.left_out), ("to know:", &made.notes)] {
        if !remarks.is_empty() {
            text.push_str(&format!("\n{head}\n"));
            text.extend(together(remarks));
        }
    }
    if !made.commands.is_empty() {
        text.push_str("\nadd this to lineclear.toml of each server that shall run them, into the list if it has one; it allows just these:\n\ncommands = [\n");
        text.extend(made.commands.iter().map(|argv| format!("    {},\n", allowed(argv))));
        text.push_str("]\n");
        let file = written.map_or_else(|| "FILE".into(), |path| path.display().to_string());
        text.push_str(&format!("\nthen: lineclear manifest apply -f {file} --owner {owner} --dry-run\n"));
    }
    text
}

/// One paragraph for each thing, with the lines that it is about.
fn together(remarks: &[Remark]) -> Vec<String> {
    let mut said: Vec<(Vec<usize>, &Remark)> = Vec::new();
    let mut places: std::collections::HashMap<(&str, Option<&str>), usize> = std::collections::HashMap::new();
    for remark in remarks {
        let at = *places.entry((remark.why.as_str(), remark.picture.as_deref())).or_insert(said.len());
        match said.get_mut(at) {
            Some((lines, _)) => lines.push(remark.line),
            None => said.push((vec![remark.line], remark)),
        }
    }
    said.into_iter().map(|(lines, remark)| paragraph(&lines, remark)).collect()
}

fn paragraph(lines: &[usize], remark: &Remark) -> String {
    let numbers: Vec<String> = lines.iter().map(usize::to_string).collect();
    let mut text =
        format!("  line{} {}: {}\n", if lines.len() == 1 { "" } else { "s" }, numbers.join(", "), remark.why);
    for line in remark.picture.iter().flat_map(|picture| picture.lines()) {
        text.push_str(&format!("    | {line}\n"));
    }
    if let Some(hint) = &remark.hint {
        text.push_str(&format!("    hint: {hint}\n"));
    }
    text
}

/// Whether a command holds a password: in a URL, or as a variable whose name says so.
pub(super) fn shows_a_secret(command: &str) -> bool {
    let mut assigned = command.split_whitespace().filter_map(|word| word.split_once('='));
    matches!(without_passwords(command), Cow::Owned(_))
        || assigned.any(|(name, value)| {
            is_secret_name(name.trim_start_matches('-')) && !value.is_empty() && !value.starts_with('$')
        })
}

/// Whether a command names a file by a path that begins where it is started.
pub(super) fn depends_on_folder(command: &str) -> bool {
    let mut words = command.split_whitespace().skip_while(|word| word.contains('='));
    let first = words.next().unwrap_or_default();
    let begins_here = |word: &str| word.starts_with(|c: char| c.is_alphanumeric() || c == '.' || c == '_');
    match first {
        "cd" => words.next().is_some_and(begins_here),
        "." => false,
        program => program.contains('/') && begins_here(program),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_starts_from_the_home_folder_is_seen() {
        for yes in ["bin/x", "./x -a", "cd app && x", "A=1 bin/x", "../x"] {
            assert!(depends_on_folder(yes), "{yes}");
        }
        for no in ["x a/b", "/bin/x", "cd /srv && ./x", "~/bin/x", "$HOME/bin/x", "cd", "cd ~/x", ""] {
            assert!(!depends_on_folder(no), "{no}");
        }
    }

    #[test]
    fn a_command_that_holds_a_password_is_seen() {
        for yes in ["PGPASSWORD=x pg_dump", "curl https://u:p@h/", "x --password=abc", "x --api-token=abc"] {
            assert!(shows_a_secret(yes), "{yes}");
        }
        for no in ["PGPASSWORD=$P pg_dump", "curl https://h/?a=b", "x --verbose=1", "PATH=/x y"] {
            assert!(!shows_a_secret(no), "{no}");
        }
    }

    #[test]
    fn what_is_the_same_is_said_once() {
        let remarks: Vec<Remark> =
            [(1, "a"), (2, "b"), (5, "a")].map(|(line, why)| Remark::new(line, why)).into();
        assert_eq!(together(&remarks), ["  lines 1, 5: a\n", "  line 2: b\n"]);
    }
}
