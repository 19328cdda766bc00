//! `lineclear dead-letter`: through a server, and directly on a database.

use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::commands::job::{at, each_way};

/// Enqueues jobs that die, because the server does not allow their programs.
pub(crate) fn die(dir: &TempDir, asked: &[&str], programs: &[&str]) {
    for program in programs {
        let input = format!(r#"{{"argv": ["{program}"]}}"#);
        let made = [
            "job",
            "enqueue",
            "command",
            "--input",
            &input,
            "--retries",
            "0",
            "--wait",
            "--wait-timeout",
            "30s",
        ];
        let died = at(dir, &[&made, asked].concat());
        assert_eq!(died.code, Some(8), "{}", died.err);
    }
}

#[tokio::test]
async fn dead_letters_are_listed_counted_revived_and_acknowledged() {
    each_way(&["--commands", "/bin/echo"], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[&["dead-letter"], args, asked].concat());
        assert_eq!(run(&["list"]).out.lines().count(), 1, "only the header");
        assert_eq!(run(&["revive", "--all", "--yes"]).out, "0 dead letters revived\n");
        die(dir, asked, &["/bin/a", "/bin/a", "/bin/a", "/bin/b/c"]);

        let listed = run(&["list"]).out;
        assert_eq!(listed.lines().count(), 5, "{listed}");
        assert!(listed.starts_with("ID\tSTATUS\tJOB\tKIND\tDIED\tERROR\tMANIFEST\tREASON\tFINGERPRINT\n"));
        let row: Vec<&str> = listed.lines().nth(1).unwrap().split('\t').collect();
        assert_eq!(row[..4], ["4", "awaiting", "4", "command"], "{listed}");

        let families: Value = serde_json::from_str(&run(&["families", "--json"]).out).unwrap();
        assert_eq!(families["total"], 4);
        let first = &families["items"][0];
        let fingerprint = first["fingerprint"].as_str().unwrap();
        let count = first["count"].as_u64().unwrap();
        assert!(count >= 3, "{families}");
        let shown = run(&["families"]).out;
        assert!(shown.contains(&format!("{count}\tcommand\t{fingerprint}\t")), "{shown}");
        assert_eq!(run(&["list", "--fingerprint", fingerprint]).out.lines().count() as u64, count + 1);
        assert_eq!(run(&["list", "--kind", "other"]).out.lines().count(), 1);
        assert_eq!(run(&["list", "--before", "2026-01-01T00:00:00Z"]).out.lines().count(), 1);

        let exported = run(&["export"]).out;
        assert_eq!(exported.lines().count(), 4);
        for line in exported.lines() {
            let letter: Value = serde_json::from_str(line).unwrap();
            assert_eq!(letter["kind"], "command");
        }
        let written = run(&["export", "--file", "dead.ndjson"]);
        assert!(
            written.out.is_empty() && written.err.contains("4 dead letters written to dead.ndjson"),
            "{}",
            written.err
        );
        assert_eq!(std::fs::read_to_string(dir.path().join("dead.ndjson")).unwrap(), exported);

        let refused = run(&["revive", "--kind", "command"]);
        assert_eq!(refused.code, Some(2), "{}", refused.err);
        assert!(
            refused.err.contains("4 dead letters match") && refused.err.contains("--yes"),
            "{}",
            refused.err
        );
        assert_eq!(run(&["list"]).out.lines().count(), 5, "nothing was changed");
        let nothing = run(&["acknowledge"]);
        assert!(nothing.code == Some(2) && nothing.err.contains("--all"), "{}", nothing.err);

        let one = run(&["acknowledge", "4", "--note", "known"]);
        assert_eq!((one.code, one.out.as_str()), (Some(0), "dead letter 4 acknowledged\n"), "{}", one.err);
        assert_eq!(run(&["acknowledge", "4"]).code, Some(5), "it is already acknowledged");
        assert_eq!(run(&["revive", "999"]).code, Some(3));
        assert_eq!(run(&["revive", "x"]).code, Some(3));
        let rested = run(&["list", "--status", "acknowledged", "--json"]).out;
        assert!(rested.contains(r#""note":"known""#), "{rested}");

        let revived = run(&["revive", "--kind", "command", "-y"]);
        assert_eq!(
            (revived.code, revived.out.as_str()),
            (Some(0), "3 dead letters revived\n"),
            "{}",
            revived.err
        );
        // They die again, because their programs are still not allowed.
        crate::commands::job::until(|| run(&["list"]).out.lines().count() == 4);
        assert_eq!(run(&["acknowledge", "--all", "--yes", "--json"]).out, "{\"count\":3,\"more\":false}\n");
        assert_eq!(run(&["list", "--status", "any", "--all"]).out.lines().count(), 8);
        assert_eq!(run(&["list", "--status", "lost"]).code, Some(2));
        assert_eq!(run(&["list", "--reason", "bored"]).code, Some(2));
        assert_eq!(run(&["revive", "1", "--all"]).code, Some(2), "one, or all");
    })
    .await;
}

#[tokio::test]
async fn an_action_on_many_dead_letters_asks_for_confirmation() {
    each_way(&["--commands", "/bin/echo"], async |dir, asked| {
        die(dir, asked, &["/bin/a", "/bin/b"]);
        let type_in = |answer: &str| {
            let line =
                format!("{} dead acknowledge --all {}", env!("CARGO_BIN_EXE_lineclear"), asked.join(" "));
            // `script` gives it a terminal.
            let output = Command::new("bash")
                .args(["-c", &format!("printf '{answer}\\n' | script -qec '{line}' /dev/null")])
                .current_dir(dir.path())
                .stdin(Stdio::null())
                .output()
                .unwrap();
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let (code, said) = type_in("n");
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains("2 dead letters match; continue? [y/N]") && said.contains("nothing was changed")
        );
        let (code, said) = type_in("y");
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("2 dead letters acknowledged"), "{said}");
    })
    .await;
}
