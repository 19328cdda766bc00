//! Nodes over HTTP.

use serde_json::json;

use crate::kit::Served;

async fn a_node_is_drained_and_resumed(served: &Served) {
    let nodes = served.get("/api/v1/nodes").await.json();
    let node = &nodes["items"][0];
    assert_eq!(
        (&node["state"], &node["holds"], &node["drain_at"]),
        (&json!("alive"), &json!(0), &json!(null)),
        "{node}"
    );
    let path = format!("/api/v1/nodes/{}", node["id"].as_str().unwrap());
    assert_eq!(served.post(&format!("{path}/drain"), "").await.status, 204);
    let drained = served.until("/api/v1/nodes", |nodes| nodes["items"][0]["state"] == "drained").await;
    assert_eq!(drained["items"][0]["drain_by"], "anonymous:127.0.0.1", "{drained}");
    let made = served.post("/api/v1/jobs", &json!({"kind": "add", "input": [1, 2]}).to_string()).await.json();
    let job = format!("/api/v1/jobs/{}", made["id"].as_str().unwrap());
    let explained = served.get(&format!("{job}/explain")).await.json();
    assert!(explained["verdict"].as_str().unwrap().contains("drains"), "{explained}");
    assert_eq!(served.get("/api/v1/status").await.json()["nodes"][0]["state"], "draining");
    assert_eq!(served.get("/readyz").await.status, 200, "its API is as ready as before");
    assert_eq!(served.get(&job).await.json()["state"], "queued");
    assert_eq!(served.post(&format!("{path}/resume"), "").await.status, 204);
    served.until(&job, |job| job["state"] == "completed").await;
    for unknown in ["/api/v1/nodes/999/drain", "/api/v1/nodes/999/resume", "/api/v1/nodes/x/drain"] {
        let answer = served.post(unknown, "").await;
        assert_eq!((answer.status, answer.code()), (404, "not_found".to_owned()), "{unknown}");
    }
}

on_each_store! {
    a_node_is_drained_and_resumed
}
