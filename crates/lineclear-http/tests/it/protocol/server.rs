//! The server itself: health, headers, limits, stopping.

use std::time::Duration;

use crate::kit::Served;

async fn a_server_is_live_and_ready_until_it_stops(served: &Served) {
    assert_eq!(served.get("/livez").await.body, "ok\n");
    assert_eq!(served.get("/readyz").await.body, "ok\n");
    let nodes = served.until("/api/v1/nodes", |page| !page["items"].as_array().unwrap().is_empty()).await;
    assert_eq!(nodes["items"][0]["slots"], 4);
}

async fn every_response_has_security_headers(served: &Served) {
    for path in ["/livez", "/api/v1/jobs", "/nowhere", "/api/openapi.json"] {
        let answer = served.get(path).await;
        for (name, part) in [
            ("content-security-policy", "default-src 'none'"),
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("referrer-policy", "no-referrer"),
        ] {
            assert!(
                answer.header(name).is_some_and(|value| value.contains(part)),
                "{path}: {name}: {answer:?}"
            );
        }
    }
}

async fn a_body_that_is_too_large_or_never_comes_is_refused(served: &Served) {
    let large = format!(r#"{{"kind": "add", "input": "{}"}}"#, "x".repeat(5 * 1024 * 1024));
    let answer = served.post("/api/v1/jobs", &large).await;
    assert_eq!((answer.status, answer.code()), (413, "body_too_large".to_owned()));
    let large = format!(r#"{{"kind": "add", "input": "{}"}}"#, "x".repeat(256 * 1024));
    let answer = served.post("/api/v1/jobs", &large).await;
    assert_eq!((answer.status, answer.code()), (422, "input".to_owned()), "{answer:?}");
}

on_each_store! {
    a_server_is_live_and_ready_until_it_stops
    every_response_has_security_headers
    a_body_that_is_too_large_or_never_comes_is_refused
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_is_not_ready() {
    let mut served = Served::sqlite().await;
    served.post("/api/v1/jobs", r#"{"kind": "endless"}"#).await;
    served.until("/api/v1/jobs?q=state:running", |page| !page["items"].as_array().unwrap().is_empty()).await;
    let node = served.node.take().unwrap();
    let stopping = tokio::spawn(node.stop());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(served.get("/readyz").await.status, 503, "no new work comes here");
    assert_eq!(served.get("/livez").await.status, 200, "but it is not dead");
    stopping.abort();
    served.end().await;
}
