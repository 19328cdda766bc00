//! Pages that update themselves without disturbing the user.

use serde_json::json;

use crate::kit::{Browser, Server};

/// Remembers each stream that a page opens.
const STREAMS: &str = "window.streams = []; const Real = EventSource; window.EventSource = class extends Real { constructor(url) { super(url); streams.push(this); } }";
const LIVE: &str = "document.querySelector('#live .word').textContent === 'live'";
const ROWS: &str = "document.querySelectorAll('tbody tr[data-key]').length";

#[tokio::test]
async fn the_overview_updates_without_a_reload() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    server.enqueue(&json!({"kind": "later", "in_ms": 600_000}));
    browser.open(&server.at("/"));
    browser.until(LIVE);
    browser.eval("window.mark = document.querySelector('nav.strip')");
    server.dead(1);
    browser.until("[...document.querySelectorAll('.stage')].some(stage => /^dead/i.test(stage.innerText) && stage.querySelector('.dead')?.innerText === '1')");
    browser.reads("the printer is on fire");
    assert_eq!(
        browser.eval("window.mark === document.querySelector('nav.strip')"),
        true,
        "the same document, the same element"
    );
    assert_eq!(browser.complaints(), [""; 0]);
}

#[tokio::test]
async fn parts_of_a_page_appear_and_disappear_with_their_content() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    browser.open(&server.at("/"));
    browser.until(LIVE);
    browser.reads("First steps");
    browser.open(&server.at("/dead-letters"));
    browser.until(LIVE);
    browser.reads("No dead letters");
    browser.eval("window.mark = 1");
    server.dead(2);
    browser.reads("the printer is on fire");
    browser.until("document.querySelectorAll('article.family').length === 1 && document.title.startsWith('2 dead letters')");
    server.ask("POST", "/dead-letters/acknowledge", &json!({"kind": "command", "note": "a test"}));
    browser.reads("No dead letters");
    browser.until("document.querySelectorAll('article.family').length === 0");
    browser.until("document.title.startsWith('0 dead letters')");
    assert_eq!(browser.eval("window.mark"), 1, "the page was not loaded again");

    // A waiting job shows the reason, until it runs.
    let gate = server.file("gate");
    let job = server.enqueue(&json!({"kind": "command", "in_ms": 3_000, "retries": 0,
        "input": {"argv": ["/bin/sh", "-c", format!("while [ ! -e {gate} ]; do sleep 0.1; done")]}}));
    browser.open(&server.at(&format!("/jobs/{job}")));
    browser.until(LIVE);
    browser.reads("Why is it not running?");
    browser.until("!document.body.innerText.toLowerCase().includes('why is it not running')");
    browser.reads("claim 1 runs");
    std::fs::write(&gate, "").unwrap();
    browser.reads("claim 1 completed");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[tokio::test]
async fn the_focus_stays_on_its_row_when_rows_above_change() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    server.dead(3);
    browser.open(&server.at("/dead-letters"));
    browser.until(LIVE);
    browser.until(&format!("{ROWS} === 3"));
    let row = |n: u32| {
        let id = browser.eval(&format!("document.querySelector('tbody tr:nth-child({n}) a').innerText"));
        id.as_str().unwrap().to_owned()
    };
    let (top, middle) = (row(1), row(2));
    let at = "document.activeElement?.closest('tr')?.querySelector('a')?.innerText ?? null";
    browser.press("jj");
    assert_eq!(browser.eval(at), middle.as_str());
    // It leaves the list, and returns as another dead letter when it has died again.
    let first = browser.eval("document.querySelector('tbody tr').dataset.key");
    server.ask("POST", &format!("/jobs/{top}/retry"), &json!({}));
    browser.until(&format!("!document.querySelector('tr[data-key={first}]') && {ROWS} === 3"));
    assert_eq!(row(1), top);
    assert_eq!(browser.eval(at), middle.as_str(), "the focus stays");
    // An execution that the user closed stays closed when the page updates.
    browser.open(&server.at(&format!("/jobs/{}", top)));
    browser.until(LIVE);
    browser.click("details.execution summary");
    browser.until("!document.querySelector('details.execution').open");
    let first = "document.querySelector('#timeline').innerHTML";
    let before = browser.eval(first);
    server.ask("POST", &format!("/jobs/{}/retry", top), &json!({}));
    browser.until(&format!("{first} !== {before}"));
    assert_eq!(browser.eval("document.querySelector('details.execution[data-key=\"claim-2\"]').open"), false);
}

#[tokio::test]
async fn a_page_reconnects_to_a_restarted_server_without_duplicate_rows() {
    let mut server = Server::start(&[]).await;
    let browser = Browser::start().await;
    let first = server.enqueue(&json!({"kind": "before", "in_ms": 600_000}));
    browser.open(&server.at("/jobs"));
    browser.until(LIVE);
    browser.eval(&format!("window.mark = document.querySelector('tr[data-key=\"{first}\"]')"));
    server
        .kill_and_start_again(async || {
            browser.reads("This page is not up to date");
        })
        .await;
    server.enqueue(&json!({"kind": "afterwards", "in_ms": 600_000}));
    browser.reads("afterwards");
    browser.until(LIVE);
    assert_eq!(browser.eval("document.querySelector('#trouble').hidden"), true);
    assert_eq!(browser.eval(ROWS), 2);
    assert_eq!(
        browser.eval(&format!("window.mark === document.querySelector('tr[data-key=\"{first}\"]')")),
        true
    );
}

#[tokio::test]
async fn a_hidden_tab_closes_its_stream_and_opens_it_again_when_it_is_shown() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    browser.first_of_all(STREAMS);
    browser.open(&server.at("/jobs"));
    browser.until("streams.length === 1 && streams[0].readyState === EventSource.OPEN");
    browser.hide();
    browser.until("document.hidden && streams[0].readyState === EventSource.CLOSED");
    server.enqueue(&json!({"kind": "meanwhile", "in_ms": 600_000}));
    browser.show();
    browser.reads("meanwhile");
    assert_eq!(browser.eval("streams.filter(stream => stream.readyState === EventSource.OPEN).length"), 1);
}

#[tokio::test]
async fn rows_do_not_change_while_rows_or_text_are_selected() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    server.enqueue(&json!({"kind": "first", "in_ms": 600_000}));
    browser.open(&server.at("/jobs"));
    browser.until(LIVE);
    let paused = "document.querySelector('#live .word').textContent === 'paused'";

    browser.click("tbody input[type=checkbox]");
    server.enqueue(&json!({"kind": "second", "in_ms": 600_000}));
    browser.until(paused);
    assert_eq!(browser.eval(ROWS), 1);
    assert_eq!(browser.eval("document.querySelector('tbody input').checked"), true);
    browser.click("tbody input[type=checkbox]");
    browser.reads("second");
    browser.until(LIVE);

    browser.eval("document.getSelection().selectAllChildren(document.querySelector('tbody tr'))");
    server.enqueue(&json!({"kind": "third", "in_ms": 600_000}));
    browser.until(paused);
    assert_eq!(browser.eval(ROWS), 2);
    browser.eval("document.getSelection().empty()");
    browser.reads("third");
    assert_eq!(browser.complaints(), [""; 0]);
}
