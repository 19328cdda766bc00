//! JSON of the API is printed unchanged: every digit, and the order of keys. An unreadable response is an error.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::commands::job::{at, each_way};
use crate::commands::serve::{ask, serve};
use crate::kinds::http::{answer, receiver};

/// Keys not in alphabetical order, unusual notation, and numbers too large for most parsers.
const ODD: &str = r#"{"z":1.10,"n":12345678901234567890123,"a":[1e400,{}],"e":"\u00e9"}"#;

/// The body of a response, unchanged.
fn body(address: &str, path: &str) -> String {
    let answer = ask(address, &format!("GET /api/v1/{path}"), "");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    body.to_owned()
}

#[tokio::test]
async fn json_is_printed_as_the_api_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &["--commands", "/bin/true"]).await;
    let url = format!("http://{address}");
    let enqueue = |more: &[&str]| {
        let made = at(&dir, &[&["job", "enqueue"], more, &["--input", ODD, "--server", &url]].concat());
        assert!(made.code == Some(0) || made.code == Some(8), "{}", made.err);
    };
    enqueue(&["mail.send", "--in", "1h"]);
    // It does not take such an input.
    enqueue(&["sample", "--retries", "0", "--wait"]);
    assert_eq!(at(&dir, &["token", "create", "one", "--scope", "read"]).code, Some(0));
    for (request, of) in
        [("PUT /api/v1/groups/etl", r#"{"limit": 2}"#.to_owned()), ("PUT /api/v1/manifests/m", of_it())]
    {
        assert!(ask(&address, request, &of).starts_with("HTTP/1.1 20"), "{request}");
    }
    for (words, path) in [
        ("job get 1", "jobs/1"),
        ("job get 2", "jobs/2"),
        ("job list", "jobs?limit=100"),
        ("job list -q kind:sample", "jobs?q=kind%3Asample&limit=100"),
        ("job logs 2", "jobs/2/logs?limit=1000"),
        ("dead list", "dead-letters?status=awaiting&limit=100"),
        ("manifest list", "manifests?limit=100"),
        ("manifest get m", "manifests/m"),
        ("manifest next m", "manifests/m/next?n=5"),
        ("manifest history m", "jobs?q=manifest%3Am&limit=100"),
        ("group list", "groups?limit=100"),
        ("group get etl", "groups/etl"),
        ("bulk-operation list", "bulk-operations?limit=100"),
        ("token list", "tokens?limit=100"),
        ("session list", "sessions?limit=100"),
    ] {
        let words: Vec<&str> = words.split(' ').chain(["--json", "--server", &url]).collect();
        let printed = at(&dir, &words);
        assert_eq!((printed.code, printed.out), (Some(0), body(&address, path) + "\n"), "{words:?}");
        let raw = at(&dir, &["api", "GET", path, "--server", &url]);
        assert_eq!((raw.code, raw.out), (Some(0), body(&address, path) + "\n"), "{path}");
    }
    for id in [1, 2] {
        let job = at(&dir, &["job", "get", &id.to_string(), "--json", "--server", &url]).out;
        assert!(
            job.contains(&format!("\"input\":{ODD}")) && job.starts_with(&format!("{{\"id\":\"{id}\"")),
            "{job}"
        );
    }
    let letters = body(&address, "dead-letters?status=awaiting");
    let exported = at(&dir, &["dead-letter", "export", "--server", &url]).out;
    assert!(
        letters.starts_with(&format!("{{\"items\":[{}]", exported.trim_end())),
        "{exported} of {letters}"
    );
}

/// A manifest with such an input.
fn of_it() -> String {
    format!(r#"{{"kind": "mail.send", "schedule": {{"once": "2030-01-01T00:00:00Z"}}, "input": {ODD}}}"#)
}

#[tokio::test]
async fn an_input_alone_is_printed_unchanged() {
    each_way(&[], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[args, asked].concat());
        for (id, input) in (1..).zip([ODD, "\"a text\"", "1.10", "[]", "1e400"]) {
            assert_eq!(run(&["job", "enqueue", "mail.send", "--input", input]).code, Some(0), "{input}");
            let printed = run(&["api", "GET", &format!("/jobs/{id}/input")]);
            assert_eq!((printed.code, printed.out), (Some(0), format!("{input}\n")));
        }
    })
    .await;
}

#[tokio::test]
async fn the_pages_of_a_list_are_joined_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &[]).await;
    for count in [1_000, 1] {
        let jobs = vec![r#"{"kind": "mail.send", "in_ms": 3600000}"#; count].join(",");
        let made = ask(&address, "POST /api/v1/jobs/batch", &format!("{{\"jobs\": [{jobs}]}}"));
        assert!(made.starts_with("HTTP/1.1 201"), "{made:.300}");
    }
    let first = body(&address, "jobs?limit=1000");
    let (items, next) = first.rsplit_once("],\"next\":\"").unwrap();
    let second = body(&address, &format!("jobs?limit=1000&cursor={}", next.split('"').next().unwrap()));
    let whole = format!("{items},{}\n", second.strip_prefix("{\"items\":[").unwrap());
    let printed = at(&dir, &["job", "list", "--all", "--json", "--server", &format!("http://{address}")]);
    assert!(printed.out == whole, "{:.300} and {whole:.300}", printed.out);
    assert_eq!(whole.matches("\"id\":").count(), 1_001);
}

#[tokio::test]
async fn a_job_with_numbers_too_large_for_a_float_is_shown_and_awaited() {
    each_way(&[], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[args, asked].concat());
        let begun = Instant::now();
        let dies = ["job", "enqueue", "sample", "--retries", "0", "--input", ODD];
        let waited = run(&[&dies[..], &["--wait", "--wait-timeout", "1m"]].concat());
        assert!(
            waited.code == Some(8) && waited.err.contains("job 1 dead: "),
            "{:?} {}",
            waited.code,
            waited.err
        );
        assert_eq!(run(&["job", "watch", "1", "--wait-timeout", "1m"]).code, Some(8));
        let json = run(&["job", "watch", "1", "--json", "--wait-timeout", "1m"]);
        assert!(json.code == Some(8) && json.out.contains(ODD), "{}", json.out);
        assert_eq!(run(&["job", "enqueue", "mail.send", "--input", ODD]).code, Some(0));
        assert_eq!(run(&["job", "cancel", "2"]).code, Some(0));
        assert_eq!(run(&["job", "watch", "2", "--wait-timeout", "1m"]).code, Some(9));
        let shown = run(&["job", "get", "2"]);
        assert!(
            shown.out.contains("state\tcancelled\n") && shown.out.contains(&format!("input\t{ODD}\n")),
            "{}",
            shown.out
        );
        assert!(begun.elapsed() < Duration::from_secs(55), "no wait ran into its timeout");
    })
    .await;
}

#[test]
fn an_unreadable_response_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    let broken = answer("200 OK", "Content-Type: application/json\r\n", r#"{"id":"1","state":"runn"#);
    let page = answer("200 OK", "Content-Type: text/html\r\n", "<h1>welcome</h1>");
    let moved = answer("302 Found", "Location: /login\r\n", "");
    let stateless = answer("200 OK", "Content-Type: application/json\r\n", "{}");
    for (said, why) in [
        (&broken, "the response is not JSON"),
        (&page, "the response is not JSON"),
        (&moved, "responded with status 302"),
        (&stateless, "no state"),
    ] {
        let (port, _calls) = receiver(vec![said.clone(); 8]);
        let url = format!("http://127.0.0.1:{port}");
        let commands: &[&[&str]] = match *said == stateless {
            true => &[&["job", "watch", "1"]],
            false => &[&["job", "get", "1"], &["job", "watch", "1"], &["job", "list", "--json"], &["status"]],
        };
        for words in commands {
            let run = at(&dir, &[words, &["--server", &url][..]].concat());
            assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{words:?}: {}", run.err);
            assert!(run.err.contains(why), "{words:?}: {}", run.err);
        }
        let raw = at(&dir, &["api", "GET", "/jobs/1", "--server", &url]);
        let (_, came) = said.split_once("\r\n\r\n").unwrap();
        let line = if came.is_empty() { String::new() } else { format!("{came}\n") };
        assert_eq!((raw.code, raw.out), (Some(0), line), "unchanged");
    }
}

/// The text output of a job contains its output.
#[tokio::test]
async fn a_job_is_shown_with_the_output_of_its_last_claim() {
    each_way(&["--commands", "/bin/echo"], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[args, asked].concat());
        let input = r#"{"argv": ["/bin/echo", "done"]}"#;
        assert_eq!(run(&["job", "enqueue", "command", "--input", input, "--wait"]).code, Some(0));
        let shown = run(&["job", "get", "1"]).out;
        let output =
            shown.lines().find_map(|line| line.strip_prefix("output\t")).unwrap_or_else(|| panic!("{shown}"));
        let output: Value = serde_json::from_str(output).unwrap();
        assert_eq!((&output["code"], &output["stdout"]), (&0.into(), &"done".into()), "{shown}");
    })
    .await;
}

#[tokio::test]
async fn a_dead_job_is_not_due() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &[]).await;
    let asked = ["--server", &format!("http://{address}")];
    let run = |args: &[&str]| at(&dir, &[args, &asked].concat());
    assert_eq!(run(&["job", "enqueue", "sample", "--retries", "0", "--input", "1", "--wait"]).code, Some(8));
    assert_eq!(run(&["job", "enqueue", "mail.send"]).code, Some(0));
    let listed = run(&["job", "list"]).out;
    let due: Vec<&str> = listed.lines().map(|row| row.split('\t').nth(4).unwrap()).collect();
    assert!(due[0] == "DUE" && due[1].ends_with('Z') && due[2].is_empty(), "{listed}");
    assert!(!run(&["job", "get", "1"]).out.contains("\ndue\t"));
    assert!(run(&["job", "get", "2"]).out.contains("\ndue\t"));
}
