//! `Prefer: wait`: the response comes when the job is finished.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::kit::{Answer, Served};

async fn post(served: &Served, path: &str, prefer: &str, body: &str) -> Answer {
    let headers = [("Content-Type", "application/json"), ("Prefer", prefer)];
    served.send("POST", path, &headers, body.as_bytes()).await
}

async fn a_waiting_request_is_answered_when_the_job_is_finished(served: &Served) {
    let made = post(served, "/api/v1/jobs", "wait=20", r#"{"kind": "add", "input": [40, 2]}"#).await;
    assert_eq!((made.status, &made.json()["state"]), (200, &json!("completed")), "{made:?}");
    assert_eq!(made.json()["executions"][0]["output"], 42);
    assert_eq!(made.header("preference-applied"), Some("wait=20"));
    let path = made.header("location").unwrap().to_owned();
    let again = served.send("GET", &path, &[("Prefer", "respond-async, wait=20")], b"").await;
    assert_eq!((again.status, again.header("preference-applied")), (200, Some("wait=20")));

    let dead = post(served, "/api/v1/jobs", "wait=20", r#"{"kind": "broken", "input": "no"}"#).await;
    assert_eq!((dead.status, &dead.json()["state"]), (200, &json!("dead")), "{dead:?}");
    let daily = r#"{"kind": "add", "input": [1, 2], "schedule": {"cron": "30 2 * * *"}}"#;
    served.put("/api/v1/manifests/daily", daily).await;
    let ran = post(served, "/api/v1/manifests/daily/run", "wait=20", "").await;
    assert_eq!((ran.status, &ran.json()["state"]), (200, &json!("completed")), "{ran:?}");
}

async fn a_wait_that_runs_out_is_answered_with_the_current_state(served: &Served) {
    let begun = Instant::now();
    let made = post(served, "/api/v1/jobs", "wait=1", r#"{"kind": "endless"}"#).await;
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!((made.status, made.header("preference-applied")), (202, Some("wait=1")), "{made:?}");
    assert!(matches!(made.json()["state"].as_str(), Some("running" | "queued")), "{made:?}");
    let path = made.header("location").unwrap().to_owned();
    let now = served.send("GET", &path, &[("Prefer", "wait=0")], b"").await;
    assert_eq!((now.status, now.header("preference-applied")), (202, Some("wait=0")));
    assert_eq!(served.get(&path).await.status, 200, "without `Prefer` the response is 200");

    // A cancellation ends the wait.
    served.until(&path, |job| job["state"] == "running").await;
    let cancel = format!("{path}/cancel");
    let (waited, _) =
        tokio::join!(served.send("GET", &path, &[("Prefer", "wait=99")], b""), served.post(&cancel, ""));
    assert_eq!((waited.status, &waited.json()["state"]), (200, &json!("cancelled")), "{waited:?}");
    assert_eq!(waited.header("preference-applied"), Some("wait=25"), "at most 25 seconds");
}

async fn an_invalid_wait_is_refused(served: &Served) {
    for prefer in ["wait=soon", "wait=-1", "wait=1.5"] {
        let refused = post(served, "/api/v1/jobs", prefer, r#"{"kind": "add", "in_ms": 60000}"#).await;
        assert_eq!((refused.status, refused.code()), (400, "prefer".to_owned()), "{prefer}");
    }
    let missing = served.send("GET", "/api/v1/jobs/999", &[("Prefer", "wait=20")], b"").await;
    assert_eq!(missing.status, 404, "a job that does not exist is not waited for");
    assert_eq!(served.get("/api/v1/jobs").await.json()["items"], json!([]));
}

async fn a_keyed_request_that_waits_creates_one_job(served: &Served) {
    let headers = [("Content-Type", "application/json"), ("Prefer", "wait=20"), ("Idempotency-Key", "k")];
    let body = br#"{"kind": "add", "input": [1, 2]}"#;
    let first = served.send("POST", "/api/v1/jobs", &headers, body).await;
    let again = served.send("POST", "/api/v1/jobs", &headers, body).await;
    assert_eq!((first.status, again.status), (200, 200), "{again:?}");
    assert_eq!(
        (&first.json()["id"], again.header("idempotent-replayed")),
        (&again.json()["id"], Some("true"))
    );
}

on_each_store! {
    a_waiting_request_is_answered_when_the_job_is_finished
    a_wait_that_runs_out_is_answered_with_the_current_state
    an_invalid_wait_is_refused
    a_keyed_request_that_waits_creates_one_job
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_request_does_not_hold_up_a_server_that_stops() {
    let served = Served::sqlite().await;
    let address = served.address;
    let waiting = tokio::spawn(async move {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let body = r#"{"kind": "add", "in_ms": 600000}"#;
        let head = format!(
            "POST /api/v1/jobs HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nPrefer: wait=25\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    });
    served.until("/api/v1/jobs", |page| !page["items"].as_array().unwrap().is_empty()).await;
    let begun = Instant::now();
    served.end().await;
    let answer = waiting.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}
