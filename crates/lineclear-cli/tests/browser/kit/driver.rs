//! A minimal HTTP client for the driver: JSON requests and responses.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// The longest response time: a browser that starts on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// Sends a request to a local server; returns the status and the body.
pub(crate) fn ask(
    port: u16,
    method: &str,
    path: &str,
    body: Option<&Value>,
    token: Option<&str>,
) -> std::io::Result<(u16, Value)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(WITHIN))?;
    let body = body.filter(|body| !body.is_null()).map(Value::to_string).unwrap_or_default();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{token}Connection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;
    let mut answer = Vec::new();
    let mut bytes = [0; 65536];
    // The driver does not always close the connection: read exactly the announced length.
    while !is_whole(&answer) {
        match stream.read(&mut bytes)? {
            0 => break,
            count => answer.extend_from_slice(&bytes[..count]),
        }
    }
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    Ok((status, serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()))))
}

fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    length
        .and_then(|length| length.trim().parse::<usize>().ok())
        .is_some_and(|length| answer.len() >= end + 4 + length)
}
