//! Manifests over HTTP.

use serde_json::json;

use crate::api::apply::odd;
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
        let missing = served.post(&format!("/api/v1/manifests/missing/{verb}"), "").await;
        assert_eq!((missing.status, missing.code()), (404, "not_found".to_owned()), "{verb}");
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

async fn the_response_to_a_write_has_the_new_etag(served: &Served) {
    let write = async |tag: &str, body: &str| {
        let headers = [("Content-Type", "application/json"), ("If-Match", tag)];
        served.send("PUT", PATH, &headers, body.as_bytes()).await
    };
    let none = write("*", NIGHTLY).await;
    assert_eq!((none.status, none.code()), (412, "changed_since".to_owned()), "there is nothing yet");
    let made = served.put(PATH, NIGHTLY).await;
    let tag = made.header("etag").unwrap().to_owned();
    assert_eq!(served.get(PATH).await.header("etag"), Some(tag.as_str()));
    let same = write(&tag, NIGHTLY).await;
    assert_eq!((same.status, same.header("etag")), (200, Some(tag.as_str())), "nothing has changed");
    let next = write(&format!("\"0\", {tag}"), &NIGHTLY.replace("30 2", "15 4")).await;
    assert_eq!(next.status, 200, "{next:?}");
    assert_ne!(next.header("etag"), Some(tag.as_str()));
    assert_eq!(served.get(PATH).await.header("etag"), next.header("etag"));
    assert_eq!(write("*", NIGHTLY).await.status, 200, "it is there");
    assert_eq!(write(&format!("W/{tag}"), NIGHTLY).await.status, 412, "a weak tag matches nothing");
}

async fn a_manifest_is_removed_and_its_history_stays(served: &Served) {
    let remove = async |path: &str, tag: Option<&str>| {
        let headers: Vec<_> = tag.map(|tag| ("If-Match", tag)).into_iter().collect();
        served.send("DELETE", path, &headers, b"").await
    };
    let missing = remove(PATH, None).await;
    assert_eq!((missing.status, missing.code()), (404, "not_found".to_owned()));
    let tag = served.put(PATH, NIGHTLY).await.header("etag").unwrap().to_owned();
    let run = served.post(&format!("{PATH}/run"), "").await;
    let job = run.header("location").unwrap().to_owned();
    served.until(&job, |job| job["state"] == "completed").await;
    let child = r#"{"kind": "add", "schedule": {"after": ["nightly"]}}"#;
    assert_eq!(served.put("/api/v1/manifests/child", child).await.status, 201);

    let late = remove(PATH, Some("\"77\"")).await;
    assert_eq!((late.status, late.code()), (412, "changed_since".to_owned()));
    let waited_for = remove(PATH, Some(&tag)).await;
    assert_eq!((waited_for.status, waited_for.code()), (409, "manifest_has_dependents".to_owned()));
    assert_eq!(remove("/api/v1/manifests/child", Some("*")).await.status, 204);
    assert_eq!(remove(PATH, Some(&tag)).await.status, 204);
    assert_eq!((served.get(PATH).await.status, remove(PATH, None).await.status), (404, 404));
    assert_eq!(served.get(&job).await.json()["state"], "completed", "history stays");
    let rows = served.get("/api/v1/audit").await.json();
    let of = |row: &&serde_json::Value| row["action"] == "delete_manifest" && row["status"] == 204;
    assert_eq!(rows["items"].as_array().unwrap().iter().filter(of).count(), 2, "{rows}");
    assert_eq!(served.put(PATH, NIGHTLY).await.status, 201, "it can be made anew");
}

/// A key may be any name: no route may collide with it.
async fn a_manifest_may_have_the_name_of_a_verb(served: &Served) {
    for key in ["apply", "run", "batch", "now"] {
        let path = format!("/api/v1/manifests/{key}");
        assert_eq!(served.put(&path, NIGHTLY).await.status, 201, "{key}");
        assert_eq!(served.get(&path).await.json()["key"], key);
        assert_eq!(served.post(&format!("{path}/run"), "").await.status, 201, "{key}");
        assert_eq!(served.put(&format!("/api/v1/groups/{key}"), "{}").await.status, 204, "{key}");
        assert_eq!(served.get(&format!("/api/v1/groups/{key}")).await.json()["name"], key);
    }
}

async fn errors_point_at_their_position(served: &Served) {
    let cases = [
        (r#"{"kind": "add", "schedule": {"cron": "61 * * * *"}}"#, "/schedule", "not between 0 and 59"),
        (
            r#"{"kind": "add", "schedule": {"every": "1m"}, "jitter": "2h"}"#,
            "/jitter",
            "must be at most the interval",
        ),
        (r#"{"kind": "add", "schedule": {"every": "1m"}, "color": 1}"#, "/color", "unknown field"),
        (r#"{"schedule": {"every": "1m"}}"#, "", "missing field `kind`"),
        (r#"{"kind": "add", "schedule": {"every": "1m"}, "key": "other"}"#, "/key", "the key in the path"),
        (r#"{"kind": "add", "schedule": {"every": "1m"}, "group": "none"}"#, "/group", "no group none"),
        (r#"{"kind": "add", "schedule": {"after": ["missing"]}}"#, "/schedule/after", "no such manifest"),
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

/// The search for a tick ends after a bounded time.
async fn a_manifest_that_excludes_all_its_ticks_is_detected(served: &Served) {
    let sundays = r#"{"kind": "add", "input": [1, 2], "schedule": {"cron": "0 3 * * 0"}, "exclude": [{"weekdays": ["sun"]}]}"#;
    let put = served.put("/api/v1/manifests/sundays", sundays).await;
    assert_eq!(put.status, 201, "{put:?}");
    let next = served.get("/api/v1/manifests/sundays/next").await.json();
    assert_eq!(next["ticks"], json!([]));
    assert!(next["excluded_through"].as_str().unwrap().starts_with("22"), "10,000 Sundays later: {next}");
    let why = served.get("/api/v1/manifests/sundays/explain").await.json().to_string();
    assert!(why.contains("and so is every later one up to 22"), "{why}");
    let report = served.get("/api/v1/doctor").await.json();
    let never = report["checks"].as_array().unwrap().iter().find(|check| check["check"] == "never").unwrap();
    assert_eq!(never["finding"], "warning");
    assert!(
        never["message"].as_str().unwrap().contains("sundays (0 3 * * 0, and all is excluded up to 22"),
        "{never}"
    );
}

async fn an_input_is_kept_as_it_was_written(served: &Served) {
    let body =
        |digit| format!(r#"{{"kind": "later", "schedule": {{"on_demand": true}}, "input": {}}}"#, odd(digit));
    assert_eq!(served.put(PATH, &body('3')).await.status, 201);
    for path in [PATH, "/api/v1/manifests"] {
        let read = served.get(path).await.body;
        assert!(read.contains(&format!("\"input\":{}", odd('3'))), "{read}");
    }
    assert_eq!(served.put(PATH, &body('3')).await.json()["became"], "unchanged");
    assert_eq!(served.put(PATH, &body('4')).await.json()["became"], "updated");
    let run = served.post(&format!("{PATH}/run"), "").await;
    assert_eq!(served.get(&format!("{}/input", run.header("location").unwrap())).await.body, odd('4'));
    let audit = served.get("/api/v1/audit").await.body;
    assert!(audit.contains(r#""fields":["input"]"#) && audit.contains(r#""fields":[]"#), "{audit}");
}

on_each_store! {
    an_input_is_kept_as_it_was_written
    a_manifest_that_excludes_all_its_ticks_is_detected
    the_response_to_a_write_has_the_new_etag
    a_manifest_is_removed_and_its_history_stays
    a_manifest_may_have_the_name_of_a_verb
    a_manifest_is_written_by_key_read_run_and_paused
    a_manifest_that_changed_meanwhile_is_not_overwritten
    errors_point_at_their_position
}
