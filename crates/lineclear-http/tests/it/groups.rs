//! Groups over HTTP.

use serde_json::json;

use crate::kit::Served;

async fn a_group_is_written_listed_and_run(served: &Served) {
    assert_eq!(served.put("/api/v1/groups/etl", r#"{"limit": 2, "priority": 3}"#).await.status, 204);
    let groups = served.get("/api/v1/groups").await.json();
    let etl =
        groups["items"].as_array().unwrap().iter().find(|group| group["name"] == "etl").unwrap().clone();
    assert_eq!(etl, json!({"name": "etl", "limit": 2, "priority": 3, "enabled": true, "active": 0}));
    let manifest = r#"{"kind": "add", "input": [1, 1], "group": "etl", "schedule": {"on_demand": true}}"#;
    for key in ["one", "two"] {
        let written = served.put(&format!("/api/v1/manifests/{key}"), manifest).await;
        assert_eq!(written.status, 201, "{written:?}");
    }
    let ran = served.post("/api/v1/groups/etl/run", "").await;
    assert_eq!((ran.status, ran.json()["jobs"].as_array().unwrap().len()), (201, 2), "{ran:?}");
    served.until("/api/v1/jobs?q=state:completed", |page| page["items"].as_array().unwrap().len() == 2).await;
    assert_eq!(served.post("/api/v1/groups/nobody/run", "").await.status, 404);
}

async fn the_global_limit_is_the_group_of_all(served: &Served) {
    assert_eq!(served.put("/api/v1/groups/*", r#"{"limit": 7}"#).await.status, 204);
    let groups = served.get("/api/v1/groups").await.json();
    assert!(
        groups["items"].as_array().unwrap().iter().any(|group| group["name"] == "*" && group["limit"] == 7)
    );
    for (path, body, status) in [
        ("/api/v1/groups/Etl", "{}", 404),
        ("/api/v1/groups/etl", r#"{"limit": -1}"#, 400),
        ("/api/v1/groups/etl", r#"{"priority": 99}"#, 422),
        ("/api/v1/groups/etl", r#"{"max": 1}"#, 400),
    ] {
        let answer = served.put(path, body).await;
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
    }
}

on_each_store! {
    a_group_is_written_listed_and_run
    the_global_limit_is_the_group_of_all
}
