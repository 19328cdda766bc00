//! Dead letters over HTTP.

use serde_json::{Value, json};

use crate::kit::Served;

/// Dead letters of jobs that fail permanently, newest first.
async fn letters(served: &Served, messages: &[&str]) -> Vec<Value> {
    for message in messages {
        served.post("/api/v1/jobs", &json!({"kind": "broken", "input": message}).to_string()).await;
    }
    let all = |page: &Value| page["items"].as_array().unwrap().len() == messages.len();
    served.until("/api/v1/dead-letters?status=awaiting", all).await["items"].as_array().unwrap().clone()
}

async fn a_dead_letter_is_revived_with_another_input_over_http(served: &Served) {
    let letter = letters(served, &["no paper"]).await.remove(0);
    assert_eq!((&letter["reason"], &letter["kind"]), (&json!("permanent"), &json!("broken")), "{letter}");
    assert!(letter["last_error"].as_str().unwrap().contains("no paper"));
    let path = format!("/api/v1/dead-letters/{}", letter["id"].as_str().unwrap());
    let revived =
        served.post(&format!("{path}/revive"), r#"{"input": "mended", "note": "paper is there"}"#).await;
    assert_eq!(revived.status, 204, "{revived:?}");
    let job = format!("/api/v1/jobs/{}", letter["job_id"].as_str().unwrap());
    served.until(&job, |job| job["state"] == "completed").await;
    let again = served.post(&format!("{path}/revive"), "").await;
    assert_eq!((again.status, again.code()), (409, "not_awaiting".to_owned()));
    let kept = served.get("/api/v1/dead-letters?status=revived").await.json();
    assert_eq!(kept["items"][0]["note"], "paper is there");
}

async fn one_may_rest(served: &Served) {
    let letter = letters(served, &["no paper"]).await.remove(0);
    let path = format!("/api/v1/dead-letters/{}/acknowledge", letter["id"].as_str().unwrap());
    assert_eq!(served.post(&path, r#"{"note": "known"}"#).await.status, 204);
    assert_eq!(served.post(&path, "").await.status, 409);
    let unknown = served.post("/api/v1/dead-letters/999/acknowledge", "").await;
    assert_eq!((unknown.status, unknown.code()), (404, "not_found".to_owned()));
    assert_eq!(served.get("/api/v1/dead-letters?status=awaiting").await.json()["items"], json!([]));
}

async fn all_matching_dead_letters_are_resolved_and_no_filter_is_refused(served: &Served) {
    let all = letters(served, &["no paper", "no paper", "no ink"]).await;
    let paper = all.iter().find(|letter| letter["last_error"].as_str().unwrap().contains("paper")).unwrap();
    let refused = served.post("/api/v1/dead-letters/acknowledge", "{}").await;
    assert_eq!((refused.status, refused.code()), (422, "which".to_owned()), "a filter is required");
    let which = json!({"fingerprint": paper["fingerprint"], "note": "bought"}).to_string();
    let rested = served.post("/api/v1/dead-letters/acknowledge", &which).await;
    assert_eq!((rested.status, rested.json()), (200, json!({"count": 2, "more": false})), "{rested:?}");
    let revived = served.post("/api/v1/dead-letters/revive", r#"{"all": true}"#).await;
    assert_eq!(revived.json()["count"], 1);
    for body in [
        r#"{"reason": "bored"}"#,
        r#"{"before": "noon"}"#,
        r#"{"kind": "X"}"#,
        r#"{"all": true, "kind": "broken"}"#,
    ] {
        assert_eq!(served.post("/api/v1/dead-letters/revive", body).await.status, 422, "{body}");
    }
    assert_eq!(served.get("/api/v1/dead-letters?status=lost").await.status, 400);
}

async fn dead_letters_with_the_same_error_are_a_family(served: &Served) {
    let all = letters(served, &["no paper in tray 1", "no paper in tray 2", "no ink"]).await;
    let families = served.get("/api/v1/dead-letters/families").await.json();
    assert_eq!((&families["total"], &families["exact"]), (&json!(3), &json!(true)), "{families}");
    let paper = &families["items"][0];
    assert_eq!(
        (&paper["count"], &paper["kind"], &paper["reason"]),
        (&json!(2), &json!("broken"), &json!("permanent"))
    );
    assert!(paper["last_error"].as_str().unwrap().contains("tray"), "{families}");
    let trays: Vec<&Value> =
        all.iter().filter(|letter| letter["fingerprint"] == paper["fingerprint"]).collect();
    assert_eq!(
        (&paper["last_at"], &paper["first_at"], &paper["job_id"]),
        (&trays[0]["dead_at"], &trays[1]["dead_at"], &trays[0]["job_id"])
    );
    let asked = format!("fingerprint={}", paper["fingerprint"].as_str().unwrap());
    let listed =
        served.get(&format!("/api/v1/dead-letters?{asked}&kind=broken&reason=permanent")).await.json();
    assert_eq!(listed["items"].as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(served.get(&format!("/api/v1/dead-letters/families?{asked}")).await.json()["total"], 2);
    // Jobs that die later are not part of the count.
    let before = format!("before={}", families["at"].as_str().unwrap());
    served.post("/api/v1/jobs", &json!({"kind": "broken", "input": "no toner"}).to_string()).await;
    served.until("/api/v1/dead-letters/families", |families| families["total"] == 4).await;
    assert_eq!(served.get(&format!("/api/v1/dead-letters/families?{before}")).await.json()["total"], 3);
    assert_eq!(
        served.get(&format!("/api/v1/dead-letters?{before}")).await.json()["items"].as_array().unwrap().len(),
        3
    );
    for nothing in ["kind=other", "manifest=none", "group=none", "reason=worker_lost", "fingerprint=x"] {
        let families = served.get(&format!("/api/v1/dead-letters/families?{nothing}")).await.json();
        assert_eq!((&families["total"], &families["items"]), (&json!(0), &json!([])), "{nothing}");
        assert_eq!(served.get(&format!("/api/v1/dead-letters?{nothing}")).await.json()["items"], json!([]));
    }
}

on_each_store! {
    dead_letters_with_the_same_error_are_a_family
    a_dead_letter_is_revived_with_another_input_over_http
    one_may_rest
    all_matching_dead_letters_are_resolved_and_no_filter_is_refused
}
