//! Access to an open server: this machine, by its own names, and no page of another site.

pub(crate) mod proxies;
mod quotas;
pub(crate) mod scopes;
mod security;
pub(crate) mod session;

use lineclear::Lineclear;
use lineclear_http::{HttpOptions, ServeError, Server};

use crate::kit::Served;

async fn only_host_names_of_this_machine_are_answered(served: &Served) {
    let port = served.address.port();
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        assert_eq!(served.send("GET", "/livez", &[("Host", &host)], b"").await.status, 200, "{host}");
    }
    for host in
        ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "127.9.9.9", "[::ffff:127.0.0.1]"]
    {
        let answer = served.send("GET", "/api/v1/jobs", &[("Host", host)], b"").await;
        assert_eq!((answer.status, answer.code()), (421, "wrong_host".to_owned()), "{host}");
    }
}

async fn a_host_is_read_to_its_end_and_a_url_does_not_outrank_it(served: &Served) {
    for host in
        ["[::1].evil.example", "[::1]evil.example:80", "[::1]:", "localhost:evil", "127.0.0.1:80:80", "[::1"]
    {
        let answer = served.send("GET", "/api/v1/jobs", &[("Host", host)], b"").await;
        assert_eq!(answer.status, 421, "{host}");
    }
    let port = served.address.port();
    for (url, host, status) in [
        ("localhost", "localhost", 200),
        ("127.0.0.1", "localhost", 200),
        ("localhost", "evil.example", 421),
        ("evil.example", "localhost", 421),
        ("[::1].evil.example", "localhost", 421),
    ] {
        let url = format!("http://{url}:{port}/api/v1/jobs");
        let answer = served.send("GET", &url, &[("Host", host)], b"").await;
        assert_eq!(answer.status, status, "{url} with Host: {host}");
    }
}

async fn a_page_of_another_site_changes_nothing(served: &Served) {
    let json = ("Content-Type", "application/json");
    let body = br#"{"kind": "add", "in_ms": 60000}"#;
    let host = served.address.to_string();
    let own = format!("http://{host}");
    let cases: [(&str, &str, u16); 6] = [
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Sec-Fetch-Site", "same-site", 403),
        ("Origin", "https://evil.example", 403),
        ("Origin", "null", 403),
        ("Sec-Fetch-Site", "same-origin", 201),
        ("Origin", &own, 201),
    ];
    for (name, value, status) in cases {
        let answer = served.send("POST", "/api/v1/jobs", &[json, (name, value)], body).await;
        assert_eq!(answer.status, status, "{name}: {value}");
    }
    let made = served.get("/api/v1/jobs").await.json()["items"].as_array().unwrap().len();
    assert_eq!(made, 2, "only the accepted requests created jobs");
    let read = served.send("GET", "/api/v1/jobs", &[("Sec-Fetch-Site", "cross-site")], b"").await;
    assert_eq!(read.status, 200, "without CORS headers the page cannot read it");
    assert_eq!(read.header("access-control-allow-origin"), None);
}

on_each_store! {
    a_host_is_read_to_its_end_and_a_url_does_not_outrank_it
    only_host_names_of_this_machine_are_answered
    a_page_of_another_site_changes_nothing
}

#[tokio::test]
async fn a_server_without_authentication_refuses_public_addresses() {
    let node = Lineclear::builder().store(":memory:").start().await.unwrap();
    for bind in ["0.0.0.0:0", "[::]:0"] {
        let options = HttpOptions { bind: bind.parse().unwrap(), ..HttpOptions::default() };
        let refused = Server::bind(options, node.client(), None).await;
        assert!(matches!(refused, Err(ServeError::Access(_))), "{bind}: {refused:?}");
    }
    node.stop().await;
}
