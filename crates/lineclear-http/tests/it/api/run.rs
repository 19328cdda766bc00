//! Run and wait.

use serde_json::json;

use super::claims::Worker;
use crate::kit::Served;

async fn a_run_is_answered_with_the_output(served: &Served) {
    let ran = served.post("/api/v1/run/add", "[40, 2]").await;
    assert_eq!(ran.status, 200, "{ran:?}");
    let body = ran.json();
    assert_eq!(
        (&body["state"], &body["outcome"], &body["output"]),
        (&json!("completed"), &json!("completed"), &json!(42))
    );
    assert_eq!(body["error"], json!(null));
    let path = ran.header("location").unwrap().to_owned();
    assert_eq!(path, format!("/api/v1/jobs/{}", body["job"].as_str().unwrap()));
    assert_eq!(served.get(&path).await.json()["state"], "completed", "it is in history");
    let dead = served.post("/api/v1/run/broken", "\"no such customer\"").await;
    let body = dead.json();
    assert_eq!(
        (dead.status, &body["state"], &body["outcome"]),
        (200, &json!("dead"), &json!("failed")),
        "{dead:?}"
    );
    assert_eq!(body["error"]["message"], "no such customer");
}

async fn a_run_that_takes_too_long_is_answered_with_its_place(served: &Served) {
    let ran = served.post("/api/v1/run/endless?wait_ms=200", "").await;
    assert_eq!(ran.status, 202, "{ran:?}");
    assert!(["running", "queued"].contains(&ran.json()["state"].as_str().unwrap()), "{ran:?}");
    let path = ran.header("location").unwrap().to_owned();
    let job = served.get(&path).await.json();
    assert_eq!((&job["id"], &job["input"]), (&ran.json()["job"], &json!({})), "no body is an empty input");
}

async fn a_run_with_a_key_runs_once(served: &Served) {
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "k")];
    let run = async || served.send("POST", "/api/v1/run/add", &headers, b"[1, 2]").await;
    let (first, again) = (run().await, run().await);
    assert_eq!((first.status, again.status), (200, 200), "{again:?}");
    assert_eq!(first.json(), again.json());
    assert_eq!(
        (first.header("idempotent-replayed"), again.header("idempotent-replayed")),
        (None, Some("true"))
    );
    let other = served.send("POST", "/api/v1/run/add", &headers, b"[1, 3]").await;
    assert_eq!(other.status, 422, "another input: {other:?}");
}

async fn a_run_is_executed_by_a_remote_worker(served: &Served) {
    let worker = Worker::new(served, &["invoice"]);
    let work = async {
        let claim = worker.pull_one().await;
        let n = claim["job"]["input"]["n"].as_i64().unwrap();
        worker.settle(&claim, json!({"outcome": "completed", "output": n + 1})).await
    };
    let (ran, settled) = tokio::join!(served.post("/api/v1/run/invoice", r#"{"n": 6}"#), work);
    assert_eq!((ran.status, &ran.json()["output"]), (200, &json!(7)), "{ran:?}");
    assert_eq!(settled.status, 200, "{settled:?}");
}

on_each_store! {
    a_run_is_answered_with_the_output
    a_run_that_takes_too_long_is_answered_with_its_place
    a_run_with_a_key_runs_once
    a_run_is_executed_by_a_remote_worker
}
