//! Calls to real endpoints, and what becomes of their answers.

mod hosts;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use lineclear_model::{Failure, Name, Payload};
use lineclear_testkit::{HttpCall, HttpEndpoint, HttpReply};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::outbound::{BreakerOptions, VERIFY_WINDOW, verify};
use crate::store::JobId;
use crate::submitters::Accepted;

fn job() -> SubmittedJob {
    SubmittedJob {
        id: JobId(7),
        kind: Name::new("invoice").unwrap(),
        input: Payload::parse(r#"{"z":1.10,"a":[1e400]}"#).unwrap(),
        claim_no: 2,
        attempt: 1,
        manifest: Some("nightly".to_owned()),
        tick_at: None,
        trace: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        timeout: Duration::from_secs(60),
        lease: Duration::from_secs(30),
        token: Some("lcc_x.y".to_owned()),
        cancel: CancellationToken::new(),
    }
}

/// Answers the first calls with these, and all others with the last one; counts them.
async fn worker(replies: Vec<HttpReply>) -> (HttpEndpoint, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let endpoint = HttpEndpoint::start(move |_| {
        let n = counted.fetch_add(1, Ordering::SeqCst);
        let reply = replies[n.min(replies.len() - 1)].clone();
        async move { reply }
    });
    (endpoint.await.unwrap(), calls)
}

fn completed() -> HttpReply {
    HttpReply::new(200, r#"{"outcome":"completed"}"#)
}

fn done() -> Submission {
    Submission::Done(Outcome::Completed { output: None })
}

fn push(endpoint: &HttpEndpoint) -> HttpPush {
    HttpPush::new(&endpoint.url()).unwrap()
}

async fn answer(reply: HttpReply) -> (Submission, usize) {
    let (endpoint, calls) = worker(vec![reply]).await;
    let push = push(&endpoint).callback("https://jobs.example.com").unwrap();
    (push.submit(job()).await, calls.load(Ordering::SeqCst))
}

/// A port that refuses connections.
async fn closed_port() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/", listener.local_addr().unwrap())
}

#[tokio::test]
async fn a_call_carries_the_job_and_is_signed_with_each_secret() {
    let seen: Arc<Mutex<Vec<HttpCall>>> = Arc::default();
    let noted = seen.clone();
    let endpoint = HttpEndpoint::start(move |call| {
        noted.lock().unwrap().push(call);
        async { completed() }
    });
    let endpoint = endpoint.await.unwrap();
    let secrets: Vec<Secret> =
        ["a", "b"].map(|letter| format!("whsec_{}", letter.repeat(40)).parse().unwrap()).into();
    let push = push(&endpoint).secrets(secrets.clone()).callback("https://jobs.example.com/base/").unwrap();
    assert_eq!(push.submit(job()).await, done());
    let call = seen.lock().unwrap().pop().expect("a call");
    assert_eq!(call.path, "/jobs");
    for (name, value) in [
        ("content-type", "application/json"),
        ("lineclear-version", "1"),
        ("webhook-id", "job-7-2"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ] {
        assert_eq!(call.header(name), Some(value));
    }
    assert_eq!(
        String::from_utf8(call.body.clone()).unwrap(),
        concat!(
            r#"{"version":1,"job":{"id":"7","kind":"invoice","input":{"z":1.10,"a":[1e400]},"manifest":"nightly","tick_at":null,"#,
            r#""attempt":1,"trace":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},"#,
            r#""claim":{"no":2,"lease_ms":30000,"timeout_ms":60000,"token":"lcc_x.y"},"#,
            r#""callback":"https://jobs.example.com/base/api/v1/claims/7/2"}"#
        )
    );
    let headers = call.headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
    let headers: reqwest::header::HeaderMap = headers.collect();
    for secret in secrets {
        let verified = verify(&[secret], &headers, &call.body, VERIFY_WINDOW);
        assert_eq!(verified.map(|verified| verified.id), Ok("job-7-2".to_owned()));
    }
}

#[tokio::test]
async fn the_id_of_a_call_names_the_cluster_that_the_submitter_joined() {
    let (sender, mut ids) = tokio::sync::mpsc::unbounded_channel();
    let endpoint = HttpEndpoint::start(move |call: HttpCall| {
        sender.send(call.header("webhook-id").map(str::to_owned)).ok();
        async { completed() }
    });
    let endpoint = endpoint.await.unwrap();
    let one = push(&endpoint);
    let other = one.clone();
    one.join("00000000000000a1");
    other.join("00000000000000b2");
    for (push, id) in [(&one, "job-00000000000000a1-7-2"), (&other, "job-00000000000000b2-7-2")] {
        assert_eq!(push.submit(job()).await, done());
        assert_eq!(ids.recv().await.unwrap().as_deref(), Some(id));
    }
}

#[tokio::test]
async fn a_node_starts_only_if_calls_are_signed_or_said_to_be_unsigned() {
    let secret = || format!("whsec_{}", "a".repeat(40)).parse::<Secret>().unwrap();
    let new = || HttpPush::new("http://127.0.0.1:9/").unwrap();
    let builder = |push| {
        crate::Lineclear::builder()
            .store(":memory:")
            .submitter("billing", push)
            .submit_to("billing", ["invoice"])
    };
    for silent in [new(), new().secrets([]), new().secrets([secret()]).unsigned()] {
        let error = builder(silent).submit_to("nowhere", ["refund"]).start().await.unwrap_err().to_string();
        for part in ["submitter billing: set `secrets`", "or `unsigned`", "no submitter \"nowhere\""] {
            assert!(error.contains(part), "{part} is missing in {error}");
        }
    }
    for said in [new().unsigned(), new().secrets([secret()])] {
        builder(said).start().await.unwrap().stop().await;
    }
}

#[tokio::test]
async fn without_a_url_for_callbacks_a_call_has_no_token_and_cannot_be_accepted() {
    let bodies: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = bodies.clone();
    let endpoint = HttpEndpoint::start(move |call: HttpCall| {
        noted.lock().unwrap().push(String::from_utf8(call.body).unwrap());
        async { HttpReply::new(202, "") }
    });
    let endpoint = endpoint.await.unwrap();
    let Submission::Done(Outcome::Failed(failure)) = push(&endpoint).submit(job()).await else {
        panic!("it failed")
    };
    assert!(failure.message.contains("callback_url"), "{failure:?}");
    assert!(bodies.lock().unwrap()[0].ends_with(r#""token":null},"callback":null}"#), "{bodies:?}");
}

#[tokio::test]
async fn an_answer_decides_about_the_job() {
    let failed = |failure: Failure| Submission::Done(Outcome::Failed(failure));
    let id = Accepted::new().external_id("b-1");
    for (status, body, submission) in [
        (200, r#"{"outcome":"completed"}"#, done()),
        (200, r#"{"outcome":"failed","error":"no"}"#, failed(Failure::new("error", "no"))),
        (200, r#"{"outcome":"timed_out"}"#, Submission::Done(Outcome::TimedOut)),
        (202, "", Submission::Accepted(Accepted::new())),
        (202, "{}", Submission::Accepted(Accepted::new())),
        (202, "thanks", Submission::Accepted(Accepted::new())),
        (202, r#"{"id":"b-1","lease_ms":60000}"#, Submission::Accepted(id.lease(Duration::from_secs(60)))),
        (400, "what?", Submission::Refused("status 400: what?".to_owned())),
        (413, "", Submission::Refused("status 413".to_owned())),
        (415, "", Submission::Refused("status 415".to_owned())),
        (422, "\n no\u{1b}[2J such\nkind", Submission::Refused("status 422: no[2J such".to_owned())),
        (500, "oops", failed(Failure::new("status_500", "status 500: oops"))),
        (501, "", failed(Failure::new("status_501", "status 501"))),
        // A gateway gave up waiting: the job may have run.
        (504, "", failed(Failure::new("status_504", "status 504"))),
        (408, "slow", failed(Failure::new("status_408", "status 408: slow"))),
    ] {
        assert_eq!(answer(HttpReply::new(status, body)).await, (submission, 1), "{status} {body}");
    }
    for (status, body) in [(200, ""), (200, "ok"), (200, "{}"), (201, ""), (204, ""), (409, "x"), (418, "")] {
        let (Submission::Done(Outcome::Failed(failure)), 1) = answer(HttpReply::new(status, body)).await
        else {
            panic!("{status} {body} is a failure")
        };
        assert_eq!(
            (failure.error_type.as_str(), failure.permanent),
            ("bad_answer", false),
            "{status} {body}"
        );
    }
    let (Submission::Done(Outcome::Failed(failure)), 1) =
        answer(HttpReply::new(200, " ".repeat(1 << 20))).await
    else {
        panic!("an answer without end is a failure")
    };
    assert!(failure.permanent, "{failure:?}");
}

#[tokio::test]
async fn a_worker_that_does_not_take_the_job_is_unreachable() {
    for status in [401, 403, 404, 405, 425, 301, 302, 307] {
        let (submission, calls) = answer(HttpReply::new(status, "")).await;
        assert!(matches!(submission, Submission::Unreachable(_)), "{status}: {submission:?}");
        assert_eq!(calls, 1, "{status}");
    }
    let submission = HttpPush::new(&closed_port().await).unwrap().submit(job()).await;
    assert!(matches!(submission, Submission::Unreachable(_)), "{submission:?}");
    let hung_up = answer(HttpReply::HangUp).await.0;
    assert!(
        matches!(&hung_up, Submission::Done(Outcome::Failed(failure)) if failure.error_type == "connection_lost"),
        "it may have run: {hung_up:?}"
    );
}

#[tokio::test]
async fn a_busy_worker_is_called_again_soon_and_a_job_that_must_wait_longer_goes_back() {
    for status in [429, 502, 503] {
        let busy = HttpReply::new(status, "");
        let (endpoint, calls) = worker(vec![busy.clone(), busy, completed()]).await;
        assert_eq!(push(&endpoint).submit(job()).await, done(), "{status}");
        assert_eq!(calls.load(Ordering::SeqCst), 3);
    }
    let after = |seconds: &str| {
        HttpReply::Response(429, vec![("retry-after".to_owned(), seconds.to_owned())], String::new())
    };
    let (endpoint, _) = worker(vec![after("1"), completed()]).await;
    let begun_at = Instant::now();
    assert_eq!(push(&endpoint).submit(job()).await, done());
    assert!(begun_at.elapsed() >= Duration::from_secs(1), "it waits as it is told");
    let told = Unreachable::new("status 429").retry_in(Duration::from_secs(120));
    assert_eq!(answer(after("120")).await, (Submission::Unreachable(told), 1));
    let (submission, calls) = answer(HttpReply::new(503, "")).await;
    assert_eq!((submission, calls), (Submission::Unreachable(Unreachable::new("status 503")), 3));
}

#[tokio::test]
async fn a_call_ends_with_its_time() {
    let endpoint = HttpEndpoint::start(|_| std::future::pending::<HttpReply>()).await.unwrap();
    let short = push(&endpoint).timeout(Duration::from_millis(200));
    assert_eq!(short.submit(job()).await, Submission::Done(Outcome::TimedOut));
    let push = push(&endpoint);
    let submission = push.submit(SubmittedJob { timeout: Duration::from_millis(200), ..job() }).await;
    assert_eq!(submission, Submission::Done(Outcome::TimedOut));
    let (busy, calls) = worker(vec![HttpReply::new(503, "")]).await;
    let submission =
        HttpPush::new(&busy.url()).unwrap().timeout(Duration::from_millis(500)).submit(job()).await;
    assert!(matches!(submission, Submission::Unreachable(_)), "no pause beyond its time: {submission:?}");
    assert!(calls.load(Ordering::SeqCst) < 3);
}

#[tokio::test]
async fn a_worker_that_fails_is_not_called_until_one_job_has_tried_it() {
    let options =
        BreakerOptions { failures: 2, pause: Duration::from_millis(300), ..BreakerOptions::default() };
    let breakers = Breakers::new(options);
    let gone = HttpReply::new(404, "");
    let (endpoint, calls) = worker(vec![gone.clone(), gone.clone(), gone, completed()]).await;
    let push = push(&endpoint).breakers(breakers.clone()).max_concurrent_dispatch(8);
    assert_eq!((push.capacity(), push.status().state.as_str()), (8, "ready"));
    for _ in 0..2 {
        push.submit(job()).await;
    }
    assert_eq!(push.capacity(), 0);
    let status = push.status();
    assert_eq!((status.state.as_str(), status.target), ("breaker open", format!("push {}", endpoint.url())));
    assert!(
        status.detail.is_some_and(|detail| detail.contains("2 failures in a row"))
            && status.retry_in.is_some()
    );
    let Submission::Unreachable(unreachable) = push.submit(job()).await else { panic!("no call") };
    assert!(unreachable.retry_in.is_some_and(|wait| wait <= options.pause), "{unreachable:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 2, "it was not called");
    for expected in [3, 4] {
        let deadline = Instant::now() + Duration::from_secs(10);
        while push.capacity() == 0 && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!((push.capacity(), push.status().state.as_str()), (1, "breaker half-open"));
        push.submit(job()).await;
        assert_eq!(calls.load(Ordering::SeqCst), expected);
    }
    assert_eq!((push.capacity(), push.status().state.as_str()), (8, "ready"));
    assert_eq!(breakers.list(), []);
}

#[tokio::test]
async fn jobs_go_to_the_workers_that_are_well() {
    let (well, calls) = worker(vec![completed()]).await;
    let (gone, full) = (closed_port().await, worker(vec![HttpReply::new(503, "")]).await);
    let urls = [gone, full.0.url(), well.url()];
    let push = HttpPush::to_any_of(urls.iter().map(String::as_str)).unwrap();
    for _ in 0..50 {
        assert_eq!(push.submit(job()).await, done(), "each job is taken at once");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 50);
    assert!(
        (5..15).contains(&full.1.load(Ordering::SeqCst)),
        "the others are left out: {full:?}",
        full = full.1
    );
    assert_eq!(push.capacity(), CAPACITY);
    assert_eq!(push.status().state, "2 of 3 endpoints suspended");
}

#[tokio::test]
async fn a_worker_that_hangs_gets_no_more_than_its_share() {
    let hanging = Arc::new(AtomicUsize::new(0));
    let counted = hanging.clone();
    let hangs = HttpEndpoint::start(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::future::pending::<HttpReply>()
    });
    let (hangs, (well, _)) = (hangs.await.unwrap(), worker(vec![completed()]).await);
    let urls = [hangs.url(), well.url()];
    let push = HttpPush::to_any_of(urls.iter().map(String::as_str)).unwrap();
    let mut completed = 0;
    let mut open = Vec::new();
    for _ in 0..40 {
        let call = tokio::spawn(push.submit(job()));
        let deadline = Instant::now() + Duration::from_secs(10);
        let before = hanging.load(Ordering::SeqCst);
        while !call.is_finished() && hanging.load(Ordering::SeqCst) == before && Instant::now() < deadline {
            sleep(Duration::from_millis(1)).await;
        }
        if call.is_finished() { completed += 1 } else { open.push(call) }
    }
    assert!(completed >= 38, "one or two hang, and all others go to the other worker: {completed}");
    open.iter().for_each(|call| call.abort());
}

#[test]
fn a_url_is_http_and_has_no_password() {
    for good in ["https://billing.internal/jobs", "http://10.0.0.7:8080", "http://[::1]:80/x?y=z"] {
        assert!(HttpPush::new(good).is_ok(), "{good}");
    }
    for bad in ["", "billing", "/jobs", "ftp://x/", "https://", "https://ann:hunter2@x/", "https://ann@x/"] {
        let error = HttpPush::new(bad).expect_err(bad).to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
    assert!(HttpPush::to_any_of([]).is_err());
    let push = HttpPush::new("https://x/jobs?key=hunter2").unwrap();
    assert_eq!(push.status().target, "push https://x/jobs");
    assert!(!format!("{push:?}").contains("hunter2"));
    assert!(push.callback("https://jobs.example.com/?a=b").is_err());
}
