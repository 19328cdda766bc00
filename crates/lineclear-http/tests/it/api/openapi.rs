//! The OpenAPI document matches the server.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kit::Served;

fn document() -> Value {
    serde_json::from_str(&lineclear_http::openapi()).unwrap()
}

/// A path with values for its parameters.
fn filled(path: &str) -> String {
    let path = path
        .replace("{id}", "1")
        .replace("{no}", "1")
        .replace("{key}", "missing")
        .replace("{name}", "missing");
    // Without the time to wait for the job, which has no input that it understands.
    path.replace("{kind}", "add?wait_ms=0")
}

/// `LINECLEAR_UPDATE=1` rewrites it.
#[test]
fn the_document_equals_the_kept_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
    let now = lineclear_http::openapi() + "\n";
    if std::env::var_os("LINECLEAR_UPDATE").is_some() {
        std::fs::write(path, &now).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        kept == now,
        "the API changed; if that is meant: LINECLEAR_UPDATE=1 cargo test -p lineclear-http, and say so in CHANGELOG.md"
    );
}

#[test]
fn every_operation_has_a_unique_id_and_a_description() {
    let document = document();
    let mut names = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path}"));
            assert!(names.insert(name.to_owned()), "{name} twice");
            assert!(
                operation["summary"].as_str().is_some_and(|words| words.ends_with('.')),
                "{method} {path}"
            );
            assert!(operation["responses"].get("4XX").is_some(), "{method} {path}: it may be refused");
        }
    }
    assert!(names.len() > 10);
}

/// No fixed word stands where a path has a name that users choose; ids are digits, and no fixed word begins with a digit.
#[test]
fn no_key_collides_with_a_route() {
    let document = document();
    let paths: Vec<Vec<&str>> =
        document["paths"].as_object().unwrap().keys().map(|path| path.split('/').collect()).collect();
    for path in &paths {
        for (n, segment) in path.iter().enumerate().filter(|(_, segment)| segment.starts_with('{')) {
            let beside = paths.iter().filter(|other| other.len() > n && other[..n] == path[..n]);
            let words: BTreeSet<&str> =
                beside.map(|other| other[n]).filter(|word| !word.starts_with('{')).collect();
            let is_id = *segment == "{id}"
                && words.iter().all(|word| !word.starts_with(|c: char| c.is_ascii_digit()));
            assert!(words.is_empty() || is_id, "{} hides {segment}: {words:?}", path.join("/"));
        }
    }
}

#[test]
fn the_document_pairs_each_etag_with_if_match() {
    let document = document();
    for (path, operations) in document["paths"].as_object().unwrap() {
        let has_tag = operations["get"]["responses"]["200"]["headers"].get("etag").is_some();
        for (method, operation) in operations.as_object().unwrap() {
            let takes = operation["parameters"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one["name"] == "If-Match" && one["in"] == "header"));
            let changes = ["put", "patch", "delete"].contains(&method.as_str());
            assert_eq!(takes, has_tag && changes, "{method} {path}");
            if takes && method != "delete" {
                let answers = operation["responses"].as_object().unwrap();
                let mut good = answers.iter().filter(|(status, _)| status.starts_with('2'));
                assert!(good.all(|(_, answer)| answer["headers"].get("etag").is_some()), "{method} {path}");
            }
        }
    }
}

async fn every_path_of_the_document_is_served(served: &Served) {
    for (path, operations) in document()["paths"].as_object().unwrap() {
        if path == "/api/v1/events" {
            // Its response does not end; events.rs tests it.
            continue;
        }
        let path = filled(path);
        for method in operations.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            let answer = served.send(&method, &path, &[("Content-Type", "application/json")], b"").await;
            assert_ne!(answer.status, 405, "{method} {path}");
            assert!(answer.status < 500, "{method} {path}: {answer:?}");
            let detail =
                if answer.status == 404 { answer.json()["detail"].to_string() } else { String::new() };
            assert!(!detail.contains("such path"), "{method} {path}: {answer:?}");
        }
    }
}

async fn a_body_is_required_where_the_document_requires_it_and_nowhere_else(served: &Served) {
    let mut wanted = 0;
    for (path, operations) in document()["paths"].as_object().unwrap() {
        let path = filled(path);
        for (method, operation) in operations.as_object().unwrap() {
            // A callback without its token is refused before its body is read.
            if method == "get" || operation["security"][0].get("claim").is_some() {
                continue;
            }
            let method = method.to_uppercase();
            let answer = served.send(&method, &path, &[], b"").await;
            if operation["requestBody"]["required"] == true {
                wanted += 1;
                assert_eq!(
                    (answer.status, answer.code()),
                    (400, "body_missing".to_owned()),
                    "{method} {path}"
                );
            } else {
                assert!(answer.status < 300 || answer.code() != "body_missing", "{method} {path}");
            }
        }
    }
    assert!(wanted > 10, "{wanted}");
}

/// The page runs no scripts, and loads nothing from other sites.
async fn the_page_shows_every_operation_and_loads_nothing_but_its_style(served: &Served) {
    let page = served.send("GET", "/api/docs", &[], b"").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; style-src 'self';"), "{policy}");
    for operations in document()["paths"].as_object().unwrap().values() {
        for operation in operations.as_object().unwrap().values() {
            let section = format!("<section id=\"{}\">", operation["operationId"].as_str().unwrap());
            assert!(page.body.contains(&section), "{section}");
        }
    }
    for never in ["<script", " style=", "javascript:", "http-equiv", "src="] {
        assert!(!page.body.contains(never), "{never}");
    }
    assert_eq!(page.body.matches("<link ").count(), 1);
    let style = served.send("GET", "/api/docs.css", &[], b"").await;
    assert_eq!((style.status, style.header("content-type")), (200, Some("text/css; charset=utf-8")));
    assert!(!style.body.contains("url(") && !style.body.contains("@import"));
}

on_each_store! {
    the_page_shows_every_operation_and_loads_nothing_but_its_style
    every_path_of_the_document_is_served
    a_body_is_required_where_the_document_requires_it_and_nowhere_else
}
