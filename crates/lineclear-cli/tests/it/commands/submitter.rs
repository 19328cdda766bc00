//! `lineclear submitter`: through a server, and directly on a database.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::commands::job::{at, each_way, until};
use crate::commands::serve::{ask, serve};

const HEAD: &str = "NAME\tSTATE\tKINDS\tTARGET\tNODE\tIN FLIGHT\tACCEPTED\tRETRY\tDETAIL\n";

/// The row of a submitter, as its cells.
fn row(listed: &str, name: &str) -> Vec<String> {
    let of = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
    listed.lines().map(of).find(|cells| cells[0] == name).unwrap_or_else(|| panic!("no {name}: {listed}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn submitters_are_listed_through_a_server_and_on_a_database() {
    each_way(&[], async |dir, asked| {
        let run = |args: &[&str]| at(dir, &[args, asked].concat());
        let listed = run(&["submitter", "list"]);
        assert_eq!(listed.code, Some(0), "{}", listed.err);
        assert!(listed.out.starts_with(HEAD), "{}", listed.out);
        assert_eq!(row(&listed.out, "pull")[1..4], ["ready", "", "0 remote workers"], "{}", listed.out);
        if asked[0] == "--server" {
            let local = row(&listed.out, "local");
            assert!(
                local[1] == "ready" && local[2].contains("http") && local[5].starts_with("0/"),
                "{local:?}"
            );
        }
        let json: Value = serde_json::from_str(&run(&["submitter", "list", "--json"]).out).unwrap();
        assert!(json["items"].as_array().unwrap().iter().any(|one| one["name"] == "pull"), "{json}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_breaker_and_a_kind_without_a_worker_are_named_and_a_worker_is_listed() {
    let dir: TempDir = tempfile::tempdir().unwrap();
    // A port on which nothing listens.
    let free = lineclear_testkit::free_port().unwrap();
    let settings = format!(
        "[submitter.billing]\ntype = \"push\"\nurl = \"http://127.0.0.1:{free}/jobs\"\nkinds = [\"invoice\"]\nunsigned = true\n\
         [submitter.python]\ntype = \"pull\"\nkinds = [\"thumb\"]\n"
    );
    std::fs::write(dir.path().join("lineclear.toml"), settings).unwrap();
    let (_child, address) = serve(&dir, &[]).await;
    let server = format!("http://{address}");
    let run = |args: &[&str]| at(&dir, &[args, &["--server", &server]].concat());
    assert_eq!(row(&run(&["submitter", "list"]).out, "billing")[1..3], ["ready", "invoice"]);
    let pull = row(&run(&["submitter", "list"]).out, "pull");
    assert_eq!((pull[1].as_str(), pull[8].as_str()), ("no worker", "no live worker pulls thumb"));
    for kind in ["invoice", "invoice", "invoice", "invoice", "invoice", "invoice", "thumb"] {
        assert_eq!(run(&["job", "enqueue", kind]).code, Some(0));
    }
    until(|| {
        let billing = row(&run(&["submitter", "list"]).out, "billing");
        billing[1] == "breaker open"
            && billing[7].starts_with("in ")
            && billing[8].contains("failures in a row")
    });
    // Jobs of the kind http would not call this host either.
    let host = row(&run(&["submitter", "list"]).out, &format!("host 127.0.0.1:{free}"));
    assert!(host[1].starts_with("breaker") && host[2] == "http", "{host:?}");
    assert!(host[8].contains(" since ") && host[8].contains("the last one: "), "{host:?}");
    let explained = run(&["job", "explain", "7"]).out;
    assert!(explained.contains("no worker for kind thumb: no live worker pulls it"), "{explained}");

    let worker = json!({"id": "0b6ef1a4-7c3f-4f0e-9d53-5d1c0c8a7e11", "name": "mailer", "host": "web1", "pid": 1, "version": "test/1"});
    let poll = json!({"worker": worker, "kinds": ["thumb"], "slots": 5, "wait_ms": 10_000}).to_string();
    let claims = ask(&address, "POST /api/v1/claims", &poll);
    assert!(claims.contains("\"thumb\""), "{claims}");
    let pull = row(&run(&["submitter", "list"]).out, "pull");
    assert_eq!(pull[1..6], ["ready", "thumb", "1 remote worker", "", "1/5"], "{pull:?}");
    let nodes = run(&["node", "list"]).out;
    assert!(nodes.lines().last().unwrap().contains("\tmailer\talive\t1\t5\t"), "after the nodes: {nodes}");
    let status = run(&["status"]).out;
    assert!(
        status.contains("nodes\t1 alive, 0 silent; ")
            && status.contains("; and 1 remote worker with 5 slots"),
        "{status}"
    );
    let job = run(&["job", "get", "7"]).out;
    assert!(job.contains("node\tmailer\n") && job.contains("holder\tworker\n"), "{job}");
}
