//! Attacks on a real server: silent connections, and wrong tokens.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

use lineclear_testkit::Program;

use super::serve::serve;
use crate::run::at;

const SILENT: usize = 5_000;
const LONG: Duration = Duration::from_secs(60);

/// Lets this process open enough sockets.
fn allow_sockets() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(65_536, |most| most.min(65_536));
    assert!(
        wanted > SILENT as u64 + 500,
        "this test needs more open files: raise the hard limit (ulimit -Hn)"
    );
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).unwrap();
}

/// Sends a request, and reads the response until the server closes.
fn send(address: &str, head: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    stream.write_all(format!("{head}\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Both probes answer, and quickly.
async fn probes_answer(address: &str) {
    for path in ["/livez", "/readyz"] {
        let (address, began) = (address.to_owned(), Instant::now());
        let answer = tokio::task::spawn_blocking(move || send(&address, &format!("GET {path} HTTP/1.1")))
            .await
            .unwrap();
        let took = began.elapsed();
        assert!(answer.as_ref().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200")), "{path}: {answer:?}");
        assert!(took < Duration::from_secs(10), "{path} took {took:?}");
    }
}

/// Opens silent connections; every second one begins a request, and does not end it.
async fn flood(address: &str, sources: &[Ipv4Addr]) {
    allow_sockets();
    let server: SocketAddr = address.parse().unwrap();
    let mut held = Vec::new();
    for n in 0..SILENT {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((sources[n % sources.len()], 0))).unwrap();
        let mut stream =
            tokio::time::timeout(LONG, socket.connect(server)).await.expect("it is accepted").unwrap();
        if n % 2 == 0 {
            let _ = stream.write_all(b"GET /livez HTTP/1.1\r\nX-Slow: ").await;
        }
        held.push(stream);
        if n % 1_000 == 999 {
            probes_answer(address).await;
        }
    }
    for _ in 0..5 {
        probes_answer(address).await;
    }
    assert_eq!(held.len(), SILENT);
}

async fn probes_answer_during_a_flood_from(sources: &[Ipv4Addr]) {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, address) = serve(&dir, &[]).await;
    flood(&address, sources).await;
    let metrics = send(&address, "GET /metrics HTTP/1.1").unwrap();
    let closed = metrics
        .lines()
        .find(|line| line.starts_with("lineclear_connections_closed_total{reason=\"silent\"}"));
    let closed: usize =
        closed.unwrap_or_else(|| panic!("{metrics}")).rsplit(' ').next().unwrap().parse().unwrap();
    assert!(closed > SILENT / 2, "{closed}");
    child.terminate().unwrap();
    assert!(child.wait_for_exit(LONG).await.unwrap().success());
    let log = child.stderr();
    let said = log.iter().filter(|line| line.contains("the limit of connections is reached")).count();
    assert!((1..=20).contains(&said), "it is logged, and folded: {said} of {} lines", log.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_answer_under_5000_silent_connections_of_one_address() {
    probes_answer_during_a_flood_from(&[Ipv4Addr::LOCALHOST]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_answer_under_5000_silent_connections_of_many_addresses() {
    let sources: Vec<Ipv4Addr> = (1..=250).map(|n| Ipv4Addr::new(127, 0, 0, n)).collect();
    probes_answer_during_a_flood_from(&sources).await;
}

/// The system allows fewer files than there are connections.
#[tokio::test(flavor = "multi_thread")]
async fn probes_answer_under_5000_silent_connections_with_few_open_files() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("ulimit -n 700; exec {} serve --port 0", env!("CARGO_BIN_EXE_lineclear"));
    let child = Program::at("/bin/sh").args(["-c", &script]).current_dir(dir.path());
    let child = child.env("XDG_CONFIG_HOME", dir.path().join("none")).start().unwrap();
    let line = child.wait_for_line("API  http://", LONG).await.unwrap();
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    assert!(child.stderr().iter().any(|line| line.contains("700 files")), "{:?}", child.stderr());
    flood(&address, &[Ipv4Addr::LOCALHOST]).await;
}

#[tokio::test]
async fn failed_authentication_is_logged_without_the_secret_folded_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let made = at(&dir, &["token", "create", "ci", "--scope", "read"]).out.trim().to_owned();
    let (mut child, address) = serve(&dir, &["--auth", "token"]).await;
    let (head, secret) = made.rsplit_once('_').unwrap();
    let prefix = head.rsplit_once('_').unwrap().1;
    let wrong = "0123456789abcdef".repeat(4);
    let ask = |authorization: &str| {
        send(&address, &format!("GET /api/v1/jobs HTTP/1.1\r\nAuthorization: Bearer {authorization}"))
            .unwrap()
    };
    assert!(ask("canary-of-no-form").starts_with("HTTP/1.1 401"));
    assert!(ask(&format!("{head}_{wrong}")).starts_with("HTTP/1.1 401"));
    assert!(send(&address, "GET /api/v1/jobs HTTP/1.1").unwrap().starts_with("HTTP/1.1 401"));
    assert!(ask(&made).starts_with("HTTP/1.1 200"));
    for n in 0..500 {
        let refused = ask(&format!("lc_{n:010x}_{wrong}"));
        assert!(refused.starts_with("HTTP/1.1 401") || refused.starts_with("HTTP/1.1 429"), "{refused}");
    }
    let metrics = send(&address, &format!("GET /metrics HTTP/1.1\r\nAuthorization: Bearer {made}")).unwrap();
    let count = |reason: &str| -> u64 {
        let name = format!("lineclear_auth_failures_total{{reason=\"{reason}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |number| number.parse().unwrap())
    };
    assert_eq!((count("malformed"), count("wrong_secret"), count("no_credentials")), (1, 1, 1), "{metrics}");
    assert_eq!(count("unknown") + count("locked_out"), 500, "{metrics}");
    assert!(count("unknown") >= 8 && count("locked_out") >= 400, "{metrics}");
    child.terminate().unwrap();
    assert!(child.wait_for_exit(LONG).await.unwrap().success());
    let log = child.stderr();
    let said: Vec<&String> = log.iter().filter(|line| line.contains("authentication failed")).collect();
    assert!((3..=120).contains(&said.len()), "{} lines: {said:?}", said.len());
    let has = |parts: &[&str]| said.iter().any(|line| parts.iter().all(|part| line.contains(part)));
    assert!(has(&["127.0.0.1", "malformed"]), "{said:?}");
    assert!(has(&["127.0.0.1", "wrong_secret", prefix, "ci"]), "{said:?}");
    assert!(has(&["locked_out"]), "{said:?}");
    let all = log.join("\n");
    for hidden in [wrong.as_str(), secret, "canary"] {
        assert!(!all.contains(hidden), "{hidden}: {all}");
    }
}
