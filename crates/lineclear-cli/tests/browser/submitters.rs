//! Submitters and remote workers on the pages, and *Run and wait*.

use serde_json::{Value, json};

use crate::kit::{Browser, Server};
use crate::pages::look_well;

const LIVE: &str = "document.querySelector('#live .word').textContent === 'live'";

fn poll(server: &Server) -> Value {
    let worker = json!({"id": "0b6ef1a4-7c3f-4f0e-9d53-5d1c0c8a7e11", "name": "mailer", "host": "web1", "pid": 4711, "version": "lineclear-python/0.1.0"});
    server.ask(
        "POST",
        "/claims",
        &json!({"worker": worker, "kinds": ["thumb", "resize"], "slots": 20, "wait_ms": 20_000}),
    )
}

#[tokio::test]
async fn the_cluster_page_shows_remote_workers_and_where_jobs_go_with_an_open_breaker() {
    // A port on which nothing listens.
    let free = lineclear_testkit::free_port().unwrap();
    let server = Server::with_settings(&format!(
        "[submitter.billing]\ntype = \"push\"\nurl = \"http://127.0.0.1:{free}/jobs\"\nkinds = [\"invoice\", \"refund\"]\nunsigned = true\n"
    ))
    .await;
    let browser = Browser::start().await;
    browser.open(&server.at("/cluster"));
    browser.until(LIVE);
    browser.reads("Submitters");
    browser.eval("window.mark = 1");
    assert_eq!(browser.eval("document.body.innerText.includes('Remote workers')"), false, "there is none");

    let invoice = server.enqueue(&json!({"kind": "invoice"}));
    (0..6).for_each(|_| drop(server.enqueue(&json!({"kind": "refund"}))));
    browser.until("[...document.querySelectorAll('#submitters tbody tr')].some(row => row.innerText.includes('billing') && row.innerText.includes('breaker open') && row.innerText.includes('failures in a row'))");
    let thumb = server.enqueue(&json!({"kind": "thumb"}));
    let claims = poll(&server);
    assert_eq!(claims["claims"][0]["job"]["id"], json!(thumb), "{claims}");
    browser.until("[...document.querySelectorAll('#workers tbody tr')].some(row => /mailer/.test(row.innerText) && row.innerText.includes('resize, thumb') && row.innerText.includes('1/20'))");
    browser.until("document.querySelector('#nodes').innerText.includes('1 of 1 alive')");
    assert_eq!(browser.eval("window.mark"), 1, "the page was not loaded again");
    let pages = [
        ("submitters", "/cluster".to_owned()),
        ("submitter-wait", format!("/jobs/{invoice}")),
        ("worker-job", format!("/jobs/{thumb}")),
        ("run-and-wait", "/enqueue?kind=thumb".to_owned()),
    ];
    look_well(&browser, server.port, &pages);
    browser.open(&server.at(&format!("/jobs/{invoice}")));
    browser.reads("Why is it not running?");
    browser.until("document.querySelector('#explain').innerText.includes('submitter billing takes no jobs')");
    browser.open(&server.at(&format!("/jobs/{thumb}")));
    browser.until("[...document.querySelectorAll('.fact')].some(fact => fact.innerText.toLowerCase().startsWith('worker') && fact.innerText.includes('mailer'))");
}

#[tokio::test]
async fn run_and_wait_shows_the_job_when_it_is_over() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    browser.open(&server.at("/enqueue"));
    browser.fill("#kind", "command");
    browser.fill("#input", r#"{"argv": ["/bin/sh", "-c", "sleep 1; echo it is forty-two"]}"#);
    browser.click("button[name=then]");
    browser.until("/^\\/jobs\\/\\d+$/.test(location.pathname) && document.readyState === 'complete'");
    // The first thing that the page shows: it did not come before the job was over.
    let served =
        "fetch(location.href).then(answer => answer.text()).then(text => text.includes('completed'))";
    assert_eq!(browser.eval(served), true);
    browser.reads("claim 1 completed");
    browser.reads("it is forty-two");

    browser.open(&server.at("/enqueue?kind=command"));
    browser.fill("#when", "10m");
    browser.click("button[name=then]");
    browser.reads("leave `when` empty");
    assert_eq!(browser.eval("document.querySelector('#when').value"), "10m", "what was typed is kept");
}
