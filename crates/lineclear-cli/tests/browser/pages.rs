//! Properties of every page.

use std::path::PathBuf;
use std::time::Instant;

use lineclear_testkit::Program;
use serde_json::{Value, json};

use crate::kit::{Browser, LONG, Server, ask, port_of};

const HOSTILE: &str = "\"'><img src=x onerror=window.pwned=1><script>window.pwned=1</script>{{7*7}}\u{202e}";
/// Elements that the server never makes.
const MADE: &str =
    "document.querySelectorAll('img[src=x], [onerror], script:not([src]), iframe, [style]').length";

/// Links to other sites.
const LEADS_AWAY: &str =
    "[...document.links].filter(link => link.origin !== location.origin).map(link => link.href)";

#[tokio::test]
async fn untrusted_text_is_escaped_on_every_page() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    let argv = json!(["/bin/sh", "-c", "echo \"$0\"; echo \"$0\" >&2; exit 3", HOSTILE]);
    let body = json!({"kind": "command", "input": {"argv": argv}, "retries": 0, "limit_key": HOSTILE});
    let job = server.enqueue(&body);
    server.is_in(&job, "dead");
    let q = "%22%27%3E%3Cimg+src%3Dx+onerror%3Dwindow.pwned%3D1%3E";
    let batch = json!({"action": "revive", "q": "state:dead", "reason": HOSTILE, "starts_in_ms": 600_000});
    server.ask("POST", "/bulk-operations", &batch);
    let paths = [
        "/".to_owned(),
        "/jobs".to_owned(),
        format!("/jobs?q={q}"),
        "/jobs?q=error:%22%3Cimg+src%3Dx+onerror%3Dwindow.pwned%3D1%3E%22".to_owned(),
        format!("/jobs/{job}"),
        format!("/jobs/{job}/retry"),
        format!("/enqueue?like={job}"),
        format!("/enqueue?kind={q}"),
        "/dead-letters".to_owned(),
        format!("/dead-letters?kind={q}"),
        "/bulk-operations".to_owned(),
        "/bulk-operations/1".to_owned(),
        format!("/bulk-operations/new?action={q}"),
        "/bulk-operations/new?action=revive&q=state:dead".to_owned(),
        "/cluster".to_owned(),
        "/samples".to_owned(),
        format!("/jobs/{job}/cancel"),
        format!("/jobs/{job}/retry?edit=true"),
        "/nodes/1/drain".to_owned(),
        format!("/locks/{q}/break"),
        format!("/{q}"),
    ];
    let mut seen = 0;
    for path in paths {
        browser.open(&server.at(&path));
        browser.until("document.readyState === 'complete' && document.querySelector('h1')");
        // Live pages are written a second time, by the script.
        browser.until("!document.body.hasAttribute('data-live') || document.querySelector('#live .word').textContent !== 'not live'");
        assert_eq!(browser.eval("window.pwned ?? null"), Value::Null, "{path}");
        assert_eq!(browser.eval(MADE), 0, "{path}");
        assert_eq!(browser.eval(LEADS_AWAY), json!([]), "{path}");
        seen += u32::from(browser.eval("document.body.textContent.includes('<img src=x')") == true);
        let complaints: Vec<_> =
            browser.complaints().into_iter().filter(|line| !line.contains("status of 4")).collect();
        assert_eq!(complaints, [""; 0], "{path}");
    }
    assert!(seen >= 8, "the text is shown on {seen} pages only: the test misses pages");
}

#[tokio::test]
async fn back_forward_and_a_shared_link_show_the_same_page() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    for _ in 0..55 {
        server.enqueue(&json!({"kind": "later", "in_ms": 600_000}));
    }
    server.dead(1);
    let rows = "[...document.querySelectorAll('tbody tr')].map(row => row.dataset.key)";
    let is_at = |part: &str, count: usize| {
        browser.until(&format!("(location.pathname + location.search).includes({part:?}) && document.querySelectorAll('tbody tr').length === {count}"));
        browser.eval(rows)
    };
    browser.open(&server.at("/jobs?q=state:scheduled"));
    let first = is_at("scheduled", 50);
    browser.click("a[rel=next]");
    let second = is_at("cursor=", 5);
    let link = browser.path();
    browser.click("a.pill[href*=dead]");
    let dead = is_at("state:dead", 1);
    browser.back();
    assert_eq!(is_at("cursor=", 5), second);
    browser.back();
    assert_eq!(is_at("scheduled", 50), first);
    browser.forward();
    browser.forward();
    assert_eq!(is_at("state:dead", 1), dead);
    browser.until("document.querySelector('#live .word').textContent === 'live'");
    assert_eq!(browser.complaints(), [""; 0]);
    let other = Browser::start().await;
    other.open(&server.at(&link));
    assert_eq!(other.eval(rows), second, "{link}");
    assert_eq!(other.eval("document.querySelector('#q').value"), "state:scheduled");
}

#[tokio::test]
async fn light_or_dark_is_kept_and_is_in_the_page_before_any_script_runs() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    browser.prefer("light");
    browser.open(&server.at("/jobs"));
    let shade = "getComputedStyle(document.body).backgroundColor";
    let light = browser.until(shade);
    assert_eq!(browser.eval("document.documentElement.dataset.theme ?? null"), Value::Null);
    browser.click("#theme");
    let dark = browser.until(shade);
    assert_ne!(light, dark);
    for path in ["/", "/dead-letters"] {
        browser.open(&server.at(path));
        let served = "fetch(location.href).then(answer => answer.text()).then(text => text.includes('data-theme=\"dark\"'))";
        assert_eq!(browser.eval(served), true, "{path}");
        assert_eq!(browser.eval(shade), dark, "{path}");
    }
    browser.press("T");
    browser.reload();
    assert_eq!(browser.eval(shade), light);
    assert_eq!(browser.complaints(), [""; 0]);
}

/// Where pictures go, for `make screenshots`.
fn album() -> Option<PathBuf> {
    std::env::var_os("LINECLEAR_TEST_SCREENSHOTS").map(PathBuf::from)
}

/// A job of the demo that a search finds.
fn job_of_demo(port: u16, q: &str) -> String {
    let until = Instant::now() + LONG * 2;
    loop {
        let (_, found) = ask(port, "GET", &format!("/api/v1/jobs?q={q}"), None, None).unwrap();
        if let Some(id) = found["items"][0]["id"].as_str() {
            return id.to_owned();
        }
        assert!(Instant::now() < until, "no {q} in the demo: {found}");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
}

#[tokio::test]
async fn no_page_of_the_demo_has_a_violation_light_or_dark_wide_or_narrow() {
    let program = Program::at(env!("CARGO_BIN_EXE_lineclear"));
    let demo = program.args(["demo", "--port", "0", "--rate", "2"]).start().unwrap();
    let (port, browser) = (port_of(&demo).await, Browser::start().await);
    let dead = job_of_demo(port, "state:dead");
    let again = job_of_demo(port, "state:completed+claims:%3E1");
    if album().is_some() {
        // More to see: charts with some minutes, a leader that was killed.
        demo.wait_for_line("became the leader", LONG * 4).await.unwrap();
        demo.wait_for_lines("slow-report", 20, LONG * 8).await.unwrap();
    }
    let batch = json!({"action": "revive", "q": "state:dead", "reason": "mended", "starts_in_ms": 600_000});
    ask(port, "POST", "/api/v1/bulk-operations", Some(&batch), None).unwrap();
    let pages = [
        ("overview", "/".to_owned()),
        ("jobs", "/jobs".to_owned()),
        ("search", "/jobs?q=stat:dead".to_owned()),
        ("job", format!("/jobs/{again}")),
        ("job-dead", format!("/jobs/{dead}")),
        ("retry", format!("/jobs/{dead}/retry")),
        ("dead-letters", "/dead-letters".to_owned()),
        ("batches", "/bulk-operations".to_owned()),
        ("batch", "/bulk-operations/1".to_owned()),
        ("batch-new", "/bulk-operations/new?action=revive&q=state:dead".to_owned()),
        ("enqueue", format!("/enqueue?like={again}")),
        ("cluster", "/cluster".to_owned()),
        ("cancel", format!("/jobs/{again}/cancel")),
        ("retry-edit", format!("/jobs/{dead}/retry?edit=true")),
        ("samples", "/samples".to_owned()),
        ("drain", "/nodes/1/drain".to_owned()),
        ("nowhere", "/nowhere".to_owned()),
        ("api", "/api/docs".to_owned()),
    ];
    look_well(&browser, port, &pages);
}

/// Pages that the demo does not have: a lock that another process holds, a node that drains, and a server that requires a login.
#[tokio::test]
async fn no_other_page_has_a_violation() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    let holder = Program::at(env!("CARGO_BIN_EXE_lineclear"))
        .args([
            "lock",
            "run",
            "nightly",
            "--store",
            &server.file("lineclear.db"),
            "--",
            "/bin/sh",
            "-c",
            "echo holds; sleep 600",
        ])
        .start()
        .unwrap();
    holder.wait_for_line("holds", LONG).await.unwrap();
    browser.open(&server.at("/cluster"));
    browser.reads("nightly");
    let pages = [
        ("break", "/locks/nightly/break".to_owned()),
        ("resume", "/nodes/1/resume".to_owned()),
        ("first", "/".to_owned()),
    ];
    look_well(&browser, server.port, &pages);

    // Typing its name breaks the lock, and its command ends.
    browser.size(1280, 800);
    browser.open(&server.at("/cluster"));
    browser.click("a[href='/locks/nightly/break']");
    browser.reads("may continue to work until then");
    browser.fill("#name", "nightly");
    browser.fill("#reason", "it hangs");
    browser.click("form.ask button[type=submit]");
    browser.until(
        "location.pathname === '/cluster' && !document.querySelector('a[href=\"/locks/nightly/break\"]')",
    );
    let history = server.ask("GET", "/locks/nightly/history", &Value::Null);
    // Its holder may have recorded since that it lost the lock.
    let events = history["items"].as_array().unwrap();
    let is_broken = |event: &Value| event["what"] == "broken" && event["why"] == "it hangs";
    assert!(events.iter().any(is_broken), "{history}");
    drop(holder);

    let closed = Server::start(&["--auth", "token"]).await;
    look_well(&browser, closed.port, &[("login", "/login".to_owned())]);
}

/// Light and dark, wide and narrow: nothing is wider than the screen, and the browser logs no violation.
pub(crate) fn look_well(browser: &Browser, port: u16, pages: &[(&str, String)]) {
    let sizes = [("light", 1280, 800), ("dark", 1280, 800), ("light", 360, 740), ("dark", 360, 740)];
    for (scheme, width, height) in sizes {
        browser.prefer(scheme);
        browser.size(width, height);
        for (name, path) in pages {
            browser.open(&format!("http://127.0.0.1:{port}{path}"));
            browser.until("document.readyState === 'complete'");
            browser.until("!document.body.hasAttribute('data-live') || document.querySelector('#live .word').textContent === 'live'");
            let wide = "[...document.querySelectorAll('main *')].filter(one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.scroll, pre, svg')).slice(0, 3).map(one => one.outerHTML.slice(0, 200))";
            let fits = browser.eval("document.documentElement.scrollWidth <= innerWidth");
            assert_eq!(fits, true, "{name} at {width} px: {}", browser.eval(wide));
            let complaints = browser.complaints().into_iter().filter(|line| !line.contains("status of 404"));
            assert_eq!(complaints.collect::<Vec<_>>(), [""; 0], "{name}, {scheme}");
            if let Some(album) = album() {
                browser.picture(&album.join(format!("{name}-{scheme}-{width}.png")));
            }
        }
    }
}
