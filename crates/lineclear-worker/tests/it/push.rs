//! An endpoint to which jobs are pushed.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use lineclear::model::{ExecutionOutcome, JobState};
use lineclear::submitters::HttpPush;
use lineclear_testkit::{HttpEndpoint, HttpReply};
use lineclear_worker::{Cancel, Ctx, Done, Endpoint, HandlerError, Input, JobInfo, Secret, State, Worker};
use serde_json::{Value, json};
use sha2_11::Sha256;
use tokio::net::TcpListener;

use crate::kit::{Calls, Place, Served, impatient, outcomes, until};

const LEASE: Duration = Duration::from_secs(30);
const FREE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

fn secret_text(letter: &str) -> String {
    format!("whsec_{}", letter.repeat(40))
}

fn secret(letter: &str) -> Secret {
    secret_text(letter).parse().unwrap()
}

/// Serves an endpoint for as long as the test runs; returns its URL.
async fn serve(endpoint: Endpoint) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, endpoint.router()).await });
    url
}

/// A server that pushes the kind `work` to this URL.
async fn pushing(place: &Place, url: &str, callback: Option<&str>, lease: Duration) -> Served {
    let mut push = HttpPush::new(url).unwrap().secrets([secret("a")]);
    if let Some(callback) = callback {
        push = push.callback(callback).unwrap();
    }
    Served::start_at(place, lease, FREE, |builder| {
        builder.submitter("billing", push).submit_to_with("billing", "work", impatient(3))
    })
    .await
}

/// A call like that of a server.
struct Call {
    id: String,
    timestamp: u64,
    body: String,
    signature: String,
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Call {
    fn new(job: u32, input: Value, timestamp: u64, signed_with: &str) -> Call {
        let body = json!({
            "version": 1,
            "job": {"id": job.to_string(), "kind": "work", "input": input, "manifest": null, "tick_at": null, "attempt": 1, "trace": null},
            "claim": {"no": 1, "lease_ms": 30_000, "timeout_ms": 60_000, "token": null},
            "callback": null
        });
        Call::of(format!("job-{job}-1"), body.to_string(), timestamp, signed_with)
    }

    fn of(id: String, body: String, timestamp: u64, signed_with: &str) -> Call {
        let key = STANDARD.decode(signed_with.repeat(40)).unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        Call { id, timestamp, body, signature }
    }

    async fn send(&self, url: &str) -> (u16, String) {
        let response = self.request(url).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    fn request(&self, url: &str) -> reqwest::RequestBuilder {
        let request = reqwest::Client::new().post(url).body(self.body.clone());
        request
            .header("content-type", "application/json")
            .header("webhook-id", &self.id)
            .header("webhook-timestamp", self.timestamp)
            .header("webhook-signature", &self.signature)
    }
}

/// Counts its runs, and takes as long as its input says.
async fn work(Input(millis): Input<u64>, runs: State<Calls>) -> Done<u32> {
    let run = runs.add();
    tokio::time::sleep(Duration::from_millis(millis)).await;
    Done(run)
}

fn counting() -> (Worker, Calls) {
    let runs = Calls::default();
    (Worker::builder().kind("work", work).state(runs.clone()).build().unwrap(), runs)
}

on_each_store! {
    async fn a_node_pushes_jobs_and_gets_their_outcomes(place) {
        async fn work(Input(n): Input<u32>, job: JobInfo) -> Result<Done<u32>, HandlerError> {
            match (n % 3, job.attempt) {
                (1, 1) => Err("no luck".into()),
                (2, 1) => panic!("out of paper"),
                _ => Ok(Done(n)),
            }
        }
        let worker = Worker::builder().kind("work", work).build().unwrap();
        let url = serve(worker.endpoint([secret("b"), secret("a")])).await;
        let served = pushing(place, &url, None, LEASE).await;
        let mut jobs = Vec::new();
        for n in 0..12 {
            jobs.push((n, served.enqueue("work", n).await));
        }
        for (n, job) in jobs {
            let detail = served.until(job, JobState::Completed).await;
            let expected = if n % 3 == 0 { vec![ExecutionOutcome::Completed] } else { vec![ExecutionOutcome::Failed, ExecutionOutcome::Completed] };
            assert_eq!(outcomes(&detail), expected, "{n}");
            assert_eq!(detail.executions.last().unwrap().output, Some(n.to_string()));
        }
        served.stop().await;
    }

    async fn a_cancelled_job_tells_its_handler_to_stop(place) {
        async fn work(cancel: Cancel, calls: State<Calls>) -> Result<(), HandlerError> {
            calls.add();
            cancel.requested().await;
            calls.add();
            Err("told to stop".into())
        }
        let calls = Calls::default();
        let worker = Worker::builder().kind("work", work).state(calls.clone()).build().unwrap();
        let url = serve(worker.endpoint([secret("a")])).await;
        let served = pushing(place, &url, None, LEASE).await;
        let job = served.enqueue("work", ()).await;
        until("it runs", async || calls.count() == 1).await;
        served.node.store().cancel(job).await.unwrap();
        served.until(job, JobState::Cancelled).await;
        until("its handler is told to stop", async || calls.count() == 2).await;
        served.stop().await;
    }

    async fn steps_and_progress_go_to_the_callbacks_of_the_claim(place) {
        async fn work(ctx: Ctx, charged: State<Calls>, job: JobInfo, cancel: Cancel) -> Result<Done<u32>, HandlerError> {
            let charge = ctx.step("charge", async { Ok(charged.add()) }).await?;
            if job.attempt == 1 {
                return Err("no luck".into());
            }
            ctx.progress(0.5, "half");
            cancel.requested().await;
            Ok(Done(charge))
        }
        let charged = Calls::default();
        let worker = Worker::builder().kind("work", work).state(charged.clone()).build().unwrap();
        let url = serve(worker.endpoint([secret("a")])).await;
        // The server must know its own address before it starts.
        let free = TcpListener::bind(FREE).await.unwrap().local_addr().unwrap();
        let push = HttpPush::new(&url).unwrap().secrets([secret("a")]).callback(&format!("http://{free}")).unwrap();
        let served = Served::start_at(place, Duration::from_secs(3), free, |builder| {
            builder.submitter("billing", push).submit_to_with("billing", "work", impatient(3))
        }).await;
        let job = served.enqueue("work", ()).await;
        until("its progress is shown", async || {
            served.job(job).await.job.progress.is_some_and(|progress| progress.text == "half")
        }).await;
        assert_eq!(charged.count(), 1, "the second attempt took the result of the first");
        served.node.store().cancel(job).await.unwrap();
        served.until(job, JobState::Cancelled).await;
        served.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_with_steps_needs_callbacks_and_says_so() {
    async fn work(ctx: Ctx) -> Result<(), HandlerError> {
        Ok(ctx.step("charge", async { Ok(()) }).await?)
    }
    let worker = Worker::builder().kind("work", work).build().unwrap();
    let url = serve(worker.endpoint([secret("a")])).await;
    let (status, body) = Call::new(1, json!(null), now(), "a").send(&url).await;
    assert_eq!(status, 200);
    assert!(body.contains(r#""outcome":"failed""#) && body.contains("callback_url"), "{body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_are_forged_or_old_are_refused() {
    let (worker, runs) = counting();
    let url = serve(worker.endpoint([secret("a"), secret("b")])).await;
    let refused = async |what: &str, call: Call| {
        let (status, body) = call.send(&url).await;
        assert_eq!(status, 401, "{what}: {body}");
        assert!(body.contains("bad_signature"), "{what}: {body}");
    };
    refused("another secret", Call::new(1, json!(1), now(), "c")).await;
    refused("six minutes old", Call::new(1, json!(1), now() - 360, "a")).await;
    refused("from the future", Call::new(1, json!(1), now() + 360, "a")).await;
    let good = Call::new(1, json!(1), now(), "a");
    refused(
        "another body",
        Call { body: good.body.replace("work", "play"), ..Call::new(1, json!(1), now(), "a") },
    )
    .await;
    refused("another id", Call { id: "job-2-1".to_owned(), ..Call::new(1, json!(1), now(), "a") }).await;
    refused("another time", Call { timestamp: now() + 1, ..Call::new(1, json!(1), now(), "a") }).await;
    refused("no signature", Call { signature: "v1,".to_owned(), ..Call::new(1, json!(1), now(), "a") }).await;
    let plain = reqwest::Client::new().post(&url).body("{}").send().await.unwrap();
    assert_eq!(plain.status().as_u16(), 401);
    assert_eq!(runs.count(), 0);
    // Either secret is good, while they are rotated.
    for (job, letter) in [(1, "a"), (2, "b")] {
        assert_eq!(Call::new(job, json!(1), now(), letter).send(&url).await.0, 200, "{letter}");
    }
    assert_eq!(runs.count(), 2);
    let (worker, runs) = counting();
    let open = serve(worker.endpoint([])).await;
    assert_eq!(good.send(&open).await.0, 401, "without a secret nothing is accepted");
    assert_eq!(runs.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_call_gets_the_answer_of_the_same_run() {
    let (worker, runs) = counting();
    let url = serve(worker.endpoint([secret("a")]).slots(1)).await;
    let call = Call::new(1, json!(1_000), now(), "a");
    // A proxy gives up the first call; the others need no slot.
    let dropped = tokio::spawn(call.request(&url).send());
    until("it runs", async || runs.count() == 1).await;
    dropped.abort();
    let answers = tokio::join!(call.send(&url), call.send(&url));
    let expected = (200, r#"{"outcome":"completed","output":1}"#.to_owned());
    assert_eq!(answers, (expected.clone(), expected.clone()));
    // Signed again, as a server does for each call.
    assert_eq!(Call::new(1, json!(1_000), now() + 1, "a").send(&url).await, expected, "after its end");
    assert_eq!(runs.count(), 1);
    let (status, body) = Call::new(2, json!(1), now(), "a").send(&url).await;
    assert_eq!((status, runs.count()), (200, 2), "another job runs: {body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_without_a_free_slot_says_when_to_call_again() {
    let (worker, runs) = counting();
    let url = serve(worker.endpoint([secret("a")]).slots(2)).await;
    let calls = [1, 2].map(|job| tokio::spawn(Call::new(job, json!(2_000), now(), "a").request(&url).send()));
    until("both slots are taken", async || runs.count() == 2).await;
    let busy = Call::new(3, json!(1), now(), "a").request(&url).send().await.unwrap();
    assert_eq!((busy.status().as_u16(), busy.headers()["retry-after"].to_str().unwrap()), (503, "1"));
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status().as_u16(), 200);
    }
    assert_eq!(Call::new(3, json!(1), now(), "a").send(&url).await.0, 200);
    assert_eq!(runs.count(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_no_call_waits_for_is_told_to_stop() {
    async fn work(cancel: Cancel, calls: State<Calls>) {
        calls.add();
        cancel.requested().await;
        calls.add();
    }
    let calls = Calls::default();
    let worker = Worker::builder().kind("work", work).state(calls.clone()).build().unwrap();
    let url = serve(worker.endpoint([secret("a")])).await;
    let call = tokio::spawn(Call::new(1, json!(null), now(), "a").request(&url).send());
    until("it runs", async || calls.count() == 1).await;
    call.abort();
    until("it is told to stop", async || calls.count() == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_cannot_be_understood_are_refused() {
    let (worker, runs) = counting();
    let url = serve(worker.endpoint([secret("a")])).await;
    let signed = |body: String| Call::of("job-1-1".to_owned(), body, now(), "a");
    let good = Call::new(1, json!(1), now(), "a").body;
    for (body, status, code) in [
        ("{}".to_owned(), 400, "bad_call"),
        ("nonsense".to_owned(), 400, "bad_call"),
        (r#"{"version": 1}"#.to_owned(), 400, "bad_call"),
        (good.replace(r#""version":1"#, r#""version":2"#), 404, "unknown_version"),
        (good.replace(r#""id":"1""#, r#""id":"one""#), 400, "bad_job"),
        (good.replace(r#""kind":"work""#, r#""kind":"other""#), 404, "unknown_kind"),
        (good.replace(r#""input":1"#, r#""input":{"a":1,"a":2}"#), 400, "bad_job"),
    ] {
        let (got, said) = signed(body.clone()).send(&url).await;
        assert_eq!((got, said.contains(code)), (status, true), "{body}: {said}");
    }
    let long = signed("x".repeat(2 * 1024 * 1024)).send(&url).await;
    assert_eq!(long.0, 413);
    assert_eq!(reqwest::get(&url).await.unwrap().status().as_u16(), 405);
    assert_eq!(runs.count(), 0);
    // A refused call is not remembered as a run.
    assert_eq!(signed(good).send(&url).await.0, 200);
}

/// Both have a job 1: their calls must not be one call for the worker, which remembers its answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_databases_share_one_worker() {
    let worker = Worker::builder().kind("work", async |Input(n): Input<u32>| Done(n)).build().unwrap();
    let url = serve(worker.endpoint([secret("a")])).await;
    let mut jobs = Vec::new();
    for (n, place) in
        [Place::sqlite().await, Place::postgres().await, Place::sqlite().await].iter().enumerate()
    {
        let served = pushing(place, &url, None, LEASE).await;
        let job = served.enqueue("work", n).await;
        let detail = served.until(job, JobState::Completed).await;
        assert_eq!(detail.executions.last().unwrap().output, Some(n.to_string()));
        jobs.push(job);
        served.stop().await;
    }
    assert!(jobs.iter().all(|job| *job == jobs[0]), "the ids are the same: {jobs:?}");
}

/// What a server really sends is what the tests above make by hand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_call_of_a_node_is_accepted_once() {
    let place = Place::sqlite().await;
    let (sender, mut calls) = tokio::sync::mpsc::unbounded_channel();
    let recorder = HttpEndpoint::start(move |call| {
        sender.send(call).ok();
        async { HttpReply::new(200, r#"{"outcome":"completed"}"#) }
    });
    let recorder = recorder.await.unwrap();
    let served = pushing(&place, &recorder.url(), None, LEASE).await;
    let job = served.enqueue("work", 7).await;
    served.until(job, JobState::Completed).await;
    let recorded = calls.recv().await.unwrap();
    let header = |name: &str| recorded.header(name).unwrap().to_owned();
    let call = Call {
        id: header("webhook-id"),
        timestamp: header("webhook-timestamp").parse().unwrap(),
        body: String::from_utf8(recorded.body.clone()).unwrap(),
        signature: header("webhook-signature"),
    };
    let (worker, runs) = counting();
    let url = serve(worker.endpoint([secret("a")])).await;
    for _ in 0..3 {
        assert_eq!(call.send(&url).await, (200, r#"{"outcome":"completed","output":1}"#.to_owned()));
    }
    assert_eq!(runs.count(), 1);
    served.stop().await;
}
