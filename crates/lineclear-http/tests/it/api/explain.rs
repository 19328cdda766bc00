//! Explanations over HTTP: why a job or a manifest does not run.

use serde_json::{Value, json};

use crate::kit::Served;

fn gate<'a>(answer: &'a Value, name: &str) -> &'a Value {
    answer["gates"].as_array().unwrap().iter().find(|gate| gate["name"] == name).unwrap()
}

async fn a_job_and_a_manifest_name_the_gates_that_block_them(served: &Served) {
    served.put("/api/v1/groups/etl", r#"{"limit": 1}"#).await;
    let running = served.post("/api/v1/jobs", r#"{"kind": "endless", "group": "etl"}"#).await.json();
    let id = running["id"].as_str().unwrap();
    served.until(&format!("/api/v1/jobs/{id}"), |job| job["state"] == "running").await;
    let made = served.post("/api/v1/jobs", r#"{"kind": "add", "group": "etl"}"#).await.json();
    let path = format!("/api/v1/jobs/{}", made["id"].as_str().unwrap());
    let why = served.get(&format!("{path}/explain")).await.json();
    assert_eq!(why["verdict"], "waits for a place in group etl: 1 of 1 is taken");
    let limit = gate(&why, "group_limit");
    assert_eq!((&limit["open"], &limit["blockers"][0]["id"]), (&json!(false), &json!(id)));
    assert!(limit["blockers"][0]["node"].is_string(), "{limit}");
    assert_eq!(gate(&why, "node")["open"], true, "the node says which kinds it runs");
    let job = served.get(&path).await.json();
    assert_eq!(
        (&job["group"], &job["route"], &job["phase"]),
        (&json!("etl"), &json!("main"), &json!("ready"))
    );

    let manifest = r#"{"kind": "unregistered", "schedule": {"cron": "0 0 1 1 *"}}"#;
    served.put("/api/v1/manifests/m", manifest).await;
    let why = served.get("/api/v1/manifests/m/explain").await.json();
    assert!(why["verdict"].as_str().unwrap().starts_with("waits for its next tick"), "{why}");
    assert!(gate(&why, "node")["why"].as_str().unwrap().contains("knows add, broken, endless"), "{why}");
    served.post(&format!("/api/v1/jobs/{id}/cancel"), "").await;
    served
        .until(&format!("/api/v1/jobs/{id}/explain"), |why| {
            why["verdict"].as_str().unwrap().starts_with("cancelled while it ran on ")
        })
        .await;
    for path in ["/api/v1/jobs/999/explain", "/api/v1/manifests/missing/explain"] {
        assert_eq!(served.get(path).await.status, 404);
    }
}

on_each_store! {
    a_job_and_a_manifest_name_the_gates_that_block_them
}
