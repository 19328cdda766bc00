//! Settings over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::{Answer, Served};

const PATH: &str = "/api/v1/settings";

async fn patch(served: &Served, tag: Option<&str>, body: &Value) -> Answer {
    let mut headers = vec![("Content-Type", "application/json")];
    headers.extend(tag.map(|tag| ("If-Match", tag)));
    served.send("PATCH", PATH, &headers, body.to_string().as_bytes()).await
}

fn of<'a>(answer: &'a Value, key: &str) -> &'a Value {
    let mut settings = answer["settings"].as_array().unwrap().iter();
    settings.find(|setting| setting["key"] == key).unwrap()
}

async fn a_setting_is_changed_applied_and_reset(served: &Served) {
    let key = "retention.completed_ms";
    let before = served.get(PATH).await;
    let tag = before.header("etag").unwrap().to_owned();
    let (week, hour) = (7 * 86_400_000, 3_600_000);
    let shown = of(&before.json(), key).clone();
    assert_eq!(
        (&shown["value"], &shown["origin"], &shown["updated_by"]),
        (&json!(week), &json!("default"), &json!(null))
    );

    let changed = patch(served, Some(&tag), &json!({ key: hour })).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let shown = of(&changed.json(), key).clone();
    assert_eq!(
        (&shown["value"], &shown["origin"], &shown["updated_by"]),
        (&json!(hour), &json!("override"), &json!("anonymous:127.0.0.1"))
    );
    assert_eq!((&shown["node"], &shown["default"]), (&json!(week), &json!(week)));
    let client = served.node.as_ref().unwrap().client();
    assert_eq!(client.retention().completed, Duration::from_secs(3_600), "the node obeys");
    assert_eq!(
        client.retention().failed,
        client.started_with().retention.failed,
        "and nothing else has changed"
    );

    let late = patch(served, Some(&tag), &json!({ key: 2 * hour })).await;
    assert_eq!((late.status, late.code()), (412, "changed_since".to_owned()));
    assert_eq!(of(&served.get(PATH).await.json(), key)["value"], hour);
    let back = patch(served, changed.header("etag"), &json!({ key: null })).await;
    assert_eq!((back.status, &of(&back.json(), key)["origin"]), (200, &json!("default")), "{back:?}");
    assert_ne!(back.header("etag"), Some(tag.as_str()), "a version does not come again");
    assert_eq!(client.retention().completed, Duration::from_secs(7 * 86_400));
}

async fn limits_are_changed_like_anything_else(served: &Served) {
    let client = served.node.as_ref().unwrap().client();
    let started = client.started_with().slots;
    let changed = patch(served, Some("*"), &json!({"limits.slots": 3, "limits.poll_ms": 250})).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let shown = of(&changed.json(), "limits.slots").clone();
    assert_eq!(
        (&shown["value"], &shown["node"], &shown["minimum"], &shown["maximum"]),
        (&json!(3), &json!(started), &json!(1), &json!(10_000))
    );
    assert_eq!((client.tunable().slots, client.tunable().poll), (3, Duration::from_millis(250)));
    patch(served, None, &json!({"limits.slots": null})).await;
    assert_eq!(client.tunable().slots, started, "as it was started");
}

async fn an_invalid_setting_is_refused_and_nothing_changes(served: &Served) {
    for (key, value) in [
        ("retention.completed_ms", json!(0)),
        ("retention.completed_ms", json!(-5)),
        ("retention.completed_ms", json!(1.5)),
        ("retention.completed_ms", json!("1h")),
        ("retention.completed_ms", json!(u64::MAX)),
        ("limits.slots", json!(0)),
        ("limits.slots", json!(10_001)),
        ("limits.poll_ms", json!(9)),
        ("retention.color", json!(60_000)),
        ("a/b~c", json!(60_000)),
    ] {
        let refused = patch(served, None, &json!({"retention.failed_ms": 3_600_000, key: value})).await;
        assert_eq!(
            (refused.status, refused.code()),
            (422, "setting".to_owned()),
            "{key} {value}: {refused:?}"
        );
        let pointer = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        assert_eq!(refused.json()["errors"][0]["pointer"], pointer);
    }
    assert_eq!(of(&served.get(PATH).await.json(), "retention.failed_ms")["origin"], "default");
    let nothing = patch(served, None, &json!({})).await;
    assert_eq!(nothing.status, 200);
}

on_each_store! {
    limits_are_changed_like_anything_else
    a_setting_is_changed_applied_and_reset
    an_invalid_setting_is_refused_and_nothing_changes
}
