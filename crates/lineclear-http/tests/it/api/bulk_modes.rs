//! Modes of bulk operations over HTTP.

use serde_json::{Value, json};

use crate::kit::Served;

/// Makes this number of dead jobs that die again when revived.
pub(crate) async fn dead(served: &Served, count: usize) {
    let job = json!({"kind": "broken", "input": "the disk is full"});
    let made = served.post("/api/v1/jobs/batch", &json!({"jobs": vec![job; count]}).to_string()).await;
    assert_eq!(made.status, 201);
    let all = |page: &Value| page["items"].as_array().unwrap().len() == count;
    served.until("/api/v1/jobs?q=state:dead", all).await;
}

async fn a_canary_that_completes_is_followed_by_the_rest(served: &Served) {
    let job = json!({"kind": "add", "input": [1, 2]});
    served.post("/api/v1/jobs/batch", &json!({"jobs": vec![job; 5]}).to_string()).await;
    let all = |page: &Value| page["items"].as_array().unwrap().len() == 5;
    served.until("/api/v1/jobs?q=state:completed", all).await;
    let batch = json!({"action": "retry", "q": "kind:add", "mode": "canary", "starts_in_ms": 0});
    let made = served.post("/api/v1/bulk-operations", &batch.to_string()).await;
    assert_eq!((made.status, &made.json()["mode"]), (201, &json!("canary")), "{made:?}");
    assert_eq!(made.json()["canary_job_id"], Value::Null);
    let path = made.header("location").unwrap().to_owned();
    let done = served.until(&path, |batch| batch["status"] == "done").await;
    assert_eq!(
        (&done["done"], &done["skipped"], &done["stopped_because"]),
        (&json!(5), &json!(0), &Value::Null)
    );
    let canary = done["canary_job_id"].as_str().unwrap();
    let job = served.get(&format!("/api/v1/jobs/{canary}")).await.json();
    assert_eq!(job["state"], "completed");
}

async fn a_canary_that_dies_again_stops_the_bulk_operation_with_a_reason(served: &Served) {
    dead(served, 5).await;
    let batch = json!({"action": "revive", "q": "state:dead", "mode": "canary", "starts_in_ms": 0});
    let made = served.post("/api/v1/bulk-operations", &batch.to_string()).await;
    let path = made.header("location").unwrap().to_owned();
    let stopped = served.until(&path, |batch| batch["status"] == "cancelled").await;
    let canary = stopped["canary_job_id"].as_str().unwrap();
    assert_eq!(stopped["stopped_because"], format!("its canary, job {canary}, died again"));
    assert_eq!(stopped["done"], 1);
    let revived = served.get("/api/v1/dead-letters?status=revived").await.json();
    assert_eq!(revived["items"].as_array().unwrap().len(), 1, "the others were not touched");
}

async fn spread_jobs_become_due_one_after_another(served: &Served) {
    dead(served, 4).await;
    let batch = json!({"action": "revive", "q": "state:dead", "mode": "spread", "over_ms": 14_400_000, "starts_in_ms": 0});
    let made = served.post("/api/v1/bulk-operations", &batch.to_string()).await;
    assert_eq!((&made.json()["mode"], &made.json()["over_ms"]), (&json!("spread"), &json!(14_400_000)));
    let path = made.header("location").unwrap().to_owned();
    served.until(&path, |batch| batch["status"] == "done").await;
    // The first job is due at once and runs; the others are an hour apart.
    let waiting = served
        .until("/api/v1/jobs?q=state:waiting", |jobs| jobs["items"].as_array().unwrap().len() == 3)
        .await;
    let due: Vec<jiff::Timestamp> = waiting["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["due_at"].as_str().unwrap().parse().unwrap())
        .collect();
    assert!(due.windows(2).all(|two| (two[0].as_second() - two[1].as_second()).abs() == 3_600), "{waiting}");
}

async fn an_invalid_mode_is_refused_with_a_pointer(served: &Served) {
    for (field, body) in [
        ("/mode", json!({"action": "revive", "q": "id:1", "mode": "slowly"})),
        ("/mode", json!({"action": "cancel", "q": "id:1", "mode": "canary"})),
        ("/mode", json!({"action": "cancel", "q": "id:1", "mode": "canary", "dry_run": true})),
        ("/mode", json!({"action": "acknowledge", "q": "id:1", "mode": "spread", "over_ms": 1000})),
        ("/over_ms", json!({"action": "revive", "q": "id:1", "mode": "spread"})),
        ("/over_ms", json!({"action": "revive", "q": "id:1", "mode": "spread", "over_ms": 0})),
        ("/over_ms", json!({"action": "revive", "q": "id:1", "over_ms": 1000})),
    ] {
        let refused = served.post("/api/v1/bulk-operations", &body.to_string()).await;
        assert_eq!((refused.status, &refused.json()["errors"][0]["pointer"]), (422, &json!(field)), "{body}");
    }
    assert_eq!(served.get("/api/v1/bulk-operations").await.json()["items"], json!([]));
}

on_each_store! {
    a_canary_that_completes_is_followed_by_the_rest
    a_canary_that_dies_again_stops_the_bulk_operation_with_a_reason
    spread_jobs_become_due_one_after_another
    an_invalid_mode_is_refused_with_a_pointer
}
