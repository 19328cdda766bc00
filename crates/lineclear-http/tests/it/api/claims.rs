//! Remote workers over HTTP: they pull jobs, report on them, and settle them.

mod tokens;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::kit::{Answer, Served};

/// A worker without a library: it sends what a test says.
pub(crate) struct Worker<'a> {
    served: &'a Served,
    pub(crate) id: String,
    kinds: Value,
    token: Option<String>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(served: &'a Served, kinds: &[&str]) -> Worker<'a> {
        Worker { served, id: uuid::Uuid::new_v4().to_string(), kinds: json!(kinds), token: None }
    }

    pub(crate) fn with_token(self, token: &str) -> Worker<'a> {
        Worker { token: Some(token.to_owned()), ..self }
    }

    /// A worker whose kinds are known to be pulled: jobs go straight to it.
    pub(crate) async fn ready(served: &'a Served, kinds: &[&str]) -> Worker<'a> {
        let worker = Worker::new(served, kinds);
        let none = worker.pull_with(json!({"wait_ms": 0})).await;
        assert_eq!((none.status, &none.json()["claims"]), (200, &json!([])), "{none:?}");
        worker
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        match &self.token {
            Some(token) => self.served.with(token, method, path, body).await,
            None => {
                let json = [("Content-Type", "application/json")];
                self.served.send(method, path, &json, body.as_bytes()).await
            }
        }
    }

    pub(crate) fn body(&self, more: Value) -> Value {
        let worker =
            json!({"id": self.id, "name": "mailer", "host": "web1", "pid": 4711, "version": "test/1"});
        let mut body = json!({"worker": worker, "kinds": self.kinds, "slots": 10, "wait_ms": 10_000});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    }

    pub(crate) async fn pull_with(&self, more: Value) -> Answer {
        self.send("POST", "/api/v1/claims", &self.body(more).to_string()).await
    }

    /// The claims of one poll.
    pub(crate) async fn pull(&self) -> Vec<Value> {
        let answer = self.pull_with(json!({})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["claims"].as_array().unwrap().clone()
    }

    /// The only claim of one poll.
    pub(crate) async fn pull_one(&self) -> Value {
        let claims = self.pull().await;
        assert_eq!(claims.len(), 1, "{claims:?}");
        claims[0].clone()
    }

    /// A call about claims.
    pub(crate) async fn call(&self, what: &str, more: Value) -> Answer {
        let mut body = json!({"worker": self.id});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.send("POST", &format!("/api/v1/claims/{what}"), &body.to_string()).await
    }

    pub(crate) async fn settle(&self, claim: &Value, outcome: Value) -> Answer {
        self.call("settle", json!({"claims": [of(claim, outcome)]})).await
    }
}

/// An item of a call about this claim.
pub(crate) fn of(claim: &Value, more: Value) -> Value {
    let mut item = json!({"job": claim["job"]["id"], "no": claim["claim"]["no"]});
    item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    item
}

pub(crate) async fn enqueue(served: &Served, kind: &str, input: Value) -> String {
    let made = served.post("/api/v1/jobs", &json!({"kind": kind, "input": input}).to_string()).await;
    assert_eq!(made.status, 201, "{made:?}");
    made.json()["id"].as_str().unwrap().to_owned()
}

fn path(job: &str) -> String {
    format!("/api/v1/jobs/{job}")
}

async fn a_worker_pulls_a_job_and_settles_it(served: &Served) {
    let worker = Worker::ready(served, &["invoice", "refund"]).await;
    let job = enqueue(served, "invoice", json!({"n": 1})).await;
    let answer = worker.pull_with(json!({})).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let (node, claim) = (answer.json()["worker"]["node"].clone(), answer.json()["claims"][0].clone());
    let expected = json!({
        "job": {"id": job, "kind": "invoice", "input": {"n": 1}, "manifest": null, "tick_at": null, "attempt": 1, "trace": null},
        "claim": {"no": 1, "lease_ms": 30_000, "timeout_ms": 1_200_000}
    });
    assert_eq!(claim, expected);
    assert_eq!(served.get(&path(&job)).await.json()["state"], "running");
    let nodes = served.get("/api/v1/nodes").await.json();
    let seen = nodes["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["id"] == node)
        .expect("it is a node")
        .clone();
    assert_eq!((&seen["name"], &seen["host"], &seen["holds"]), (&json!("mailer"), &json!("web1"), &json!(1)));
    assert_eq!(seen["kinds"], json!(["invoice", "refund"]));

    let done = json!({"outcome": "completed", "output": {"sent": true}});
    let other = Worker::new(served, &["invoice"]);
    let refused = other.settle(&claim, done.clone()).await;
    assert_eq!((refused.status, refused.code()), (409, "stale_claim".to_owned()), "not its job: {refused:?}");
    assert_eq!(refused.json()["claims"], json!([{"job": job, "no": 1, "status": "stale_claim"}]));
    for what in ["settled", "and again, because the answer was lost"] {
        let settled = worker.settle(&claim, done.clone()).await;
        assert_eq!(settled.status, 200, "{what}: {settled:?}");
        assert_eq!(settled.json()["claims"], json!([{"job": job, "no": 1, "status": "recorded"}]), "{what}");
    }
    let shown = served.get(&path(&job)).await.json();
    assert_eq!(
        (&shown["state"], &shown["executions"][0]["output"]),
        (&json!("completed"), &json!({"sent": true}))
    );
    assert_eq!(shown["executions"].as_array().unwrap().len(), 1);
    let late = other.settle(&claim, json!({"outcome": "failed", "error": "x"})).await;
    assert_eq!(late.status, 409, "another worker cannot change it: {late:?}");
}

async fn jobs_that_waited_before_the_first_worker_came_are_pulled(served: &Served) {
    let mut jobs = Vec::new();
    for n in 0..20 {
        jobs.push(json!(enqueue(served, "invoice", json!(n)).await));
    }
    let worker = Worker::new(served, &["invoice"]);
    let begun = Instant::now();
    let mut pulled = Vec::new();
    while pulled.len() < jobs.len() {
        assert!(begun.elapsed() < Duration::from_secs(25), "some are stuck: {} of 20", pulled.len());
        let answer = worker.pull_with(json!({"wait_ms": 1_000})).await.json();
        pulled.extend(answer["claims"].as_array().unwrap().iter().map(|claim| claim["job"]["id"].clone()));
    }
    pulled.sort_by_key(|id| id.as_str().unwrap().parse::<u64>().unwrap());
    assert_eq!(pulled, jobs, "each of them once");
}

async fn a_poll_waits_for_a_job_and_ends_without_one(served: &Served) {
    let worker = Worker::new(served, &["invoice"]);
    let begun = Instant::now();
    let none = worker.pull_with(json!({"wait_ms": 300})).await;
    assert_eq!((none.status, &none.json()["claims"]), (200, &json!([])), "{none:?}");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let enqueue = async {
        // The poll is there first, as far as a test can know.
        served.until("/api/v1/nodes", |nodes| nodes["items"].as_array().unwrap().len() == 2).await;
        enqueue(served, "invoice", json!({})).await
    };
    let begun = Instant::now();
    let (claim, job) = tokio::join!(worker.pull_one(), enqueue);
    assert_eq!(claim["job"]["id"], job.as_str());
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

async fn a_claim_whose_answer_was_lost_is_returned_again(served: &Served) {
    let worker = Worker::ready(served, &["invoice"]).await;
    let (one, two) = (enqueue(served, "invoice", json!(1)).await, enqueue(served, "invoice", json!(2)).await);
    let mut claims = worker.pull().await;
    while claims.len() < 2 {
        claims.extend(worker.pull().await);
    }
    claims.sort_by_key(|claim| claim["job"]["id"].as_str().unwrap().parse::<u64>().unwrap());
    let ids: Vec<_> = claims.iter().map(|claim| claim["job"]["id"].clone()).collect();
    assert_eq!(ids, [json!(one), json!(two)]);
    // The worker knows of the first only.
    let held = json!([of(&claims[0], json!({}))]);
    let again = worker.pull_with(json!({"resume": true, "held": held})).await;
    assert_eq!(again.json()["claims"], json!([claims[1]]), "the same claim number: {again:?}");
    let all = json!([of(&claims[0], json!({})), of(&claims[1], json!({}))]);
    let none = worker.pull_with(json!({"resume": true, "held": all, "wait_ms": 0})).await;
    assert_eq!(none.json()["claims"], json!([]));
    let other = Worker::new(served, &["invoice"]);
    let none = other.pull_with(json!({"resume": true, "wait_ms": 0})).await;
    assert_eq!(none.json()["claims"], json!([]), "claims of another worker are not its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_was_lost_is_not_forgotten_while_its_row_is_locked() {
    let served = Served::postgres().await;
    let worker = Worker::ready(&served, &["invoice"]).await;
    enqueue(&served, "invoice", json!(1)).await;
    let claim = worker.pull_one().await;
    let (client, connection) = tokio_postgres::connect(served.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("begin; select 1 from lineclear.background_job for update").await.unwrap();
    let refused = worker.pull_with(json!({"resume": true, "wait_ms": 0})).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "locked"), "{refused:?}");
    client.batch_execute("commit").await.unwrap();
    let again = worker.pull_with(json!({"resume": true, "wait_ms": 0})).await;
    assert_eq!(again.json()["claims"], json!([claim]), "{again:?}");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_row_is_locked_holds_up_no_other_result_of_its_worker() {
    let served = Served::postgres().await;
    let worker = Worker::ready(&served, &["invoice"]).await;
    let (locked, free) =
        (enqueue(&served, "invoice", json!(1)).await, enqueue(&served, "invoice", json!(2)).await);
    let mut claims = worker.pull().await;
    while claims.len() < 2 {
        claims.extend(worker.pull().await);
    }
    let (client, connection) = tokio_postgres::connect(served.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let lock = format!("begin; select from lineclear.background_job where id = {locked} for update");
    client.batch_execute(&lock).await.unwrap();
    let ends: Vec<Value> = claims
        .iter()
        .map(|claim| of(claim, json!({"outcome": "completed", "output": claim["job"]["input"]})))
        .collect();
    let settle = async || {
        let answer = worker.call("settle", json!({"claims": ends})).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let answers = answer.json()["claims"].as_array().unwrap().clone();
        let status = |job: &str| answers.iter().find(|one| one["job"] == job).unwrap()["status"].clone();
        (status(&locked), status(&free))
    };
    for what in ["at once", "and again, while the row is locked"] {
        assert_eq!(settle().await, (json!("skipped"), json!("recorded")), "{what}");
    }
    client.batch_execute("rollback").await.unwrap();
    for what in ["when the row is free", "and again, because the answer was lost"] {
        assert_eq!(settle().await, (json!("recorded"), json!("recorded")), "{what}");
    }
    for job in [&locked, &free] {
        let detail = served.get(&path(job)).await.json();
        assert_eq!(detail["state"], "completed", "{detail}");
        assert_eq!(detail["executions"].as_array().unwrap().len(), 1, "it is recorded once: {detail}");
    }
    served.end().await;
}

async fn leases_are_renewed_until_the_claim_is_over(served: &Served) {
    let worker = Worker::ready(served, &["invoice"]).await;
    let job = enqueue(served, "invoice", json!({})).await;
    let claim = worker.pull_one().await;
    let renew = async |worker: &Worker<'_>| {
        worker.call("renew", json!({"claims": [of(&claim, json!({}))]})).await.json()
    };
    let expected = |status: &str, cancel: bool| json!({"lease_ms": 30_000, "drain": false, "claims": [{"job": job, "no": 1, "status": status, "cancel": cancel}]});
    assert_eq!(renew(&worker).await, expected("renewed", false));
    let other = Worker::new(served, &["invoice"]);
    assert_eq!(renew(&other).await, expected("stale_claim", false), "another worker does not have it");
    assert_eq!(served.post(&format!("{}/cancel", path(&job)), "").await.status, 202);
    assert_eq!(renew(&worker).await, expected("renewed", true));
    assert_eq!(worker.settle(&claim, json!({"outcome": "cancelled"})).await.status, 200);
    assert_eq!(served.get(&path(&job)).await.json()["state"], "cancelled");
    assert_eq!(renew(&worker).await, expected("stale_claim", false));
}

async fn a_worker_that_is_told_to_drain_learns_it(served: &Served) {
    let worker = Worker::ready(served, &["invoice"]).await;
    enqueue(served, "invoice", json!({})).await;
    let answer = worker.pull_with(json!({})).await.json();
    let node = answer["worker"]["node"].as_str().unwrap();
    assert_eq!(served.post(&format!("/api/v1/nodes/{node}/drain"), "").await.status, 204);
    let renewed = worker.call("renew", json!({"claims": []})).await.json();
    assert_eq!(renewed["drain"], true, "{renewed}");
}

async fn an_idle_worker_learns_from_its_poll_that_it_drains(served: &Served) {
    let worker = Worker::ready(served, &["invoice"]).await;
    let first = worker.pull_with(json!({"wait_ms": 0})).await.json();
    assert_eq!((&first["worker"]["drain"], &first["claims"]), (&json!(false), &json!([])));
    let node = format!("/api/v1/nodes/{}", first["worker"]["node"].as_str().unwrap());
    let begun = Instant::now();
    let drain = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(served.post(&format!("{node}/drain"), "").await.status, 204);
    };
    let (told, ()) = tokio::join!(worker.pull_with(json!({"wait_ms": 60_000})), drain);
    assert_eq!(
        told.json(),
        json!({"worker": {"node": first["worker"]["node"], "drain": true}, "claims": []})
    );
    assert!(begun.elapsed() < Duration::from_secs(50), "it does not wait to the end: {:?}", begun.elapsed());

    let job = enqueue(served, "invoice", json!({})).await;
    let again = worker.pull_with(json!({"wait_ms": 300})).await.json();
    assert_eq!((&again["worker"]["drain"], &again["claims"]), (&json!(true), &json!([])), "it gets nothing");
    assert_eq!(served.post(&format!("{node}/resume"), "").await.status, 204);
    assert_eq!(worker.call("renew", json!({"claims": []})).await.json()["drain"], false);
    let resumed = worker.pull_with(json!({})).await.json();
    assert_eq!(
        (&resumed["worker"]["drain"], &resumed["claims"][0]["job"]["id"]),
        (&json!(false), &json!(job))
    );
}

async fn progress_logs_and_steps_are_those_of_the_worker(served: &Served) {
    let worker = Worker::ready(served, &["invoice"]).await;
    let job = enqueue(served, "invoice", json!({})).await;
    let claim = worker.pull_one().await;
    let other = Worker::new(served, &["invoice"]);
    let progress = json!({"claims": [of(&claim, json!({"fraction": 0.5, "text": "half"}))]});
    let lines = json!([{"level": "info", "text": "one"}, {"level": "warn", "text": "two", "at": "2026-03-29T02:30:00Z"}]);
    let logs = json!({"claims": [of(&claim, json!({"lines": lines}))]});
    let steps = json!({"steps": [
        of(&claim, json!({"name": "charge", "position": 1, "output": {"id": "ch_1"}, "took_ms": 12})),
        of(&claim, json!({"name": "mail", "position": 2, "error": {"type": "Smtp", "message": "no"}})),
        of(&claim, json!({"name": "nothing", "position": 3})),
        of(&claim, json!({"name": "", "position": 4})),
        of(&claim, json!({"name": "late", "position": 1001}))
    ]});
    let status = |answer: &Answer, list: &str| -> Vec<String> {
        let items = answer.json()[list].as_array().unwrap_or_else(|| panic!("{answer:?}")).clone();
        items.iter().map(|item| item["status"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(status(&other.call("progress", progress.clone()).await, "claims"), ["stale_claim"]);
    assert_eq!(status(&other.call("logs", logs.clone()).await, "claims"), ["stale_claim"]);
    assert_eq!(status(&other.call("steps", steps.clone()).await, "steps"), ["stale_claim"; 5]);
    assert_eq!(status(&worker.call("progress", progress).await, "claims"), ["recorded"]);
    assert_eq!(status(&worker.call("logs", logs.clone()).await, "claims"), ["recorded"]);
    assert_eq!(status(&worker.call("logs", logs).await, "claims"), ["recorded"]);
    let recorded = worker.call("steps", steps).await;
    assert_eq!(status(&recorded, "steps"), ["recorded", "recorded", "recorded", "refused", "refused"]);
    assert!(recorded.json()["steps"][3]["detail"].as_str().unwrap().contains("`name` must"), "{recorded:?}");

    let log = served.get(&format!("{}/logs", path(&job))).await.json();
    let texts: Vec<_> = log["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| (line["level"].clone(), line["message"].clone()))
        .collect();
    let line = |level: &str, text: &str| (json!(level), json!(text));
    assert_eq!(texts, [line("INFO", "one"), line("WARN", "two"), line("INFO", "one"), line("WARN", "two")]);
    assert_eq!(log["items"][1]["logged_at"], "2026-03-29T02:30:00Z");

    // The next attempt finds what the first has finished.
    let failed = json!({"outcome": "failed", "error": {"type": "Smtp", "message": "no"}, "in_ms": 0});
    assert_eq!(worker.settle(&claim, failed).await.status, 200);
    let again = other.pull_one().await;
    assert_eq!((&again["claim"]["no"], &again["job"]["attempt"]), (&json!(2), &json!(2)));
    let names = ["charge", "mail", "nothing", "never"].map(|name| of(&again, json!({"name": name})));
    let read = other.call("steps/read", json!({"steps": names})).await.json();
    let found: Vec<_> = read["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["found"].clone(), step["output"].clone()))
        .collect();
    let missing = (json!(false), json!(null));
    assert_eq!(
        found,
        [(json!(true), json!({"id": "ch_1"})), missing.clone(), (json!(true), json!(null)), missing.clone()]
    );
    let read =
        worker.call("steps/read", json!({"steps": [of(&again, json!({"name": "charge"}))]})).await.json();
    assert_eq!(read["steps"][0]["found"], false, "only the worker that has the job may read");
    let stale = json!({"claims": [of(&claim, json!({"fraction": 1.0}))]});
    assert_eq!(status(&worker.call("progress", stale).await, "claims"), ["stale_claim"]);
}

async fn a_log_that_is_full_ends_with_a_line_that_says_so(served: &Served) {
    let worker = Worker::ready(served, &["invoice"]).await;
    let job = enqueue(served, "invoice", json!({})).await;
    let claim = worker.pull_one().await;
    let line = json!({"level": "info", "text": "x".repeat(1_000)});
    for _ in 0..3 {
        let logs = json!({"claims": [of(&claim, json!({"lines": vec![line.clone(); 100]}))]});
        assert_eq!(worker.call("logs", logs).await.json()["claims"][0]["status"], "recorded");
    }
    let log = served.get(&format!("{}/logs?limit=1000", path(&job))).await.json();
    let lines = log["items"].as_array().unwrap();
    assert!((250..265).contains(&lines.len()), "256 KiB: {}", lines.len());
    assert!(
        lines.last().unwrap()["message"].as_str().unwrap().contains("the log is full"),
        "{:?}",
        lines.last()
    );
}

async fn every_outcome_has_its_effect(served: &Served) {
    let worker = Worker::ready(served, &["invoice"]).await;
    let cases = [
        (json!({"outcome": "completed"}), "completed"),
        (json!({"outcome": "failed", "error": "no", "permanent": true}), "dead"),
        (json!({"outcome": "failed", "error": "no"}), "retrying"),
        (json!({"outcome": "failed", "error": "no", "in_ms": 3_600_000}), "retrying"),
        (json!({"outcome": "timed_out"}), "retrying"),
        (json!({"outcome": "snoozed", "in_ms": 3_600_000}), "retrying"),
        (json!({"outcome": "cancelled"}), "cancelled"),
    ];
    for (outcome, _) in &cases {
        enqueue(served, "invoice", outcome.clone()).await;
    }
    let mut claims = Vec::new();
    while claims.len() < cases.len() {
        claims.extend(worker.pull().await);
    }
    let ends: Vec<Value> = claims.iter().map(|claim| of(claim, claim["job"]["input"].clone())).collect();
    let settled = worker.call("settle", json!({"claims": ends})).await;
    let results = settled.json()["claims"].as_array().unwrap().clone();
    assert!(results.iter().all(|result| result["status"] == "recorded"), "{settled:?}");
    for claim in &claims {
        let state = cases.iter().find(|(outcome, _)| *outcome == claim["job"]["input"]).unwrap().1;
        let job = served.get(&path(claim["job"]["id"].as_str().unwrap())).await.json();
        assert_eq!(job["state"], state, "{job}");
    }
    let released = enqueue(served, "invoice", json!({})).await;
    let claim = worker.pull_one().await;
    assert_eq!(worker.settle(&claim, json!({"outcome": "released"})).await.status, 200);
    let again = worker.pull_one().await;
    assert_eq!(
        (&again["job"]["id"], &again["job"]["attempt"]),
        (&json!(released), &json!(1)),
        "no attempt was spent"
    );
}

async fn an_outcome_that_cannot_be_recorded_holds_up_no_other(served: &Served) {
    let worker = Worker::ready(served, &["invoice"]).await;
    for n in 0..3 {
        enqueue(served, "invoice", json!(n)).await;
    }
    let mut claims = Vec::new();
    while claims.len() < 3 {
        claims.extend(worker.pull().await);
    }
    let ends = [
        of(&claims[0], json!({"outcome": "completed", "output": "x".repeat(70_000)})),
        of(&claims[1], json!({"outcome": "completed", "output": 1})),
        of(&claims[2], json!({"outcome": "failed"})),
    ];
    let settled = worker.call("settle", json!({"claims": ends})).await;
    let results = settled.json()["claims"].as_array().unwrap().clone();
    let statuses: Vec<_> = results.iter().map(|result| result["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["refused", "recorded", "refused"], "{settled:?}");
    assert!(results[0]["detail"].as_str().unwrap().contains("`output`"), "{settled:?}");
    let held = worker.call("renew", json!({"claims": [of(&claims[0], json!({}))]})).await.json();
    assert_eq!(held["claims"][0]["status"], "renewed", "the worker still has it");
}

async fn what_a_worker_that_leaves_holds_goes_to_another(served: &Served) {
    let worker = Worker::ready(served, &["invoice"]).await;
    let job = enqueue(served, "invoice", json!({})).await;
    let claim = worker.pull_one().await;
    let leave = async || worker.send("DELETE", &format!("/api/v1/workers/{}", worker.id), "").await.status;
    assert_eq!((leave().await, leave().await), (204, 204), "the answer may be lost");
    let other = Worker::new(served, &["invoice"]);
    let again = other.pull_one().await;
    assert_eq!((&again["job"]["id"], &again["job"]["attempt"]), (&json!(job), &json!(1)));
    assert_eq!(worker.settle(&claim, json!({"outcome": "completed"})).await.status, 409);
    assert_eq!(other.settle(&again, json!({"outcome": "completed"})).await.status, 200);
    let nodes = served.get("/api/v1/nodes").await.json();
    assert_eq!(nodes["items"].as_array().unwrap().len(), 2, "the server, and the other worker: {nodes}");
}

async fn a_kind_that_a_node_runs_is_not_pulled(served: &Served) {
    let refused = Worker::new(served, &["invoice", "add"]).pull_with(json!({})).await;
    assert_eq!((refused.status, refused.code()), (409, "kind_routed_elsewhere".to_owned()), "{refused:?}");
    assert_eq!(refused.json()["errors"][0]["pointer"], "/kinds/1");
}

async fn a_job_of_a_manifest_has_its_key_and_tick(served: &Served) {
    let body = json!({"kind": "invoice", "input": {"a": 1}, "schedule": {"cron": "30 2 * * *"}}).to_string();
    assert!(served.put("/api/v1/manifests/nightly", &body).await.status < 300);
    assert!(served.post("/api/v1/manifests/nightly/run", "").await.status < 300);
    let claim = Worker::new(served, &["invoice"]).pull_one().await;
    assert_eq!(
        (&claim["job"]["manifest"], &claim["job"]["input"]),
        (&json!("nightly"), &json!({"a": 1})),
        "{claim}"
    );
}

on_each_store! {
    a_worker_pulls_a_job_and_settles_it
    jobs_that_waited_before_the_first_worker_came_are_pulled
    a_poll_waits_for_a_job_and_ends_without_one
    a_claim_whose_answer_was_lost_is_returned_again
    leases_are_renewed_until_the_claim_is_over
    a_worker_that_is_told_to_drain_learns_it
    an_idle_worker_learns_from_its_poll_that_it_drains
    progress_logs_and_steps_are_those_of_the_worker
    a_log_that_is_full_ends_with_a_line_that_says_so
    every_outcome_has_its_effect
    an_outcome_that_cannot_be_recorded_holds_up_no_other
    what_a_worker_that_leaves_holds_goes_to_another
    a_kind_that_a_node_runs_is_not_pulled
    a_job_of_a_manifest_has_its_key_and_tick
}
