//! Permissions: every route with every scope.

use std::time::Duration;

use lineclear::model::Scopes;
use lineclear::store::{NewToken, WhichToken};
use lineclear_http::{Access, HttpOptions, ProxyUsers};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::proxies::{SECRET, trusting};
use crate::kit::Served;

/// Every path and method, with the required scope; `claim`: the token of a claim; `None`: it is public.
fn routes() -> Vec<(String, String, Option<String>)> {
    lineclear_http::routes()
}

/// A path with values for its parameters.
pub(crate) fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| match part.split_once('{') {
        Some((before, rest)) => format!("{before}999999{}", rest.split_once('}').unwrap().1),
        None => part.to_owned(),
    });
    // It would wait for the end of the job.
    parts.collect::<Vec<_>>().join("/").replace("/run/999999", "/run/999999?wait_ms=0")
}

/// The status alone: some responses never end.
async fn status(served: &Served, method: &str, path: &str, token: Option<&str>) -> (u16, String) {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\n{token}Content-Type: application/json\r\nContent-Length: 5\r\nConnection: close\r\n\r\nfalse",
        served.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut bytes = [0; 4096];
    while !answer.windows(4).any(|end| end == b"\r\n\r\n") {
        let read =
            tokio::time::timeout(Duration::from_secs(30), stream.read(&mut bytes)).await.expect("an answer");
        match read.unwrap() {
            0 => break,
            n => answer.extend(&bytes[..n]),
        }
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), answer)
}

async fn every_route_needs_the_scope_that_the_document_says(served: &Served) {
    let mut tokens = vec![(None, Scopes::default())];
    for word in ["read", "operate", "admin", "worker"] {
        tokens.push((Some(served.token(word).await), Scopes::parse(word).unwrap()));
    }
    let routes = routes();
    assert!(routes.len() > 25, "{}", routes.len());
    for (method, path, need) in &routes {
        for (token, scopes) in &tokens {
            let (status, answer) = status(served, method, &filled(path), token.as_deref()).await;
            let what = format!("{method} {path} needs {need:?}, asked with {scopes}: {answer}");
            match (need, token) {
                (None, _) => assert!(status != 401 && status != 403 && status < 500, "{what}"),
                (Some(_), None) => {
                    assert_eq!(status, 401, "{what}");
                    assert!(answer.to_lowercase().contains("www-authenticate: bearer"), "{what}");
                }
                // No token of the API is the token of a claim.
                (Some(need), Some(_)) if need == "claim" => assert!([401, 429].contains(&status), "{what}"),
                (Some(need), Some(_))
                    if !scopes.include(lineclear::model::Scope::from_word(need).unwrap()) =>
                {
                    assert_eq!(status, 403, "{what}");
                    assert!(answer.contains(&format!("scope=\"{need}\"")), "{what}");
                }
                _ => assert!(status != 401 && status != 403 && status < 500, "{what}"),
            }
        }
    }
}

/// Only these are open; a new one must be added here on purpose.
#[test]
fn few_routes_are_open() {
    let mut open: Vec<String> = routes()
        .into_iter()
        .filter(|route| route.2.is_none())
        .map(|(method, path, _)| format!("{method} {path}"))
        .collect();
    open.sort();
    let expected = [
        "GET /assets/{name}",
        "GET /livez",
        "GET /login",
        "GET /readyz",
        "POST /api/v1/session",
        "POST /login",
    ];
    assert_eq!(open, expected);
}

#[test]
fn every_operation_of_the_document_declares_its_scope() {
    let document: serde_json::Value = serde_json::from_str(&lineclear_http::openapi()).unwrap();
    let known = routes();
    let mut count = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let is_known = known.iter().any(|route| route.0.eq_ignore_ascii_case(method) && route.1 == *path);
            assert!(
                is_known,
                "{method} {path} has no security(...) that is understood, and would be refused: {}",
                operation["security"]
            );
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
    assert_eq!(document["components"]["securitySchemes"]["token"]["scheme"], "bearer");
}

async fn wrong_tokens_are_refused_alike_and_ten_lock_the_address_out(served: &Served) {
    let good = served.token("read").await;
    let (head, secret) = good.rsplit_once('_').unwrap();
    let other = format!("{head}_{}", "0".repeat(secret.len()));
    let unknown = format!("lc_0000000000_{secret}");
    let mut bodies = Vec::new();
    let long = "x".repeat(5000);
    for wrong in [&other, &unknown, "x", "lc_x", &long, "lc__"] {
        let authorization = format!("Bearer {wrong}");
        let answer = served.send("GET", "/api/v1/jobs", &[("Authorization", &authorization)], b"").await;
        assert_eq!((answer.status, answer.code()), (401, "unauthorized".to_owned()), "{wrong}: {answer:?}");
        assert!(
            answer.header("www-authenticate").is_some_and(|value| value.starts_with("Bearer")),
            "{answer:?}"
        );
        let mut body = answer.json();
        body.as_object_mut().unwrap().remove("request_id");
        bodies.push(body);
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    for _ in 0..4 {
        assert_eq!(status(served, "GET", "/api/v1/jobs", Some(&unknown)).await.0, 401);
    }
    let answer =
        served.send("GET", "/api/v1/jobs", &[("Authorization", &format!("Bearer {unknown}"))], b"").await;
    assert_eq!((answer.status, answer.code()), (429, "too_many_failures".to_owned()), "{answer:?}");
    let wait: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let (limited, _) = status(served, "GET", "/api/v1/jobs", Some(&good)).await;
    assert_eq!(limited, 429, "a valid token that was not used recently is refused, too");
}

async fn a_known_client_is_not_locked_out_by_a_failing_one(served: &Served) {
    let good = served.token("read").await;
    assert_eq!(status(served, "GET", "/api/v1/jobs", Some(&good)).await.0, 200);
    for _ in 0..12 {
        status(served, "GET", "/api/v1/jobs", Some("x")).await;
    }
    assert_eq!(status(served, "GET", "/api/v1/jobs", Some("x")).await.0, 429);
    assert_eq!(status(served, "GET", "/api/v1/jobs", Some(&good)).await.0, 200);
}

async fn a_revoked_token_is_refused_within_five_seconds(served: &Served) {
    let token = served.token("read").await;
    assert_eq!(status(served, "GET", "/api/v1/jobs", Some(&token)).await.0, 200);
    // Directly in the database, so that the server is not notified.
    served.store().revoke_token(WhichToken::Name("read".to_owned())).await.unwrap().unwrap();
    let revoked = std::time::Instant::now();
    while status(served, "GET", "/api/v1/jobs", Some(&token)).await.0 == 200 {
        assert!(revoked.elapsed() < Duration::from_secs(5), "still good after {:?}", revoked.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(status(served, "GET", "/api/v1/jobs", Some(&token)).await.0, 401);
}

async fn an_expired_token_is_refused(served: &Served) {
    let lives = Some(Duration::from_millis(1500));
    let scopes = Scopes::parse("read").unwrap();
    let name = lineclear::model::Name::new("short").unwrap();
    let token = NewToken { name, scopes, kinds: None, lives, created_by: "a test".to_owned() };
    let (_, secret) = served.store().create_token(token).await.unwrap();
    let made = std::time::Instant::now();
    assert_eq!(status(served, "GET", "/api/v1/jobs", Some(secret.expose())).await.0, 200);
    while status(served, "GET", "/api/v1/jobs", Some(secret.expose())).await.0 == 200 {
        assert!(made.elapsed() < Duration::from_secs(3), "still good after {:?}", made.elapsed());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn tokens_are_made_listed_and_revoked_over_http(served: &Served) {
    let admin = served.token("admin").await;
    let with = async |method: &str, path: &str, token: &str, body: &str| {
        served.with(token, method, path, body).await
    };
    let body = r#"{"name": "ci", "scopes": ["read"], "expires_in_ms": 3600000}"#;
    let made = with("POST", "/api/v1/tokens", &admin, body).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!((&made.json()["created_by"], &made.json()["live"]), (&"token:admin".into(), &true.into()));
    let (token, place) =
        (made.json()["token"].as_str().unwrap().to_owned(), made.header("location").unwrap().to_owned());
    assert_eq!(with("GET", "/api/v1/jobs", &token, "").await.status, 200);
    let taken = with("POST", "/api/v1/tokens", &admin, body).await;
    assert_eq!((taken.status, taken.code()), (409, "token_name".to_owned()));
    for (bad, pointer) in [
        (r#"{"name": "Ci", "scopes": ["read"]}"#, "/name"),
        (r#"{"name": "a", "scopes": ["root"]}"#, "/scopes"),
        (r#"{"name": "a", "scopes": []}"#, "/scopes"),
    ] {
        let refused = with("POST", "/api/v1/tokens", &admin, bad).await;
        assert_eq!(
            (refused.status, &refused.json()["errors"][0]["pointer"]),
            (422, &pointer.into()),
            "{bad}"
        );
    }
    let listed = with("GET", "/api/v1/tokens", &admin, "").await;
    assert!(
        listed.body.contains("\"ci\"") && !listed.body.contains(token.rsplit('_').next().unwrap()),
        "{listed:?}"
    );
    let shown = with("GET", &place, &admin, "").await;
    assert_eq!(
        (shown.status, &shown.json()["name"]),
        (200, &"ci".into()),
        "the `Location` leads to it: {shown:?}"
    );
    assert!(!shown.body.contains(token.rsplit('_').next().unwrap()), "{shown:?}");
    assert_eq!(with("GET", "/api/v1/tokens/999999", &admin, "").await.status, 404);
    assert_eq!(with("DELETE", &place, &admin, "").await.status, 204);
    assert_eq!(with("GET", &place, &admin, "").await.json()["live"], false, "it is revoked");
    assert_eq!(
        with("GET", "/api/v1/jobs", &token, "").await.status,
        401,
        "the server that revoked it refuses it at once"
    );
    assert_eq!(with("DELETE", &place, &admin, "").await.status, 404);
}

async fn a_token_expires_after_90_days_unless_its_creator_says_otherwise(served: &Served) {
    let admin = served.token("admin").await;
    let life = async |body: &str| {
        let made = served.with(&admin, "POST", "/api/v1/tokens", body).await;
        assert_eq!(made.status, 201, "{made:?}");
        let at = |name: &str| made.json()[name].as_str().map(|text| text.parse::<jiff::Timestamp>().unwrap());
        at("expires_at").map(|end| end.as_second() - at("created_at").unwrap().as_second())
    };
    assert_eq!(life(r#"{"name": "a", "scopes": ["read"]}"#).await, Some(90 * 86_400));
    assert_eq!(life(r#"{"name": "b", "scopes": ["read"], "expires_in_ms": 3600000}"#).await, Some(3_600));
    assert_eq!(life(r#"{"name": "c", "scopes": ["read"], "expires_in_ms": null}"#).await, None);
}

async fn a_trusted_proxy_names_the_user(served: &Served) {
    // The server of this test trusts 127.0.0.1.
    let ask = async |headers: &[(&str, &str)], path: &str| {
        served.send("GET", path, &[&[SECRET], headers].concat(), b"").await
    };
    let ada = ("X-Forwarded-User", "ada");
    assert_eq!(ask(&[ada, ("X-Groups", "staff, lineclear-read")], "/api/v1/jobs").await.status, 200);
    let lacking = ask(&[ada, ("X-Groups", "staff,lineclear-read")], "/api/v1/tokens").await;
    assert_eq!((lacking.status, lacking.code()), (403, "scope".to_owned()));
    assert!(lacking.body.contains("proxy:ada has read"), "{lacking:?}");
    let blank = ask(&[ada, ("X-Groups", "not lineclear-read")], "/api/v1/jobs").await;
    assert_eq!(blank.status, 403, "the name of a group may contain blanks: this is another group");
    assert_eq!(ask(&[ada], "/api/v1/jobs").await.status, 403, "no group, no scope");
    assert_eq!(ask(&[("X-Groups", "lineclear-admin")], "/api/v1/jobs").await.status, 401, "no user");
    assert_eq!(
        ask(&[ada, ada, ("X-Groups", "lineclear-admin")], "/api/v1/jobs").await.status,
        401,
        "two users"
    );
    let token = served.token("operate").await;
    assert_eq!(status(served, "GET", "/api/v1/jobs", Some(&token)).await.0, 200, "tokens still work");
}

async fn idempotency_keys_are_scoped_to_the_client(served: &Served) {
    let (one, other) = (served.token("operate").await, served.token("admin").await);
    let make = async |token: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Idempotency-Key", "k1"),
        ];
        let made =
            served.send("POST", "/api/v1/jobs", &headers, br#"{"kind": "add", "in_ms": 600000}"#).await;
        made.json()["id"].as_str().unwrap().to_owned()
    };
    let first = make(&one).await;
    assert_eq!(make(&one).await, first, "the same client");
    assert_ne!(make(&other).await, first, "another client");
}

fn users(network: &str) -> HttpOptions {
    let access = Access::ProxyUsers(ProxyUsers {
        scopes_header: Some("X-Groups".to_owned()),
        ..ProxyUsers::default()
    });
    HttpOptions { access, trusted_proxies: trusting(network), ..HttpOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trusted_proxy_is_believed() {
    let served = Served::sqlite_with(|http| {
        let HttpOptions { access, trusted_proxies, .. } = users("127.0.0.0/8");
        (http.access, http.trusted_proxies) = (access, trusted_proxies);
    })
    .await;
    a_trusted_proxy_names_the_user(&served).await;
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarded_headers_of_other_peers_are_ignored() {
    for options in [users("192.0.2.0/24"), HttpOptions { access: Access::Tokens, ..HttpOptions::default() }] {
        let HttpOptions { access, trusted_proxies, .. } = options;
        let served =
            Served::sqlite_with(|http| (http.access, http.trusted_proxies) = (access, trusted_proxies)).await;
        let claims = [
            SECRET,
            ("X-Forwarded-User", "ada"),
            ("X-Groups", "lineclear-admin"),
            ("X-Forwarded-For", "127.0.0.1"),
            ("Forwarded", "for=127.0.0.1"),
            ("X-Real-IP", "127.0.0.1"),
        ];
        let answer = served.send("GET", "/api/v1/jobs", &claims, b"").await;
        assert_eq!(answer.status, 401, "{answer:?}");
        let local = served.send("GET", "/api/v1/jobs", &[("Host", "localhost")], b"").await;
        assert_eq!(local.status, 401, "a connection from this machine gives no rights");
        served.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_authentication_answers_to_any_host_name() {
    let served = Served::sqlite_with(|http| http.access = Access::Tokens).await;
    let answer = served.send("GET", "/livez", &[("Host", "jobs.example.org")], b"").await;
    assert_eq!(answer.status, 200);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_a_url_is_no_token() {
    let served = Served::sqlite_with(|http| http.access = Access::Tokens).await;
    let token = served.token("admin").await;
    for path in
        ["/api/v1/nodes?token=@", "/api/v1/nodes?access_token=@", "/api/v1/jobs?authorization=Bearer%20@"]
    {
        let answer = served.get(&path.replace('@', &token)).await;
        assert_eq!(answer.status, 401, "{path}");
    }
    served.end().await;
}

with_tokens_on_each_store! {
    every_route_needs_the_scope_that_the_document_says
    wrong_tokens_are_refused_alike_and_ten_lock_the_address_out
    a_known_client_is_not_locked_out_by_a_failing_one
    a_revoked_token_is_refused_within_five_seconds
    an_expired_token_is_refused
    tokens_are_made_listed_and_revoked_over_http
    a_token_expires_after_90_days_unless_its_creator_says_otherwise
    idempotency_keys_are_scoped_to_the_client
}
