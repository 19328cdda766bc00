//! The database goes away while a worker has a job, and comes back.

use std::time::Instant;

use lineclear_testkit::PrivatePostgres;
use serde_json::json;

use super::{LONG, Worker, enqueue, of, outcomes, until};
use crate::commands::serve::serve;

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_of_the_database_costs_a_worker_nothing() {
    let mut database = PrivatePostgres::start(&["synchronous_commit=on"]).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    // A lease that outlasts the outage: without the database, it cannot be renewed.
    let (_server, address) = serve(&dir, &["--db", &database.url(), "--lease", "5m"]).await;
    let worker = Worker::ready(&address).await;
    let (one, two) = (enqueue(&address, 1).await, enqueue(&address, 2).await);
    let claim = worker.pull_one(&address, json!({"slots": 1})).await;
    assert_eq!(claim["job"]["id"], json!(one));
    database.stop();
    let item = of(&claim, json!({}));
    let done = of(&claim, json!({"outcome": "completed", "output": "sent"}));
    let begun = Instant::now();
    for what in ["renew", "settle"] {
        let claims = [if what == "renew" { item.clone() } else { done.clone() }];
        let problem = until(503, what, async || worker.call(&address, what, &claims).await).await;
        assert!(problem["code"].as_str().unwrap().starts_with("store_"), "{what}: {problem}");
    }
    let problem =
        until(503, "pull", async || worker.pull(&address, json!({"resume": true, "held": [item]})).await)
            .await;
    assert!(problem["code"].as_str().is_some(), "{problem}");
    assert!(begun.elapsed() < LONG, "no call hangs: {:?}", begun.elapsed());
    database.start_again().await.unwrap();
    let renewed =
        until(200, "renew", async || worker.call(&address, "renew", std::slice::from_ref(&item)).await).await;
    assert_eq!(renewed["claims"][0]["status"], "renewed", "{renewed}");
    let settled =
        until(200, "settle", async || worker.call(&address, "settle", std::slice::from_ref(&done)).await)
            .await;
    assert_eq!(settled["claims"][0]["status"], "recorded", "{settled}");
    assert_eq!(outcomes(&address, &one).await, ["completed"]);
    // And the other job comes, perhaps with a number of a claim whose answer was lost.
    let begun = Instant::now();
    let claim = loop {
        let pulled = until(200, "pull", async || worker.pull(&address, json!({"resume": true})).await).await;
        if let Some(claim) = pulled["claims"].as_array().unwrap().first() {
            break claim.clone();
        }
        assert!(begun.elapsed() < LONG, "the other job does not come");
    };
    assert_eq!(claim["job"]["id"], json!(two));
    let done = of(&claim, json!({"outcome": "completed"}));
    assert_eq!(worker.call(&address, "settle", &[done]).await.unwrap().0, 200);
    let mut found = outcomes(&address, &two).await;
    found.retain(|outcome| outcome != "released");
    assert_eq!(found, ["completed"]);
}
