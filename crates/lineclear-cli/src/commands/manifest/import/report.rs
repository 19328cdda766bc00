//! The report of an import, on standard error.

use std::borrow::Cow;
use std::path::Path;

use lineclear_model::secret::{is_secret_name, without_passwords};

use super::convert::{Converted, toml_strings};
use super::crontab::Remark;
use super::host::DefaultZone;

/// The whole report.
pub(super) fn render(made: &Converted, zone: &DefaultZone, written: Option<&Path>, owner: &str) -> String {
    let count = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let mut text = format!(
        "{} converted, {} left out; default time zone {} ({})\n",
        count(made.manifests.len(), "manifest"),
        count(made.left_out.len(), "line"),
        zone.name,
        zone.origin
    );
    for (head, remarks) in [("left out:", &made.left_out), ("notes:", &made.notes)] {
        if !remarks.is_empty() {
            text.push_str(&format!("\n{head}\n"));
            text.extend(paragraphs(remarks));
        }
    }
    if !made.commands.is_empty() {
        text.push_str("\nadd this to lineclear.toml of each server that runs them; if it has a list of commands already, extend that:\n\ncommands = [\n");
        text.extend(made.commands.iter().map(|argv| format!("    {},\n", toml_strings(argv))));
        text.push_str("]\n");
        let file = written.map_or_else(|| "FILE".into(), |path| path.display().to_string());
        text.push_str(&format!("\nthen: lineclear manifest apply -f {file} --owner {owner} --dry-run\n"));
    }
    text
}

/// One paragraph for equal remarks, with their lines.
fn paragraphs(remarks: &[Remark]) -> Vec<String> {
    let mut grouped: Vec<(Vec<usize>, &Remark)> = Vec::new();
    let mut positions: std::collections::HashMap<(&str, Option<&str>), usize> =
        std::collections::HashMap::new();
    for remark in remarks {
        let at = *positions.entry((remark.why.as_str(), remark.picture.as_deref())).or_insert(grouped.len());
        match grouped.get_mut(at) {
            Some((lines, _)) => lines.push(remark.line),
            None => grouped.push((vec![remark.line], remark)),
        }
    }
    grouped.into_iter().map(|(lines, remark)| paragraph(&lines, remark)).collect()
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

/// Whether a command contains a password: in a URL, or as the value of a variable with such a name.
pub(super) fn contains_secret(command: &str) -> bool {
    let mut assigned = command.split_whitespace().filter_map(|word| word.split_once('='));
    matches!(without_passwords(command), Cow::Owned(_))
        || assigned.any(|(name, value)| {
            is_secret_name(name.trim_start_matches('-')) && !value.is_empty() && !value.starts_with('$')
        })
}

/// Whether a command uses a relative path.
pub(super) fn has_relative_path(command: &str) -> bool {
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
            assert!(has_relative_path(yes), "{yes}");
        }
        for no in ["x a/b", "/bin/x", "cd /srv && ./x", "~/bin/x", "$HOME/bin/x", "cd", "cd ~/x", ""] {
            assert!(!has_relative_path(no), "{no}");
        }
    }

    #[test]
    fn a_command_that_holds_a_password_is_seen() {
        for yes in ["PGPASSWORD=x pg_dump", "curl https://u:p@h/", "x --password=abc", "x --api-token=abc"] {
            assert!(contains_secret(yes), "{yes}");
        }
        for no in ["PGPASSWORD=$P pg_dump", "curl https://h/?a=b", "x --verbose=1", "PATH=/x y"] {
            assert!(!contains_secret(no), "{no}");
        }
    }

    #[test]
    fn equal_remarks_are_one_paragraph() {
        let remarks: Vec<Remark> =
            [(1, "a"), (2, "b"), (5, "a")].map(|(line, why)| Remark::new(line, why)).into();
        assert_eq!(paragraphs(&remarks), ["  lines 1, 5: a\n", "  line 2: b\n"]);
    }
}
