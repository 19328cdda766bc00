//! Status over HTTP.

use serde_json::json;

use crate::kit::Served;

async fn the_status_response_has_all_parts_of_the_screen(served: &Served) {
    served.until("/api/v1/status", |status| status["healthy"] == json!(true)).await;
    served.post("/api/v1/jobs", r#"{"kind": "add", "in_ms": 60000}"#).await;
    let status = served.get("/api/v1/status").await.json();
    assert_eq!((&status["problems"], &status["leader"]), (&json!([]), &json!(null)), "{status}");
    assert_eq!((&status["alive"], &status["silent"], &status["slots"]), (&json!(1), &json!(0), &json!(4)));
    assert_eq!(status["waiting"], json!({"count": 1, "at_least": false}), "{status}");
    assert_eq!(status["nodes"][0]["state"], "alive");
    served
        .put(
            "/api/v1/manifests/often",
            r#"{"kind": "broken", "input": "x", "schedule": {"every": "1s"}, "retries": 0}"#,
        )
        .await;
    let led = served.until("/api/v1/status", |status| status["leader"]["live"] == json!(true)).await;
    assert_eq!(led["leader"]["node"], led["nodes"][0]["name"], "{led}");
    let dead = served.until("/api/v1/status", |status| status["problems"] != json!([])).await;
    let problem = &dead["problems"][0];
    assert_eq!(
        (&problem["check"], &problem["finding"]),
        (&json!("dead_letters"), &json!("warning")),
        "{dead}"
    );
    assert_eq!(dead["healthy"], true, "a warning is no failure: {dead}");
    assert!(problem["remedy"].as_str().unwrap().contains("lineclear dead families"), "{dead}");
}

on_each_store! {
    the_status_response_has_all_parts_of_the_screen
}
