//! Bulk operations over HTTP.

use serde_json::json;

use crate::kit::Served;

async fn many(served: &Served, count: usize) {
    let job = json!({"kind": "add", "input": [1, 2], "in_ms": 600_000});
    let made = served.post("/api/v1/jobs/batch", &json!({"jobs": vec![job; count]}).to_string()).await;
    assert_eq!(made.status, 201);
}

async fn a_bulk_operation_is_counted_created_run_and_finished(served: &Served) {
    many(served, 300).await;
    let count = json!({"action": "cancel", "q": "kind:add", "dry_run": true});
    let counted = served.post("/api/v1/bulk-operations", &count.to_string()).await;
    assert_eq!(
        (counted.status, counted.json()),
        (200, json!({"count": 300, "exact": true, "q": "kind:add"}))
    );
    let batch = json!({"action": "cancel", "q": "kind:add", "reason": "a mistake", "starts_in_ms": 0});
    let made = served.post("/api/v1/bulk-operations", &batch.to_string()).await;
    assert_eq!((made.status, &made.json()["total"]), (201, &json!(300)), "{made:?}");
    let path = made.header("location").unwrap().to_owned();
    let done = served.until(&path, |batch| batch["status"] == "done").await;
    assert_eq!(
        (&done["done"], &done["skipped"], &done["reason"]),
        (&json!(300), &json!(0), &json!("a mistake"))
    );
    assert_eq!(done["created_by"], "anonymous:127.0.0.1");
    let over = served.post(&format!("{path}/cancel"), "").await;
    assert_eq!((over.status, over.code()), (409, "bulk_operation_over".to_owned()));
    let listed = served.get("/api/v1/bulk-operations?limit=1").await.json();
    assert_eq!(listed["items"][0]["id"], done["id"]);
    let left = served.get("/api/v1/jobs?q=-state:over").await.json();
    assert_eq!(left["items"], json!([]));
}

async fn a_bulk_operation_cancelled_before_its_start_changes_nothing(served: &Served) {
    many(served, 10).await;
    let batch = json!({"action": "cancel", "q": "id:>0"});
    let made = served.post("/api/v1/bulk-operations", &batch.to_string()).await.json();
    assert_eq!(made["status"], "waiting");
    let path = format!("/api/v1/bulk-operations/{}", made["id"].as_str().unwrap());
    let stopped = served.post(&format!("{path}/cancel"), "").await.json();
    assert_eq!((&stopped["status"], &stopped["done"]), (&json!("cancelled"), &json!(0)));
    let waiting = served.get("/api/v1/jobs?q=state:scheduled").await.json();
    assert_eq!(waiting["items"].as_array().unwrap().len(), 10);
    assert_eq!(served.get("/api/v1/bulk-operations/999").await.status, 404);
    assert_eq!(served.post("/api/v1/bulk-operations/999/cancel", "").await.status, 404);
}

on_each_store! {
    a_bulk_operation_is_counted_created_run_and_finished
    a_bulk_operation_cancelled_before_its_start_changes_nothing
}
