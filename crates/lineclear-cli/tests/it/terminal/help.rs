//! All commands, found through their help: each has an example, and none panics when its output is closed, gone or full.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::commands::serve::{ask, serve};
use crate::run::{Run, at, command, lineclear, on_a_terminal, ran};

/// Commands that run until they are stopped, or start other processes.
const ENDLESS: [&str; 5] = ["serve", "work", "demo", "bench", "events"];

/// The subcommands of these words, from their help.
fn below(words: &[String]) -> Vec<Vec<String>> {
    let help = help(words);
    let mut names = Vec::new();
    let mut inside = false;
    for line in help.lines() {
        inside = match line {
            "Commands:" => true,
            line => inside && !line.trim().is_empty(),
        };
        // A name is indented by two, its description further.
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

/// Values for the arguments in the usage of a command: `Usage: lineclear job get [OPTIONS] <ID>`.
fn filled(words: &[String]) -> Vec<String> {
    let help = help(words);
    let usage =
        help.lines().find_map(|line| line.strip_prefix("Usage: lineclear ")).unwrap_or_default().to_owned();
    let wanted = usage.split_whitespace().skip(words.len()).filter(|word| !word.starts_with('['));
    let fill = |word: &str| match THERE.iter().find(|(name, _)| *name == word) {
        Some((_, there)) => (*there).to_owned(),
        None if word.starts_with('<') => "x".to_owned(),
        None => word.to_owned(),
    };
    words.iter().cloned().chain(wanted.map(fill)).collect()
}

/// Every command, including families and the program itself.
fn all() -> BTreeSet<Vec<String>> {
    below(&[]).iter().flat_map(|leaf| (0..=leaf.len()).map(|words| leaf[..words].to_vec())).collect()
}

#[test]
fn help_leads_with_examples() {
    let all = all();
    assert!(all.len() > 60, "{all:?}");
    for words in &all {
        let help = help(words);
        let headings: Vec<&str> = help
            .lines()
            .filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()))
            .filter(|line| line.ends_with(':') || line.starts_with("Usage: "))
            .collect();
        let first = headings.first().is_some_and(|line| line.starts_with("Usage: lineclear"));
        let second = headings.get(1).is_some_and(|line| line.starts_with("Examples"));
        assert!(first && second && !help.starts_with("Usage"), "{words:?}: {headings:?}\n{help}");
        let known = ["Commands:", "Arguments:", "Options:"];
        let rest = headings.iter().position(|line| known.contains(line));
        assert!(rest.is_some_and(|rest| rest >= 2), "{words:?}: {headings:?}");
    }
}

#[test]
fn help_topics_describe_what_all_commands_share() {
    let codes = lineclear(&["help", "exit-codes"]);
    assert_eq!(codes.code, Some(0), "{}", codes.err);
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = page.split("| exit code | |\n|---|---|\n").nth(1).unwrap();
    let rows: Vec<&str> = table.lines().take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let told = codes
            .out
            .lines()
            .any(|line| line.trim().strip_prefix(cells[1]).is_some_and(|rest| rest.trim() == cells[2]));
        assert!(told, "{row}: {}", codes.out);
    }
    let variables = lineclear(&["help", "environment"]).out;
    let settings: Vec<serde_json::Value> =
        serde_json::from_str(&lineclear(&["config", "show", "--json"]).out).unwrap();
    for setting in settings {
        let name = format!("LINECLEAR_{} ", setting["name"].as_str().unwrap().to_uppercase());
        assert!(variables.contains(&name), "{name}: {variables}");
    }
    for name in ["LINECLEAR_SERVER", "LINECLEAR_TOKEN", "LINECLEAR_REQUEST_TIMEOUT", "NO_COLOR", "COLUMNS"] {
        assert!(variables.contains(name), "{name}");
    }
    // The user's file is where the help says.
    let file = variables.lines().find(|line| line.contains("XDG_CONFIG_HOME")).unwrap();
    let file = file.split_whitespace().find(|word| word.ends_with(".toml")).unwrap();
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(file).parent().unwrap()).unwrap();
    std::fs::write(home.path().join(file), "slots = 3\n").unwrap();
    let mut show = command(&["config", "show", "--origin"]);
    let shown = ran(show.env("XDG_CONFIG_HOME", home.path()).current_dir(home.path())).out;
    assert!(shown.contains(file), "{file}: {shown}");
    let help = lineclear(&["--help"]).out;
    assert!(help.contains("help exit-codes") && help.contains("help environment"), "{help}");
    assert!(lineclear(&["help", "job"]).out.contains("Usage: lineclear job"), "commands as before");
}

#[test]
fn there_is_colour_on_a_terminal_and_none_with_no_color() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(at(&dir, &["db", "migrate"]).code, Some(0));
    assert_eq!(at(&dir, &["job", "enqueue", "x", "--db", "lineclear.db"]).code, Some(0));
    assert_eq!(at(&dir, &["token", "create", "x", "--scope", "read"]).code, Some(0));
    for words in [&["job", "list", "--db", "lineclear.db"][..], &["token", "list"], &["config", "show"]] {
        let seen = |environment: &[(&str, &str)]| on_a_terminal(&dir, words, environment).out;
        assert!(seen(&[("NO_COLOR", "")]).contains("\u{1b}["), "{words:?}: {:?}", seen(&[("NO_COLOR", "")]));
        for (name, value) in [("NO_COLOR", "1"), ("NO_COLOR", "0")] {
            assert!(!seen(&[(name, value)]).contains('\u{1b}'), "{words:?}: {:?}", seen(&[(name, value)]));
        }
        assert!(!seen(&[("NO_COLOR", ""), ("TERM", "dumb")]).contains('\u{1b}'), "{words:?}");
        assert!(!at(&dir, words).out.contains('\u{1b}'), "{words:?} in a pipe");
    }
}

#[tokio::test]
async fn misspelt_kinds_and_nodes_get_a_suggestion() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &["--commands", "/bin/true"]).await;
    let asked = ["--server", &format!("http://{address}")];
    let run = |args: &[&str]| at(&dir, &[args, &asked].concat());
    let slip = run(&["job", "enqueue", "comand", "--in", "1h"]);
    assert!(slip.code == Some(0) && slip.err.contains("did you mean command?"), "{}", slip.err);
    let other = run(&["job", "enqueue", "mail.send", "--in", "1h"]);
    assert!(
        other.err.contains("runs the kind mail.send") && !other.err.contains("did you mean"),
        "{}",
        other.err
    );
    let known = run(&["job", "enqueue", "command", "--input", r#"{"argv": ["/bin/true"]}"#, "--in", "1h"]);
    assert_eq!((known.code, known.err.as_str()), (Some(0), ""));
    let node = run(&["node", "list"]).out;
    let name = node.lines().nth(1).unwrap().split('\t').nth(1).unwrap().to_owned();
    let slip = run(&["node", "drain", &name[..name.len() - 1]]);
    assert!(slip.code == Some(3) && slip.err.contains(&format!("did you mean {name}?")), "{}", slip.err);
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
    for family in ["job", "manifest", "group", "dead-letter", "node", "submitter", "bulk-operation", "lock"] {
        assert!(leaves.iter().any(|leaf| leaf.len() == 2 && leaf[0] == family), "{family}");
    }
}

/// Values of arguments that name existing objects.
const THERE: [(&str, &str); 6] = [
    ("<ID>", "1"),
    ("<NODE>", "1"),
    ("<METHOD>", "GET"),
    ("<PATH>", "/jobs"),
    ("<SHELL>", "bash"),
    ("<EXPRESSION>", "@daily"),
];

/// A copy of the binary that every user may run, and a prefix that drops root's rights: root may write everywhere.
fn unprivileged(folder: &Path) -> (String, Vec<&'static str>) {
    let binary = folder.join("lineclear");
    std::fs::copy(env!("CARGO_BIN_EXE_lineclear"), &binary).unwrap();
    mode(&binary, 0o755);
    let binary = binary.display().to_string();
    if !rustix::process::geteuid().is_root() {
        return (binary, Vec::new());
    }
    let prefix = vec!["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let tried = in_a_shell(&prefix, &format!("{binary} --version && id -u"), folder);
    assert_eq!(tried.code, Some(0), "an unprivileged user cannot run it: {}", tried.err);
    assert!(tried.out.starts_with("lineclear ") && tried.out.ends_with("\n65534\n"), "{}", tried.out);
    (binary, prefix)
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
}

/// Runs a shell command for at most a minute, with a nearly empty environment.
fn in_a_shell(before: &[&str], line: &str, folder: &Path) -> Run {
    let mut command = Command::new("/usr/bin/env");
    command.args(["-i", "LC_ALL=C", "PATH=/usr/bin:/bin"]).args(before);
    ran(command.args(["timeout", "60", "bash", "-c", line]).current_dir(folder).stdin(Stdio::null()))
}

/// A server with a completed and a dead job, a lock and a bulk operation.
async fn server_with_data(dir: &tempfile::TempDir) -> (lineclear_testkit::Child, String) {
    let (server, address) = serve(dir, &["--commands", "/bin/echo"]).await;
    let url = format!("http://{address}");
    let input = r#"{"argv": ["/bin/echo", "something"]}"#;
    let echo = ["job", "enqueue", "command", "--input", input, "--wait", "--server", &url];
    assert_eq!(at(dir, &echo).code, Some(0));
    let input = r#"{"argv": ["/bin/no"]}"#;
    let dies = ["job", "enqueue", "command", "--input", input, "--retries", "0", "--wait", "--server", &url];
    assert_eq!(at(dir, &dies).code, Some(8));
    assert_eq!(at(dir, &["lock", "run", "x", "--", "true"]).code, Some(0));
    let batch = [
        "bulk-operation",
        "start",
        "cancel",
        "-q",
        "kind:x",
        "--starts-in",
        "0s",
        "--yes",
        "--wait",
        "--server",
        &url,
    ];
    assert_eq!(at(dir, &batch).code, Some(0));
    (server, address)
}

#[tokio::test]
async fn no_command_panics_without_a_usable_output() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = server_with_data(&dir).await;
    let server = format!("export LINECLEAR_SERVER=http://{address};");
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    std::fs::write(empty.join("x"), "").unwrap();
    mode(folder.path(), 0o755);
    mode(&empty, 0o555);
    let (binary, prefix) = unprivileged(folder.path());
    let mut printed = Vec::new();
    for leaf in below(&[]) {
        let endless = ENDLESS.contains(&leaf[0].as_str());
        let words = if endless { [leaf.clone(), vec!["--help".to_owned()]].concat() } else { filled(&leaf) };
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let words = words.join(" ");
        for (what, line) in [
            ("closed", format!("{server} {binary} {words} >&- 2>&-")),
            (
                "a reader that is gone",
                format!("{server} {binary} {words} 2>&1 | true; exit ${{PIPESTATUS[0]}}"),
            ),
            ("a full disk", format!("{server} {binary} {words} > /dev/full")),
        ] {
            // Some commands remove objects that the next ones need.
            let manifest = r#"{"kind": "x", "schedule": {"every": "1h"}, "group": "x"}"#;
            let made = [
                ask(&address, "PUT /api/v1/groups/x", "{}"),
                ask(&address, "PUT /api/v1/manifests/x", manifest),
            ];
            assert!(made.iter().all(|made| made.starts_with("HTTP/1.1 20")), "{made:?}");
            let Run { code, err: said, .. } = in_a_shell(&prefix, &line, &empty);
            // 124 is a command that did not end, 126 and 127 are a shell that could not start it, and beyond 128 are those that a
            // signal ended. The binary never ends by SIGPIPE, which Rust ignores; a shell that cannot start it may, when it reports the error.
            let is_fine = code.is_some_and(|code| code != 101 && code < 124);
            // Its command does not exist.
            let is_meant = leaf == ["lock", "run"] && code == Some(127);
            assert!(
                (is_fine || is_meant) && !said.contains("panicked"),
                "{words} with {what}: {code:?} {said}"
            );
            if said.contains("cannot write to standard output") {
                assert!(what == "a full disk" && code == Some(1), "{words} with {what}: {code:?} {said}");
                printed.push(leaf.join(" "));
            }
        }
    }
    // These commands print something, and report that it could not be written.
    for leaf in [
        "status",
        "doctor",
        "job list",
        "job get",
        "job logs",
        "job explain",
        "job retry",
        "job enqueue",
        "manifest list",
        "manifest get",
        "manifest next",
        "manifest explain",
        "manifest history",
        "manifest run",
        "manifest pause",
        "group list",
        "group get",
        "group pause",
        "dead-letter list",
        "dead-letter families",
        "dead-letter export",
        "node list",
        "node drain",
        "bulk-operation list",
        "bulk-operation get",
        "bulk-operation watch",
        "api",
        "config show",
        "schedule next",
        "man",
        "completions",
    ] {
        assert!(
            printed.iter().any(|there| there == leaf),
            "{leaf} printed nothing into a full disk: {printed:?}"
        );
    }
}

#[test]
fn a_misspelt_word_gets_a_suggestion_and_plurals_are_understood() {
    let wrong = lineclear(&["manifets", "list"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("'manifest'"), "{}", wrong.err);
    let wrong = lineclear(&["job", "lits"]);
    assert!(wrong.code == Some(2) && wrong.err.contains("'list'"), "{}", wrong.err);
    for plural in [
        "jobs",
        "manifests",
        "groups",
        "nodes",
        "bulk-operations",
        "dead-letters",
        "locks",
        "tokens",
        "sessions",
        "schedules",
    ] {
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
    assert_eq!(complete("lineclear dead-letter fam"), "families");
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
        // Every request line is one that the macros of `man` know.
        for line in text.lines().filter(|line| line.starts_with('.')) {
            let request: String = line[1..].chars().take_while(|c| c.is_ascii_alphanumeric()).collect();
            let known = [
                "TH", "SH", "SS", "TP", "RS", "RE", "PP", "br", "ie", "el", "ds", "sp", "nf", "fi", "in",
                "IP",
            ];
            assert!(known.contains(&request.as_str()), "{}: {line}", file.display());
        }
    }
    // Pages are rendered if groff is installed.
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
