//! What a token lets a remote worker do.

use serde_json::json;

use super::{Worker, of};
use crate::kit::Served;

async fn a_token_bound_to_kinds_claims_no_others(served: &Served) {
    let admin = served.token("admin").await;
    let made = served
        .with(
            &admin,
            "POST",
            "/api/v1/tokens",
            r#"{"name": "mailer", "scopes": ["worker"], "kinds": ["invoice"]}"#,
        )
        .await;
    assert_eq!((made.status, &made.json()["kinds"]), (201, &json!(["invoice"])), "{made:?}");
    let token = made.json()["token"].as_str().unwrap().to_owned();
    let short = json!({"wait_ms": 0});
    let allowed = Worker::new(served, &["invoice"]).with_token(&token).pull_with(short.clone()).await;
    assert_eq!(allowed.status, 200, "{allowed:?}");
    let refused =
        Worker::new(served, &["invoice", "refund"]).with_token(&token).pull_with(short.clone()).await;
    assert_eq!((refused.status, refused.code()), (403, "kind_not_allowed".to_owned()), "{refused:?}");
    let any = served.token("worker").await;
    let allowed = Worker::new(served, &["invoice", "refund"]).with_token(&any).pull_with(short).await;
    assert_eq!(allowed.status, 200, "{allowed:?}");
    for (bad, pointer) in [
        (r#"{"name": "x", "scopes": ["operate"], "kinds": ["invoice"]}"#, "/kinds"),
        (r#"{"name": "x", "scopes": ["worker"], "kinds": []}"#, "/kinds"),
        (r#"{"name": "x", "scopes": ["worker"], "kinds": ["In voice"]}"#, "/kinds/0"),
    ] {
        let refused = served.with(&admin, "POST", "/api/v1/tokens", bad).await;
        assert_eq!(
            (refused.status, &refused.json()["errors"][0]["pointer"]),
            (422, &json!(pointer)),
            "{bad}"
        );
    }
}

async fn no_token_acts_for_a_worker_of_another(served: &Served) {
    let admin = served.token("admin").await;
    let make = async |name: &str| {
        let body = json!({"name": name, "scopes": ["worker"]}).to_string();
        served.with(&admin, "POST", "/api/v1/tokens", &body).await.json()["token"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (one, two) = (make("one").await, make("two").await);
    let job =
        served.with(&admin, "POST", "/api/v1/jobs", r#"{"kind": "invoice"}"#).await.json()["id"].clone();
    let worker = Worker::new(served, &["invoice"]).with_token(&one);
    let claim = worker.pull_one().await;
    // The same id, with another token: another worker.
    let thief = Worker { id: worker.id.clone(), ..Worker::new(served, &["invoice"]).with_token(&two) };
    let item = json!({"claims": [of(&claim, json!({}))]});
    assert_eq!(thief.call("renew", item.clone()).await.json()["claims"][0]["status"], "stale_claim");
    let stolen = thief.settle(&claim, json!({"outcome": "completed"})).await;
    assert_eq!((stolen.status, stolen.code()), (409, "stale_claim".to_owned()), "{stolen:?}");
    let none = thief.pull_with(json!({"resume": true, "wait_ms": 0})).await;
    assert_eq!(none.json()["claims"], json!([]), "{none:?}");
    assert_eq!(thief.send("DELETE", &format!("/api/v1/workers/{}", thief.id), "").await.status, 204);
    assert_eq!(
        worker.call("renew", item).await.json()["claims"][0]["status"],
        "renewed",
        "it is not removed"
    );
    assert_eq!(worker.settle(&claim, json!({"outcome": "completed"})).await.json()["claims"][0]["job"], job);
}

async fn a_token_that_is_revoked_while_its_poll_waits_gets_no_job(served: &Served) {
    let admin = served.token("admin").await;
    let token = served.token("worker").await;
    let worker = Worker::new(served, &["invoice"]).with_token(&token);
    let revoke = async {
        served
            .until_with(&admin, "/api/v1/nodes", |nodes| nodes["items"].as_array().unwrap().len() == 2)
            .await;
        let tokens = served.with(&admin, "GET", "/api/v1/tokens", "").await.json();
        let id =
            tokens["items"].as_array().unwrap().iter().find(|one| one["name"] == "worker").unwrap()["id"]
                .clone();
        let path = format!("/api/v1/tokens/{}", id.as_str().unwrap());
        assert_eq!(served.with(&admin, "DELETE", &path, "").await.status, 204);
        served.with(&admin, "POST", "/api/v1/jobs", r#"{"kind": "invoice"}"#).await.json()["id"].clone()
    };
    let (answer, job) = tokio::join!(worker.pull_with(json!({})), revoke);
    assert_eq!((answer.status, answer.code()), (401, "unauthorized".to_owned()), "{answer:?}");
    let body = json!({"name": "other", "scopes": ["worker"]}).to_string();
    let other = served.with(&admin, "POST", "/api/v1/tokens", &body).await.json()["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let claim = Worker::new(served, &["invoice"]).with_token(&other).pull_one().await;
    assert_eq!((&claim["job"]["id"], &claim["job"]["attempt"]), (&job, &json!(1)));
}

with_tokens_on_each_store! {
    a_token_bound_to_kinds_claims_no_others
    no_token_acts_for_a_worker_of_another
    a_token_that_is_revoked_while_its_poll_waits_gets_no_job
}
