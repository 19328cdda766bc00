//! Invalid requests, byte by byte: proxy and server must agree where a request ends.

use crate::kit::Served;

const BODY: &str = r#"{"kind": "mail.send"}"#;

async fn jobs(served: &Served) -> usize {
    served.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().len()
}

async fn a_request_with_two_lengths_is_refused(served: &Served) {
    let host = served.address;
    let json = "Content-Type: application/json\r\nConnection: close";
    // A proxy that believes the other header would take the rest for a second request.
    let smuggled = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nHost: {host}\r\n{json}\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /livez HTTP/1.1\r\n\r\n"
    );
    let answer = served.raw(smuggled.as_bytes()).await;
    assert!(!answer.body.contains("HTTP/1.1"), "one answer: {answer:?}");
    assert!((400..500).contains(&answer.status), "{answer:?}");
    let two_lengths = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nHost: {host}\r\n{json}\r\nContent-Length: {}\r\nContent-Length: 0\r\n\r\n{BODY}",
        BODY.len()
    );
    assert_eq!(served.raw(two_lengths.as_bytes()).await.status, 400);
    let no_number =
        format!("POST /api/v1/jobs HTTP/1.1\r\nHost: {host}\r\n{json}\r\nContent-Length: +5\r\n\r\n{BODY}");
    assert_eq!(served.raw(no_number.as_bytes()).await.status, 400);
    let other_encoding = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nHost: {host}\r\n{json}\r\nTransfer-Encoding: gzip\r\n\r\n{BODY}"
    );
    let answer = served.raw(other_encoding.as_bytes()).await;
    assert!((400..500).contains(&answer.status), "{answer:?}");
    assert_eq!(jobs(served).await, 0);
}

async fn hosts_that_contradict_each_other_are_refused(served: &Served) {
    let host = served.address;
    let two = format!(
        "GET /api/v1/jobs HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    );
    let answer = served.raw(two.as_bytes()).await;
    assert!((400..500).contains(&answer.status), "{answer:?}");
    let absolute =
        format!("GET http://evil.example/api/v1/jobs HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    assert_eq!(served.raw(absolute.as_bytes()).await.status, 421);
    let ours = format!("GET http://{host}/livez HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    assert_eq!(served.raw(ours.as_bytes()).await.status, 200);
    let none = "GET /api/v1/jobs HTTP/1.1\r\nConnection: close\r\n\r\n";
    assert_eq!(served.raw(none.as_bytes()).await.status, 421, "a request without a host");
}

async fn unusual_but_valid_requests_are_answered(served: &Served) {
    let host = served.address;
    let old = format!("GET /livez HTTP/1.0\r\nHost: {host}\r\n\r\n");
    assert_eq!(served.raw(old.as_bytes()).await.status, 200);
    let expects = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n{BODY}",
        BODY.len()
    );
    let answer = served.raw(expects.as_bytes()).await;
    assert!(answer.head.starts_with("HTTP/1.1 100") || answer.status == 201, "{answer:?}");
    assert_eq!(jobs(served).await, 1);
    // The server has only JSON, and the response says so.
    let answer =
        served.send("GET", "/api/v1/jobs", &[("Accept", "text/xml"), ("Range", "bytes=0-1")], b"").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let head = served.send("HEAD", "/api/v1/jobs", &[], b"").await;
    assert_eq!((head.status, head.body.as_str()), (200, ""));
}

async fn headers_that_are_too_large_are_refused(served: &Served) {
    let host = served.address;
    let many: String = (0..10_000).map(|n| format!("X-{n}: 1\r\n")).collect();
    let many = format!("GET /livez HTTP/1.1\r\nHost: {host}\r\n{many}Connection: close\r\n\r\n");
    assert_eq!(served.raw(many.as_bytes()).await.status, 431);
    let long = "a".repeat(1024 * 1024);
    let long = format!("GET /livez HTTP/1.1\r\nHost: {host}\r\nX-Long: {long}\r\nConnection: close\r\n\r\n");
    assert_eq!(served.raw(long.as_bytes()).await.status, 431);
    let path = format!("GET /{} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", "a".repeat(70_000));
    let answer = served.raw(path.as_bytes()).await;
    assert!((400..500).contains(&answer.status), "{answer:?}");
    assert_eq!(served.get("/livez").await.status, 200);
}

on_each_store! {
    a_request_with_two_lengths_is_refused
    hosts_that_contradict_each_other_are_refused
    unusual_but_valid_requests_are_answered
    headers_that_are_too_large_are_refused
}
