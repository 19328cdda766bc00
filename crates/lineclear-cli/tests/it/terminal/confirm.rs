//! Confirmations on a terminal, and scripts without one.

use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::commands::job::{at, each_way};

/// Runs a command on a terminal, and types a response.
fn typed(dir: &TempDir, line: &str, answer: &str) -> (Option<i32>, String) {
    let line = format!("{} {line}", env!("CARGO_BIN_EXE_lineclear"));
    let output = Command::new("bash")
        .args(["-c", &format!("printf '{answer}\\n' | script -qec '{line}' /dev/null")])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

const ONE: &str = r#"
[[manifest]]
key = "nightly"
kind = "report"
schedule = { cron = "30 2 * * *" }
"#;

#[tokio::test]
async fn removing_manifests_asks_on_a_terminal_only() {
    each_way(&[], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[args, asked].concat());
        let words = asked.join(" ");
        let apply = ["manifest", "apply", "-f", "orders.toml", "--owner", "me", "--prune"];
        std::fs::write(dir.path().join("orders.toml"), ONE).unwrap();
        assert_eq!(run(&apply).code, Some(0));
        std::fs::write(dir.path().join("orders.toml"), ONE.replace("nightly", "weekly")).unwrap();
        let (code, said) = typed(dir, &format!("{} {words}", apply.join(" ")), "n");
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("- manifest nightly") && said.contains("continue? [y/N]"), "{said}");
        assert_eq!(run(&["manifest", "get", "nightly"]).code, Some(0), "nothing was changed");
        assert_eq!(run(&["manifest", "get", "weekly"]).code, Some(3), "nothing at all");
        let (code, said) = typed(dir, &format!("{} {words}", apply.join(" ")), "y");
        assert!(code == Some(0) && said.contains("+ manifest weekly"), "{said}");
        assert_eq!(run(&["manifest", "get", "nightly"]).code, Some(3));

        let delete = format!("manifest delete weekly {words}");
        let (code, said) = typed(dir, &delete, "");
        assert!(code == Some(1) && said.contains("nothing was changed"), "{said}");
        let (code, said) = typed(dir, &format!("{delete} --yes"), "");
        assert!(code == Some(0) && !said.contains("continue?"), "{said}");

        // A script is not asked.
        assert_eq!(run(&apply).code, Some(0));
        std::fs::write(dir.path().join("orders.toml"), "").unwrap();
        let pruned = run(&apply);
        assert!(
            pruned.code == Some(0) && pruned.out.contains("- manifest weekly"),
            "{}{}",
            pruned.out,
            pruned.err
        );
    })
    .await;
}

#[tokio::test]
async fn a_misspelt_name_gets_a_suggestion() {
    each_way(&[], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[args, asked].concat());
        std::fs::write(dir.path().join("orders.toml"), format!("[group.etl]\nlimit = 2\n{ONE}")).unwrap();
        assert_eq!(run(&["manifest", "apply", "-f", "orders.toml"]).code, Some(0));
        for wrong in [
            &["manifest", "get", "nihgtly"][..],
            &["manifest", "run", "nightl"],
            &["manifest", "pause", "nightly2"],
        ] {
            let missed = run(wrong);
            assert!(
                missed.code == Some(3) && missed.err.contains("did you mean nightly?"),
                "{wrong:?}: {}",
                missed.err
            );
        }
        let missed = run(&["group", "set", "elt", "--limit", "1"]);
        assert!(missed.err.contains("did you mean etl? --create creates it"), "{}", missed.err);
        let far = run(&["manifest", "get", "something-else"]);
        assert!(far.code == Some(3) && !far.err.contains("did you mean"), "{}", far.err);
    })
    .await;
}
