//! Many manifests and groups at once.

use serde_json::{Value, json};

use crate::kit::{Answer, Served};

async fn apply(served: &Served, body: &Value) -> Answer {
    served.post("/api/v1/manifests:apply", &body.to_string()).await
}

fn manifest(key: &str, cron: &str) -> Value {
    json!({"key": key, "kind": "add", "input": [1, 2], "group": "etl", "schedule": {"cron": cron}})
}

async fn keys(served: &Served) -> Vec<String> {
    let page = served.get("/api/v1/manifests").await.json();
    page["items"].as_array().unwrap().iter().map(|item| item["key"].as_str().unwrap().to_owned()).collect()
}

async fn a_dry_run_predicts_the_changes(served: &Served) {
    let mut first = json!({"owner": "team", "prune": true, "dry_run": true, "group": {"etl": {"limit": 4}},
                           "manifest": [manifest("a", "0 1 * * *"), manifest("b", "0 2 * * *")]});
    let plan = apply(served, &first).await;
    assert_eq!(plan.status, 200, "{plan:?}");
    assert_eq!(
        (&plan.json()["manifests"]["created"], &plan.json()["groups"]["created"]),
        (&json!(["a", "b"]), &json!(["etl"]))
    );
    assert_eq!(
        (keys(served).await.len(), served.get("/api/v1/groups/etl").await.status),
        (0, 404),
        "nothing was changed"
    );
    first["dry_run"] = json!(false);
    let done = apply(served, &first).await.json();
    assert_eq!(
        (&done["manifests"], &done["groups"]),
        (&plan.json()["manifests"], &plan.json()["groups"]),
        "as planned"
    );
    assert_eq!(keys(served).await, ["a", "b"]);
    let again = apply(served, &first).await.json();
    assert_eq!(
        (&again["manifests"]["unchanged"], &again["groups"]["unchanged"]),
        (&json!(["a", "b"]), &json!(["etl"]))
    );

    let mut next = json!({"owner": "team", "prune": true, "dry_run": true, "group": {"etl": {"limit": 5}},
                          "manifest": [manifest("a", "30 1 * * *"), manifest("c", "0 3 * * *")]});
    let plan = apply(served, &next).await.json();
    assert_eq!(plan["manifests"]["changed"], json!([{"name": "a", "fields": ["schedule"]}]));
    assert_eq!(
        (&plan["manifests"]["created"], &plan["manifests"]["removed"]),
        (&json!(["c"]), &json!(["b"]))
    );
    assert_eq!(plan["groups"]["changed"], json!([{"name": "etl", "fields": ["limit"]}]));
    assert_eq!(keys(served).await, ["a", "b"], "nothing was changed");
    next["dry_run"] = json!(false);
    let done = apply(served, &next).await.json();
    assert_eq!(done["manifests"], plan["manifests"], "as planned");
    assert_eq!(keys(served).await, ["a", "c"]);
    assert_eq!(served.get("/api/v1/groups/etl").await.json()["limit"], 5);
}

async fn errors_point_at_their_position_and_nothing_is_written(served: &Served) {
    let good = manifest("good", "0 1 * * *");
    let with = |bad: Value| json!({"group": {"etl": {}}, "manifest": [good, bad]});
    let mut other = manifest("bad", "0 1 * * *");
    other["color"] = json!(1);
    let mut orphan = manifest("bad", "0 1 * * *");
    orphan["group"] = json!("none");
    let cases = [
        (with(manifest("bad", "61 * * * *")), "/manifest/1/schedule"),
        (with(other), "/manifest/1/color"),
        (with(json!({"key": "bad"})), "/manifest/1"),
        (with(manifest("Bad Name", "0 1 * * *")), "/manifest/1/key"),
        (with(manifest("good", "0 2 * * *")), "/manifest/1"),
        (with(orphan), "/manifest/1/group"),
        (
            with(json!({"key": "bad", "kind": "add", "schedule": {"after": ["missing"]}})),
            "/manifest/1/schedule/after",
        ),
        (json!({"prune": true, "manifest": [good]}), "/owner"),
        (json!({"group": {"Etl": {}}, "manifest": [good]}), "/group/Etl"),
        (json!({"group": {"etl": {"limit": 4_294_967_295_u32}}}), "/group/etl/limit"),
        (json!({"group": {"etl": {"limit": -1}}, "manifest": [good]}), "/group/etl/limit"),
        (json!({"group": {"etl": {"priority": 99}}, "manifest": [good]}), "/group/etl/priority"),
    ];
    for (body, pointer) in cases {
        let refused = apply(served, &body).await;
        assert_eq!(refused.status, 422, "{body}: {refused:?}");
        assert_eq!(refused.json()["errors"][0]["pointer"], pointer, "{body}: {refused:?}");
    }
    let no_owner = apply(served, &json!({"prune": true, "manifest": [good]})).await;
    assert_eq!((no_owner.status, no_owner.code()), (422, "owner".to_owned()));
    assert_eq!(apply(served, &json!({"manifests": []})).await.status, 400, "an unknown field");
    assert_eq!(keys(served).await.len(), 0, "all or nothing");
    assert_eq!(served.get("/api/v1/groups/etl").await.status, 404);
}

async fn inputs_are_kept_as_they_were_written(served: &Served) {
    let body = |digit: char| {
        format!(
            r#"{{"owner": "team", "group": {{"etl": {{}}}}, "manifest": [
                {{"key": "odd", "kind": "later", "schedule": {{"on_demand": true}}, "input": {}}}]}}"#,
            odd(digit)
        )
    };
    let say = async |digit| served.post("/api/v1/manifests:apply", &body(digit)).await;
    assert_eq!(say('3').await.json()["manifests"]["created"], json!(["odd"]));
    let read = async || served.get("/api/v1/manifests/odd").await.body;
    assert!(read().await.contains(&format!("\"input\":{}", odd('3'))), "{}", read().await);
    assert_eq!(say('3').await.json()["manifests"]["unchanged"], json!(["odd"]));
    assert_eq!(say('4').await.json()["manifests"]["changed"], json!([{"name": "odd", "fields": ["input"]}]));
    assert!(read().await.contains(&format!("\"input\":{}", odd('4'))), "{}", read().await);
    let run = served.post("/api/v1/manifests/odd/run", "").await;
    assert_eq!(run.status, 201, "{run:?}");
    assert_eq!(served.get(&format!("{}/input", run.header("location").unwrap())).await.body, odd('4'));
}

/// Keys not in alphabetical order, unusual notation, and numbers too large for most parsers.
pub(crate) fn odd(digit: char) -> String {
    format!(r#"{{"z":1.10,"n":1234567890123456789012{digit},"a":[1e400]}}"#)
}

on_each_store! {
    inputs_are_kept_as_they_were_written
    a_dry_run_predicts_the_changes
    errors_point_at_their_position_and_nothing_is_written
}
