//! Search, retry, files and secrets over HTTP.

use serde_json::{Value, json};

use crate::kit::Served;

async fn make(served: &Served, body: Value) -> String {
    let made = served.post("/api/v1/jobs", &body.to_string()).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.json()["id"].as_str().unwrap().to_owned()
}

fn ids(page: &Value) -> Vec<String> {
    page["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

async fn jobs_are_searched_and_an_error_has_a_position(served: &Served) {
    let done = make(served, json!({"kind": "add", "input": [1, 2]})).await;
    served.until(&format!("/api/v1/jobs/{done}"), |job| job["state"] == "completed").await;
    let broken = make(served, json!({"kind": "broken", "input": "no such file"})).await;
    served.until(&format!("/api/v1/jobs/{broken}"), |job| job["state"] == "dead").await;
    let later = make(served, json!({"kind": "add", "in_ms": 60_000, "tags": ["nightly", "big"]})).await;
    for (q, found) in [
        ("", vec![&later, &broken, &done]),
        ("kind:add", vec![&later, &done]),
        ("-kind:add", vec![&broken]),
        ("tag:nightly%20-tag:small", vec![&later]),
        ("-tag:n*", vec![&broken, &done]),
        ("state:failed%20error:%22such%20file%22", vec![&broken]),
        ("state:scheduled,completed", vec![&later, &done]),
        ("since:1h%20-state:waiting", vec![&broken, &done]),
        ("reason:permanent", vec![&broken]),
        ("-reason:permanent", vec![&later, &done]),
    ] {
        let page = served.get(&format!("/api/v1/jobs?q={q}")).await.json();
        assert_eq!(ids(&page).iter().collect::<Vec<_>>(), found, "{q}: {page}");
        assert_eq!(page["searched"]["complete"], true);
    }
    let page = served.get("/api/v1/jobs?limit=1").await.json();
    assert_eq!(page["items"][0]["tags"], json!(["nightly", "big"]));
    assert_eq!((page["searched"]["complete"].clone(), page["next"].clone()), (json!(false), json!(later)));
    let refused = served.get("/api/v1/jobs?q=kind:add%20stat:dead").await;
    assert_eq!((refused.status, refused.code()), (400, "query_language".to_owned()));
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert_eq!(detail, "at character 10: unknown field \"stat\"; did you mean state?");
    let refused = served.get("/api/v1/jobs?q=state:dead%20reason:permanant").await.json();
    assert_eq!(refused["detail"], "at character 19: \"permanant\" is not a reason: did you mean permanent?");
}

async fn a_job_is_retried_as_its_state_allows(served: &Served) {
    let broken = make(served, json!({"kind": "broken", "input": "no"})).await;
    let path = format!("/api/v1/jobs/{broken}");
    served.until(&path, |job| job["state"] == "dead").await;
    let revived = served.post(&format!("{path}/retry"), r#"{"note": "once more"}"#).await;
    assert_eq!((revived.status, &revived.json()["became"]), (200, &json!("revived")));
    served.until(&path, |job| job["state"] == "dead" && job["claim_no"] == 2).await;
    let done = make(served, json!({"kind": "add", "input": [40, 2]})).await;
    served.until(&format!("/api/v1/jobs/{done}"), |job| job["state"] == "completed").await;
    let again = served.post(&format!("/api/v1/jobs/{done}/retry"), "").await;
    assert_eq!((again.status, &again.json()["became"]), (201, &json!("again")), "{again:?}");
    let place = again.header("location").unwrap().to_owned();
    let job = served.until(&place, |job| job["state"] == "completed").await;
    assert_eq!(job["executions"][0]["output"], 42);
    let later = make(served, json!({"kind": "add", "in_ms": 60_000})).await;
    let refused = served.post(&format!("/api/v1/jobs/{later}/retry"), "").await;
    assert_eq!((refused.status, refused.code()), (409, "job_not_over".to_owned()));
    assert_eq!(served.post("/api/v1/jobs/999/retry", "").await.status, 404);

    let first = served.get(&format!("{path}/executions?limit=1")).await.json();
    assert_eq!((&first["items"][0]["claim_no"], &first["next"]), (&json!(1), &json!("1")));
    let second = served.get(&format!("{path}/executions?limit=1&cursor=1")).await.json();
    assert_eq!(second["items"][0]["claim_no"], 2);
}

async fn inputs_and_outputs_come_as_files_that_no_browser_opens(served: &Served) {
    let done = make(served, json!({"kind": "add", "input": [40, 2]})).await;
    let path = format!("/api/v1/jobs/{done}");
    served.until(&path, |job| job["state"] == "completed").await;
    let input = served.get(&format!("{path}/input")).await;
    let disposition = format!("attachment; filename=\"job-{done}-input.json\"");
    assert_eq!((input.status, input.body.as_str()), (200, "[40,2]"));
    assert_eq!(input.header("content-disposition"), Some(disposition.as_str()));
    assert_eq!(input.header("content-type"), Some("application/octet-stream"));
    assert_eq!(input.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(served.get(&format!("{path}/output")).await.body, "42");
    let waits = make(served, json!({"kind": "add", "in_ms": 60_000})).await;
    assert_eq!(served.get(&format!("/api/v1/jobs/{waits}/output")).await.status, 404);
}

async fn secrets_are_shown_as_dots_and_dots_are_not_taken_for_secrets(served: &Served) {
    let input = json!({"user": "ann", "db_password": "hunter2", "monkey": 1, "nested": [{"apiKey": "k"}]});
    let masked = json!({"user": "ann", "db_password": "•••", "monkey": 1, "nested": [{"apiKey": "•••"}]});
    let id = make(served, json!({"kind": "add", "input": input, "in_ms": 60_000})).await;
    let path = format!("/api/v1/jobs/{id}");
    assert_eq!(served.get(&path).await.json()["input"], masked);
    assert_eq!(
        serde_json::from_str::<Value>(&served.get(&format!("{path}/input")).await.body).unwrap(),
        masked
    );
    let revealed = served.post(&format!("{path}/reveal"), "").await;
    assert_eq!((revealed.status, &revealed.json()["input"]), (200, &input));
    let audit = served.get("/api/v1/audit").await.json();
    let is_audited = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .any(|row| row["action"] == "reveal_job" && row["who"] == "anonymous:127.0.0.1");
    assert!(is_audited, "the audit names the reader: {audit}");

    let mut manifest = json!({"kind": "add", "schedule": {"on_demand": true}, "secret": ["/smtp/user"],
                          "input": {"smtp": {"user": "bob", "host": "h"}, "token": "t"}});
    assert_eq!(served.put("/api/v1/manifests/m", &manifest.to_string()).await.status, 201);
    let shown = served.get("/api/v1/manifests/m").await.json()["manifest"].clone();
    assert_eq!(shown["input"], json!({"smtp": {"user": "•••", "host": "h"}, "token": "•••"}));
    let run = served.post("/api/v1/manifests/m/run", "").await.json();
    let job = served.get(&format!("/api/v1/jobs/{}", run["id"].as_str().unwrap())).await.json();
    assert_eq!(job["input"], shown["input"], "a mark holds for the jobs of its manifest");

    let back = served.put("/api/v1/manifests/m", &shown.to_string()).await;
    assert_eq!(back.status, 422, "{back:?}");
    assert!(back.json()["detail"].as_str().unwrap().contains("write the secret itself"), "{back:?}");
    manifest["input"]["smtp"]["host"] = json!("other");
    assert_eq!(served.put("/api/v1/manifests/m", &manifest.to_string()).await.json()["became"], "updated");
    for (path, body) in [
        ("/api/v1/jobs", json!({"kind": "add", "input": masked})),
        ("/api/v1/manifests/m/run", json!({"input": {"a": "•••"}})),
    ] {
        let refused = served.post(path, &body.to_string()).await;
        assert_eq!((refused.status, refused.code()), (422, "masked".to_owned()), "{path}");
    }
}

on_each_store! {
    jobs_are_searched_and_an_error_has_a_position
    a_job_is_retried_as_its_state_allows
    inputs_and_outputs_come_as_files_that_no_browser_opens
    secrets_are_shown_as_dots_and_dots_are_not_taken_for_secrets
}
