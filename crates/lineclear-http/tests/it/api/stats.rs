//! Statistics over HTTP.

use serde_json::json;

use crate::kit::Served;

async fn ended_jobs_are_in_the_statistics_at_once(served: &Served) {
    for (kind, input) in [("add", json!([1, 2])), ("add", json!([3, 4])), ("broken", json!("x"))] {
        let body = json!({"kind": kind, "input": input}).to_string();
        let headers = [("Content-Type", "application/json"), ("Prefer", "wait=20")];
        assert_eq!(served.send("POST", "/api/v1/jobs", &headers, body.as_bytes()).await.status, 200);
    }
    let stats = served.get("/api/v1/stats?step=day&by=kind").await;
    assert_eq!(stats.status, 200, "{stats:?}");
    let items = stats.json()["items"].clone();
    let sum = |key: &str, outcome: &str| -> u64 {
        let points = items.as_array().unwrap().iter().filter(|point| point["key"] == key);
        points.filter_map(|point| point["outcomes"][outcome].as_u64()).sum()
    };
    assert_eq!((sum("add", "completed"), sum("broken", "failed")), (2, 1), "{items}");
    let minutes = served.get("/api/v1/stats").await.json();
    let claims: u64 =
        minutes["items"].as_array().unwrap().iter().map(|point| point["claims"].as_u64().unwrap()).sum();
    assert_eq!(claims, 3, "{minutes}");
    assert_eq!(minutes["items"][0]["key"], json!(null));
    let hour = served.get("/api/v1/stats?from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z&step=hour").await;
    assert_eq!(hour.json()["items"], json!([]));

    served.post("/api/v1/jobs", r#"{"kind": "add", "in_ms": 60000}"#).await;
    let now = served.get("/api/v1/stats/now").await.json();
    assert_eq!(
        (&now["waiting"], &now["running"]["count"]),
        (&json!({"count": 1, "at_least": false}), &json!(0))
    );
    assert_eq!(
        (&now["due"]["count"], &now["dead_letters"]["count"], &now["nodes"]),
        (&json!(0), &json!(1), &json!(1))
    );
}

async fn invalid_statistics_queries_are_refused(served: &Served) {
    for (query, status, code) in [
        ("by=color", 400, "by"),
        ("step=week", 400, "query"),
        ("from=yesterday", 422, "time"),
        ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", 422, "range"),
        ("from=2020-01-01T00:00:00Z&step=minute", 422, "range"),
        ("from=-009000-01-01T00:00:00Z&to=9999-01-01T00:00:00Z&step=day", 422, "range"),
        ("from=-009000-01-01T00:00:00Z&to=-009000-01-02T00:00:00Z", 422, "range"),
        ("limit=3", 400, "query"),
    ] {
        let refused = served.get(&format!("/api/v1/stats?{query}")).await;
        assert_eq!((refused.status, refused.code()), (status, code.to_owned()), "{query}: {refused:?}");
    }
}

on_each_store! {
    ended_jobs_are_in_the_statistics_at_once
    invalid_statistics_queries_are_refused
}
