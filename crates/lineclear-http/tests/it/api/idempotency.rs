//! `Idempotency-Key`: a repeated request creates nothing.

use serde_json::json;

use crate::kit::{Answer, Served};

async fn post(served: &Served, path: &str, key: &str, body: &str) -> Answer {
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
    served.send("POST", path, &headers, body.as_bytes()).await
}

async fn jobs(served: &Served) -> usize {
    served.get("/api/v1/jobs?limit=1000").await.json()["items"].as_array().unwrap().len()
}

const LATER: &str = r#"{"kind": "add", "input": [1, 2], "in_ms": 60000}"#;

async fn a_repeated_request_creates_nothing_and_gets_the_same_response(served: &Served) {
    served.put("/api/v1/groups/etl", "{}").await;
    let daily = json!({"kind": "add", "input": [1, 2], "group": "etl", "schedule": {"cron": "30 2 * * *"}});
    served.put("/api/v1/manifests/daily", &daily.to_string()).await;
    let cases = [
        ("/api/v1/jobs", LATER.to_owned(), 1),
        ("/api/v1/jobs/batch", format!(r#"{{"jobs": [{LATER}, {LATER}]}}"#), 2),
        ("/api/v1/manifests/daily/run", r#"{"in_ms": 60000}"#.to_owned(), 1),
        ("/api/v1/groups/etl/run", String::new(), 1),
        (
            "/api/v1/manifests/daily/backfill",
            r#"{"from": "2026-01-01T00:00:00Z", "to": "2026-01-03T00:00:00Z"}"#.to_owned(),
            2,
        ),
    ];
    let mut before = 0;
    for (n, (path, body, made)) in cases.iter().enumerate() {
        let key = format!("key-{n}");
        let first = post(served, path, &key, body).await;
        assert_eq!((first.status, first.header("idempotent-replayed")), (201, None), "{path}: {first:?}");
        for key in [key.clone(), format!("\"{key}\"")] {
            let again = post(served, path, &key, body).await;
            assert_eq!((again.status, &again.body), (201, &first.body), "{path}: {again:?}");
            assert_eq!(again.header("idempotent-replayed"), Some("true"), "{path}");
            assert_eq!(again.header("location"), first.header("location"), "{path}");
        }
        before += made;
        assert_eq!(jobs(served).await, before, "{path}: made once");
        let other = post(served, path, &format!("other-{n}"), body).await;
        assert_eq!(other.status, 201, "{path}: another key is another request");
        if !path.ends_with("backfill") {
            before += made;
        }
        assert_eq!(jobs(served).await, before, "{path}");
    }
}

async fn a_retry_and_a_bulk_operation_with_a_key_run_once(served: &Served) {
    let done = served.post("/api/v1/jobs", r#"{"kind": "add", "input": [1, 2]}"#).await.json();
    let path = format!("/api/v1/jobs/{}", done["id"].as_str().unwrap());
    served.until(&path, |job| job["state"] == "completed").await;
    let batch = r#"{"action": "retry", "q": "kind:add state:completed", "starts_in_ms": 86400000}"#;
    for (path, body) in [(format!("{path}/retry"), ""), ("/api/v1/bulk-operations".to_owned(), batch)] {
        let first = post(served, &path, &path, body).await;
        assert_eq!((first.status, first.header("idempotent-replayed")), (201, None), "{path}: {first:?}");
        assert!(first.header("location").is_some(), "{path}: {first:?}");
        let again = post(served, &path, &path, body).await;
        assert_eq!((again.status, &again.body), (201, &first.body), "{path}: {again:?}");
        assert_eq!(again.header("idempotent-replayed"), Some("true"), "{path}");
        assert_eq!(again.header("location"), first.header("location"), "{path}");
        let other = post(served, &path, &format!("another {path}"), body).await;
        assert_ne!(
            other.header("location"),
            first.header("location"),
            "{path}: another key is another request"
        );
        let reused = post(served, &path, &path, r#"{"action": "retry", "q": "id:1"}"#).await;
        assert!(reused.status == 422 || reused.status == 400, "{path}: {reused:?}");
    }
    assert_eq!(jobs(served).await, 3, "it, and two that it was run again as");
    let batches = served.get("/api/v1/bulk-operations").await.json();
    assert_eq!(batches["items"].as_array().unwrap().len(), 2, "{batches}");
}

async fn a_refused_retry_leaves_its_key_free(served: &Served) {
    let later = served.post("/api/v1/jobs", LATER).await.json();
    let path = format!("/api/v1/jobs/{}", later["id"].as_str().unwrap());
    let refused = post(served, &format!("{path}/retry"), "k", "").await;
    assert_eq!((refused.status, refused.code()), (409, "job_not_over".to_owned()));
    assert_eq!(served.post(&format!("{path}/cancel"), "").await.status, 200);
    let again = post(served, &format!("{path}/retry"), "k", "").await;
    assert_eq!((again.status, &again.json()["became"]), (201, &json!("again")), "{again:?}");
    assert_eq!(post(served, "/api/v1/jobs/999/retry", "other", "").await.status, 404);
}

async fn a_key_that_was_used_for_something_else_is_refused(served: &Served) {
    assert_eq!(post(served, "/api/v1/jobs", "k", LATER).await.status, 201);
    let other = post(served, "/api/v1/jobs", "k", r#"{"kind": "add", "in_ms": 60000}"#).await;
    assert_eq!((other.status, other.code()), (422, "idempotency_key_reused".to_owned()));
    let elsewhere = post(served, "/api/v1/jobs/batch", "k", LATER).await;
    assert_eq!(elsewhere.status, 400, "it cannot even be read there");
    let elsewhere = post(served, "/api/v1/jobs/batch", "k", &format!(r#"{{"jobs": [{LATER}]}}"#)).await;
    assert_eq!((elsewhere.status, elsewhere.code()), (422, "idempotency_key_reused".to_owned()));
    assert_eq!(jobs(served).await, 1);
}

async fn a_refused_request_leaves_its_key_free(served: &Served) {
    let refused = post(served, "/api/v1/jobs", "k", r#"{"kind": "add", "group": "none"}"#).await;
    assert_eq!((refused.status, refused.code()), (422, "group_unknown".to_owned()));
    assert_eq!(post(served, "/api/v1/manifests/none/run", "k", "").await.status, 404);
    let made = post(served, "/api/v1/jobs", "k", LATER).await;
    assert_eq!((made.status, made.header("idempotent-replayed")), (201, None));
}

async fn many_requests_at_once_with_one_key_make_one_job(served: &Served) {
    let asking = (0..16).map(|_| post(served, "/api/v1/jobs", "k", LATER));
    let mut ids = Vec::new();
    for answer in futures(asking).await {
        match answer.status {
            201 => ids.push(answer.json()["id"].as_str().unwrap().to_owned()),
            409 => assert_eq!(answer.code(), "idempotency_in_flight"),
            _ => panic!("{answer:?}"),
        }
    }
    ids.dedup();
    assert_eq!((ids.len(), jobs(served).await), (1, 1));
}

/// All of them at once, on this task.
async fn futures<F: Future<Output = Answer>>(all: impl Iterator<Item = F>) -> Vec<Answer> {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    let mut answers = Vec::new();
    std::future::poll_fn(|context| {
        all.retain_mut(|one| match one.as_mut().poll(context) {
            std::task::Poll::Ready(answer) => {
                answers.push(answer);
                false
            }
            std::task::Poll::Pending => true,
        });
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    answers
}

async fn an_invalid_key_is_refused_and_so_is_one_on_other_routes(served: &Served) {
    let long = "x".repeat(256);
    for key in ["", "\"\"", "caf\u{e9}", long.as_str()] {
        let refused = post(served, "/api/v1/jobs", key, LATER).await;
        assert_eq!((refused.status, refused.code()), (400, "idempotency_key".to_owned()), "{key:?}");
    }
    let twice = [("Content-Type", "application/json"), ("Idempotency-Key", "a"), ("Idempotency-Key", "b")];
    assert_eq!(served.send("POST", "/api/v1/jobs", &twice, LATER.as_bytes()).await.status, 400);
    for path in ["/api/v1/jobs/1/cancel", "/api/v1/manifests/m/pause"] {
        let refused = post(served, path, "k", "").await;
        assert_eq!((refused.status, refused.code()), (400, "idempotency_key".to_owned()), "{path}");
    }
    assert_eq!(jobs(served).await, 0);
}

on_each_store! {
    a_retry_and_a_bulk_operation_with_a_key_run_once
    a_refused_retry_leaves_its_key_free
    a_repeated_request_creates_nothing_and_gets_the_same_response
    a_key_that_was_used_for_something_else_is_refused
    a_refused_request_leaves_its_key_free
    many_requests_at_once_with_one_key_make_one_job
    an_invalid_key_is_refused_and_so_is_one_on_other_routes
}
