//! `lineclear health`: each result has its own exit code, because probes do not read the output.

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use lineclear_testkit::Program;

use crate::run::command;

/// The exit code, and the whole output.
fn health(arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(&[&["health"], arguments].concat()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn a_server_is_healthy_until_it_stops() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args(["serve", "--port", "0"])
        .current_dir(dir.path())
        .start()
        .unwrap();
    let line = server.wait_for_line("API  http://", Duration::from_secs(60)).await.unwrap();
    let port = line.split("http://127.0.0.1:").nth(1).unwrap().split('/').next().unwrap();
    assert_eq!(health(&["--port", port]), (Some(0), "ok\n".to_owned()));
    assert_eq!(health(&["--port", port, "--live"]), (Some(0), "ok\n".to_owned()));
    let (code, said) = health(&["--port", port, "--bind", "0.0.0.0", "--json"]);
    assert_eq!(code, Some(0), "a server on all addresses is reached at a loopback address: {said}");
    assert!(said.contains(r#""healthy":true"#), "{said}");
    server.terminate().unwrap();
    server.wait_for_exit(Duration::from_secs(60)).await.unwrap();
    let (code, said) = health(&["--port", port]);
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("lineclear serve"), "{said}");
}

/// A server that answers every request with these bytes, or not at all.
fn made_up(answer: Option<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            if let Some(answer) = answer {
                stream.write_all(answer.as_bytes()).unwrap();
                let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
            } else {
                kept.push(stream);
            }
        }
    });
    port
}

#[test]
fn a_server_that_is_not_ready_is_unhealthy() {
    let port = made_up(Some("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 10\r\n\r\nnot ready\n"));
    assert_eq!(health(&["--port", &port]), (Some(10), "not ready\n".to_owned()));
}

#[test]
fn a_server_that_does_not_respond_is_a_timeout() {
    let (code, said) = health(&["--port", &made_up(None), "--timeout", "200ms"]);
    assert_eq!(code, Some(7), "{said}");
    assert!(said.contains("200ms"), "{said}");
}

#[test]
fn a_port_without_http_is_unreachable() {
    let (code, said) = health(&["--port", &made_up(Some("SSH-2.0-hello\r\n"))]);
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("the response is not HTTP"), "{said}");
}

#[test]
fn an_invalid_timeout_is_refused() {
    let (code, said) = health(&["--timeout", "soon"]);
    assert_eq!(code, Some(2), "{said}");
}
