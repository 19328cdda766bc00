//! Retry with another input, by a form and over the API.

use serde_json::{Value, json};

use crate::kit::Served;
use crate::pages::{enqueue, page, submit};

async fn dead(served: &Served, body: Value) -> String {
    let job = enqueue(served, body).await;
    served.until(&format!("/api/v1/jobs/{job}"), |job| job["state"] == "dead").await;
    job
}

async fn a_dead_letter_is_revived_with_another_input(served: &Served) {
    let job = dead(served, json!({"kind": "broken", "input": "no printer", "limit_key": "customer-7"})).await;
    let shown = page(served, &format!("/jobs/{job}")).await.body;
    assert!(shown.contains(&format!("href=\"/jobs/{job}/retry?edit=true\"")), "{shown}");
    let path = format!("/jobs/{job}/retry");
    let asked = page(served, &format!("{path}?edit=true")).await.body;
    assert!(
        asked.contains("&quot;no printer&quot;</textarea>")
            && asked.contains(&format!("lineclear job retry {job} --input ")),
        "{asked}"
    );
    assert!(!page(served, &path).await.body.contains("<textarea"), "only if it is asked for");

    let broken = submit(served, &path, "input=%7Bnope&note=mended+by+hand").await;
    assert_eq!(broken.status, 400, "{broken:?}");
    assert!(
        broken.body.contains("must be JSON")
            && broken.body.contains("{nope</textarea>")
            && broken.body.contains("mended by hand"),
        "nothing that was typed is lost: {broken:?}"
    );
    assert_eq!(
        served.get(&format!("/api/v1/jobs/{job}")).await.json()["state"],
        "dead",
        "and nothing was done"
    );

    let done = submit(served, &path, "input=%22mended%22&note=by+hand").await;
    assert_eq!((done.status, done.header("location")), (303, Some(&*format!("/jobs/{job}"))), "{done:?}");
    let over = served.until(&format!("/api/v1/jobs/{job}"), |job| job["state"] == "completed").await;
    assert_eq!(over["input"], "mended", "{over}");
    let letters = served.get("/api/v1/dead-letters?status=revived").await.json();
    assert_eq!(
        (&letters["items"][0]["job_id"], &letters["items"][0]["note"]),
        (&json!(job), &json!("by hand")),
        "{letters}"
    );
}

async fn a_finished_job_runs_again_with_another_input_and_a_waiting_one_does_not(served: &Served) {
    let job = enqueue(served, json!({"kind": "add", "input": [1, 1], "tags": ["sum"]})).await;
    served.until(&format!("/api/v1/jobs/{job}"), |job| job["state"] == "completed").await;
    let again = served.post(&format!("/api/v1/jobs/{job}/retry"), r#"{"input": [2, 3]}"#).await;
    assert_eq!(again.status, 201, "{again:?}");
    let new = again.json()["id"].as_str().unwrap().to_owned();
    let over = served.until(&format!("/api/v1/jobs/{new}"), |job| job["state"] == "completed").await;
    assert_eq!((&over["input"], &over["tags"]), (&json!([2, 3]), &json!(["sum"])), "{over}");
    let before = served.get(&format!("/api/v1/jobs/{job}")).await.json();
    assert_eq!(before["input"], json!([1, 1]), "that one stays as it is");

    let waits = enqueue(served, json!({"kind": "add", "input": [1, 1], "in_ms": 600_000})).await;
    let refused = served.post(&format!("/api/v1/jobs/{waits}/retry"), r#"{"input": [2, 3]}"#).await;
    assert_eq!((refused.status, refused.code().as_str()), (409, "job_not_over"), "{refused:?}");
    for (body, status) in [(r#"{"input": }"#, 400), (r#"{"input": "•••"}"#, 422)] {
        let refused = served.post(&format!("/api/v1/jobs/{job}/retry"), body).await;
        assert_eq!(refused.status, status, "{body}: {refused:?}");
    }
    assert_eq!(served.post("/api/v1/jobs/999999/retry", r#"{"input": 1}"#).await.status, 404);
}

async fn the_enqueue_form_copies_all_fields_of_a_job(served: &Served) {
    let like = json!({"kind": "add", "input": [1, 1], "in_ms": 600_000, "route": "slow", "limit_key": "customer-7", "tags": ["a", "b"]});
    let job = enqueue(served, like).await;
    let form = page(served, &format!("/enqueue?like={job}")).await.body;
    for value in ["value=\"slow\"", "value=\"customer-7\"", "value=\"a b\"", "value=\"add\""] {
        assert!(form.contains(value), "{value}: {form}");
    }
    let made =
        submit(served, "/enqueue", "kind=add&input=1&when=10m&route=slow&limit_key=customer-7&tags=a+b")
            .await;
    assert_eq!(made.status, 303, "{made:?}");
    let id = made.header("location").unwrap().rsplit('/').next().unwrap().to_owned();
    let new = served.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!(
        (&new["route"], &new["limit_key"], &new["tags"]),
        (&json!("slow"), &json!("customer-7"), &json!(["a", "b"])),
        "{new}"
    );
    let refused = submit(served, "/enqueue", "kind=add&tags=NO").await;
    assert!(
        refused.status == 422
            && refused.body.contains("role=\"alert\"")
            && refused.body.contains("value=\"NO\""),
        "{refused:?}"
    );
}

on_each_store! {
    a_dead_letter_is_revived_with_another_input
    a_finished_job_runs_again_with_another_input_and_a_waiting_one_does_not
    the_enqueue_form_copies_all_fields_of_a_job
}
