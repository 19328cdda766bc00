//! `lineclear node`: through a server, and directly on a database.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::commands::job::{at, each_way, until};
use crate::run::command_at;

/// A command that runs until the test creates a file.
const LASTS: &str = r#"{"argv": ["/bin/sh", "-c", "until [ -e go ]; do sleep 0.1; done"]}"#;

#[tokio::test]
async fn a_drained_node_finishes_its_jobs_and_takes_work_again_when_resumed() {
    each_way(&["--commands", "/bin/sh"], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[args, asked].concat());
        let enqueue = || {
            let made = run(&["job", "enqueue", "command", "--input", LASTS]);
            assert_eq!(made.code, Some(0), "{}", made.err);
        };
        let listed = run(&["node", "list"]).out;
        assert!(listed.starts_with("ID\tNAME\tSTATE\tHOLDS\tSLOTS\t"), "{listed}");
        let row: Vec<&str> = listed.lines().nth(1).unwrap().split('\t').collect();
        let (id, name) = (row[0], row[1]);
        assert_eq!(row[2..4], ["alive", "0"], "{listed}");

        enqueue();
        until(|| run(&["job", "get", "1"]).out.contains("state\trunning"));
        let asked_for = run(&["node", "drain", name]);
        assert!(
            asked_for.code == Some(0) && asked_for.out.contains("is draining"),
            "{}{}",
            asked_for.out,
            asked_for.err
        );
        let drain = [&["node", "drain", id, "--wait", "--wait-timeout", "60s"], asked].concat();
        let mut waits =
            command_at(dir, &drain).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut printed = BufReader::new(waits.stderr.take().unwrap()).lines().map(Result::unwrap);
        assert!(
            printed.any(|line| line.contains("is draining; it holds 1 job")),
            "it prints what it waits for"
        );
        std::fs::write(dir.path().join("go"), "").unwrap();
        let drained = waits.wait_with_output().unwrap();
        let out = String::from_utf8(drained.stdout).unwrap();
        assert!(drained.status.success() && out.ends_with("is drained\n"), "{out}");
        let json: Value = serde_json::from_str(&run(&["node", "list", "--json"]).out).unwrap();
        let node = &json["items"][0];
        assert_eq!(node["state"], "drained", "{node}");
        let by = node["drain_by"].as_str().unwrap();
        assert!(by == "anonymous:127.0.0.1" || (asked[0] == "--db" && by.starts_with("cli:")), "{node}");
        assert!(run(&["job", "get", "1"]).out.contains("state\tcompleted"), "the job that it held completed");
        enqueue();
        let waits = run(&["job", "explain", "2"]).out;
        assert!(waits.contains("drains") && waits.contains("node resume"), "{waits}");
        assert!(run(&["job", "get", "2"]).out.contains("state\tqueued"), "no node takes it");

        let resumed = run(&["node", "resume", id]);
        assert!(
            resumed.code == Some(0) && resumed.out.ends_with("takes jobs again\n"),
            "{}{}",
            resumed.out,
            resumed.err
        );
        assert_eq!(run(&["job", "watch", "2", "--wait-timeout", "60s"]).code, Some(0));
        assert_eq!(run(&["node", "drain", "missing"]).code, Some(3));
        assert_eq!(run(&["node", "resume", "999"]).code, Some(3));
        assert_eq!(run(&["api", "POST", "/nodes/999/drain"]).code, Some(3));
    })
    .await;
}
