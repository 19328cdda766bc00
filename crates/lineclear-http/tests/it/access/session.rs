//! Browsers log in with a token.

use serde_json::json;

use crate::kit::{Answer, Served};

const PATH: &str = "/api/v1/session";
const SAME: (&str, &str) = ("Sec-Fetch-Site", "same-origin");

pub(crate) async fn log_in(served: &Served, token: &str) -> Answer {
    let headers = [("Content-Type", "application/json"), SAME];
    served.send("POST", PATH, &headers, json!({"token": token}).to_string().as_bytes()).await
}

/// `name=value` of the cookie that was set.
pub(crate) fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").unwrap_or_else(|| panic!("{answer:?}")).split(';').next().unwrap().to_owned()
}

pub(crate) async fn as_browser(
    served: &Served,
    cookie: &str,
    method: &str,
    path: &str,
    body: &str,
) -> Answer {
    let headers = [("Cookie", cookie), SAME, ("Content-Type", "application/json")];
    served.send(method, path, &headers, body.as_bytes()).await
}

async fn a_browser_logs_in_with_a_token_and_out_again(served: &Served) {
    let token = served.token("operate").await;
    let answer = log_in(served, &token).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(
        (&answer.json()["who"], &answer.json()["scopes"]),
        (&json!("session:operate"), &json!(["operate"]))
    );
    let set = answer.header("set-cookie").unwrap().to_owned();
    for part in
        ["__Host-lineclear=", "; Path=/", "; Secure", "; HttpOnly", "; SameSite=Strict", "; Max-Age=43200"]
    {
        assert!(set.contains(part), "{part}: {set}");
    }
    assert!(!set.contains("Domain") && !set.contains(token.rsplit('_').next().unwrap()), "{set}");
    let one = cookie(&answer);
    let two = cookie(&log_in(served, &token).await);
    assert_ne!(one, two, "each login sets a new cookie");

    assert_eq!(as_browser(served, &one, "GET", "/api/v1/jobs", "").await.status, 200);
    assert_eq!(as_browser(served, &one, "GET", PATH, "").await.json()["who"], "session:operate");
    assert_eq!(
        as_browser(served, &one, "GET", "/api/v1/tokens", "").await.status,
        403,
        "a session has the scopes of its token"
    );
    assert_eq!(
        as_browser(served, &one, "POST", "/api/v1/jobs", r#"{"kind": "add", "in_ms": 60000}"#).await.status,
        201
    );
    let other = format!("theme=dark; {two}; x=y");
    assert_eq!(as_browser(served, &other, "GET", "/api/v1/jobs", "").await.status, 200);

    let out = as_browser(served, &one, "DELETE", PATH, "").await;
    assert_eq!(out.status, 204);
    assert!(out.header("set-cookie").is_some_and(|set| set.contains("Max-Age=0")), "{out:?}");
    assert_eq!(
        as_browser(served, &one, "GET", "/api/v1/jobs", "").await.status,
        401,
        "the old cookie is invalid"
    );
    assert_eq!(
        as_browser(served, &two, "GET", "/api/v1/jobs", "").await.status,
        200,
        "the other session is still valid"
    );
    let no_session = served.with(&token, "DELETE", PATH, "").await;
    assert_eq!((no_session.status, no_session.code()), (409, "no_session".to_owned()));
}

async fn logging_in_again_ends_the_old_session_of_the_browser(served: &Served) {
    let (read, operate) = (served.token("read").await, served.token("operate").await);
    let (old, other) = (cookie(&log_in(served, &read).await), cookie(&log_in(served, &read).await));
    let body = json!({"token": operate}).to_string();
    let new = cookie(&as_browser(served, &old, "POST", PATH, &body).await);
    let who = async |cookie: &str| as_browser(served, cookie, "GET", PATH, "").await;
    assert_eq!(who(&old).await.status, 401, "the cookie that the browser had is invalid");
    assert_eq!(who(&new).await.json()["who"], "session:operate");
    assert_eq!(who(&other).await.status, 200, "another browser stays logged in");
    let wrong = as_browser(served, &new, "POST", PATH, r#"{"token": "x"}"#).await;
    assert_eq!((wrong.status, who(&new).await.status), (401, 200), "a failed login ends nothing");
}

async fn a_revoked_token_ends_its_sessions_at_once(served: &Served) {
    let token = served.token("read").await;
    let cookie = cookie(&log_in(served, &token).await);
    assert_eq!(as_browser(served, &cookie, "GET", "/api/v1/jobs", "").await.status, 200);
    let name = lineclear::store::WhichToken::Name("read".to_owned());
    served.store().revoke_token(name).await.unwrap().unwrap();
    assert_eq!(as_browser(served, &cookie, "GET", "/api/v1/jobs", "").await.status, 401);
}

async fn an_admin_lists_sessions_and_ends_one(served: &Served) {
    let (admin, read) = (served.token("admin").await, served.token("read").await);
    let (one, two) = (cookie(&log_in(served, &read).await), cookie(&log_in(served, &read).await));
    let listed = served.with(&admin, "GET", "/api/v1/sessions?limit=1", "").await;
    assert_eq!(listed.status, 200, "{listed:?}");
    let next = format!("/api/v1/sessions?cursor={}", listed.json()["next"].as_str().unwrap());
    let rest = served.with(&admin, "GET", &next, "").await.json();
    assert_eq!(rest["items"].as_array().unwrap().len(), 1, "{rest}");
    let session = listed.json()["items"][0].clone();
    assert_eq!((&session["token"], &session["address"]), (&json!("read"), &json!("127.0.0.1")), "{session}");
    for cookie in [&one, &two] {
        let secret = cookie.split_once('=').unwrap().1;
        assert!(
            !listed.body.contains(&secret[..8]) && !rest.to_string().contains(&secret[..8]),
            "{listed:?}"
        );
    }
    let path = format!("/api/v1/sessions/{}", session["id"].as_str().unwrap());
    assert_eq!(served.with(&read, "DELETE", &path, "").await.status, 403);
    assert_eq!(served.with(&admin, "DELETE", &path, "").await.status, 204);
    assert_eq!(served.with(&admin, "DELETE", &path, "").await.status, 404);
    let mut left = Vec::new();
    for cookie in [&one, &two] {
        left.push(as_browser(served, cookie, "GET", PATH, "").await.status);
    }
    left.sort();
    assert_eq!(left, [200, 401], "one of the two is logged out");
    for bad in ["x", "%25", "0000000000000000", "0000"] {
        assert_eq!(
            served.with(&admin, "DELETE", &format!("/api/v1/sessions/{bad}"), "").await.status,
            404,
            "{bad}"
        );
    }
    let bad = served.with(&admin, "GET", "/api/v1/sessions?cursor=1-x", "").await;
    assert_eq!((bad.status, bad.code()), (400, "cursor".to_owned()));
}

async fn a_page_of_another_site_does_nothing_with_a_users_cookie(served: &Served) {
    let cookie = cookie(&log_in(served, &served.token("operate").await).await);
    let json = ("Content-Type", "application/json");
    let make = async |site: &[(&str, &str)]| {
        let headers = [&[("Cookie", cookie.as_str()), json], site].concat();
        served.send("POST", "/api/v1/jobs", &headers, br#"{"kind": "add", "in_ms": 60000}"#).await.status
    };
    assert_eq!(make(&[("Sec-Fetch-Site", "cross-site")]).await, 403);
    assert_eq!(make(&[("Origin", "https://evil.example")]).await, 403);
    assert_eq!(make(&[]).await, 403, "a browser that sends neither header");
    assert_eq!(make(&[("Origin", &format!("http://{}", served.address))]).await, 201);
}

async fn wrong_logins_are_refused_alike_and_ten_lock_the_address_out(served: &Served) {
    let good = served.token("read").await;
    let (head, secret) = good.rsplit_once('_').unwrap();
    let other = format!("{head}_{}", "0".repeat(secret.len()));
    for n in 0..10 {
        let wrong = [other.as_str(), "x", ""][n % 3];
        let answer = log_in(served, wrong).await;
        assert_eq!((answer.status, answer.code()), (401, "unauthorized".to_owned()), "{wrong}: {answer:?}");
        assert_eq!(answer.header("set-cookie"), None);
    }
    for token in ["x", &good] {
        let answer = log_in(served, token).await;
        assert_eq!((answer.status, answer.code()), (429, "too_many_failures".to_owned()));
        assert!(answer.header("retry-after").is_some_and(|wait| wait.parse::<u64>().unwrap() <= 60));
    }
    let rows = served.store().audit(&Default::default(), None, 10).await.unwrap().items;
    assert!(rows.is_empty(), "failed logins leave no audit row: {rows:?}");
}

async fn a_login_leaves_an_audit_row(served: &Served) {
    log_in(served, &served.token("read").await).await;
    let rows = served.store().audit(&Default::default(), None, 10).await.unwrap().items;
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].entry.who.as_str(), rows[0].entry.action.as_str(), rows[0].status),
        ("session:read", "log_in", Some(201))
    );
}

with_tokens_on_each_store! {
    a_browser_logs_in_with_a_token_and_out_again
    logging_in_again_ends_the_old_session_of_the_browser
    an_admin_lists_sessions_and_ends_one
    a_revoked_token_ends_its_sessions_at_once
    a_page_of_another_site_does_nothing_with_a_users_cookie
    wrong_logins_are_refused_alike_and_ten_lock_the_address_out
    a_login_leaves_an_audit_row
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_server_has_no_login() {
    let served = Served::sqlite().await;
    let answer = log_in(&served, "x").await;
    assert_eq!((answer.status, answer.code()), (409, "open".to_owned()));
    assert_eq!(served.get(PATH).await.json()["who"], "anonymous:127.0.0.1");
    served.end().await;
}
