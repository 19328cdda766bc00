//! All commands, found through their own help: each has an example, and none of them panics, however odd its surroundings.

use std::process::{Command, Stdio};

use crate::run::{Run, command, lineclear};

/// Those that go on until somebody stops them, or start others.
const ENDLESS: [&str; 4] = ["serve", "work", "demo", "bench"];

/// The commands below these words, by their help.
fn below(words: &[String]) -> Vec<Vec<String>> {
    let help = help(words);
    let mut names = Vec::new();
    let mut inside = false;
    for line in help.lines() {
        inside = match line {
            "Commands:" => true,
            line => inside && !line.trim().is_empty(),
        };
        // A name is indented by two; what is said about it, further.
        if inside && line.starts_with("  ") && !line.starts_with("   ") {
            names.extend(line.split_whitespace().next().map(str::to_owned));
        }
    }
    names.retain(|name| name != "help");
    if names.is_empty() {
        return vec![words.to_vec()];
    }
    names.iter().flat_map(|name| below(&[words, std::slice::from_ref(name)].concat())).collect()
}

fn help(words: &[String]) -> String {
    let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
    let Run { code, out, err } = lineclear(&arguments);
    assert_eq!(code, Some(0), "{words:?}: {err}");
    out
}

/// Words that fill in what the usage of a command wants: `Usage: lineclear job get [OPTIONS] <ID>`.
fn filled(words: &[String]) -> Vec<String> {
    let help = help(words);
    let usage =
        help.lines().find_map(|line| line.strip_prefix("Usage: lineclear ")).unwrap_or_default().to_owned();
    let wanted = usage.split_whitespace().skip(words.len()).filter(|word| !word.starts_with('['));
    let fill = |word: &str| match word {
        word if word.starts_with('<') => "x".to_owned(),
        word => word.to_owned(),
    };
    words.iter().cloned().chain(wanted.map(fill)).collect()
}

#[test]
fn every_command_has_an_example_in_its_help() {
    let leaves = below(&[]);
    assert!(leaves.len() > 50, "{leaves:?}");
    for leaf in &leaves {
        let help = help(leaf);
        let name = format!("lineclear {}", leaf.join(" "));
        let example = help.split("Examples:").nth(1).is_some_and(|examples| examples.contains(&name));
        assert!(example, "{name} has no example of itself in its help:\n{help}");
    }
    for family in ["job", "manifest", "group", "dead", "node", "batch", "lock"] {
        assert!(leaves.iter().any(|leaf| leaf.len() == 2 && leaf[0] == family), "{family}");
    }
}

#[test]
fn no_command_panics_in_odd_surroundings() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    // Whoever is not root cannot write here; for root, tests of single commands name a file as a folder.
    std::fs::set_permissions(&empty, std::os::unix::fs::PermissionsExt::from_mode(0o555)).unwrap();
    let binary = env!("CARGO_BIN_EXE_lineclear");
    for leaf in below(&[]) {
        let endless = ENDLESS.contains(&leaf[0].as_str());
        let words = if endless { [leaf.clone(), vec!["--help".to_owned()]].concat() } else { filled(&leaf) };
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let words = words.join(" ");
        for (what, line) in [
            ("closed", format!("{binary} {words} >&- 2>&-")),
            ("a reader that is gone", format!("{binary} {words} 2>&1 | true; exit ${{PIPESTATUS[0]}}")),
            ("a full disk", format!("{binary} {words} > /dev/full")),
        ] {
            let output = Command::new("/usr/bin/env")
                .args(["-i", "LC_ALL=C", "LINECLEAR_SERVER=http://127.0.0.1:9", "PATH=/usr/bin:/bin"])
                .args(["timeout", "60", "bash", "-c", &line])
                .current_dir(&empty)
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let code = output.status.code();
            assert!(
                // 124 is a command that did not end, beyond 128 are those that a signal ended.
                code.is_some_and(|code| code != 101 && code != 124 && code < 128)
                    && !said.contains("panicked"),
                "{words} with {what}: {code:?} {said}"
            );
        }
    }
}

#[test]
fn a_wrong_word_is_answered_with_the_nearest_and_plurals_are_understood() {
    let wrong = lineclear(&["manifets", "list"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("'manifest'"), "{}", wrong.err);
    let wrong = lineclear(&["job", "lits"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("'list'"), "{}", wrong.err);
    for plural in ["jobs", "manifests", "groups", "nodes", "batches", "locks", "tokens", "schedules"] {
        assert_eq!(lineclear(&[plural, "--help"]).code, Some(0), "{plural}");
    }
}

#[test]
fn bash_completes_commands_and_options() {
    let complete = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let (now, before) = (words[words.len() - 1], words[words.len() - 2]);
        let script = format!(
            "source <({} completions bash); COMP_WORDS=({line}); COMP_CWORD={}; _lineclear lineclear '{now}' '{before}'; echo \"${{COMPREPLY[*]}}\"",
            env!("CARGO_BIN_EXE_lineclear"),
            words.len() - 1
        );
        let output = Command::new("bash").args(["-c", &script]).stdin(Stdio::null()).output().unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("lineclear man"), "manifest man");
    assert_eq!(complete("lineclear dead fam"), "families");
    assert!(complete("lineclear job list --").contains("--query"));
    for shell in ["zsh", "fish", "powershell", "elvish"] {
        let script = lineclear(&["completions", shell]);
        assert!(script.code == Some(0) && script.out.contains("families"), "{shell}: {}", script.err);
    }
    assert_eq!(lineclear(&["completions", "tcsh"]).code, Some(2));
}

#[test]
fn each_command_has_a_page_of_the_manual() {
    let page = lineclear(&["man"]);
    assert!(
        page.code == Some(0) && page.out.contains(".TH") && page.out.contains("lineclear\\-manifest"),
        "{}",
        page.out
    );
    let dir = tempfile::tempdir().unwrap();
    let written = command(&["man", "--dir", "pages"]).current_dir(dir.path()).output().unwrap();
    assert!(written.status.success());
    for leaf in below(&[]) {
        let file = dir.path().join("pages").join(format!("lineclear-{}.1", leaf.join("-")));
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        for part in [".TH", ".SH NAME", ".SH SYNOPSIS", "Examples:"] {
            assert!(text.contains(part), "{} has no {part}", file.display());
        }
        // Every line that is a request is one that pages for `man` know.
        for line in text.lines().filter(|line| line.starts_with('.')) {
            let request: String = line[1..].chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
            let known = [
                "TH", "SH", "SS", "TP", "RS", "RE", "PP", "br", "ie", "el", "ds", "sp", "nf", "fi", "in",
                "IP",
            ];
            assert!(known.contains(&request.as_str()), "{}: {line}", file.display());
        }
    }
    // Pages are rendered where there is somebody to do it.
    if let Ok(groff) = Command::new("groff").arg("--version").output()
        && groff.status.success()
    {
        let line = "set -o pipefail; for page in pages/*.1; do groff -Kutf8 -man -Tutf8 -w w -W break -z $page 2>&1; done";
        let rendered = Command::new("bash").args(["-c", line]).current_dir(dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&rendered.stdout);
        assert!(rendered.status.success() && said.is_empty(), "{said}");
    }
    let nowhere = command(&["man", "--dir", "/dev/null/x"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(1));
}
