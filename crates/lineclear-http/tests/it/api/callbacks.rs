//! Callbacks of push workers: one claim each, with a token that is good for nothing else.

use std::time::Duration;

use lineclear::store::{ClaimRef, JobId, NodeId};
use serde_json::{Value, json};

use super::claims::{Worker, enqueue};
use crate::kit::{Answer, Served};

/// A claim that a worker has, and its token.
struct Claimed {
    claim: Value,
    reference: ClaimRef,
    node: NodeId,
}

impl Claimed {
    async fn new(served: &Served) -> Claimed {
        let worker = Worker::ready(served, &["invoice"]).await;
        enqueue(served, "invoice", json!({})).await;
        let answer = worker.pull_with(json!({})).await.json();
        let claim = answer["claims"][0].clone();
        let id = |value: &Value| value.as_str().unwrap().parse::<i64>().unwrap();
        let no = u32::try_from(claim["claim"]["no"].as_u64().unwrap()).unwrap();
        let reference = ClaimRef { job: JobId(id(&claim["job"]["id"])), no };
        Claimed { reference, node: NodeId(id(&answer["worker"]["node"])), claim }
    }

    async fn token(&self, served: &Served, valid: Duration) -> String {
        self.token_of(served, [self.node, self.node], valid).await
    }

    async fn token_of(&self, served: &Served, holders: [NodeId; 2], valid: Duration) -> String {
        let client = served.node.as_ref().unwrap().client();
        client.claim_token(self.reference, holders, valid).await.unwrap()
    }

    fn job(&self) -> String {
        format!("/api/v1/jobs/{}", self.claim["job"]["id"].as_str().unwrap())
    }
}

async fn call(served: &Served, claim: ClaimRef, token: &str, what: &str, body: Value) -> Answer {
    let path = format!("/api/v1/claims/{}/{}/{what}", claim.job, claim.no);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    served.with(token, "POST", &path, &body).await
}

const HOUR: Duration = Duration::from_secs(3600);

async fn a_push_worker_reports_on_its_claim(served: &Served) {
    let one = Claimed::new(served).await;
    let token = one.token(served, HOUR).await;
    let call = async |what: &str, body: Value| call(served, one.reference, &token, what, body).await;
    assert_eq!(
        call("renew", Value::Null).await.json(),
        json!({"status": "renewed", "cancel": false, "lease_ms": 30_000})
    );
    assert_eq!(call("progress", json!({"fraction": 0.5})).await.json(), json!({"status": "recorded"}));
    assert_eq!(
        call("logs", json!({"lines": [{"level": "info", "text": "hello"}]})).await.json(),
        json!({"status": "recorded"})
    );
    assert_eq!(
        call("steps", json!({"name": "charge", "position": 1, "output": 7})).await.json(),
        json!({"status": "recorded"})
    );
    let read = async |name: &str| call("steps/read", json!({"name": name})).await.json();
    assert_eq!(read("charge").await, json!({"name": "charge", "found": true, "output": 7}));
    assert_eq!(read("mail").await, json!({"name": "mail", "found": false, "output": null}));
    for (what, bad, status, code) in [
        ("settle", json!({"outcome": "failed"}), 422, "refused"),
        ("settle", json!({"outcome": "completed", "result": 1}), 400, "body_field"),
        ("steps", json!({"name": "", "position": 1}), 422, "refused"),
        ("progress", json!({"job": "1", "fraction": 1}), 400, "body_field"),
        ("settle", Value::Null, 400, "body_missing"),
    ] {
        let refused = call(what, bad).await;
        assert_eq!((refused.status, refused.code()), (status, code.to_owned()), "{what}: {refused:?}");
    }
    assert_eq!(served.post(&format!("{}/cancel", one.job()), "").await.status, 202);
    assert_eq!(call("renew", Value::Null).await.json()["cancel"], true);
    let done = json!({"outcome": "completed", "output": [1]});
    for what in ["settled", "and again, because the answer was lost"] {
        assert_eq!(call("settle", done.clone()).await.json(), json!({"status": "recorded"}), "{what}");
    }
    assert_eq!(served.get(&one.job()).await.json()["executions"][0]["output"], json!([1]));
    for (what, body) in [
        ("renew", Value::Null),
        ("progress", json!({"fraction": 1})),
        ("logs", json!({"lines": []})),
        ("steps", json!({"name": "late", "position": 2})),
        ("steps/read", json!({"name": "charge"})),
    ] {
        let stale = call(what, body).await;
        assert_eq!((stale.status, stale.code()), (409, "stale_claim".to_owned()), "{what}: {stale:?}");
    }
}

/// The node that submits a job has its lease first, and the submitter has it after the transfer. A worker does not know which.
async fn reports_are_recorded_before_and_after_the_lease_moves(served: &Served) {
    let other = NodeId(999_999);
    for is_moved in [false, true] {
        let one = Claimed::new(served).await;
        let holders = if is_moved { [other, one.node] } else { [one.node, other] };
        let token = one.token_of(served, holders, HOUR).await;
        for (what, body, status) in [
            ("renew", Value::Null, "renewed"),
            ("progress", json!({"fraction": 0.5}), "recorded"),
            ("logs", json!({"lines": [{"level": "info", "text": "hello"}]}), "recorded"),
            ("steps", json!({"name": "charge", "position": 1}), "recorded"),
            ("settle", json!({"outcome": "completed"}), "recorded"),
            // The claim is over, so the server cannot see whose it was, and tries one after the other.
            ("settle", json!({"outcome": "completed"}), "recorded"),
        ] {
            let answer = call(served, one.reference, &token, what, body).await;
            assert_eq!(answer.status, 200, "{what}, moved: {is_moved}: {answer:?}");
            assert_eq!(answer.json()["status"], status, "{what}, moved: {is_moved}");
        }
    }
    let one = Claimed::new(served).await;
    let token = one.token_of(served, [other, NodeId(999_998)], HOUR).await;
    let stale = call(served, one.reference, &token, "settle", json!({"outcome": "completed"})).await;
    assert_eq!((stale.status, stale.code()), (409, "stale_claim".to_owned()), "neither has it: {stale:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_of_a_job_whose_row_is_locked_is_skipped_until_it_is_free() {
    let served = Served::postgres().await;
    let one = Claimed::new(&served).await;
    let token = one.token(&served, HOUR).await;
    let (client, connection) = tokio_postgres::connect(served.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("begin; select from lineclear.background_job for update").await.unwrap();
    let settle =
        async || call(&served, one.reference, &token, "settle", json!({"outcome": "completed"})).await.json();
    assert_eq!(settle().await, json!({"status": "skipped"}));
    client.batch_execute("rollback").await.unwrap();
    assert_eq!(settle().await, json!({"status": "recorded"}));
    served.end().await;
}

async fn forged_expired_and_other_tokens_are_refused(served: &Served) {
    let (one, two) = (Claimed::new(served).await, Claimed::new(served).await);
    let (mine, others) = (one.token(served, HOUR).await, two.token(served, HOUR).await);
    let done = json!({"outcome": "completed"});
    for what in ["renew", "progress", "logs", "steps", "steps/read", "settle"] {
        let refused = call(served, one.reference, &others, what, done.clone()).await;
        assert_eq!((refused.status, refused.code()), (403, "wrong_claim".to_owned()), "{what}: {refused:?}");
    }
    let next = ClaimRef { no: one.reference.no + 1, ..one.reference };
    let refused = call(served, next, &mine, "settle", done.clone()).await;
    assert_eq!(
        (refused.status, refused.code()),
        (403, "wrong_claim".to_owned()),
        "another claim: {refused:?}"
    );
    // Tokens count whole seconds.
    let short = one.token(served, Duration::ZERO).await;
    let expired = async || call(served, one.reference, &short, "renew", Value::Null).await;
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    let mut answer = expired().await;
    while answer.status == 200 && std::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(100)).await;
        answer = expired().await;
    }
    assert_eq!((answer.status, answer.code()), (401, "unauthorized".to_owned()), "{answer:?}");
    let mut forged = mine.clone();
    let last = forged.pop().unwrap();
    forged.push(if last == 'A' { 'B' } else { 'A' });
    let cut = &mine[..mine.len() - 4];
    for wrong in [forged.as_str(), cut, "lcc_", "x", ""] {
        let refused = call(served, one.reference, wrong, "settle", done.clone()).await;
        assert_eq!(
            (refused.status, refused.code()),
            (401, "unauthorized".to_owned()),
            "{wrong}: {refused:?}"
        );
        assert!(refused.header("www-authenticate").is_some());
    }
    assert_eq!(served.get(&one.job()).await.json()["state"], "running", "nothing was changed");
    // An address that tries many is locked out; a good token still passes.
    let mut status = 401;
    for _ in 0..20 {
        status = call(served, one.reference, "lcc_x", "settle", done.clone()).await.status;
    }
    assert_eq!(status, 429);
    assert_eq!(call(served, one.reference, &mine, "settle", done).await.status, 200);
}

async fn the_token_of_a_claim_opens_nothing_else(served: &Served) {
    let client = served.node.as_ref().unwrap().client();
    let claim = ClaimRef { job: JobId(1), no: 1 };
    let token = client.claim_token(claim, [NodeId(1), NodeId(1)], HOUR).await.unwrap();
    for (method, path) in
        [("GET", "/api/v1/jobs"), ("POST", "/api/v1/claims"), ("POST", "/api/v1/claims/settle")]
    {
        assert_eq!(served.with(&token, method, path, "").await.status, 401, "{method} {path}");
    }
}

on_each_store! {
    a_push_worker_reports_on_its_claim
    reports_are_recorded_before_and_after_the_lease_moves
    forged_expired_and_other_tokens_are_refused
}

with_tokens_on_each_store! {
    the_token_of_a_claim_opens_nothing_else
}
