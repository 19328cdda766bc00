//! Jobs that are pushed to workers over HTTP.

mod accepted;
mod fleet;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lineclear::model::{ExecutionOutcome, JobState, Outcome};
use lineclear::outbound::{BreakerOptions, Breakers, Secret};
use lineclear::read::JobDetail;
use lineclear::store::JobId;
use lineclear::submitters::HttpPush;
use lineclear::{KindOptions, Lineclear, Node, NodeOptions};
use lineclear_testkit::{HttpCall, HttpEndpoint, HttpReply, Program};

use crate::documents::readme::example;
use crate::kit::{TestStore, quick, until};
use crate::{Calls, impatient};

const LONG: Duration = Duration::from_secs(60);

/// A node that pushes jobs of the kind `invoice`, and runs the kind `other` itself.
async fn node(db: &TestStore, push: HttpPush, options: KindOptions) -> Node {
    async fn other() {}
    let builder = Lineclear::builder().store(&db.url).options(quick()).submitter("billing", push);
    builder.submit_to_with("billing", "invoice", options).kind("other", other).start().await.unwrap()
}

async fn is(db: &TestStore, node: &Node, job: JobId, state: JobState) {
    until(&format!("it is {state:?}"), async || db.state(node, job).await == Some(state)).await;
}

async fn detail(node: &Node, job: JobId) -> JobDetail {
    node.store().job(job).await.unwrap().unwrap()
}

fn outcomes(detail: &JobDetail) -> Vec<ExecutionOutcome> {
    detail.executions.iter().map(|execution| execution.outcome).collect()
}

fn completed() -> HttpReply {
    HttpReply::new(200, r#"{"outcome":"completed","output":{"paid":1.10}}"#)
}

/// Breakers that do not open.
fn patient() -> Breakers {
    Breakers::new(BreakerOptions { failures: u32::MAX, ..BreakerOptions::default() })
}

on_each_store! {
    async fn a_worker_answers_with_the_outcome_of_the_job(db) {
        let endpoint = HttpEndpoint::start(async |call: HttpCall| {
            let body = String::from_utf8(call.body).unwrap();
            let said = |what: &str| body.contains(&format!(r#""input":"{what}""#));
            match body.contains(r#""attempt":1"#) {
                true if said("retry") => HttpReply::new(200, r#"{"outcome":"failed","error":{"type":"Busy","message":"later"}}"#),
                true if said("crash") => HttpReply::new(500, "oops"),
                _ if said("permanent") => HttpReply::new(200, r#"{"outcome":"failed","error":"no such customer","permanent":true}"#),
                _ if said("refuse") => HttpReply::new(422, "no such kind"),
                _ => completed(),
            }
        }).await.unwrap();
        let node = node(db, HttpPush::new(&endpoint.url()).unwrap().unsigned(), impatient(3)).await;
        use ExecutionOutcome::{Completed, Failed};
        for (input, state, expected, says) in [
            ("plain", JobState::Completed, vec![Completed], None),
            ("retry", JobState::Completed, vec![Failed, Completed], Some("later")),
            ("crash", JobState::Completed, vec![Failed, Completed], Some("status 500: oops")),
            ("permanent", JobState::Dead, vec![Failed], Some("no such customer")),
            ("refuse", JobState::Dead, vec![Failed], Some("status 422: no such kind")),
        ] {
            let job = node.enqueue("invoice", input).await.unwrap().id;
            is(db, &node, job, state).await;
            let detail = detail(&node, job).await;
            assert_eq!((outcomes(&detail), detail.executions[0].error_message.as_deref()), (expected, says), "{input}");
            if state == JobState::Completed {
                assert_eq!(detail.executions.last().unwrap().output.as_deref(), Some(r#"{"paid":1.10}"#));
            }
        }
        let letters = node.store().dead_letters(None, None, 10).await.unwrap().items;
        assert!(letters.iter().any(|letter| letter.last_error.as_deref() == Some("status 422: no such kind")), "{letters:?}");
        node.stop().await;
    }

    async fn a_job_that_no_worker_takes_spends_no_retry_and_goes_again(db) {
        let (is_well, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (well, counted) = (is_well.clone(), calls.clone());
        let endpoint = HttpEndpoint::start(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            let reply = if well.load(Ordering::SeqCst) { completed() } else { HttpReply::new(404, "not deployed yet") };
            async move { reply }
        }).await.unwrap();
        let push = HttpPush::new(&endpoint.url()).unwrap().unsigned().breakers(patient());
        let node = node(db, push, impatient(0)).await;
        let job = node.enqueue("invoice", &()).await.unwrap().id;
        until("it was called twice", async || calls.load(Ordering::SeqCst) >= 2).await;
        let waiting = detail(&node, job).await;
        assert_eq!(waiting.job.failures, Some(0), "{waiting:?}");
        assert_eq!(waiting.executions[0].error_type.as_deref(), Some("unreachable"), "{waiting:?}");
        is_well.store(true, Ordering::SeqCst);
        is(db, &node, job, JobState::Completed).await;
        node.stop().await;
    }

    async fn a_worker_that_fails_is_left_alone_and_other_kinds_go_on(db) {
        let (is_well, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (well, counted) = (is_well.clone(), calls.clone());
        let endpoint = HttpEndpoint::start(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            let reply = if well.load(Ordering::SeqCst) { completed() } else { HttpReply::new(404, "") };
            async move { reply }
        }).await.unwrap();
        let options = BreakerOptions { failures: 3, pause: Duration::from_secs(2), ..BreakerOptions::default() };
        let push = HttpPush::new(&endpoint.url()).unwrap().unsigned().breakers(Breakers::new(options)).max_concurrent_dispatch(2);
        let node = node(db, push, impatient(0)).await;
        let mut jobs = Vec::new();
        for _ in 0..20 {
            jobs.push(node.enqueue("invoice", &()).await.unwrap().id);
        }
        until("its breaker is open", async || calls.load(Ordering::SeqCst) >= 3).await;
        let other = node.enqueue("other", &()).await.unwrap().id;
        is(db, &node, other, JobState::Completed).await;
        assert!(calls.load(Ordering::SeqCst) < 10, "twenty jobs do not make twenty calls");
        is_well.store(true, Ordering::SeqCst);
        for job in jobs {
            is(db, &node, job, JobState::Completed).await;
            assert_eq!(outcomes(&detail(&node, job).await).iter().filter(|word| **word == ExecutionOutcome::Failed).count(), 0);
        }
        node.stop().await;
    }

    async fn an_accepted_job_is_settled_with_the_token_of_its_call(db) {
        let tokens: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = tokens.clone();
        let endpoint = HttpEndpoint::start(move |call: HttpCall| {
            let body: serde_json::Value = serde_json::from_slice(&call.body).unwrap();
            seen.lock().unwrap().push(body["claim"]["token"].as_str().unwrap().to_owned());
            async { HttpReply::new(202, r#"{"id":"b-1","lease_ms":60000}"#) }
        }).await.unwrap();
        let push = HttpPush::new(&endpoint.url()).unwrap().unsigned().callback("https://jobs.example.com").unwrap();
        let node = node(db, push, impatient(0)).await;
        let job = node.enqueue("invoice", &()).await.unwrap().id;
        let accepted = "select count(*) from {t}background_job where external_id = 'b-1'";
        until("it is accepted", async || db.number(accepted).await == 1).await;
        let token = tokens.lock().unwrap()[0].clone();
        let (claim, holders) = node.client().verify_claim_token(&token).await.unwrap().unwrap();
        assert_eq!((claim.job, claim.no), (job, 1));
        node.client().settle_claims(holders[0], vec![(claim, Outcome::Completed { output: None })]).await.unwrap();
        is(db, &node, job, JobState::Completed).await;
        node.stop().await;
    }

    async fn a_call_without_an_answer_is_a_job_that_timed_out(db) {
        let endpoint = HttpEndpoint::start(|_| std::future::pending::<HttpReply>()).await.unwrap();
        let push = HttpPush::new(&endpoint.url()).unwrap().unsigned().timeout(Duration::from_millis(300)).breakers(patient());
        let node = node(db, push, impatient(1)).await;
        let job = node.enqueue("invoice", &()).await.unwrap().id;
        is(db, &node, job, JobState::Dead).await;
        assert_eq!(outcomes(&detail(&node, job).await), [ExecutionOutcome::TimedOut; 2]);
        node.stop().await;
    }

    async fn a_cancelled_job_hangs_up_and_a_node_that_stops_gives_its_jobs_back(db) {
        struct HungUp(Arc<Calls>);
        impl Drop for HungUp {
            fn drop(&mut self) { self.0.add(); }
        }
        let (begun, hung_up) = (Arc::new(Calls::default()), Arc::new(Calls::default()));
        let (begins, ends) = (begun.clone(), hung_up.clone());
        let endpoint = HttpEndpoint::start(move |_| {
            begins.add();
            let guard = HungUp(ends.clone());
            async move {
                std::future::pending::<()>().await;
                drop(guard);
                completed()
            }
        }).await.unwrap();
        let options = NodeOptions { shutdown_grace: Duration::from_millis(200), ..quick() };
        let push = HttpPush::new(&endpoint.url()).unwrap().unsigned();
        let node = Lineclear::builder().store(&db.url).options(options).submitter("billing", push)
            .submit_to_with("billing", "invoice", impatient(0)).start().await.unwrap();
        let cancelled = node.enqueue("invoice", &()).await.unwrap().id;
        until("it is called", async || begun.count() == 1).await;
        node.store().cancel(cancelled).await.unwrap();
        is(db, &node, cancelled, JobState::Cancelled).await;
        until("the call is dropped", async || hung_up.count() == 1).await;
        let given_back = node.enqueue("invoice", &()).await.unwrap().id;
        until("it is called", async || begun.count() == 2).await;
        let store = node.store().clone();
        node.stop().await;
        let back = store.job(given_back).await.unwrap().unwrap();
        assert_eq!((back.job.state, back.job.failures), (JobState::Queued, Some(0)), "{back:?}");
        assert_eq!(outcomes(&back), [ExecutionOutcome::Released]);
    }
}

/// The server has the old and the new secret; one worker knows the old one, and the other the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_rotated_without_a_gap_and_a_call_with_another_secret_is_refused() {
    let db = TestStore::sqlite().await;
    let secret = |letter: &str| format!("whsec_{}", letter.repeat(40));
    let parsed = |letter: &str| secret(letter).parse::<Secret>().unwrap();
    for known in ["a", "b"] {
        let worker = Program::at(example("push_worker")).args([secret(known)]).start().unwrap();
        let url = worker.wait_for_line("is up at", LONG).await.unwrap();
        let url = url.split("is up at ").nth(1).unwrap();
        let push = HttpPush::new(url).unwrap().secrets([parsed("a"), parsed("b")]);
        let both = node(&db, push, impatient(0)).await;
        let job = both.enqueue("invoice", &()).await.unwrap().id;
        is(&db, &both, job, JobState::Completed).await;
        both.stop().await;
        let other = node(&db, HttpPush::new(url).unwrap().secrets([parsed("c")]), impatient(0)).await;
        let job = other.enqueue("invoice", &()).await.unwrap().id;
        until("it is refused", async || {
            let detail = detail(&other, job).await;
            detail.executions.iter().any(|execution| {
                execution.error_message.as_deref().is_some_and(|why| why.contains("status 401"))
            })
        })
        .await;
        other.store().cancel(job).await.unwrap();
        other.stop().await;
    }
}

/// Ten calls at once, and never more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_calls_are_open_as_the_submitter_may_have() {
    let db = TestStore::sqlite().await;
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (opened, highest) = (open.clone(), most.clone());
    let endpoint = HttpEndpoint::start(move |_| {
        let (opened, highest) = (opened.clone(), highest.clone());
        highest.fetch_max(opened.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        async move {
            // However busy the machine is: the first ten end when all of them are open.
            while highest.load(Ordering::SeqCst) < 10 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            opened.fetch_sub(1, Ordering::SeqCst);
            completed()
        }
    });
    let endpoint = endpoint.await.unwrap();
    let push = HttpPush::new(&endpoint.url()).unwrap().unsigned().max_concurrent_dispatch(10);
    // Slots are for handlers of this process: pushed jobs need none.
    let options = NodeOptions { slots: 2, ..quick() };
    let builder = Lineclear::builder().store(&db.url).options(options).submitter("billing", push);
    let node = builder.submit_to("billing", ["invoice"]).start().await.unwrap();
    for _ in 0..50 {
        node.enqueue("invoice", &()).await.unwrap();
    }
    let store = node.store().clone();
    until("all are completed", async || crate::children::count(&store, JobState::Completed).await == 50)
        .await;
    assert_eq!(most.load(Ordering::SeqCst), 10);
    node.stop().await;
}
