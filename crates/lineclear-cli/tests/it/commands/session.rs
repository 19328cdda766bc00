//! `lineclear session`, through the real binary.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::commands::serve::serve;
use crate::run::{at, lineclear};

/// Logs a browser in, and returns its cookie.
fn log_in(address: &str, token: &str) -> String {
    let body = format!("{{\"token\": \"{token}\"}}");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /api/v1/session HTTP/1.1\r\nHost: {address}\r\nSec-Fetch-Site: same-origin\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let cookie = answer
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .unwrap_or_else(|| panic!("{answer}"));
    cookie.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn sessions_are_listed_and_ended_on_the_database_and_through_a_server() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(at(&dir, &["session", "list"]).out.lines().count(), 1, "there is no database yet");
    let boss = at(&dir, &["token", "create", "boss", "--scope", "admin"]).out.trim().to_owned();
    let (_server, address) = serve(&dir, &["--auth", "token"]).await;
    let cookies = [log_in(&address, &boss), log_in(&address, &boss)];
    let listed = at(&dir, &["session", "list"]);
    assert_eq!(listed.out.lines().next(), Some("ID\tTOKEN\tADDRESS\tCREATED\tEXPIRES"), "{}", listed.err);
    let ids: Vec<String> =
        listed.out.lines().skip(1).map(|line| line.split('\t').next().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 2, "{}", listed.out);
    assert!(listed.out.contains("boss\t127.0.0.1\t"), "{}", listed.out);
    for cookie in &cookies {
        assert!(!listed.out.contains(&cookie.split_once('=').unwrap().1[..8]), "no secret: {}", listed.out);
    }
    let revoked = at(&dir, &["session", "revoke", &ids[0]]);
    assert!(
        revoked.code == Some(0) && revoked.out.contains("ended session"),
        "{}{}",
        revoked.out,
        revoked.err
    );
    assert_eq!(at(&dir, &["session", "revoke", &ids[0]]).code, Some(3), "it is over");
    let server = format!("http://{address}");
    let through = ["session", "revoke", &ids[1], "--server", &server, "--token", &boss];
    let ended = lineclear(&through);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_eq!(at(&dir, &["session", "list"]).out.lines().count(), 1);
    let statuses = cookies.map(|cookie| {
        let mut stream = TcpStream::connect(&address).unwrap();
        let head = format!(
            "GET /api/v1/session HTTP/1.1\r\nHost: x\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    });
    assert_eq!(statuses, ["401", "401"], "both browsers are logged out");
}
