//! Manifests over HTTP.

use serde_json::json;

use crate::kit::Served;

const NIGHTLY: &str =
    r#"{"kind": "add", "input": [1, 2], "schedule": {"cron": "30 2 * * *", "tz": "Europe/Berlin"}}"#;
const PATH: &str = "/api/v1/manifests/nightly";

async fn a_manifest_is_written_by_key_read_run_and_paused(served: &Served) {
    assert_eq!(served.get(PATH).await.status, 404);
    assert_eq!(served.put(PATH, NIGHTLY).await.status, 201);
    let again = served.put(PATH, NIGHTLY).await;
    assert_eq!((again.status, &again.json()["became"]), (200, &json!("unchanged")));
    let read = served.get(PATH).await.json();
    assert_eq!(read["manifest"]["schedule"]["cron"], "30 2 * * *");
    assert_eq!(served.get("/api/v1/manifests").await.json()["items"][0]["key"], "nightly");

    let ticks = served.get(&format!("{PATH}/next?n=3")).await.json();
    assert_eq!(ticks["ticks"].as_array().unwrap().len(), 3);
    assert_eq!(ticks["ticks"][0]["tick_at"], read["next_due_at"], "the planner and the preview agree");

    let run = served.post(&format!("{PATH}/run"), r#"{"input": [20, 22]}"#).await;
    assert_eq!(run.status, 201, "{run:?}");
    let job = served.until(run.header("location").unwrap(), |job| job["state"] == "completed").await;
    assert_eq!(job["executions"][0]["output"], 42);

    assert_eq!(served.post(&format!("{PATH}/pause"), "").await.status, 204);
    assert_eq!(served.get(PATH).await.json()["manifest"]["enabled"], false);
    assert_eq!(served.get(&format!("{PATH}/next")).await.json()["ticks"], json!([]));
    assert_eq!(served.post(&format!("{PATH}/resume"), "").await.status, 204);
    for verb in ["run", "pause", "resume"] {
        let nobody = served.post(&format!("/api/v1/manifests/nobody/{verb}"), "").await;
        assert_eq!((nobody.status, nobody.code()), (404, "not_found".to_owned()), "{verb}");
    }
}

async fn a_manifest_that_changed_meanwhile_is_not_overwritten(served: &Served) {
    served.put(PATH, NIGHTLY).await;
    let seen = served.get(PATH).await.header("etag").unwrap().to_owned();
    let other = NIGHTLY.replace("30 2", "15 4");
    let write = async |body: &str| {
        let headers = [("Content-Type", "application/json"), ("If-Match", seen.as_str())];
        served.send("PUT", PATH, &headers, body.as_bytes()).await
    };
    assert_eq!(write(&other).await.status, 200);
    let late = write(NIGHTLY).await;
    assert_eq!((late.status, late.code()), (412, "changed_since".to_owned()));
    assert_eq!(served.get(PATH).await.json()["manifest"]["schedule"]["cron"], "15 4 * * *");
}

async fn what_is_wrong_is_named_where_it_stands(served: &Served) {
    let cases = [
        (r#"{"kind": "add", "schedule": {"cron": "61 * * * *"}}"#, "/schedule", "not between 0 and 59"),
        (
            r#"{"kind": "add", "schedule": {"every": "1m"}, "jitter": "2h"}"#,
            "/jitter",
            "longer than the interval",
        ),
        (r#"{"kind": "add", "schedule": {"every": "1m"}, "color": 1}"#, "/color", "unknown field"),
        (r#"{"schedule": {"every": "1m"}}"#, "", "missing field `kind`"),
        (r#"{"kind": "add", "schedule": {"every": "1m"}, "key": "other"}"#, "/key", "another manifest"),
    ];
    for (body, pointer, part) in cases {
        let refused = served.put(PATH, body).await;
        assert_eq!(refused.status, 422, "{body}: {refused:?}");
        let error = &refused.json()["errors"][0];
        assert_eq!(error["pointer"], pointer, "{body}: {error}");
        assert!(error["detail"].as_str().unwrap().contains(part), "{body}: {error}");
    }
    assert_eq!(served.get(PATH).await.status, 404, "nothing was written");
}

on_each_store! {
    a_manifest_is_written_by_key_read_run_and_paused
    a_manifest_that_changed_meanwhile_is_not_overwritten
    what_is_wrong_is_named_where_it_stands
}
