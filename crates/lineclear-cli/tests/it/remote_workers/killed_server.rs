//! The server is killed between its commit and its answer, in each phase of a claim; another one goes on.

use lineclear_testkit::{Child, fresh_postgres};
use serde_json::json;
use tempfile::TempDir;

use super::{LONG, Worker, enqueue, of, open, outcomes};
use crate::commands::serve::{serve, serve_with};

/// A server that freezes at a point.
async fn freezing(dir: &TempDir, db: &str, point: &str) -> (Child, String) {
    serve_with(dir, &["--db", db], &[("LINECLEAR_CRASH_POINT", point)]).await
}

async fn killed(mut server: Child) {
    server.wait_until_stopped(LONG).await.unwrap();
    server.kill().unwrap();
}

async fn after_the_claim(db: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (first, at_first) = freezing(&dir, db, "claims.pulled").await;
    let worker = Worker::ready(&at_first).await;
    let job = enqueue(&at_first, 1).await;
    let lost = open(&at_first, "POST", "/api/v1/claims", &worker.body(json!({}))).await;
    killed(first).await;
    drop(lost);
    let (_second, at_second) = serve(&dir, &["--db", db]).await;
    let claim = worker.pull_one(&at_second, json!({"resume": true, "held": []})).await;
    assert_eq!(
        (&claim["job"]["id"], &claim["claim"]["no"]),
        (&json!(job), &json!(1)),
        "the claim that it was given"
    );
    let done = of(&claim, json!({"outcome": "completed"}));
    let (status, settled) = worker.call(&at_second, "settle", &[done]).await.unwrap();
    assert_eq!((status, &settled["claims"][0]["status"]), (200, &json!("recorded")), "{settled}");
    assert_eq!(outcomes(&at_second, &job).await, ["completed"]);
}

/// Before the commit of a settlement, after it, and after that of a renewal.
async fn after_a_call(db: &str, point: &str, what: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (first, at_first) = freezing(&dir, db, point).await;
    let worker = Worker::ready(&at_first).await;
    let job = enqueue(&at_first, 1).await;
    let claim = worker.pull_one(&at_first, json!({})).await;
    let item = if what == "renew" { json!({}) } else { json!({"outcome": "completed", "output": 7}) };
    let body = json!({"worker": worker.id, "claims": [of(&claim, item.clone())]}).to_string();
    let lost = open(&at_first, "POST", &format!("/api/v1/claims/{what}"), &body).await;
    killed(first).await;
    drop(lost);
    let (_second, at_second) = serve(&dir, &["--db", db]).await;
    let (status, again) = worker.call(&at_second, what, &[of(&claim, item)]).await.unwrap();
    let expected = if what == "renew" { "renewed" } else { "recorded" };
    assert_eq!((status, &again["claims"][0]["status"]), (200, &json!(expected)), "{point}: {again}");
    if what == "renew" {
        let done = of(&claim, json!({"outcome": "completed"}));
        assert_eq!(worker.call(&at_second, "settle", &[done]).await.unwrap().0, 200);
    }
    assert_eq!(outcomes(&at_second, &job).await, ["completed"], "{point}");
}

const CALLS: [(&str, &str); 3] =
    [("claims.renewed", "renew"), ("settle.before_commit", "settle"), ("claims.settled", "settle")];

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_after_its_server_was_killed_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    after_the_claim(&file("claim.db")).await;
    for (point, what) in CALLS {
        after_a_call(&file(&format!("{point}.db")), point, what).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_goes_on_after_its_server_was_killed_on_postgres() {
    after_the_claim(fresh_postgres().await.url()).await;
    for (point, what) in CALLS {
        after_a_call(fresh_postgres().await.url(), point, what).await;
    }
}
