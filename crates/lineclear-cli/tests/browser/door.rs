//! Permissions in a browser.

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::{Value, json};

use crate::kit::{Browser, Server};

/// The status of the response to the current page.
const STATUS: &str = "performance.getEntriesByType('navigation')[0].responseStatus";

/// Sends a form that the page does not offer.
fn submit(browser: &Browser, to: &str) {
    browser.eval(&format!(
        "void (() => {{ const form = document.createElement('form'); form.method = 'post'; form.action = {to:?}; \
         document.body.append(form); form.submit(); }})()"
    ));
}

#[tokio::test]
async fn a_reader_is_offered_no_actions_and_a_forged_form_is_refused() {
    let mut server = Server::start(&["--auth", "token"]).await;
    server.token = Some(server.make_token("owner", "operate"));
    let reader = server.make_token("reader", "read");
    let job = server.enqueue(&json!({"kind": "later", "in_ms": 600_000}));
    let browser = Browser::start().await;

    browser.open(&server.at(&format!("/jobs/{job}")));
    assert!(browser.path().starts_with("/login"), "{}", browser.path());
    browser.fill("#token", "lc_unknown\u{e007}");
    browser.until("document.querySelector('[role=alert]')");
    browser.complaints();
    browser.fill("#token", &format!("{reader}\u{e007}"));
    browser.until(&format!("location.pathname === '/jobs/{job}'"));
    browser.reads("read only");
    let offers = "[...document.querySelectorAll('main form[method=post], main button:not([data-copy], form.filter button), a[href$=\"/cancel\"], \
                  a[href*=\"/retry\"], a[href*=\"/enqueue\"], a[href*=\"/bulk-operations/new\"], a[href$=\"/drain\"], a[href$=\"/break\"], input[type=checkbox]')].map(one => one.outerHTML)";
    server.ask(
        "POST",
        "/bulk-operations",
        &json!({"action": "cancel", "q": "kind:unregistered", "starts_in_ms": 600_000}),
    );
    let dead = server.dead(1).remove(0);
    for path in [
        &format!("/jobs/{job}"),
        &format!("/jobs/{dead}"),
        "/jobs",
        "/",
        "/dead-letters",
        "/cluster",
        "/bulk-operations",
        "/bulk-operations/1",
    ] {
        browser.open(&server.at(path));
        assert_eq!(browser.eval(offers), json!([]), "{path}");
    }
    assert_eq!(browser.complaints(), [""; 0]);
    submit(&browser, &format!("/jobs/{job}/cancel"));
    browser.until(&format!("location.pathname === '/jobs/{job}/cancel' && {STATUS} === 403"));
    assert_eq!(server.ask("GET", &format!("/jobs/{job}"), &Value::Null)["state"], "scheduled");

    // With the scope `operate`, the same form works.
    browser.open(&server.at("/"));
    browser.click("form[action='/logout'] button");
    browser.until("location.pathname === '/login'");
    browser.fill("#token", &format!("{}\u{e007}", server.token.clone().unwrap()));
    browser.until("location.pathname === '/'");
    submit(&browser, &format!("/jobs/{job}/cancel"));
    browser
        .until(&format!("location.pathname === '/jobs/{job}' && document.querySelector('.badge.cancelled')"));
}

/// Another site on this machine, with one page that loads nothing else.
fn another_site() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        // A browser opens connections in advance without a request.
        for mut stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let page = "<!doctype html><title>You have won</title><link rel=icon href='data:,'>";
                let head =
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length";
                let _ = write!(stream, "{head}: {}\r\n\r\n{page}", page.len());
            });
        }
    });
    port
}

#[tokio::test]
async fn forms_and_requests_of_another_site_are_refused() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    let job = server.enqueue(&json!({"kind": "later", "in_ms": 600_000}));
    let (port, target) = (another_site(), server.at(&format!("/jobs/{job}/cancel")));
    for site in ["localhost", "127.0.0.1"] {
        browser.open(&format!("http://{site}:{port}/"));
        let post = format!(
            "fetch({:?}, {{method: 'POST', mode: 'no-cors', credentials: 'include', body: '{{\"kind\": \"stolen\"}}'}}).then(() => 1, () => 2)",
            server.at("/api/v1/jobs")
        );
        browser.eval(&post);
        submit(&browser, &target);
        browser.until(&format!("location.href === {target:?} && {STATUS} === 403"));
    }
    assert_eq!(server.ask("GET", &format!("/jobs/{job}"), &Value::Null)["state"], "scheduled");
    let jobs = server.ask("GET", "/jobs", &Value::Null);
    assert_eq!(jobs["items"].as_array().map(Vec::len), Some(1), "{jobs}");
    // From the server's own page, the same form is accepted.
    browser.open(&server.at("/"));
    submit(&browser, &target);
    browser.until(&format!("location.pathname === '/jobs/{job}'"));
    server.is_in(&job, "cancelled");
}
