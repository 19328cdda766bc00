//! Jobs over HTTP: enqueue, run, show, cancel.

use serde_json::{Value, json};

use crate::kit::Served;

async fn an_enqueued_job_runs_and_is_shown(served: &Served) {
    let made = served.post("/api/v1/jobs", r#"{"kind": "add", "input": [40, 2]}"#).await;
    assert_eq!(made.status, 201, "{made:?}");
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/jobs/{id}");
    assert_eq!(made.header("location"), Some(path.as_str()));
    let job = served.until(&path, |job| job["state"] == "completed").await;
    assert_eq!((&job["input"], &job["executions"][0]["output"]), (&json!([40, 2]), &json!(42)));
    assert_eq!(job["executions"][0]["is_final"], true);
}

async fn an_input_comes_back_as_it_was_written(served: &Served) {
    let input = r#"{"z":12345678901234567890123,"a":[1e400,-0.10],"é":"\u00e9"}"#;
    let made =
        served.post("/api/v1/jobs", &format!(r#"{{"kind":"add","in_ms":60000,"input":{input}}}"#)).await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    let job = served.get(&format!("/api/v1/jobs/{id}")).await;
    assert!(job.body.contains(&format!(r#""input":{input}"#)), "{job:?}");
}

async fn many_jobs_are_enqueued_all_or_none(served: &Served) {
    let job = json!({"kind": "add", "input": [1, 2], "in_ms": 60_000});
    let bad = json!({"kind": "add", "priority": 99, "in_ms": 60_000});
    let refused = served.post("/api/v1/jobs/batch", &json!({"jobs": [job, bad]}).to_string()).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    let wrong = json!({"jobs": [job, {"kind": "No Name"}]}).to_string();
    let refused = served.post("/api/v1/jobs/batch", &wrong).await;
    assert_eq!(
        (refused.status, &refused.json()["errors"][0]["pointer"]),
        (422, &json!("/jobs/1/kind")),
        "{refused:?}"
    );
    assert_eq!(served.get("/api/v1/jobs").await.json()["items"], json!([]), "nothing was made");
    let made = served.post("/api/v1/jobs/batch", &json!({"jobs": vec![job; 250]}).to_string()).await;
    assert_eq!((made.status, made.json()["jobs"].as_array().unwrap().len()), (201, 250));
}

/// The rule is the same for both keys, and the text names no job: the error has the position.
async fn a_refused_job_of_a_batch_is_pointed_at(served: &Served) {
    let (good, long) = (json!({"kind": "add", "in_ms": 60_000}), "k".repeat(256));
    let with = |field: &str, value: Value| {
        let mut job = good.clone();
        job[field] = value;
        json!({"jobs": [good, job]}).to_string()
    };
    for (field, value) in [
        ("priority", json!(99)),
        ("unique_key", json!(long)),
        ("limit_key", json!(long)),
        ("timeout_ms", json!(0)),
        ("group", json!("none")),
    ] {
        let refused = served.post("/api/v1/jobs/batch", &with(field, value)).await;
        let pointer = &refused.json()["errors"][0]["pointer"];
        assert_eq!((refused.status, pointer), (422, &json!(format!("/jobs/1/{field}"))), "{refused:?}");
    }
    assert_eq!(served.get("/api/v1/jobs").await.json()["items"], json!([]), "nothing was made");
}

async fn lists_continue_where_the_last_page_ended(served: &Served) {
    let job = json!({"kind": "add", "input": [1, 2], "in_ms": 60_000});
    served.post("/api/v1/jobs/batch", &json!({"jobs": vec![job; 25]}).to_string()).await;
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = served.get(&format!("/api/v1/jobs?limit=10{cursor}")).await.json();
        let ids = page["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned());
        seen.extend(ids);
        match &page["next"] {
            Value::String(next) => cursor = format!("&cursor={next}"),
            _ => break,
        }
    }
    let mut sorted: Vec<i64> = seen.iter().map(|id| id.parse().unwrap()).collect();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!((seen.len(), sorted.len()), (25, 25), "each once");
    let none = served.get("/api/v1/jobs?q=state:completed,dead").await.json();
    assert_eq!(none["items"], json!([]));
}

async fn a_unique_key_makes_one_job(served: &Served) {
    let body = |when: &str| {
        json!({"kind": "add", "in_ms": 60_000, "unique_key": "k", "on_conflict": when}).to_string()
    };
    let first = served.post("/api/v1/jobs", &body("existing")).await;
    let second = served.post("/api/v1/jobs", &body("existing")).await;
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!((&second.json()["id"], &second.json()["placed"]), (&first.json()["id"], &json!("existing")));
    let refused = served.post("/api/v1/jobs", &body("refuse")).await;
    assert_eq!((refused.status, refused.code()), (409, "unique_key_taken".to_owned()));
}

async fn a_job_is_cancelled_while_it_waits_and_while_it_runs(served: &Served) {
    let waits = served.post("/api/v1/jobs", r#"{"kind": "add", "in_ms": 60000}"#).await.json();
    let cancel = format!("/api/v1/jobs/{}/cancel", waits["id"].as_str().unwrap());
    let cancelled = served.post(&cancel, "").await;
    assert_eq!((cancelled.status, &cancelled.json()["became"]), (200, &json!("cancelled")));
    let again = served.post(&cancel, "").await;
    assert_eq!((again.status, again.code()), (409, "job_over".to_owned()));

    let runs = served.post("/api/v1/jobs", r#"{"kind": "endless"}"#).await.json();
    let path = format!("/api/v1/jobs/{}", runs["id"].as_str().unwrap());
    served.until(&path, |job| job["state"] == "running").await;
    assert_eq!(served.post(&format!("{path}/cancel"), "").await.status, 202);
    served.until(&path, |job| job["state"] == "cancelled").await;
}

async fn missing_objects_are_not_found(served: &Served) {
    for path in [
        "/api/v1/jobs/999",
        "/api/v1/jobs/0",
        "/api/v1/jobs/-1",
        "/api/v1/jobs/9223372036854775808",
        "/api/v1/jobs/1e3",
    ] {
        let answer = served.get(path).await;
        assert_eq!((answer.status, answer.code()), (404, "not_found".to_owned()), "{path}");
    }
}

on_each_store! {
    an_enqueued_job_runs_and_is_shown
    an_input_comes_back_as_it_was_written
    many_jobs_are_enqueued_all_or_none
    a_refused_job_of_a_batch_is_pointed_at
    lists_continue_where_the_last_page_ended
    a_unique_key_makes_one_job
    a_job_is_cancelled_while_it_waits_and_while_it_runs
    missing_objects_are_not_found
}
