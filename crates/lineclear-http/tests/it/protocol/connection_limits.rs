//! Limits of connections: too slow, too large, too many.

use std::time::{Duration, Instant};

use lineclear_http::{Access, ListenerLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::kit::Served;

const SHORT: Duration = Duration::from_millis(400);
const LONG: Duration = Duration::from_secs(20);

async fn served(change: impl FnOnce(&mut ListenerLimits)) -> Served {
    Served::sqlite_with(|http| change(&mut http.limits)).await
}

/// Reads until the server closes the connection; returns the text and the time.
async fn rest(stream: &mut TcpStream) -> (String, Duration) {
    let began = Instant::now();
    let mut bytes = Vec::new();
    // A reset also ends it.
    let _ = tokio::time::timeout(LONG, stream.read_to_end(&mut bytes)).await.expect("the server closes");
    (String::from_utf8_lossy(&bytes).into_owned(), began.elapsed())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_drips_is_cut_off() {
    let served = served(|limits| limits.head_timeout = SHORT).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let began = Instant::now();
    // One byte at a time: it is never idle.
    let dripping = async {
        for byte in b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ".iter().cycle() {
            if stream.write_all(&[*byte]).await.is_err() || began.elapsed() > LONG {
                break;
            }
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    };
    dripping.await;
    assert!(began.elapsed() < LONG, "it was let drip for {:?}", began.elapsed());
    assert_eq!(served.get("/livez").await.status, 200, "others do not notice");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_drips_is_answered_before_it_ends() {
    let served = served(|limits| limits.request_timeout = SHORT).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{",
        served.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (answer, took) = rest(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains(r#""code":"too_slow""#), "{answer}");
    assert!(answer.contains("application/problem+json"), "{answer}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(served.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().len(), 0);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_is_closed_and_an_active_one_is_kept() {
    let served = served(|limits| limits.idle_timeout = Duration::from_millis(1500)).await;
    let mut idle = TcpStream::connect(served.address).await.unwrap();
    let mut busy = TcpStream::connect(served.address).await.unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        busy.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut bytes = [0; 2048];
        let read = busy.read(&mut bytes).await.unwrap();
        assert!(String::from_utf8_lossy(&bytes[..read]).starts_with("HTTP/1.1 200"));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let (nothing, took) = rest(&mut idle).await;
    assert_eq!(
        (nothing.as_str(), took < Duration::from_secs(1)),
        ("", true),
        "it was closed meanwhile: {took:?}"
    );
    let (_, took) = rest(&mut busy).await;
    assert!(took > Duration::from_millis(500), "an answer begins the time anew");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_its_responses_is_disconnected() {
    let served = served(|limits| limits.idle_timeout = SHORT).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let request = "GET /api/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(200);
    let writing = async {
        // It requests megabytes, and reads none of them.
        while stream.write_all(request.as_bytes()).await.is_ok() {}
    };
    tokio::time::timeout(LONG, writing).await.expect("the server closes");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_of_64_kib_is_refused_and_one_of_8_is_not() {
    let served = served(|_| ()).await;
    let large = "x".repeat(64 * 1024);
    let answer = served.send("GET", "/livez", &[("X-Large", &large)], b"").await;
    assert_eq!(answer.status, 431, "{}", answer.head);
    let many = vec![("X-Many", "x"); 200];
    assert_eq!(served.send("GET", "/livez", &many, b"").await.status, 431);
    let fair = "x".repeat(8 * 1024);
    assert_eq!(served.send("GET", "/livez", &[("X-Fair", &fair)], b"").await.status, 200);
    served.end().await;
}

/// Sends a request, and reads the first bytes of the response.
async fn first_bytes(served: &Served, request: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let _ = stream.write_all(format!("{request}\r\nHost: localhost\r\n\r\n").as_bytes()).await;
    let mut bytes = [0; 4096];
    let read = tokio::time::timeout(LONG, stream.read(&mut bytes)).await.expect("an answer").unwrap_or(0);
    (stream, String::from_utf8_lossy(&bytes[..read]).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_requests_at_once_are_refused_until_one_ends_and_probes_are_answered() {
    let served = served(|limits| limits.connections = 8).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        let (stream, answer) = first_bytes(&served, "GET /api/v1/events HTTP/1.1").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        held.push(stream);
    }
    for _ in 0..300 {
        let (mut stream, answer) = first_bytes(&served, "GET /api/v1/jobs HTTP/1.1").await;
        assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("connections_max"), "{answer}");
        assert!(
            answer.to_lowercase().contains("retry-after") && rest(&mut stream).await.1 < LONG,
            "{answer}"
        );
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(served.get(path).await.status, 200, "{path}");
    }
    drop(held);
    let began = Instant::now();
    while !first_bytes(&served, "GET /api/v1/jobs HTTP/1.1").await.1.starts_with("HTTP/1.1 200") {
        assert!(began.elapsed() < LONG, "no room again");
    }
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_on_all_connections_do_not_hide_the_probes() {
    let served = Served::sqlite_with(|http| {
        http.access = Access::Tokens;
        http.limits.connections = 8;
    });
    let served = served.await;
    let mut held = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let head = "POST /api/v1/session HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{";
        let _ = stream.write_all(head.as_bytes()).await;
        held.push(stream);
    }
    for path in ["/livez", "/readyz"] {
        assert_eq!(served.get(path).await.status, 200, "{path}");
    }
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_connection_makes_room_for_a_new_one() {
    let served = served(|limits| limits.connections = 4).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        let (stream, answer) = first_bytes(&served, "GET /livez HTTP/1.1").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        held.push(stream);
    }
    let began = Instant::now();
    while !first_bytes(&served, "GET /api/v1/jobs HTTP/1.1").await.1.starts_with("HTTP/1.1 200") {
        assert!(began.elapsed() < LONG, "connections between two requests keep their seats");
    }
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_this_machine_are_not_limited() {
    let served = served(|_| ()).await;
    let mut held = Vec::new();
    for _ in 0..256 {
        held.push(TcpStream::connect(served.address).await.unwrap());
    }
    assert_eq!(served.get("/livez").await.status, 200);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_exceeds_its_rate_is_limited() {
    let served = Served::sqlite_with(|http| {
        http.access = Access::Tokens;
        http.limits.rate = 5;
    });
    let served = served.await;
    let token = served.token("read").await;
    let mut limited = None;
    for _ in 0..100 {
        let answer = served.with(&token, "GET", "/api/v1/nodes", "").await;
        if answer.status != 200 {
            limited = Some(answer);
            break;
        }
    }
    let answer = limited.expect("five a second are not a hundred at once");
    assert_eq!((answer.status, answer.code()), (429, "too_often".to_owned()));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(served.get("/livez").await.status, 200, "probes are not limited");
    assert_eq!(served.get("/readyz").await.status, 200, "probes are not limited");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn public_routes_are_limited_separately() {
    let served = Served::sqlite_with(|http| {
        http.access = Access::Tokens;
        http.limits.rate = 5;
    });
    let served = served.await;
    let token = served.token("read").await;
    let log_in = serde_json::json!({"token": token}).to_string();
    let ask = async |path: &str| match path {
        "/readyz" => served.get(path).await,
        _ => served.post(path, &log_in).await,
    };
    let (log_ins, readiness) = ("/api/v1/session", "/readyz");
    for (path, good, other) in [(log_ins, 201, readiness), (readiness, 200, "/livez")] {
        let mut answers = 0;
        let limited = loop {
            let answer = ask(path).await;
            if answer.status != good {
                break answer;
            }
            answers += 1;
            assert!(answers < 100, "{path}: five a second are not a hundred at once");
        };
        assert_eq!((limited.status, limited.code()), (429, "too_often".to_owned()), "{path}: {limited:?}");
        assert!(answers >= 9, "{path}: nearly two seconds' worth at once, {answers}");
        assert_eq!(served.get(other).await.status, 200, "the limit of {path} does not affect {other}");
    }
    for _ in 0..100 {
        assert_eq!(served.get("/livez").await.status, 200, "it has no rate limit");
    }
    assert_eq!(
        served.with(&token, "GET", "/api/v1/nodes", "").await.status,
        200,
        "these requests do not use up the rate of the token"
    );
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_at_an_ordinary_pace_is_never_limited() {
    let served = Served::sqlite_with(|http| {
        http.access = Access::Tokens;
        http.limits.rate = 5;
    });
    let served = served.await;
    let token = served.token("read").await;
    let others = async {
        loop {
            served.with(&token, "GET", "/api/v1/nodes", "").await;
        }
    };
    let probe = async {
        for _ in 0..12 {
            assert_eq!(
                served.get("/readyz").await.status,
                200,
                "other requests of the same machine do not block it"
            );
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    };
    tokio::select! {
        () = probe => {}
        () = others => unreachable!(),
    }
    served.end().await;
}
