//! The dashboard's sample manifests, on a server with default settings.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::commands::serve::{ask, serve};

/// Sends a form as a browser does.
fn submit(address: &str, path: &str, form: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAccept: text/html\r\nSec-Fetch-Site: same-origin\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn sample_manifests_are_loaded_run_and_are_removed_again() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &[]).await;
    let get = |path: &str| ask(&address, &format!("GET {path}"), "");
    assert!(get("/").contains("Load sample manifests"), "an empty database offers them");
    // The node reports its kinds with its first heartbeat.
    let end = Instant::now() + Duration::from_secs(60);
    while !get("/api/v1/nodes").contains("\"sample\"") {
        assert!(Instant::now() < end, "no node reports these kinds");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let loaded = submit(&address, "/samples", "remove=false");
    assert!(loaded.starts_with("HTTP/1.1 303"), "{loaded}");
    let listed = get("/api/v1/manifests");
    for key in ["heartbeat", "flaky", "slow", "extract", "load"] {
        assert!(listed.contains(&format!("\"sample-{key}\"")), "{key}: {listed}");
    }
    while !get("/api/v1/jobs?q=tag:sample%20state:completed").contains("sample-") {
        assert!(Instant::now() < end, "{}", get("/api/v1/jobs"));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(get("/samples").contains("Remove the sample manifests?"));
    let removed = submit(&address, "/samples", "remove=true");
    assert!(removed.starts_with("HTTP/1.1 303"), "{removed}");
    assert!(!get("/api/v1/manifests").contains("\"sample-"));
    assert!(submit(&address, "/samples", "remove=perhaps").starts_with("HTTP/1.1 4"));
}
