//! Locks over HTTP.

use serde_json::json;

use crate::kit::Served;

async fn who_plans_can_be_seen(served: &Served) {
    // Who has nothing to plan does not lead.
    served
        .put("/api/v1/manifests/often", r#"{"kind": "add", "input": [1, 1], "schedule": {"every": "1s"}}"#)
        .await;
    let planner = |page: &serde_json::Value| {
        page["items"].as_array().unwrap().iter().any(|lock| lock["name"] == "planner")
    };
    let locks = served.until("/api/v1/locks", planner).await;
    let lock = locks["items"].as_array().unwrap().iter().find(|lock| lock["name"] == "planner").unwrap();
    assert_eq!((&lock["state"], &lock["pid"]), (&json!("held"), &json!(std::process::id())), "{lock}");
    let nodes = served.get("/api/v1/nodes").await.json();
    assert_eq!(lock["incarnation"], nodes["items"][0]["incarnation"], "it is a node of ours");
    let history = served.get("/api/v1/locks/planner/history").await.json();
    assert_eq!(history["items"][0]["what"], "taken", "{history}");
    assert_eq!(served.get("/api/v1/locks/nobody/history").await.status, 404);
    assert_eq!(served.get("/api/v1/locks/planner/history?cursor=x").await.status, 400);
}

on_each_store! {
    who_plans_can_be_seen
}
