//! Jobs that a worker accepts with 202: their leases, their tokens and their time.

use std::time::Instant;

use lineclear::store::RenewalStatus;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;

use super::*;

/// A worker that accepts each job once `gate` is open, and the tokens of its calls.
async fn accepting(gate: watch::Receiver<bool>) -> (HttpEndpoint, UnboundedReceiver<Option<String>>) {
    let (sender, tokens) = unbounded_channel();
    let endpoint = HttpEndpoint::start(move |call: HttpCall| {
        let body: serde_json::Value = serde_json::from_slice(&call.body).unwrap();
        sender.send(body["claim"]["token"].as_str().map(str::to_owned)).ok();
        let mut gate = gate.clone();
        async move {
            gate.wait_for(|is_open| *is_open).await.unwrap();
            HttpReply::new(202, r#"{"id":"b-1","lease_ms":600000}"#)
        }
    });
    (endpoint.await.unwrap(), tokens)
}

fn push_to(endpoint: &HttpEndpoint) -> HttpPush {
    HttpPush::new(&endpoint.url())
        .unwrap()
        .unsigned()
        .callback("https://jobs.example.com")
        .unwrap()
        .breakers(patient())
}

async fn next(tokens: &mut UnboundedReceiver<Option<String>>) -> Option<String> {
    tokio::time::timeout(LONG, tokens.recv()).await.expect("a call").expect("an endpoint")
}

const ACCEPTED: &str = "select count(*) from {t}background_job where external_id = 'b-1'";

on_each_store! {
    async fn an_accepted_job_that_is_not_settled_in_its_time_has_timed_out(db) {
        let (_open, gate) = watch::channel(true);
        let (endpoint, mut tokens) = accepting(gate).await;
        let options = KindOptions { timeout: Duration::from_secs(2), ..impatient(1) };
        let node = node(db, push_to(&endpoint), options).await;
        let job = node.enqueue("invoice", &()).await.unwrap().id;
        // The worker of the first attempt renews its lease, and is told when the job is no longer its own.
        let token = next(&mut tokens).await.unwrap();
        until("the renewing worker has lost its job", async || {
            let (claim, holders) = node.client().verify_claim_token(&token).await.unwrap().expect("a valid token");
            let mut is_lost = true;
            for holder in holders {
                let renewed = node.client().renew_claims(holder, vec![claim]).await.unwrap();
                is_lost &= renewed[0].status == RenewalStatus::Lost;
            }
            is_lost
        }).await;
        // That of the second one is silent; its lease is longer than its time.
        next(&mut tokens).await.unwrap();
        is(db, &node, job, JobState::Dead).await;
        let detail = detail(&node, job).await;
        assert_eq!(outcomes(&detail), [ExecutionOutcome::TimedOut; 2], "{detail:?}");
        assert_eq!(db.number("select count(*) from {t}dead_letter where crashes = 0 and failures = 2").await, 1);
        node.stop().await;
    }

    async fn a_job_is_not_sent_without_a_token_if_the_worker_is_to_report(db) {
        let (_open, gate) = watch::channel(true);
        let (endpoint, mut tokens) = accepting(gate).await;
        let node = node(db, push_to(&endpoint), impatient(0)).await;
        db.sql("alter table {t}claim_key rename to claim_key_away").await;
        let job = node.enqueue("invoice", &()).await.unwrap().id;
        let noted = format!("select count(*) from {{t}}execution where job_id = {job}");
        until("it was not handed over, or was", async || db.number(&noted).await > 0 || db.number(ACCEPTED).await > 0).await;
        let back = detail(&node, job).await;
        assert_eq!(back.executions.first().and_then(|execution| execution.error_type.as_deref()), Some("unreachable"), "{back:?}");
        assert!(tokens.is_empty(), "it was not called");
        let name = if db.url.starts_with("postgres") { "lineclear.claim_key_away" } else { "claim_key_away" };
        db.sql(&format!("alter table {name} rename to claim_key")).await;
        assert!(next(&mut tokens).await.is_some(), "the call has a token");
        until("it is accepted", async || db.number(ACCEPTED).await == 1).await;
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accepted_job_whose_row_is_locked_for_a_moment_is_handed_over_all_the_same() {
    let db = TestStore::postgres().await;
    let (open, gate) = watch::channel(false);
    let (endpoint, mut tokens) = accepting(gate).await;
    let node = node(&db, push_to(&endpoint), impatient(0)).await;
    node.enqueue("invoice", &()).await.unwrap();
    next(&mut tokens).await.unwrap();
    let locks = db.client().await;
    locks.batch_execute("begin; select id from lineclear.background_job for update").await.unwrap();
    open.send_replace(true);
    let in_flight = || node.client().submitters().iter().map(|info| info.in_flight).sum::<u32>();
    // Long enough for the answer to arrive and for the lease to be refused. A node that gives up does so here.
    let tried_until = Instant::now() + Duration::from_millis(700);
    while in_flight() > 0 && Instant::now() < tried_until {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    locks.batch_execute("rollback").await.unwrap();
    until("it is handed over", async || db.number(ACCEPTED).await == 1).await;
    until("the node has let go of it", async || in_flight() == 0).await;
    assert_eq!(db.number("select claim_no::bigint from {t}background_job").await, 1, "it was not sent again");
    node.stop().await;
}
