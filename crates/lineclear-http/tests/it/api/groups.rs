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
    assert_eq!(served.post("/api/v1/groups/missing/run", "").await.status, 404);
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

async fn a_group_that_changed_meanwhile_is_not_overwritten(served: &Served) {
    const PATH: &str = "/api/v1/groups/etl";
    assert_eq!(served.get(PATH).await.status, 404);
    served.put(PATH, r#"{"limit": 4, "priority": 3}"#).await;
    let seen = served.get(PATH).await;
    let tag = seen.header("etag").unwrap().to_owned();
    assert_eq!((&seen.json()["limit"], &seen.json()["priority"]), (&4.into(), &3.into()));
    let change = async |method: &str, tag: &str, body: &str| {
        let headers = [("Content-Type", "application/json"), ("If-Match", tag)];
        served.send(method, PATH, &headers, body.as_bytes()).await
    };
    let next = change("PUT", &tag, r#"{"limit": 5, "priority": 3}"#).await;
    assert_eq!((next.status, next.header("etag")), (204, served.get(PATH).await.header("etag")));
    for method in ["PUT", "PATCH"] {
        let late = change(method, &tag, r#"{"limit": 6}"#).await;
        assert_eq!((late.status, late.code()), (412, "changed_since".to_owned()), "{method}");
        let nonsense = change(method, "W/\"x\"", r#"{"limit": 6}"#).await;
        assert_eq!(nonsense.status, 412, "{method}");
    }
    assert_eq!(change("PUT", "*", r#"{"limit": 5, "priority": 3}"#).await.status, 204, "it exists");
    let json = [("Content-Type", "application/json")];
    let any_version = [("Content-Type", "application/json"), ("If-Match", "*")];
    assert_eq!(
        served.send("PUT", "/api/v1/groups/none", &any_version, b"{}").await.status,
        412,
        "it does not exist"
    );
    assert_eq!(served.send("PATCH", PATH, &json, br#"{"enabled": false}"#).await.status, 204);
    let group = served.get(PATH).await.json();
    assert_eq!(
        (&group["limit"], &group["priority"], &group["enabled"]),
        (&5.into(), &3.into(), &false.into())
    );
    assert_eq!(served.send("PATCH", PATH, &json, br#"{"limit": null}"#).await.status, 204);
    assert!(served.get(PATH).await.json()["limit"].is_null());
    assert_eq!(served.send("PATCH", PATH, &json, br#"{"limit": 1, "color": 2}"#).await.status, 400);
    assert_eq!(served.send("PATCH", "/api/v1/groups/none", &json, b"{}").await.status, 404);
    let global = served.get("/api/v1/groups/*").await;
    assert_eq!((global.status, &global.json()["name"]), (200, &"*".into()));
}

on_each_store! {
    a_group_that_changed_meanwhile_is_not_overwritten
    a_group_is_written_listed_and_run
    the_global_limit_is_the_group_of_all
}
