//! Quotas: one token or user cannot take what all share.

use std::time::Duration;

use lineclear::model::{Name, Scopes};
use lineclear::store::NewToken;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::session::{cookie, log_in};
use crate::kit::Served;

/// A request whose response does not end: the connection, and the head of the response.
async fn open(served: &Served, path: &str, header: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{header}\r\n", served.address);
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut bytes = [0; 4096];
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = tokio::time::timeout(Duration::from_secs(60), stream.read(&mut bytes)).await;
        match read.expect("an answer").unwrap() {
            0 => break,
            n => answer.extend(&bytes[..n]),
        }
    }
    (stream, String::from_utf8_lossy(&answer).into_owned())
}

/// Opens streams until one is refused: those that are open, and the refusal.
async fn take_all(served: &Served, path: impl Fn(usize) -> String, header: &str) -> (Vec<TcpStream>, String) {
    let mut held = Vec::new();
    for n in 0..300 {
        let (stream, head) = open(served, &path(n), header).await;
        if !head.starts_with("HTTP/1.1 200") {
            return (held, head);
        }
        held.push(stream);
    }
    panic!("one token has {} streams", held.len())
}

async fn one_token_cannot_take_all_event_streams(served: &Served) {
    let bearer = format!("Authorization: Bearer {}\r\n", served.token("read").await);
    let (held, refused) = take_all(served, |_| "/api/v1/events".to_owned(), &bearer).await;
    assert_eq!(held.len(), 64);
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("retry-after"), "{refused}");
    let other = format!("Authorization: Bearer {}\r\n", served.token("operate").await);
    let (_stream, head) = open(served, "/api/v1/events", &other).await;
    assert!(head.starts_with("HTTP/1.1 200"), "others have theirs: {head}");
    drop(held);
    for _ in 0..600 {
        if open(served, "/api/v1/events", &bearer).await.1.starts_with("HTTP/1.1 200") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("streams that ended still count");
}

async fn one_token_cannot_take_all_live_pages(served: &Served) {
    let token = served.token("read").await;
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let (held, refused) = take_all(served, |n| format!("/live?page=/jobs?q=id:{n}"), &bearer).await;
    assert_eq!(held.len(), 64);
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
    // A session counts as its token: another login does not give another share.
    let session = format!("Cookie: {}\r\n", cookie(&log_in(served, &token).await));
    let (_stream, head) = open(served, "/live?page=/", &session).await;
    assert!(head.starts_with("HTTP/1.1 429"), "{head}");
    let scopes = Scopes::parse("read").unwrap();
    let other = NewToken {
        name: Name::new("other").unwrap(),
        scopes,
        kinds: None,
        lives: None,
        created_by: "a test".to_owned(),
    };
    let (_, other) = served.store().create_token(other).await.unwrap();
    let (_stream, head) =
        open(served, "/live?page=/", &format!("Authorization: Bearer {}\r\n", other.expose())).await;
    assert!(head.starts_with("HTTP/1.1 200"), "others have theirs: {head}");
}

with_tokens_on_each_store! {
    one_token_cannot_take_all_event_streams
    one_token_cannot_take_all_live_pages
}
