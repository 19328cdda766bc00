//! Triage: find dead letters and act on them.

use serde_json::Value;

use crate::kit::{Browser, Server, Wish};

const ENTER: &str = "\u{e007}";
/// The script has run, and handles keys.
const SCRIPTED: &str = "document.documentElement.classList.contains('scripted')";

#[tokio::test]
async fn all_matches_are_revived_with_progress_and_undone_before_the_start() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    let ids = server.dead(3);
    browser.open(&server.at("/jobs?q=state:dead"));
    // First the selected ones, and undo.
    browser.click("tbody tr:nth-child(1) input[type=checkbox]");
    browser.click("tbody tr:nth-child(3) input[type=checkbox]");
    browser.click("button[value=retry]");
    browser.reads("Retry 2 jobs?");
    browser.click("form.ask button[type=submit]");
    browser.reads("Nothing has changed yet");
    browser.click("form.buttons button");
    browser.reads("before it changed anything");
    for id in &ids {
        server.is_in(id, "dead");
    }
    // Then all of them: first undone, then done.
    browser.open(&server.at("/jobs?q=state:dead"));
    browser.click(".matching a[href*='action=revive']");
    browser.reads("Revive 3 jobs?");
    browser.click("form.ask button[type=submit]");
    browser.reads("Nothing has changed yet");
    browser.click("form.buttons button");
    browser.reads("before it changed anything");
    for id in &ids {
        server.is_in(id, "dead");
    }
    browser.open(&server.at("/jobs?q=state:dead"));
    browser.click(".matching a[href*='action=revive']");
    browser.reads("Revive 3 jobs?");
    browser.reads("lineclear bulk-operation start revive -q 'state:dead'");
    browser.fill("#reason", "the printer is mended");
    browser.click("form.ask button[type=submit]");
    browser.until("location.pathname.startsWith('/bulk-operations/') && document.querySelector('progress')");
    browser.eval("window.mark = 1");
    browser.until("document.querySelector('progress').value === 3");
    browser.reads("done");
    assert_eq!(browser.eval("window.mark"), 1, "progress is followed, not loaded again");
    let revived = server.ask("GET", "/dead-letters?status=revived", &Value::Null);
    assert_eq!(revived["items"].as_array().map(Vec::len), Some(3), "{revived}");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[tokio::test]
async fn a_dead_letter_is_found_and_revived_with_keys_alone() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    server.dead(2);
    browser.open(&server.at("/"));
    browser.until(SCRIPTED);
    browser.press("gd");
    browser.until("location.pathname === '/dead-letters' && document.querySelector('tbody tr')");
    browser.until(SCRIPTED);
    browser.press("jj");
    let job = browser.until("document.querySelector('tbody tr:nth-child(2).here a')?.innerText");
    let job = job.as_str().unwrap();
    browser.press(ENTER);
    browser.until(&format!(
        "location.pathname === '/jobs/{}' && document.querySelector('a[href$=\"/retry\"]')",
        job
    ));
    browser.reads("the printer is on fire");
    tab_to(&browser, "a[href$='/retry']");
    browser.press(ENTER);
    browser.reads(&format!("Revive job {}?", job));
    tab_to(&browser, "#note");
    browser.press("mended");
    tab_to(&browser, "form.ask button[type=submit]");
    browser.press(ENTER);
    browser.until(&format!("location.pathname === '/jobs/{}'", job));
    let revived = server.ask("GET", "/dead-letters?status=revived", &Value::Null);
    assert_eq!(
        (&revived["items"][0]["job_id"], &revived["items"][0]["note"]),
        (&job.into(), &"mended".into()),
        "{revived}"
    );
    // The other one: selected with x, and acknowledged.
    browser.until(SCRIPTED);
    browser.press("gd");
    browser.until("location.pathname === '/dead-letters' && document.querySelector('tbody tr')");
    browser.until(SCRIPTED);
    browser.press("jx");
    tab_to(&browser, "button[value=acknowledge]");
    browser.press(ENTER);
    browser.reads("Acknowledge 1 job?");
    tab_to(&browser, "#reason");
    browser.press("known");
    tab_to(&browser, "form.ask button[type=submit]");
    browser.press(ENTER);
    browser.until(
        "location.pathname.startsWith('/bulk-operations/') && document.querySelector('progress')?.value === 1",
    );
    let rests = server.ask("GET", "/dead-letters?status=acknowledged", &Value::Null);
    assert_eq!(
        (&rests["items"][0]["note"], rests["items"].as_array().map(Vec::len)),
        (&"known".into(), Some(1)),
        "{rests}"
    );
}

#[tokio::test]
async fn the_palette_opens_any_page_and_single_keys_can_be_switched_off() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    let dead = server.dead(1).remove(0);
    browser.open(&server.at("/"));
    browser.until(SCRIPTED);
    let palette = |typed: &str| {
        browser.until(SCRIPTED);
        browser.chord("\u{e009}", "k");
        browser.until("document.activeElement?.matches('dialog.palette input')");
        browser.press(typed);
        browser.press(ENTER);
    };
    palette("clus");
    browser.until("location.pathname === '/cluster'");
    palette(&dead);
    browser.until(&format!("location.pathname === '/jobs/{dead}'"));
    palette("state:dead");
    browser.until("location.pathname === '/jobs' && document.querySelectorAll('tbody tr').length === 1");

    browser.until(SCRIPTED);
    browser.press("?");
    browser.click("dialog.keys input[type=checkbox]");
    browser.press("\u{e00c}");
    browser.until("!document.querySelector('dialog')");
    browser.press("gc");
    browser.press("?");
    assert_eq!(
        browser.eval("document.querySelector('dialog') === null && location.pathname"),
        "/jobs",
        "keys do nothing"
    );
    browser.reload();
    browser.until(SCRIPTED);
    browser.press("?");
    assert_eq!(
        browser.eval("document.querySelector('dialog')"),
        Value::Null,
        "also after the page was loaded again"
    );
    palette("over");
    browser.until("location.pathname === '/'");
    browser.click("#help");
    browser.click("dialog.keys input[type=checkbox]");
    browser.press("\u{e00c}");
    browser.press("gd");
    browser.until("location.pathname === '/dead-letters'");
    assert_eq!(browser.complaints(), [""; 0]);
}

/// Presses Tab, and Shift is never needed: the focus comes around.
fn tab_to(browser: &Browser, css: &str) {
    for _ in 0..80 {
        if browser.eval(&format!("document.activeElement?.matches({:?}) ?? false", css)) == true {
            return;
        }
        browser.press("\u{e004}");
    }
    panic!("Tab never comes to {css}");
}

#[tokio::test]
async fn without_javascript_jobs_are_listed_filtered_paged_retried_and_cancelled() {
    let server = Server::start(&[]).await;
    let browser = Browser::wish(Wish { no_script: true }).await;
    let dead = server.dead(1).remove(0);
    let waits: Vec<_> =
        (0..60).map(|_| server.enqueue(&serde_json::json!({"kind": "later", "in_ms": 600_000}))).collect();
    browser.open(&server.at("/"));
    assert_eq!(browser.eval(SCRIPTED), false, "no script runs");
    browser.click(".rail a[href='/jobs']");
    browser.until("document.querySelectorAll('tbody tr').length === 50");
    browser.click("a[rel=next]");
    browser.until("document.querySelectorAll('tbody tr').length === 11");
    browser.fill("#q", &format!("state:scheduled{ENTER}"));
    browser.until(
        "location.search.includes('scheduled') && document.querySelectorAll('tbody tr').length === 50",
    );
    browser.click(&format!("a[href='/jobs/{}']", waits[59]));
    browser.click("a[href$='/cancel']");
    browser.reads("This cannot be undone");
    browser.click("form.ask button");
    browser.until(&format!(
        "location.pathname === '/jobs/{}' && document.querySelector('.badge.cancelled')",
        waits[59]
    ));
    browser.click(".rail a[href='/dead-letters']");
    browser.click(&format!("td a[href='/jobs/{dead}']"));
    browser.click("a[href$='/retry']");
    browser.click("form.ask button");
    browser.until(&format!("location.pathname === '/jobs/{dead}'"));
    let revived = server.ask("GET", "/dead-letters?status=revived", &Value::Null);
    assert_eq!(revived["items"][0]["job_id"], dead.as_str(), "{revived}");
    // Many at once, too.
    browser.open(&server.at("/jobs?q=state:scheduled"));
    browser.click("tbody tr:nth-child(2) input[type=checkbox]");
    browser.click("button[value=cancel]");
    browser.reads("Cancel 1 job?");
}

#[tokio::test]
async fn an_invalid_search_says_what_is_wrong() {
    let server = Server::start(&[]).await;
    let browser = Browser::start().await;
    server.enqueue(&serde_json::json!({"kind": "later", "in_ms": 600_000}));
    browser.open(&server.at("/jobs"));
    browser.until(SCRIPTED);
    browser.press("/");
    browser.press(&format!("stat:dead{ENTER}"));
    browser.reads("Invalid search");
    browser.reads("did you mean state");
    assert_eq!(browser.eval("document.querySelector('#q').value"), "stat:dead", "the form keeps its values");
    browser.click("a.pill:nth-child(2)");
    browser.until("document.querySelectorAll('tbody tr').length === 1");
    assert_eq!(browser.complaints(), [""; 0]);
}
