//! Every second answer of a server gets lost, in each phase of a claim.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use lineclear_testkit::fresh_postgres;
use serde_json::{Value, json};

use super::{Answer, LONG, Worker, enqueue, of, open, outcomes};
use crate::commands::serve::serve;

const JOBS: usize = 30;

/// How an answer gets lost.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// The worker does not see it.
    Unseen,
    /// The worker hangs up before it comes; the server notices, or not.
    HungUp,
}

/// A worker behind a network that loses every second answer. It does what client libraries do.
struct Unlucky<'a> {
    worker: Worker,
    address: &'a str,
    loss: Loss,
    calls: BTreeMap<&'static str, usize>,
    /// Claims that it knows it has.
    held: BTreeMap<String, Value>,
    /// How often it began each job.
    begun: BTreeMap<String, usize>,
    resume: bool,
}

impl Unlucky<'_> {
    /// Whether the answer to this call gets lost.
    fn loses(&mut self, what: &'static str) -> bool {
        let calls = self.calls.entry(what).or_default();
        *calls += 1;
        *calls % 2 == 1
    }

    async fn send(&mut self, what: &'static str, path: &str, body: &str) -> Answer {
        let is_lost = self.loses(what);
        if is_lost && self.loss == Loss::HungUp {
            drop(open(self.address, "POST", path, body).await);
            return None;
        }
        super::send(self.address, "POST", path, body).await.filter(|_| !is_lost)
    }

    async fn pull(&mut self) {
        let held: Vec<Value> = self.held.values().map(|claim| of(claim, json!({}))).collect();
        let body = self.worker.body(json!({"wait_ms": 300, "resume": self.resume, "held": held}));
        let Some((200, answer)) = self.send("pull", "/api/v1/claims", &body).await else {
            self.resume = true;
            return;
        };
        self.resume = false;
        for claim in answer["claims"].as_array().unwrap() {
            let job = claim["job"]["id"].as_str().unwrap().to_owned();
            *self.begun.entry(job.clone()).or_default() += 1;
            self.held.insert(format!("{job}/{}", claim["claim"]["no"]), claim.clone());
        }
    }

    /// Renews or settles all that it holds. Returns the results, unless they got lost.
    async fn call(&mut self, what: &'static str, more: Value) -> Vec<Value> {
        let claims: Vec<Value> = self.held.values().map(|claim| of(claim, more.clone())).collect();
        let body = json!({"worker": self.worker.id, "claims": claims}).to_string();
        match self.send(what, &format!("/api/v1/claims/{what}"), &body).await {
            Some((200 | 409, answer)) => answer["claims"].as_array().unwrap().clone(),
            _ => Vec::new(),
        }
    }
}

async fn all_jobs_are_completed_once(db: &str, loss: Loss) {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address) = serve(&dir, &["--db", db]).await;
    let worker = Worker::ready(&address).await;
    let mut unlucky = Unlucky {
        worker,
        address: &address,
        loss,
        calls: BTreeMap::new(),
        held: BTreeMap::new(),
        begun: BTreeMap::new(),
        resume: false,
    };
    let mut jobs = BTreeSet::new();
    for n in 0..JOBS {
        jobs.insert(enqueue(&address, n).await);
    }
    let (begun, mut settled) = (Instant::now(), BTreeSet::new());
    while settled.len() < JOBS {
        assert!(begun.elapsed() < LONG, "only {} of {JOBS}", settled.len());
        unlucky.pull().await;
        unlucky.call("renew", json!({})).await;
        for result in unlucky.call("settle", json!({"outcome": "completed"})).await {
            let job = result["job"].as_str().unwrap().to_owned();
            unlucky.held.remove(&format!("{job}/{}", result["no"]));
            if result["status"] == "recorded" {
                settled.insert(job);
            }
        }
    }
    assert_eq!(settled, jobs);
    for job in &jobs {
        let mut found = outcomes(&address, job).await;
        // A claim that did not reach its worker is given back.
        found.retain(|outcome| outcome != "released");
        assert_eq!(found, ["completed"], "job {job}");
    }
    if loss == Loss::Unseen {
        let twice: Vec<_> = unlucky.begun.iter().filter(|(_, times)| **times != 1).collect();
        assert!(twice.is_empty(), "no job was begun twice: {twice:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_lose_and_double_nothing_on_sqlite() {
    for loss in [Loss::Unseen, Loss::HungUp] {
        let dir = tempfile::tempdir().unwrap();
        all_jobs_are_completed_once(dir.path().join("lost.db").to_str().unwrap(), loss).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_answers_lose_and_double_nothing_on_postgres() {
    for loss in [Loss::Unseen, Loss::HungUp] {
        all_jobs_are_completed_once(fresh_postgres().await.url(), loss).await;
    }
}
