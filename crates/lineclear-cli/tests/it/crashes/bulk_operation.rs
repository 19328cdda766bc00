//! A server that works on a bulk operation is killed; another server finishes it, and treats each job once.

use std::time::{Duration, Instant};

use lineclear_testkit::fresh_postgres;
use serde_json::{Value, json};

use crate::commands::serve::{ask, serve};

const JOBS: u64 = 10_000;
const LONG: Duration = Duration::from_secs(120);

fn json_of(answer: &str) -> Value {
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

async fn killed_in_the_middle(db: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let (mut one, first) = serve(&dir, db).await;
    let job = json!({"kind": "mail.send", "in_ms": 3_600_000});
    let body = json!({"jobs": vec![job; 1000]}).to_string();
    for _ in 0..JOBS / 1000 {
        assert!(ask(&first, "POST /api/v1/jobs/batch", &body).starts_with("HTTP/1.1 201"));
    }
    let batch = json!({"action": "cancel", "q": "kind:mail.send", "starts_in_ms": 0}).to_string();
    let batch = json_of(&ask(&first, "POST /api/v1/bulk-operations", &batch));
    let path = format!("GET /api/v1/bulk-operations/{}", batch["id"].as_str().unwrap());
    let deadline = Instant::now() + LONG;
    let before = loop {
        let now = json_of(&ask(&first, &path, ""));
        if now["done"].as_u64().unwrap() > 0 {
            break now;
        }
        assert!(Instant::now() < deadline, "it never started: {now}");
    };
    one.kill().unwrap();
    assert_eq!(before["status"], "running", "killed too late: {before}");

    let (mut two, second) = serve(&dir, db).await;
    let after = loop {
        let now = json_of(&ask(&second, &path, ""));
        if now["status"] == "done" {
            break now;
        }
        assert!(Instant::now() < deadline, "no other server continued it: {now}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!((&after["done"], &after["skipped"]), (&json!(JOBS), &json!(0)), "each once");
    let left = json!({"action": "cancel", "q": "state:waiting", "dry_run": true}).to_string();
    assert_eq!(json_of(&ask(&second, "POST /api/v1/bulk-operations", &left))["count"], 0);
    two.terminate().unwrap();
    assert!(two.wait_for_exit(LONG).await.unwrap().success());
}

#[tokio::test]
async fn a_bulk_operation_survives_its_server_on_sqlite() {
    killed_in_the_middle(&[]).await;
}

#[tokio::test]
async fn a_bulk_operation_survives_its_server_on_postgres() {
    let database = fresh_postgres().await;
    killed_in_the_middle(&["--db", database.url()]).await;
}
