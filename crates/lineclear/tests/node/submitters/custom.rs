//! Submitters of the program's own.

use std::sync::Mutex;

use lineclear::model::Outcome;
use lineclear::store::ClaimRef;
use lineclear::submitters::{Accepted, Submission, SubmitFuture, SubmittedJob, Submitter, Unreachable};

use super::*;

/// `None`: it never answers.
type Answer = dyn Fn(&SubmittedJob) -> Option<Submission> + Send + Sync;

/// Answers what the test says, and remembers what it got.
#[derive(Clone)]
struct Answering {
    /// A permit for each answer.
    turns: Arc<tokio::sync::Semaphore>,
    answer: Arc<Answer>,
    got: Arc<Mutex<Vec<SubmittedJob>>>,
    capacity: u32,
}

impl Answering {
    fn new(answer: impl Fn(&SubmittedJob) -> Option<Submission> + Send + Sync + 'static) -> Answering {
        let turns = Arc::new(tokio::sync::Semaphore::new(1_000));
        Answering { turns, answer: Arc::new(answer), got: Arc::default(), capacity: 16 }
    }

    fn got(&self) -> Vec<SubmittedJob> {
        self.got.lock().unwrap().clone()
    }
}

impl Submitter for Answering {
    fn submit(&self, job: SubmittedJob) -> SubmitFuture {
        self.got.lock().unwrap().push(job.clone());
        let (answer, turns) = ((self.answer)(&job), self.turns.clone());
        Box::pin(async move {
            turns.acquire().await.unwrap().forget();
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }
}

async fn start(db: &TestStore, submitter: Answering) -> lineclear::Node {
    start_with(db, submitter, Duration::from_secs(1)).await
}

async fn start_with(db: &TestStore, submitter: Answering, lease: Duration) -> lineclear::Node {
    Lineclear::builder()
        .store(db.url.as_str())
        .options(NodeOptions { lease, renewal: lease / 5, ..quick() })
        .kind("local", async || {})
        .submitter("elsewhere", submitter)
        .submit_to_with("elsewhere", "remote", at_once(2))
        .start()
        .await
        .unwrap()
}

/// Retries without a pause.
fn at_once(retries: u32) -> KindOptions {
    let retry = Backoff { delay: Duration::ZERO, ..Backoff::default() }.policy(retries);
    KindOptions { retry, ..KindOptions::default() }
}

on_each_store! {
    async fn a_submitter_gets_the_job_and_its_outcome_is_recorded(db) {
        let output = lineclear::model::Payload::of(&7).unwrap();
        let done = Outcome::Completed { output: Some(output) };
        let submitter = Answering::new(move |_| Some(Submission::Done(done.clone())));
        let node = start(db, submitter.clone()).await;
        let job = node.enqueue("remote", &serde_json::json!({"order": 7})).await.unwrap().id;
        until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;
        let got = submitter.got();
        assert_eq!((got.len(), got[0].id, got[0].claim_no, got[0].attempt), (1, job, 1, 1));
        assert_eq!(got[0].input.as_str(), r#"{"order":7}"#);
        let detail = node.store().job(job).await.unwrap().unwrap();
        assert_eq!(detail.executions[0].output.as_deref(), Some("7"));
        node.stop().await;
    }

    async fn a_failure_spends_a_retry_and_an_unreachable_submitter_none(db) {
        let calls = Calls::default();
        let submitter = Answering::new(move |_| Some(match calls.add() {
            // More often than there are retries.
            1..=5 => Submission::Unreachable(Unreachable::new("away").retry_in(Duration::from_millis(10))),
            6 => Submission::Done(Outcome::Failed(lineclear::model::Failure::new("oops", "failed"))),
            _ => Submission::Done(Outcome::Completed { output: None }),
        }));
        let node = start(db, submitter.clone()).await;
        let job = node.enqueue("remote", &1).await.unwrap().id;
        until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;
        let attempts: Vec<u32> = submitter.got().iter().map(|job| job.attempt).collect();
        assert_eq!(attempts, [1, 1, 1, 1, 1, 1, 2]);
        let executions = node.store().job(job).await.unwrap().unwrap().executions;
        assert_eq!(executions[0].error_type.as_deref(), Some("unreachable"));
        assert_eq!(executions[0].error_message.as_deref(), Some("away"));
        assert_eq!(executions[5].error_type.as_deref(), Some("oops"));
        node.stop().await;
    }

    async fn a_refused_job_is_a_dead_letter_with_the_reason(db) {
        let node = start(db, Answering::new(|_| Some(Submission::Refused("no such order".to_owned())))).await;
        let job = node.enqueue("remote", &1).await.unwrap().id;
        until("it is dead", async || db.state(&node, job).await == Some(JobState::Dead)).await;
        let executions = node.store().job(job).await.unwrap().unwrap().executions;
        assert_eq!(executions[0].error_type.as_deref(), Some("refused"));
        node.stop().await;
    }

    async fn an_accepted_job_is_settled_by_its_token_and_occupies_no_capacity(db) {
        let submitter = Answering { capacity: 1, ..Answering::new(|job| {
            let accepted = Accepted::new().external_id(format!("x-{}", job.id)).lease(Duration::from_secs(30));
            Some(Submission::Accepted(accepted))
        }) };
        let node = start(db, submitter.clone()).await;
        for n in 0..3 {
            node.enqueue("remote", &n).await.unwrap();
        }
        let accepted = "select count(*) from {t}background_job where external_id like 'x-%'";
        until("all are accepted", async || db.number(accepted).await == 3).await;
        let client = node.client();
        for job in submitter.got() {
            let (claim, holders) = client.verify_claim_token(&job.token.unwrap()).await.unwrap().unwrap();
            assert_eq!(claim, ClaimRef { job: job.id, no: 1 });
            client.settle_claims(holders[0], vec![(claim, Outcome::Completed { output: None })]).await.unwrap();
            assert_eq!(db.state(&node, job.id).await, Some(JobState::Completed));
        }
        node.stop().await;
    }

    async fn an_accepted_job_that_is_silent_is_submitted_again_and_charged(db) {
        let calls = Calls::default();
        let submitter = Answering::new(move |_| Some(match calls.add() {
            1 => Submission::Accepted(Accepted::new().lease(Duration::from_secs(1))),
            _ => Submission::Done(Outcome::Completed { output: None }),
        }));
        let node = start(db, submitter.clone()).await;
        let job = node.enqueue("remote", &1).await.unwrap().id;
        until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;
        let executions = node.store().job(job).await.unwrap().unwrap().executions;
        assert_eq!(executions[0].outcome, ExecutionOutcome::Lost);
        assert_eq!(executions[0].error_type.as_deref(), Some("worker_lost"));
        // What the first claim reports now changes nothing.
        let late = submitter.got()[0].token.clone().unwrap();
        let (claim, holders) = node.client().verify_claim_token(&late).await.unwrap().unwrap();
        let answer = node.client().settle_claims(holders[0], vec![(claim, Outcome::Cancelled)]).await.unwrap();
        assert_eq!(answer, [Some(lineclear::store::FencedWrite::Stale)]);
        node.stop().await;
    }

    async fn a_submitter_that_hangs_delays_no_other_kind_and_no_more_than_its_capacity(db) {
        let submitter = Answering { capacity: 3, ..Answering::new(|_| None) };
        let node = start(db, submitter.clone()).await;
        for n in 0..20 {
            node.enqueue("remote", &n).await.unwrap();
        }
        until("three calls are open", async || submitter.got().len() == 3).await;
        for n in 0..20 {
            let job = node.enqueue("local", &n).await.unwrap().id;
            until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;
        }
        assert_eq!(submitter.got().len(), 3);
        let info = node.client().submitters().into_iter().find(|info| info.name == "elsewhere").unwrap();
        assert_eq!((info.in_flight, info.capacity), (3, 3));
        node.stop_sooner(async {}).await;
        let queued = "select count(*) from {t}work_queue where failures = 0 and crashes = 0";
        assert_eq!(db.number(queued).await, 20, "a stop gives them back, uncharged");
    }

    async fn a_job_of_a_program_that_does_not_know_the_route_gets_there(db) {
        let submitter = Answering::new(|_| Some(Submission::Done(Outcome::Completed { output: None })));
        let node = start(db, submitter.clone()).await;
        let store = lineclear::Store::open(lineclear::StoreOptions::new(&db.url).unwrap()).await.unwrap();
        let remote = |n: u32| lineclear::store::NewJob::new(name("remote"), lineclear::model::Payload::of(&n).unwrap());
        let known = store.enqueue(remote(1)).await.unwrap().id;
        // Queued before the route was known: on `main`.
        let stray = store.enqueue(remote(2)).await.unwrap().id;
        db.sql(&format!("update {{t}}work_queue set route = 'main' where id = {stray}")).await;
        for job in [known, stray] {
            until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;
        }
        assert_eq!(submitter.got().len(), 2);
        node.stop().await;
    }
}

#[tokio::test]
async fn a_panic_of_a_submitter_is_contained() {
    struct Panics(Arc<Calls>);
    impl Submitter for Panics {
        fn submit(&self, _job: SubmittedJob) -> SubmitFuture {
            let calls = self.0.add();
            Box::pin(async move {
                assert!(calls > 1, "on purpose");
                Submission::Done(Outcome::Completed { output: None })
            })
        }
    }
    let db = TestStore::sqlite().await;
    let builder = Lineclear::builder().store(db.url.as_str()).options(quick());
    let node =
        builder.submitter("bad", Panics(Arc::default())).submit_to("bad", ["x"]).start().await.unwrap();
    let job = node.enqueue("x", &1).await.unwrap().id;
    until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;
    node.stop().await;
}

#[tokio::test]
async fn a_lease_whose_row_is_locked_goes_to_the_submitter_as_soon_as_the_row_is_free() {
    let db = TestStore::postgres().await;
    let turns = Arc::new(tokio::sync::Semaphore::new(0));
    let accept = |_: &SubmittedJob| Some(Submission::Accepted(Accepted::new().external_id("x-1")));
    let submitter = Answering { turns: turns.clone(), ..Answering::new(accept) };
    let node = start_with(&db, submitter.clone(), Duration::from_secs(30)).await;
    let job = node.enqueue("remote", &1).await.unwrap().id;
    until("it is submitted", async || submitter.got().len() == 1).await;
    let application = db.client().await;
    let lock = format!("begin; select from lineclear.background_job where id = {job} for update");
    application.batch_execute(&lock).await.unwrap();
    turns.add_permits(1);
    let moved = "select count(*) from {t}background_job where external_id = 'x-1' and claim_no = 1";
    // Time for several tries.
    tokio::time::sleep(Duration::from_secs(1)).await;
    application.batch_execute("rollback").await.unwrap();
    until("it is handed over", async || db.number(moved).await == 1).await;
    node.stop().await;
}
