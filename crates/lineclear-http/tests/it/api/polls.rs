//! Polls that wait: they use up nothing that others need, end with the server, and take nothing when their client has gone.

use std::time::{Duration, Instant};

use lineclear_http::Access;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::claims::{Worker, enqueue};
use crate::kit::Served;

/// Sends a poll, and does not read the response.
async fn poll(served: &Served, kind: &str, token: Option<&str>) -> TcpStream {
    let worker = Worker::new(served, &[kind]);
    let body = worker.body(json!({"wait_ms": 60_000})).to_string();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "POST /api/v1/claims HTTP/1.1\r\nHost: {}\r\n{token}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        served.address,
        body.len()
    );
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// The whole response.
async fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    let read = stream.read_to_string(&mut text);
    tokio::time::timeout(Duration::from_secs(30), read).await.expect("an answer").unwrap();
    text
}

/// Waits until so many workers have registered.
async fn registered(served: &Served, workers: usize) {
    for _ in 0..600 {
        if served.store().nodes(1_000).await.unwrap().len() == workers + 1 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{workers} workers did not register: {:?}", served.store().nodes(1_000).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_that_wait_leave_connections_and_requests_for_others() {
    let served = Served::sqlite_with(|http| {
        http.access = Access::Tokens;
        http.limits.connections = 6;
        http.limits.requests_per_principal = 2;
    })
    .await;
    let (token, admin) = (served.token("worker").await, served.token("admin").await);
    let mut polls = Vec::new();
    for n in 1..=12 {
        polls.push(poll(&served, "invoice", Some(&token)).await);
        registered(&served, n).await;
    }
    let worker = Worker::new(&served, &["refund"]).with_token(&token);
    let own = worker.pull_with(json!({"wait_ms": 0})).await;
    assert_eq!(own.status, 200, "its token has requests left: {own:?}");
    for _ in 0..10 {
        assert_eq!(served.with(&admin, "GET", "/api/v1/jobs", "").await.status, 200, "so have others");
    }
    assert_eq!(served.get("/readyz").await.status, 200);
    let made = served.with(&admin, "POST", "/api/v1/jobs", r#"{"kind": "invoice"}"#).await;
    assert_eq!(made.status, 201, "{made:?}");
    // One of them gets the job.
    let texts = polls.into_iter().map(|stream| tokio::spawn(answer(stream))).collect::<Vec<_>>();
    let (first, _, rest) = futures_util::future::select_all(texts).await;
    let first = first.unwrap();
    assert!(first.starts_with("HTTP/1.1 200") && first.contains("\"invoice\""), "{first}");
    assert!(rest.iter().all(|task| !task.is_finished()), "the others wait");
    served.end().await;
}

/// Asks with short polls until one is refused; returns how. A short poll may wait where one of `polls` was to wait: that one is then
/// refused, and sent again.
async fn refused(served: &Served, polls: &mut [(TcpStream, &String)], token: &str) -> (u16, String) {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        for (stream, token) in polls.iter_mut() {
            if stream.try_read(&mut [0]).is_ok() {
                *stream = poll(served, "invoice", Some(token)).await;
            }
        }
        let worker = Worker::new(served, &["invoice"]).with_token(token);
        let answer = worker.pull_with(json!({"wait_ms": 1})).await;
        if answer.status != 200 || Instant::now() > deadline {
            return (answer.status, answer.code());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_so_many_polls_wait() {
    let served = Served::sqlite_with(|http| {
        http.access = Access::Tokens;
        http.limits.polls = 3;
        http.limits.polls_per_principal = 2;
    })
    .await;
    let (token, admin) = (served.token("worker").await, served.token("admin").await);
    let body = json!({"name": "other", "scopes": ["worker"]}).to_string();
    let other = served.with(&admin, "POST", "/api/v1/tokens", &body).await.json()["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut polls = Vec::new();
    for _ in 0..2 {
        polls.push((poll(&served, "invoice", Some(&token)).await, &token));
    }
    assert_eq!(refused(&served, &mut polls, &token).await, (429, "polls_per_principal".to_owned()));
    polls.push((poll(&served, "invoice", Some(&other)).await, &other));
    assert_eq!(refused(&served, &mut polls, &other).await, (503, "polls_max".to_owned()));
    drop(polls);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_that_waits_is_answered_when_the_server_stops() {
    let served = Served::sqlite().await;
    let waiting = poll(&served, "invoice", None).await;
    registered(&served, 1).await;
    let begun = Instant::now();
    let waiting = tokio::spawn(answer(waiting));
    served.end().await;
    let text = waiting.await.unwrap();
    assert!(text.starts_with("HTTP/1.1 503") && text.contains("stopping"), "{text}");
    assert!(text.to_lowercase().contains("retry-after: "), "{text}");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_may_wait_longer_than_other_requests() {
    let served = Served::sqlite_with(|http| http.limits.request_timeout = Duration::from_millis(500)).await;
    let worker = Worker::new(&served, &["invoice"]);
    let answer = worker.pull_with(json!({"wait_ms": 1_500})).await;
    assert_eq!((answer.status, &answer.json()["claims"]), (200, &json!([])), "{answer:?}");
    let ran = served.post("/api/v1/run/endless?wait_ms=1500", "").await;
    assert_eq!(ran.status, 202, "{ran:?}");
    served.end().await;
}

async fn a_poll_whose_client_has_gone_takes_no_job(served: &Served) {
    let gone = poll(served, "invoice", None).await;
    registered(served, 1).await;
    drop(gone);
    let job = enqueue(served, "invoice", json!({})).await;
    // Well before a lease would end.
    let begun = Instant::now();
    let other = Worker::new(served, &["invoice"]);
    let claim = loop {
        if let Some(claim) = other.pull().await.pop() {
            break claim;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "the job is lost");
    };
    assert_eq!((&claim["job"]["id"], &claim["job"]["attempt"]), (&json!(job), &json!(1)));
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

on_each_store! {
    a_poll_whose_client_has_gone_takes_no_job
}
