//! Where the jobs of each kind go: submitters, and remote workers among the nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lineclear::submitters::{Accepted, Submission, SubmitFuture, SubmittedJob, Submitter, SubmitterStatus};
use lineclear::{Lineclear, NodeOptions};
use serde_json::{Value, json};

use super::claims::Worker;
use crate::kit::Served;

const TARGET: &str = "push https://render.internal/jobs?<b>";

/// Accepts every job, unless its breaker is open.
#[derive(Clone, Default)]
struct Batch {
    is_open: Arc<AtomicBool>,
}

impl Submitter for Batch {
    fn submit(&self, job: SubmittedJob) -> SubmitFuture {
        let accepted =
            Accepted::new().external_id(format!("batch-{}", job.id)).lease(Duration::from_secs(600));
        Box::pin(async { Submission::Accepted(accepted) })
    }

    fn capacity(&self) -> u32 {
        if self.is_open.load(Ordering::Relaxed) { 0 } else { 7 }
    }

    fn status(&self) -> SubmitterStatus {
        match self.is_open.load(Ordering::Relaxed) {
            false => SubmitterStatus::ready(TARGET),
            true => {
                let (detail, retry) = ("connection refused".to_owned(), Duration::from_secs(40));
                SubmitterStatus::not_ready(TARGET, "breaker open", Some(detail), Some(retry))
            }
        }
    }
}

/// Another server on the same database, whose node has a submitter.
async fn with_submitter(served: &Served, batch: &Batch) -> Served {
    let quick = Duration::from_millis(250);
    let options = NodeOptions { poll: quick, heartbeat: quick, ..NodeOptions::default() };
    let node = Lineclear::builder().store(served.url.as_str()).options(options).name("push-1");
    let node = node.submitter("batch", batch.clone()).submit_to("batch", ["render"]).start().await.unwrap();
    Served::of(node, &served.url).await
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let found = list["items"].as_array().unwrap().iter().find(|submitter| submitter["name"] == name);
    found.unwrap_or(&Value::Null)
}

async fn page(served: &Served, path: &str) -> String {
    served.send("GET", path, &[("Accept", "text/html")], b"").await.body
}

async fn submitters_are_listed_with_their_breakers_on_every_node(served: &Served) {
    let batch = Batch::default();
    let there = with_submitter(served, &batch).await;
    let list = there.get("/api/v1/submitters").await;
    assert_eq!(list.status, 200, "{list:?}");
    let list = list.json();
    let expected = json!({"name": "batch", "node": "push-1", "kinds": ["render"], "target": TARGET, "state": "ready", "detail": null,
        "retry_in_ms": null, "in_flight": 0, "capacity": 7, "accepted": 0});
    assert_eq!(named(&list, "batch"), &expected, "{list}");
    assert_eq!(named(&list, "local")["node"], "push-1", "{list}");
    assert_eq!(
        (&named(&list, "pull")["kinds"], &named(&list, "pull")["state"]),
        (&json!([]), &json!("ready"))
    );

    batch.is_open.store(true, Ordering::Relaxed);
    let list = there.get("/api/v1/submitters").await.json();
    let open = named(&list, "batch");
    assert_eq!(
        (&open["state"], &open["detail"], &open["capacity"]),
        (&json!("breaker open"), &json!("connection refused"), &json!(0))
    );
    assert_eq!(open["retry_in_ms"], 40_000, "{open}");
    // The other node learns it with a heartbeat.
    let list =
        served.until("/api/v1/submitters", |list| named(list, "batch")["state"] == "breaker open").await;
    let open = named(&list, "batch");
    assert_eq!(
        (&open["node"], &open["kinds"], &open["target"]),
        (&json!("push-1"), &json!(["render"]), &json!(TARGET))
    );
    assert!(open["retry_in_ms"].as_u64().unwrap() <= 40_000, "{open}");

    let job = served.post("/api/v1/jobs", r#"{"kind": "render"}"#).await.json();
    let job = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
    let explained = served.get(&format!("{job}/explain")).await.json();
    let verdict = explained["verdict"].as_str().unwrap();
    assert!(
        verdict.starts_with(
            "submitter batch takes no jobs from push-1: breaker open (connection refused); it tries again at"
        ),
        "{verdict}"
    );
    let status = served.get("/api/v1/status").await.json();
    assert_eq!(
        (&status["alive"], &status["silent"]),
        (&json!(2), &json!(0)),
        "a submitter is no node: {status}"
    );
    assert!(
        status["problems"].as_array().unwrap().iter().any(|problem| problem["check"] == "submitters"),
        "{status}"
    );
    let nodes = served.get("/api/v1/nodes").await.json();
    assert_eq!(nodes["items"].as_array().unwrap().len(), 2, "{nodes}");
    assert!(
        nodes["items"].as_array().unwrap().iter().all(|node| node["runners"].get("submitters").is_none()),
        "{nodes}"
    );
    let cluster = page(served, "/cluster").await;
    for part in [
        "Submitters",
        "batch",
        "render",
        "breaker open",
        "connection refused",
        "tries again in",
        "jobs?&lt;b&gt;",
        "2 of 2 alive",
    ] {
        assert!(cluster.contains(part), "{part}: {cluster}");
    }

    batch.is_open.store(false, Ordering::Relaxed);
    let accepted = served.until(&job, |job| job["external_id"].is_string()).await;
    let id = format!("batch-{}", accepted["id"].as_str().unwrap());
    assert_eq!(
        (&accepted["holder"], &accepted["node"], &accepted["external_id"]),
        (&json!("submitter"), &json!("batch"), &json!(id))
    );
    let explained = served.get(&format!("{job}/explain")).await.json();
    assert!(
        explained["verdict"].as_str().unwrap().contains(&format!("is with submitter batch as {id} since")),
        "{explained}"
    );
    let list = there.get("/api/v1/submitters").await.json();
    assert_eq!(
        (&named(&list, "batch")["accepted"], &named(&list, "batch")["in_flight"]),
        (&json!(1), &json!(0)),
        "{list}"
    );
    let shown = page(served, &job.replace("/api/v1", "")).await;
    assert!(
        shown.contains("external id") && shown.contains(&id) && shown.contains("<dt>submitter</dt>"),
        "{shown}"
    );
    there.end().await;
}

async fn remote_workers_are_shown_drained_and_resumed(served: &Served) {
    assert!(!page(served, "/cluster").await.contains("Remote workers"), "there is none");
    let worker = Worker::new(served, &["thumb"]);
    assert_eq!(worker.pull_with(json!({"wait_ms": 0, "slots": 3})).await.status, 200);
    let nodes = served.get("/api/v1/nodes").await.json();
    let mailer = nodes["items"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&mailer["name"], &mailer["roles"], &mailer["kinds"], &mailer["slots"]),
        (&json!("mailer"), &json!(["worker"]), &json!(["thumb"]), &json!(3))
    );
    let status = served.get("/api/v1/status").await.json();
    assert_eq!(
        (&status["alive"], &status["workers"], &status["worker_slots"]),
        (&json!(1), &json!(1), &json!(3)),
        "{status}"
    );
    assert_eq!(status["nodes"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(served.get("/api/v1/stats/now").await.json()["workers"], 1);
    let list = served.get("/api/v1/submitters").await.json();
    let pull = named(&list, "pull");
    assert_eq!(
        (&pull["kinds"], &pull["target"], &pull["capacity"]),
        (&json!(["thumb"]), &json!("1 remote worker"), &json!(3)),
        "{list}"
    );
    let cluster = page(served, "/cluster").await;
    for part in [
        "Remote workers",
        "<strong>mailer</strong>",
        "thumb",
        "0</a>/3",
        "test/1",
        "where the jobs of each kind go",
    ] {
        assert!(cluster.replace("0/3</a>", "0</a>/3").contains(part), "{part}: {cluster}");
    }
    assert!(page(served, "/").await.contains("1 remote worker"), "on the overview");

    let node = format!("/api/v1/nodes/{}", mailer["id"].as_str().unwrap());
    let confirm = page(served, &format!("{}/drain", node.replace("/api/v1", ""))).await;
    assert!(confirm.contains("The remote worker gets no new jobs"), "{confirm}");
    let job =
        served.post("/api/v1/jobs", r#"{"kind": "thumb"}"#).await.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(served.post(&format!("{node}/drain"), "").await.status, 204);
    let is = |state: &'static str| {
        move |nodes: &Value| nodes["items"].as_array().unwrap().last().unwrap()["state"] == state
    };
    // A poll that waits is a sign of life, with which the node learns that the worker drains. The heartbeat may have told it before.
    let first = worker.pull_with(json!({"wait_ms": 1_500})).await;
    for claim in first.json()["claims"].as_array().unwrap() {
        // The node had not learned it yet.
        worker.call("settle", json!({"claims": [{"job": claim["job"]["id"], "no": claim["claim"]["no"], "outcome": "released"}]})).await;
    }
    served.until("/api/v1/nodes", is("drained")).await;
    let explained = served.get(&format!("/api/v1/jobs/{job}/explain")).await.json();
    assert!(
        explained["verdict"].as_str().unwrap().contains("only mailer could run kind thumb"),
        "{explained}"
    );
    let nothing = worker.pull_with(json!({"wait_ms": 300})).await.json();
    assert_eq!(nothing["claims"], json!([]), "it drains");
    assert_eq!(served.post(&format!("{node}/resume"), "").await.status, 204);
    assert_eq!(worker.pull_one().await["job"]["id"], json!(job));
    let held = served.get(&format!("/api/v1/jobs/{job}")).await.json();
    assert_eq!(
        (&held["holder"], &held["node"], &held["external_id"]),
        (&json!("worker"), &json!("mailer"), &json!(null))
    );
}

async fn the_enqueue_page_runs_a_job_and_waits_for_it(served: &Served) {
    let form = async |text: &str| {
        let headers = [
            ("Accept", "text/html"),
            ("Sec-Fetch-Site", "same-origin"),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        served.send("POST", "/enqueue", &headers, text.as_bytes()).await
    };
    assert!(page(served, "/enqueue").await.contains("Run and wait"));
    let ran = form("kind=add&input=%5B40%2C2%5D&then=wait").await;
    assert_eq!(ran.status, 303, "{ran:?}");
    let shown = page(served, ran.header("location").unwrap()).await;
    assert!(
        shown.contains("completed") && shown.contains("<pre class=\"json\">42</pre>"),
        "it is over: {shown}"
    );
    let later = form("kind=add&when=10m&then=wait").await;
    assert!((400..500).contains(&later.status) && later.body.contains("leave `when` empty"), "{later:?}");
}

on_each_store! {
    submitters_are_listed_with_their_breakers_on_every_node
    remote_workers_are_shown_drained_and_resumed
    the_enqueue_page_runs_a_job_and_waits_for_it
}
