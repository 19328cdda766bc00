//! The dashboard over real sockets: pages, forms, permissions, and content that must never be in a page.

mod bulk_modes;
mod cluster;
mod contrast;
mod copy;
mod dead_letters;
mod job;
mod outboxes;
mod subscriptions;
mod overview;
mod retry;

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::access::session::{cookie, log_in};
use crate::kit::{Answer, Served};

pub(crate) const HTML: (&str, &str) = ("Accept", "text/html");
const SAME: (&str, &str) = ("Sec-Fetch-Site", "same-origin");
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");
const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>";

pub(crate) async fn page(served: &Served, path: &str) -> Answer {
    served.send("GET", path, &[HTML], b"").await
}

pub(crate) async fn submit(served: &Served, path: &str, form: &str) -> Answer {
    served.send("POST", path, &[HTML, SAME, FORM], form.as_bytes()).await
}

pub(crate) async fn enqueue(served: &Served, body: serde_json::Value) -> String {
    let made = served.post("/api/v1/jobs", &body.to_string()).await;
    assert!(made.status < 300, "{made:?}");
    made.json()["id"].as_str().unwrap().to_owned()
}

/// The paths of all pages, with values for their parameters.
fn all(job: &str, batch: &str) -> Vec<String> {
    let pages = lineclear_http::routes().into_iter().filter(|(method, path, _)| {
        method == "GET"
            && !path.starts_with("/api")
            && !path.starts_with("/assets")
            && !path.ends_with(".csv")
            && !path.ends_with(".ndjson")
            // Only a held lock can be broken; `pages/cluster.rs` tests that page.
            && !["/livez", "/readyz", "/metrics", "/live", "/login", "/locks/{name}/break"].contains(&path.as_str())
    });
    let filled = |path: String| match path.as_str() {
        "/bulk-operations/new" => "/bulk-operations/new?action=revive&q=id:%3E0".to_owned(),
        path if path.starts_with("/bulk-operations") => path.replace("{id}", batch),
        // The first node of a database.
        path if path.starts_with("/nodes") => path.replace("{id}", "1"),
        // A message that `untrusted_text_is_escaped_on_every_page` writes.
        path if path.starts_with("/outbox") => path.replace("{name}", "main").replace("{id}", "1"),
        // A parked event of the same test.
        path if path.starts_with("/subscriptions") => path.replace("{name}", "mailer").replace("{id}", "1"),
        path => path.replace("{id}", job),
    };
    pages.map(|(_, path, _)| filled(path)).collect()
}

/// A page must not contain inline code or style, nor markup from untrusted text.
fn is_clean(path: &str, answer: &Answer) {
    let policy = answer.header("content-security-policy").unwrap_or_else(|| panic!("{path}: {answer:?}"));
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{path}: {policy}");
    let body = &answer.body;
    assert!(!body.contains("<script>") && !body.contains("<img src=x"), "{path}: {body}");
    assert!(!body.contains(" style=") && !body.contains("javascript:"), "{path}: {body}");
    for tag in body.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        let outside: String = tag.split('"').step_by(2).collect();
        assert!(
            !outside.split_whitespace().any(|word| word.starts_with("on") && word.contains('=')),
            "{path}: <{tag}>"
        );
    }
}

async fn pages_work_on_an_empty_database(served: &Served) {
    for path in ["/", "/jobs", "/enqueue", "/?range=7d", "/jobs?q=state:dead"] {
        let answer = page(served, path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        is_clean(path, &answer);
    }
    assert!(page(served, "/jobs").await.body.contains("No jobs yet"));
    assert!(page(served, "/").await.body.contains("First steps"));
    assert!(page(served, "/jobs?q=kind:none").await.body.contains("No matching jobs"));
}

async fn untrusted_text_is_escaped_on_every_page(served: &Served) {
    let made = enqueue(served, json!({"kind": "broken", "input": HOSTILE, "limit_key": HOSTILE})).await;
    served.until(&format!("/api/v1/jobs/{made}"), |job| job["state"] == "dead").await;
    enqueue(served, json!({"kind": "add", "input": {HOSTILE: HOSTILE}, "in_ms": 600_000})).await;
    let batch =
        json!({"action": "revive", "q": "id:>0", "reason": HOSTILE, "starts_in_ms": 600_000}).to_string();
    let batch =
        served.post("/api/v1/bulk-operations", &batch).await.json()["id"].as_str().unwrap().to_owned();
    let untrusted = lineclear_outbox::Message::new(HOSTILE, &json!({HOSTILE: HOSTILE})).unwrap().key(HOSTILE);
    assert_eq!(crate::api::outboxes::write(served, &[untrusted]).await, [1]);
    let untrusted = lineclear_outbox::NewEvent::new(HOSTILE, &json!({HOSTILE: HOSTILE})).unwrap();
    crate::api::subscriptions::park(served, "mailer", &[untrusted]).await;
    for path in all(&made, &batch) {
        let answer = page(served, &path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        is_clean(&path, &answer);
    }
    let job = page(served, &format!("/jobs/{made}")).await.body;
    assert!(job.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "it is shown, as text: {job}");
    for path in [
        format!("/jobs?q={}", "%3Cscript%3Ealert(1)"),
        "/jobs?q=state:%3Cb%3E".to_owned(),
        "/%3Cscript%3E".to_owned(),
    ] {
        is_clean(&path, &page(served, &path).await);
    }
}

async fn characters_that_reorder_or_hide_text_are_visible(served: &Served) {
    let hidden = "invoice\u{202e}gpj.exe\u{2066}\u{9b}\u{7f}";
    let made = enqueue(served, json!({"kind": "broken", "input": hidden, "limit_key": hidden})).await;
    served.until(&format!("/api/v1/jobs/{made}"), |job| job["state"] == "dead").await;
    let job = page(served, &format!("/jobs/{made}")).await.body;
    assert!(job.contains("invoice⟨U+202E⟩gpj.exe⟨U+2066⟩⟨U+009B⟩⟨U+007F⟩"), "{job}");
    for path in [
        format!("/jobs/{made}"),
        "/jobs".to_owned(),
        "/dead-letters".to_owned(),
        "/jobs?q=%E2%80%AE".to_owned(),
    ] {
        let body = page(served, &path).await.body;
        let text = body.split('<').filter_map(|part| part.split_once('>')).map(|(_, text)| text);
        assert!(
            text.into_iter().all(|text| !text.contains(['\u{202e}', '\u{2066}', '\u{9b}', '\u{7f}'])),
            "{path}: {body}"
        );
    }
    let again = page(served, &format!("/jobs/{made}/retry?edit=true")).await.body;
    let (_, input) = again.split_once("<textarea").unwrap();
    assert!(
        input.split_once("</textarea>").unwrap().0.contains('\u{202e}'),
        "a form keeps what it would send: {again}"
    );
}

async fn an_invalid_search_is_explained(served: &Served) {
    let answer = page(served, "/jobs?q=stat:dead").await;
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("Invalid search") && answer.body.contains("state"), "{answer:?}");
    assert!(answer.body.contains("value=\"stat:dead\""), "the form keeps its values");
    let answer = page(served, "/jobs?nonsense=1").await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("<h1>Bad Request</h1>"), "{answer:?}");
}

async fn a_list_continues_where_the_last_page_ended(served: &Served) {
    for _ in 0..60 {
        enqueue(served, json!({"kind": "add", "in_ms": 600_000})).await;
    }
    let first = page(served, "/jobs").await.body;
    let next = first.split("rel=\"next\" href=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let second = page(served, &next.replace("&amp;", "&")).await.body;
    let ids = |body: &str| body.matches("<tr data-key=").count();
    assert_eq!((ids(&first), ids(&second)), (50, 10));
    assert!(!second.contains("rel=\"next\""), "that was all");
}

async fn every_action_of_a_page_asks_for_confirmation(served: &Served) {
    let job = enqueue(served, json!({"kind": "add", "in_ms": 600_000})).await;
    let asked = page(served, &format!("/jobs/{job}/cancel")).await;
    assert!(
        asked.body.contains("Cancel job") && asked.body.contains(&format!("lineclear job cancel {job}")),
        "{asked:?}"
    );
    let done = submit(served, &format!("/jobs/{job}/cancel"), "").await;
    assert_eq!((done.status, done.header("location")), (303, Some(&*format!("/jobs/{job}"))), "{done:?}");
    assert_eq!(served.get(&format!("/api/v1/jobs/{job}")).await.json()["state"], "cancelled");
    let again = submit(served, &format!("/jobs/{job}/cancel"), "").await;
    assert_eq!(again.status, 409);
    assert!(
        again.body.contains("<!DOCTYPE html>") && again.body.contains("is already cancelled"),
        "{again:?}"
    );

    let dead = enqueue(served, json!({"kind": "broken", "input": "mended"})).await;
    served.until(&format!("/api/v1/jobs/{dead}"), |job| job["state"] == "completed").await;
    let again = submit(served, &format!("/jobs/{dead}/retry"), "note=once+more").await;
    assert_eq!(again.status, 303, "{again:?}");
    let new = again.header("location").unwrap().to_owned();
    assert_ne!(new, format!("/jobs/{dead}"), "a new job");
    assert_eq!(page(served, &new).await.status, 200);
}

async fn a_bulk_action_is_counted_first_and_can_be_undone(served: &Served) {
    for message in ["one cause", "one cause", "another"] {
        enqueue(served, json!({"kind": "broken", "input": message})).await;
    }
    served.until("/api/v1/dead-letters/families", |families| families["total"] == 3).await;
    let shown = page(served, "/dead-letters").await.body;
    assert_eq!(shown.matches("<article").count(), 2, "two families: {shown}");
    let address = shown.split("action=revive").next().map(str::len).unwrap();
    let link = &shown[shown[..address].rfind("href=\"").unwrap() + 6..];
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    let asked = page(served, &link).await;
    assert!(
        asked.body.contains("Revive 2 jobs?")
            && asked.body.contains("lineclear bulk-operation start revive -q"),
        "{asked:?}"
    );
    let q = link.split("q=").nth(1).unwrap();
    let made = submit(served, "/bulk-operations/new", &format!("action=revive&q={q}&reason=mended")).await;
    assert_eq!(made.status, 303, "{made:?}");
    let batch = made.header("location").unwrap().to_owned();
    assert!(page(served, &batch).await.body.contains("Undo"));
    assert_eq!(submit(served, &format!("{batch}/cancel"), "").await.status, 303);
    let undone = page(served, &batch).await.body;
    assert!(undone.contains("before it changed anything") && !undone.contains("Undo"), "{undone}");
    assert_eq!(served.get("/api/v1/dead-letters/families").await.json()["total"], 3);

    let one = enqueue(served, json!({"kind": "add", "in_ms": 600_000})).await;
    let two = enqueue(served, json!({"kind": "add", "in_ms": 600_000})).await;
    let asked = page(served, &format!("/bulk-operations/new?action=cancel&id={one}&id={two}")).await;
    assert!(asked.body.contains("Cancel 2 jobs?"), "{asked:?}");
    for nothing in [
        "/bulk-operations/new?action=cancel",
        "/bulk-operations/new?action=burn&q=id:1",
        "/bulk-operations/new",
        "/bulk-operations/new?action=cancel&q=stat:x",
    ] {
        assert_eq!(page(served, nothing).await.status, 400, "{nothing}");
    }
}

async fn every_list_is_a_file_with_all_of_its_rows(served: &Served) {
    let hostile = json!({"kind": "broken", "input": "=1+1, \"quoted\"\nsecond line"});
    let dead = enqueue(served, hostile).await;
    served.until(&format!("/api/v1/jobs/{dead}"), |job| job["state"] == "dead").await;
    let many: Vec<_> = (0..1_000).map(|_| json!({"kind": "add", "in_ms": 600_000})).collect();
    let made = served.post("/api/v1/jobs/batch", &json!({"jobs": many}).to_string()).await;
    assert_eq!(made.status, 201);
    enqueue(served, json!({"kind": "add", "in_ms": 600_000, "tags": ["a", "b"]})).await;
    let csv = page(served, "/jobs.csv?q=state:scheduled").await;
    assert!(csv.header("content-type").unwrap().starts_with("text/csv"), "{csv:?}");
    assert_eq!(csv.header("content-disposition"), Some("attachment; filename=\"jobs.csv\""));
    assert_eq!(csv.body.lines().count(), 1_002, "a head, and more than one page");
    assert!(csv.body.starts_with("id,state,kind,") && csv.body.contains(",a b,"), "{}", &csv.body[..300]);
    let rows = page(served, "/jobs.ndjson?q=state:scheduled").await.body;
    let rows: Vec<serde_json::Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 1_001);
    let api = served.get("/api/v1/jobs?q=state:scheduled&limit=1").await.json();
    assert_eq!(rows[0], api["items"][0], "a row is the API's");
    let dead = page(served, "/dead-letters.csv").await.body;
    assert!(dead.contains("\"'=1+1, \"\"quoted\"\""), "no formula: {dead}");
    assert_eq!(page(served, "/dead-letters.ndjson?status=revived").await.body, "");
    assert!(page(served, "/bulk-operations.csv").await.body.starts_with("id,action,q,"));
    for bad in ["/jobs.csv?q=stat:x", "/dead-letters.csv?status=x", "/bulk-operations.ndjson?x=1"] {
        assert_eq!(page(served, bad).await.status, 400, "{bad}");
    }
}

async fn the_enqueue_form_enqueues_and_keeps_its_values_on_errors(served: &Served) {
    let made = submit(served, "/enqueue", "kind=add&input=%5B1%2C2%5D&priority=3&when=10m").await;
    assert_eq!(made.status, 303, "{made:?}");
    let id = made.header("location").unwrap().rsplit('/').next().unwrap().to_owned();
    let job = served.get(&format!("/api/v1/jobs/{id}")).await.json();
    assert_eq!((&job["input"], &job["state"]), (&json!([1, 2]), &json!("scheduled")));
    for (form, expected) in [
        ("kind=Add&input=1", "name"),
        ("kind=add&input=%7B", "must be JSON"),
        ("kind=add&priority=99", "99"),
        ("kind=add&group=unknown-group", "unknown-group"),
        ("kind=add&when=soon", "is not a time"),
    ] {
        let refused = submit(served, "/enqueue", form).await;
        assert!((400..500).contains(&refused.status), "{form}: {refused:?}");
        assert!(
            refused.body.contains("role=\"alert\"") && refused.body.contains(expected),
            "{form}: {}",
            refused.body
        );
        is_clean(form, &refused);
    }
    let like = page(served, &format!("/enqueue?like={id}")).await.body;
    assert!(like.contains("value=\"add\"") && like.contains("[1,2]</textarea>"), "{like}");
}

async fn a_page_of_another_site_changes_nothing(served: &Served) {
    let job = enqueue(served, json!({"kind": "add", "in_ms": 600_000})).await;
    let path = format!("/jobs/{job}/cancel");
    for from in [
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
        ("Origin", "https://evil.example"),
    ] {
        let answer = served.send("POST", &path, &[HTML, FORM, from], b"").await;
        assert_eq!(answer.status, 403, "{from:?}: {answer:?}");
    }
    assert_eq!(served.get(&format!("/api/v1/jobs/{job}")).await.json()["state"], "scheduled");
}

/// Reads a stream until it contains `part`.
async fn live(served: &Served, page: &str, part: &str) -> String {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!("GET /live?page={page} HTTP/1.1\r\nHost: {}\r\n\r\n", served.address);
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut text, mut bytes) = (String::new(), [0; 65536]);
    let read = async {
        while !text.contains(part) {
            let count = stream.read(&mut bytes).await.unwrap();
            assert!(count > 0, "it ended: {text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    };
    tokio::time::timeout(Duration::from_secs(30), read).await.unwrap_or_else(|_| panic!("in vain: {part}"));
    text
}

async fn an_open_page_updates_itself(served: &Served) {
    let (said, job) = tokio::join!(live(served, "/jobs", "in-the-list"), async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        enqueue(served, json!({"kind": "in-the-list", "in_ms": 600_000})).await
    });
    assert!(said.contains("text/event-stream") && said.contains("event: region"), "{said}");
    assert!(said.contains(&job), "{said}");
    let bad = served.get("/live?page=http%3A%2F%2Felsewhere%2F").await;
    assert_eq!((bad.status, bad.code().as_str()), (400, "page"));
    assert_eq!(served.get("/live").await.status, 400);
}

on_each_store! {
    pages_work_on_an_empty_database
    untrusted_text_is_escaped_on_every_page
    characters_that_reorder_or_hide_text_are_visible
    an_invalid_search_is_explained
    a_list_continues_where_the_last_page_ended
    every_action_of_a_page_asks_for_confirmation
    a_bulk_action_is_counted_first_and_can_be_undone
    every_list_is_a_file_with_all_of_its_rows
    the_enqueue_form_enqueues_and_keeps_its_values_on_errors
    a_page_of_another_site_changes_nothing
    an_open_page_updates_itself
}

async fn a_browser_is_redirected_to_the_login_and_back(served: &Served) {
    let token = served.token("read").await;
    let sent = page(served, "/jobs?q=state:dead").await;
    assert_eq!(
        (sent.status, sent.header("location")),
        (303, Some("/login?back=/jobs%3Fq%3Dstate:dead")),
        "{sent:?}"
    );
    let form = page(served, "/login?back=/jobs").await;
    assert!(form.status == 200 && form.body.contains("name=\"token\""), "{form:?}");
    is_clean("/login", &form);
    let wrong = submit(served, "/login", "token=lc_unknown_x&back=/jobs").await;
    assert!(wrong.status == 401 && wrong.body.contains("role=\"alert\""), "{wrong:?}");
    let form = format!("token={token}&back=/jobs");
    let hidden = served.send("POST", "/login", &[HTML, FORM], form.as_bytes()).await;
    assert_eq!(hidden.status, 403, "a form that does not name its origin: {hidden:?}");
    let right = submit(served, "/login", &form).await;
    assert_eq!((right.status, right.header("location")), (303, Some("/jobs")), "{right:?}");
    let session = cookie(&right);
    let listed = served.send("GET", "/jobs", &[HTML, ("Cookie", &session)], b"").await;
    assert!(listed.status == 200 && listed.body.contains("read only"), "{listed:?}");
    let out = served.send("POST", "/logout", &[HTML, SAME, FORM, ("Cookie", &session)], b"").await;
    assert_eq!((out.status, out.header("location")), (303, Some("/login")), "{out:?}");
    assert_eq!(served.send("GET", "/jobs", &[HTML, ("Cookie", &session)], b"").await.status, 303);
    assert_eq!(served.get("/jobs").await.status, 401, "a program gets 401 instead of a redirect");
}

async fn a_client_with_the_scope_read_is_offered_no_actions(served: &Served) {
    let (read, operate) = (served.token("read").await, served.token("operate").await);
    let made = served.with(&operate, "POST", "/api/v1/jobs", r#"{"kind": "add", "in_ms": 600000}"#).await;
    let job = made.json()["id"].as_str().unwrap().to_owned();
    let (reader, operator) = (cookie(&log_in(served, &read).await), cookie(&log_in(served, &operate).await));
    let as_who = async |cookie: &str, method: &str, path: &str| {
        served.send(method, path, &[HTML, SAME, FORM, ("Cookie", cookie)], b"").await
    };
    let shown = as_who(&reader, "GET", &format!("/jobs/{job}")).await.body;
    assert!(!shown.contains("/cancel") && !shown.contains("/enqueue"), "{shown}");
    assert!(!as_who(&reader, "GET", "/jobs").await.body.contains("type=\"checkbox\""));
    for (method, path, need) in lineclear_http::routes() {
        let is_page = !path.starts_with("/api") && need.as_deref().is_some_and(|need| need != "read");
        if is_page {
            let answer = as_who(&reader, &method, &path.replace("{id}", &job)).await;
            assert_eq!(answer.status, 403, "{method} {path}: {answer:?}");
        }
    }
    let shown = as_who(&operator, "GET", &format!("/jobs/{job}")).await.body;
    assert!(shown.contains(&format!("/jobs/{job}/cancel")), "{shown}");
    assert_eq!(as_who(&operator, "POST", &format!("/jobs/{job}/cancel")).await.status, 303);
}

with_tokens_on_each_store! {
    a_browser_is_redirected_to_the_login_and_back
    a_client_with_the_scope_read_is_offered_no_actions
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_under_a_path_links_to_itself_with_and_without_it() {
    let served = Served::sqlite_with(|http| http.base_path = "/ops/lineclear".to_owned()).await;
    for path in ["/ops/lineclear", "/ops/lineclear/", "/ops/lineclear/jobs?q=state:dead", "/jobs"] {
        let answer = page(&served, path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        for link in answer.body.split("href=\"").skip(1).chain(answer.body.split("action=\"").skip(1)) {
            assert!(link.starts_with("/ops/lineclear/") || link.starts_with('#'), "{path}: {}", &link[..40]);
        }
    }
    assert_eq!(served.get("/ops/lineclear/api/v1/jobs").await.status, 200);
    assert_eq!(served.get("/ops/lineclear/livez").await.status, 200);
    assert_eq!(served.get("/ops/lineclearly/livez").await.status, 404);
    let made = submit(&served, "/ops/lineclear/enqueue", "kind=add&when=10m").await;
    assert!(made.header("location").unwrap().starts_with("/ops/lineclear/jobs/"), "{made:?}");
    served.end().await;
}

#[test]
fn the_script_and_the_style_are_small() {
    let bytes = |file: &str| {
        std::fs::metadata(format!("{}/assets/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap().len()
    };
    assert!(bytes("app.js") < 25_000, "{}", bytes("app.js"));
    assert!(bytes("app.css") < 30_000, "{}", bytes("app.css"));
}
