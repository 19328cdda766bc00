//! Pages that follow what happens, and whom they do not disturb.

use serde_json::json;

use crate::kit::{Browser, Server};

/// Remembers each stream that a page opens.
const STREAMS: &str = "window.streams = []; const Real = EventSource; window.EventSource = class extends Real { constructor(url) { super(url); streams.push(this); } }";
const LIVE: &str = "document.querySelector('#live .word').textContent === 'live'";
const ROWS: &str = "document.querySelectorAll('tbody tr[data-key]').length";

#[tokio::test]
async fn the_overview_follows_what_happens_without_being_loaded_again() {
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
async fn a_server_that_comes_back_is_followed_again_and_no_row_is_there_twice() {
    let mut server = Server::start(&[]).await;
    let browser = Browser::start().await;
    let first = server.enqueue(&json!({"kind": "before", "in_ms": 600_000}));
    browser.open(&server.at("/jobs"));
    browser.until(LIVE);
    browser.eval(&format!("window.mark = document.querySelector('tr[data-key=\"{first}\"]')"));
    server
        .kill_and_start_again(async || {
            browser.reads("What you see is not the newest");
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
async fn rows_stand_still_while_some_are_selected_or_text_is_marked_and_go_on_afterwards() {
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
