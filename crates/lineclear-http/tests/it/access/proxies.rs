//! Servers behind a proxy: the address of the client, and users whom the proxy names.

use lineclear_http::{Access, HttpOptions, ProxySecret, ProxyUsers, TrustedProxies};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::session::{cookie, log_in};
use crate::kit::{Answer, Served};

pub(crate) const SECRET: (&str, &str) = ("X-Lineclear-Proxy-Secret", "0123456789abcdef0123456789abcdef");
const SAME: (&str, &str) = ("Sec-Fetch-Site", "same-origin");
const ADA: (&str, &str) = ("X-Forwarded-User", "ada");

/// Proxies in this network, with the secret.
pub(crate) fn trusting(network: &str) -> TrustedProxies {
    let secret = Some(ProxySecret::new(SECRET.1).unwrap());
    TrustedProxies { networks: vec![network.parse().unwrap()], secret }
}

async fn with_tokens(network: &str, change: impl FnOnce(&mut HttpOptions)) -> Served {
    Served::sqlite_with(|http| {
        http.access = Access::Tokens;
        http.trusted_proxies = trusting(network);
        change(http);
    })
    .await
}

/// A server behind a proxy that names its users.
async fn with_users() -> Served {
    Served::sqlite_with(|http| {
        let scopes_header = Some("X-Groups".to_owned());
        http.access = Access::ProxyUsers(ProxyUsers { scopes_header, ..ProxyUsers::default() });
        http.trusted_proxies = trusting("127.0.0.0/8");
    })
    .await
}

/// A request of a client, as the proxy forwards it.
async fn ask(served: &Served, forwarded: &str, token: &str) -> Answer {
    let authorization = format!("Bearer {token}");
    let headers = [("Authorization", authorization.as_str()), ("X-Forwarded-For", forwarded), SECRET];
    served.send("GET", "/api/v1/jobs", &headers, b"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_wrong_tokens_lock_out_only_the_client_that_sent_them() {
    let served = with_tokens("127.0.0.0/8", |_| ()).await;
    let (read, operate) = (served.token("read").await, served.token("operate").await);
    for _ in 0..12 {
        ask(&served, "203.0.113.9, 192.0.2.1", "x").await;
    }
    assert_eq!(ask(&served, "192.0.2.1", "x").await.status, 429);
    assert_eq!(ask(&served, "192.0.2.1", &read).await.status, 429, "unseen tokens of this client wait, too");
    assert_eq!(
        ask(&served, "192.0.2.2, 192.0.2.1", &read).await.status,
        429,
        "it does not choose its address"
    );
    assert_eq!(ask(&served, "192.0.2.2", &read).await.status, 200, "other clients are not affected");
    let body = serde_json::json!({"token": operate}).to_string();
    let forwarded = ("X-Forwarded-For", "192.0.2.3, 127.0.0.9");
    let headers = [("Content-Type", "application/json"), SAME, forwarded, SECRET];
    let login = served.send("POST", "/api/v1/session", &headers, body.as_bytes()).await;
    assert_eq!(login.status, 201, "nor are logins: {login:?}");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_an_untrusted_peer_forwards_are_ignored() {
    let served = with_tokens("192.0.2.0/24", |_| ()).await;
    for n in 0..12 {
        ask(&served, &format!("198.51.100.{n}"), "x").await;
    }
    assert_eq!(ask(&served, "198.51.100.77", "x").await.status, 429);
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_process_without_the_secret_of_the_proxy_forges_no_address() {
    let served = with_tokens("127.0.0.0/8", |_| ()).await;
    let forge = async |address: &str| {
        let headers = [("Authorization", "Bearer x"), ("X-Forwarded-For", address)];
        served.send("GET", "/api/v1/jobs", &headers, b"").await.status
    };
    for n in 0..12 {
        forge(&format!("198.51.100.{n}")).await;
    }
    assert_eq!(forge("198.51.100.77").await, 429, "it is locked out under its own address");
    assert_eq!(ask(&served, "198.51.100.77", "x").await.status, 401, "and locks out no other");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_each_client_has_its_own_rate() {
    let served = with_tokens("127.0.0.0/8", |http| http.limits.rate = 5).await;
    let mut answers = Vec::new();
    while !answers.contains(&"too_often".to_owned()) {
        assert!(answers.len() < 200, "{answers:?}");
        answers.push(ask(&served, "192.0.2.1", "x").await.code());
    }
    let read = served.token("read").await;
    assert_eq!(ask(&served, "192.0.2.2", &read).await.status, 200);
    served.end().await;
}

/// A stream that stays open.
async fn stream(served: &Served, forwarded: &str, token: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nX-Forwarded-For: {forwarded}\r\n{}: {}\r\n\r\n",
        SECRET.0, SECRET.1
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut bytes = [0; 4096];
    let read = stream.read(&mut bytes).await.unwrap();
    (stream, String::from_utf8_lossy(&bytes[..read]).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_proxy_one_client_cannot_use_all_connections() {
    let served = with_tokens("127.0.0.0/8", |http| http.limits.connections_per_address = 2).await;
    let read = served.token("read").await;
    let (one, head) = stream(&served, "192.0.2.1", &read).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let (_two, _) = stream(&served, "192.0.2.1", &read).await;
    let refused = ask(&served, "192.0.2.1", &read).await;
    assert_eq!((refused.status, refused.code()), (429, "connections_per_address".to_owned()));
    assert_eq!(ask(&served, "192.0.2.2", &read).await.status, 200, "another client of the same proxy");
    drop(one);
    for _ in 0..600 {
        if ask(&served, "192.0.2.1", &read).await.status == 200 {
            served.end().await;
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("a request that ended still counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_token_cannot_use_all_requests() {
    let served = with_tokens("127.0.0.0/8", |http| http.limits.requests_per_principal = 2).await;
    let (read, operate) = (served.token("read").await, served.token("operate").await);
    let (_one, _) = stream(&served, "192.0.2.1", &read).await;
    let (_two, _) = stream(&served, "192.0.2.2", &read).await;
    let refused = ask(&served, "192.0.2.3", &read).await;
    assert_eq!((refused.status, refused.code()), (429, "requests_per_principal".to_owned()));
    assert!(refused.json()["detail"].as_str().unwrap().contains("token:read"), "{refused:?}");
    assert_eq!(ask(&served, "192.0.2.3", &operate).await.status, 200, "another token");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_is_believed_only_with_its_secret() {
    let served = with_users().await;
    let groups = ("X-Groups", "staff, lineclear-admin");
    let ask =
        async |headers: &[(&str, &str)]| served.send("GET", "/api/v1/tokens", headers, b"").await.status;
    assert_eq!(ask(&[ADA, groups, SECRET]).await, 200);
    let wrong = (SECRET.0, "fedcba9876543210fedcba9876543210");
    for claims in [
        &[ADA, groups][..],
        &[ADA, groups, wrong],
        &[ADA, groups, SECRET, wrong],
        &[ADA, groups, (SECRET.0, "")],
    ] {
        assert_eq!(ask(claims).await, 401, "a local process is no user: {claims:?}");
    }
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_cookie_does_not_hide_the_user_of_the_proxy() {
    let served = with_users().await;
    let token = served.token("read").await;
    let stale = cookie(&log_in(&served, &token).await);
    let name = lineclear::store::WhichToken::Name("read".to_owned());
    served.store().revoke_token(name).await.unwrap().unwrap();
    let headers = [("Cookie", stale.as_str()), ADA, ("X-Groups", "lineclear-operate"), SECRET];
    let who = served.send("GET", "/api/v1/session", &headers, b"").await;
    assert_eq!((who.status, &who.json()["who"]), (200, &"proxy:ada".into()), "{who:?}");
    let alone = served.send("GET", "/api/v1/session", &[("Cookie", stale.as_str())], b"").await;
    assert_eq!(alone.status, 401, "the cookie itself gives nothing");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_proxy_user_must_name_its_origin_and_one_with_a_token_need_not() {
    let served = with_users().await;
    let (json, group) = (("Content-Type", "application/json"), ("X-Groups", "lineclear-operate"));
    let post = async |headers: &[(&str, &str)]| {
        let headers = [&[json, SECRET], headers].concat();
        served.send("POST", "/api/v1/jobs", &headers, br#"{"kind": "add", "in_ms": 60000}"#).await.status
    };
    assert_eq!(post(&[ADA, group]).await, 403, "a browser that sends neither header");
    assert_eq!(post(&[ADA, group, ("Sec-Fetch-Site", "cross-site")]).await, 403);
    assert_eq!(post(&[ADA, group, SAME]).await, 201);
    assert_eq!(post(&[ADA, group, ("Origin", &format!("http://{}", served.address))]).await, 201);
    let bearer = format!("Bearer {}", served.token("operate").await);
    assert_eq!(post(&[ADA, group, ("Authorization", &bearer)]).await, 201, "a program behind the proxy");
    served.end().await;
}
