//! The cluster page: nodes, locks, and the history of locks.

use std::time::Duration;

use lineclear_lock::{LockGuard, LockOptions, Locks, RegistryOptions};

use crate::access::session::{cookie, log_in};
use crate::kit::{Answer, Served};

const HTML: (&str, &str) = ("Accept", "text/html");
const SAME: (&str, &str) = ("Sec-Fetch-Site", "same-origin");
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

async fn page(served: &Served, path: &str) -> Answer {
    served.send("GET", path, &[HTML], b"").await
}

async fn submit(served: &Served, path: &str, form: &str) -> Answer {
    served.send("POST", path, &[HTML, SAME, FORM], form.as_bytes()).await
}

async fn locks(served: &Served) -> Locks {
    Locks::open_with_registry(&served.url, LockOptions::default(), RegistryOptions::default()).await.unwrap()
}

async fn take(locks: &Locks, name: &str) -> LockGuard {
    let held = locks.acquire(name, Duration::from_secs(30)).await.unwrap().expect("it is free");
    locks.registry().unwrap().flush().await.unwrap();
    held
}

fn is_clean(body: &str) {
    assert!(
        !body.contains("<script>") && !body.contains("<img src=x") && !body.contains(" style="),
        "{body}"
    );
}

async fn nodes_are_shown_and_this_node_is_marked(served: &Served) {
    let known = |nodes: &serde_json::Value| nodes["items"][0]["clock_skew_ms"].is_i64();
    let nodes = served.until("/api/v1/nodes", known).await;
    let node = &nodes["items"][0];
    assert!(node["clock_skew_ms"].as_i64().unwrap().abs() < 5_000, "one machine has one clock: {node}");
    assert!(node["runners"].get("clock").is_none(), "it is no runner: {node}");
    let shown = page(served, "/cluster").await;
    assert_eq!(shown.status, 200, "{shown:?}");
    let name = node["name"].as_str().unwrap();
    let body = &shown.body;
    assert!(
        body.contains("This node")
            && body.contains(&format!("<strong>{name}</strong> <span class=\"badge this\">")),
        "{body}"
    );
    assert!(body.contains("alive") && body.contains(" ms</td>") && body.contains("dispatcher"), "{body}");
    assert!(body.contains("aria-current=\"page\" data-key=\"c\""), "{body}");
    is_clean(body);
    for range in ["15m", "1h", "24h"] {
        assert_eq!(page(served, &format!("/cluster?range={range}")).await.status, 200);
    }
    for bad in ["/cluster?range=2h", "/cluster?x=1", "/nodes.csv?x=1", "/locks.csv?x=1"] {
        assert_eq!(page(served, bad).await.status, 400, "{bad}");
    }
}

async fn lanes_show_a_hand_over_with_a_higher_epoch(served: &Served) {
    let (one, other) = (locks(served).await, locks(served).await);
    let hostile = "night<script>alert(1)</script>";
    let held = take(&one, hostile).await;
    let first = held.lease().epoch().get();
    held.release().await.unwrap();
    one.flush().await;
    let held = take(&other, hostile).await;
    let second = held.lease().epoch().get();
    assert!(second > first);
    let body = page(served, "/cluster").await.body;
    is_clean(&body);
    let shown = "night&lt;script&gt;alert(1)&lt;/script&gt;";
    assert!(
        body.contains(&format!("<strong>{shown}</strong>: ")) && body.contains(" → "),
        "a sentence: {body}"
    );
    assert!(body.contains(&format!("epoch {second}")), "{body}");
    for epoch in [first, second] {
        assert!(body.contains(&format!("\">{shown} e{epoch}</text>")), "a bar for epoch {epoch}: {body}");
    }
    assert!(body.contains("class=\"hand-over\""), "{body}");
    let locks = served.get("/api/v1/locks").await.json();
    let files = page(served, "/locks.ndjson").await.body;
    assert_eq!(files.lines().count(), locks["items"].as_array().unwrap().len(), "{files}");
    assert!(page(served, "/locks.csv").await.body.starts_with("name,store,state,node,"));
    let nodes = page(served, "/nodes.csv").await;
    assert!(nodes.body.starts_with("id,name,host,pid,") && nodes.body.lines().count() == 2, "{nodes:?}");
    held.release().await.unwrap();
    other.flush().await;
}

async fn a_form_drains_and_resumes_a_node(served: &Served) {
    let nodes = served.get("/api/v1/nodes").await.json();
    let id = nodes["items"][0]["id"].as_str().unwrap().to_owned();
    let shown = page(served, "/cluster").await.body;
    assert!(shown.contains(&format!("href=\"/nodes/{id}/drain\"")), "{shown}");
    let asked = page(served, &format!("/nodes/{id}/drain")).await;
    assert!(
        asked.body.contains("lineclear node drain ") && asked.body.contains("takes no new jobs"),
        "{asked:?}"
    );
    let done = submit(served, &format!("/nodes/{id}/drain"), "").await;
    assert_eq!((done.status, done.header("location")), (303, Some("/cluster")), "{done:?}");
    served.until("/api/v1/nodes", |nodes| nodes["items"][0]["state"] == "drained").await;
    let shown = page(served, "/cluster").await.body;
    assert!(
        shown.contains(&format!("href=\"/nodes/{id}/resume\"")) && shown.contains(" by anonymous:127.0.0.1"),
        "{shown}"
    );
    assert_eq!(submit(served, &format!("/nodes/{id}/resume"), "").await.status, 303);
    served.until("/api/v1/nodes", |nodes| nodes["items"][0]["state"] == "alive").await;
    for path in ["/nodes/999/drain", "/nodes/x/drain", "/nodes/999/resume"] {
        assert_eq!(page(served, path).await.status, 404, "{path}");
        assert_eq!(submit(served, path, "").await.status, 404, "{path}");
    }
}

async fn a_form_breaks_a_lock_and_its_holder_notices(served: &Served) {
    let holder = locks(served).await;
    // A name with a slash, a quote and markup.
    let held = take(&holder, "nightly/it's<b>").await;
    let epoch = held.lease().epoch();
    let path = "/locks/nightly%2Fit%27s%3Cb%3E/break";
    let shown = page(served, "/cluster").await.body;
    assert!(shown.contains(&format!("href=\"{path}\"")), "{shown}");
    let asked = page(served, path).await.body;
    is_clean(&asked);
    assert!(asked.contains("lineclear lock break 'nightly/it'\\''s&lt;b&gt;'"), "{asked}");
    assert!(
        asked.contains(&format!("name=\"epoch\" value=\"{epoch}\""))
            && asked.contains("may continue to work"),
        "{asked}"
    );

    let form = |name: &str, epoch: &str| format!("name={name}&epoch={epoch}&reason=machine+b7+hangs");
    let (name, epoch) = ("nightly%2Fit%27s%3Cb%3E", epoch.to_string());
    let typo = submit(served, path, &form("nightly", &epoch)).await;
    assert_eq!(typo.status, 422, "{typo:?}");
    assert!(
        typo.body.contains("type the name of the lock") && typo.body.contains("machine b7 hangs"),
        "nothing typed is lost: {typo:?}"
    );
    let silent = submit(served, path, &format!("name={name}&epoch={epoch}&reason=")).await;
    assert!(silent.status == 422 && silent.body.contains("is required"), "{silent:?}");
    let another = submit(served, path, &form(name, "999999")).await;
    assert!(another.status == 409 && another.body.contains("reload and try again"), "{another:?}");
    assert!(held.lease().lost_reason().is_none(), "nothing was changed until now");

    let done = submit(served, path, &form(name, &epoch)).await;
    assert_eq!((done.status, done.header("location")), (303, Some("/cluster")), "{done:?}");
    let history = served.get("/api/v1/locks/nightly%2Fit%27s%3Cb%3E/history").await.json();
    let last = &history["items"][0];
    assert_eq!(
        (&last["what"], &last["by_whom"], &last["why"]),
        (&"broken".into(), &"anonymous:127.0.0.1".into(), &"machine b7 hangs".into()),
        "{history}"
    );
    let audit = served.get("/api/v1/audit").await.json();
    let row = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["action"] == "break_lock" && row["status"] == 303)
        .unwrap_or_else(|| panic!("{audit}"));
    assert_eq!(
        (&row["target"], &row["details"]["reason"]),
        (&"nightly/it's<b>".into(), &"machine b7 hangs".into()),
        "{row}"
    );
    let lease = held.lease();
    tokio::time::timeout(Duration::from_secs(30), lease.lost().cancelled())
        .await
        .expect("the holder notices the loss");
    assert_eq!(page(served, path).await.status, 409, "the lock is free");
    let shown = page(served, "/cluster").await.body;
    assert!(!shown.contains(path), "a free lock has no break button: {shown}");
    drop(held);
    holder.flush().await;
}

on_each_store! {
    a_form_breaks_a_lock_and_its_holder_notices
    nodes_are_shown_and_this_node_is_marked
    lanes_show_a_hand_over_with_a_higher_epoch
    a_form_drains_and_resumes_a_node
}

async fn a_client_with_the_scope_read_cannot_change_the_cluster(served: &Served) {
    let (read, admin) = (served.token("read").await, served.token("admin").await);
    let nodes = served.with(&admin, "GET", "/api/v1/nodes", "").await.json();
    let id = nodes["items"][0]["id"].as_str().unwrap().to_owned();
    let one = locks(served).await;
    let held = take(&one, "nightly").await;
    let reader = cookie(&log_in(served, &read).await);
    let as_reader = async |method: &str, path: &str| {
        served.send(method, path, &[HTML, SAME, FORM, ("Cookie", &reader)], b"").await
    };
    let shown = as_reader("GET", "/cluster").await;
    assert_eq!(shown.status, 200);
    assert!(shown.body.contains("nightly"), "{shown:?}");
    assert!(!shown.body.contains("/drain") && !shown.body.contains("/break"), "{shown:?}");
    for path in
        [format!("/nodes/{id}/drain"), format!("/nodes/{id}/resume"), "/locks/nightly/break".to_owned()]
    {
        assert_eq!(as_reader("POST", &path).await.status, 403, "{path}");
    }
    let nodes = served.with(&admin, "GET", "/api/v1/nodes", "").await.json();
    assert_eq!(nodes["items"][0]["state"], "alive");
    held.release().await.unwrap();
    one.flush().await;
}

with_tokens_on_each_store! {
    a_client_with_the_scope_read_cannot_change_the_cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_registry_says_so_and_shows_the_rest() {
    let served = Served::sqlite_with(|http| http.locks = None).await;
    let shown = page(&served, "/cluster").await;
    assert_eq!(shown.status, 200);
    assert!(shown.body.contains("has no lease registry") && shown.body.contains("This node"), "{shown:?}");
    served.end().await;
}
