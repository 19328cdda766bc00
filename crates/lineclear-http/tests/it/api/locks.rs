//! Locks over HTTP.

use std::time::Duration;

use lineclear_lock::{LockOptions, Locks, RegistryOptions};
use serde_json::json;

use crate::kit::Served;

async fn the_planning_node_is_listed(served: &Served) {
    // A node without manifests does not lead.
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
    assert_eq!(lock["incarnation"], nodes["items"][0]["incarnation"], "it is this node");
    let history = served.get("/api/v1/locks/planner/history").await.json();
    assert_eq!(history["items"][0]["what"], "taken", "{history}");
    assert_eq!(served.get("/api/v1/locks/missing/history").await.status, 404);
    assert_eq!(served.get("/api/v1/locks/planner/history?cursor=x").await.status, 400);
}

async fn only_a_held_lock_of_this_database_can_be_broken(served: &Served) {
    let ask = async |name: &str, body: &str| {
        let answer = served.post(&format!("/api/v1/locks/{name}/break"), body).await;
        (answer.status, answer.code())
    };
    let why = r#"{"reason": "it hangs"}"#;
    assert_eq!(ask("missing", why).await, (404, "not_found".to_owned()));
    served
        .put("/api/v1/manifests/often", r#"{"kind": "add", "input": [1, 1], "schedule": {"every": "1s"}}"#)
        .await;
    served.until("/api/v1/locks", |page| page["items"].as_array().is_some_and(|all| !all.is_empty())).await;
    assert_eq!(ask("planner", why).await, (409, "no_lock".to_owned()), "it is not a lock");
    for (body, status) in
        [("{}", 400), (r#"{"reason": " "}"#, 422), (r#"{"reason": "x", "force": true}"#, 400), ("", 400)]
    {
        assert_eq!(served.post("/api/v1/locks/planner/break", body).await.status, status, "{body}");
    }
    let long = format!(r#"{{"reason": "{}"}}"#, "x".repeat(501));
    assert_eq!(ask("planner", &long).await.0, 422);

    let locks = Locks::open_with_registry(&served.url, LockOptions::default(), RegistryOptions::default())
        .await
        .unwrap();
    let held = locks.try_lock("report").await.unwrap().expect("it is free");
    locks.registry().unwrap().flush().await.unwrap();
    let (epoch, holder) = (held.lease().epoch().to_string(), locks.holder().to_string());
    let taken = served
        .post("/api/v1/locks/report/break", &format!(r#"{{"reason": "it hangs", "epoch": "{epoch}"}}"#))
        .await;
    assert_eq!(taken.status, 200, "{taken:?}");
    let taken = taken.json();
    assert_eq!(
        (&taken["holder"], &taken["epoch"], &taken["by_whom"]),
        (&json!(holder), &json!(epoch), &json!("anonymous:127.0.0.1")),
        "{taken}"
    );
    assert_eq!(ask("report", why).await, (409, "not_held".to_owned()));
    let next = locks.acquire("report", Duration::from_secs(30)).await.unwrap().expect("it is free");
    assert!(next.lease().epoch().to_string().parse::<i64>().unwrap() > epoch.parse::<i64>().unwrap());
    drop((held, next));
    locks.flush().await;
}

on_each_store! {
    the_planning_node_is_listed
    only_a_held_lock_of_this_database_can_be_broken
}
