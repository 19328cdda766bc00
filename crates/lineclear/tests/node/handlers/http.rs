//! The kind `http`, and a host that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lineclear::Lineclear;
use lineclear::model::{ExecutionOutcome, JobState};
use lineclear::outbound::{BreakerOptions, BreakerState, Breakers, Outbound, Reach, http};
use lineclear_testkit::{HttpEndpoint, HttpReply};
use serde_json::json;

use crate::kit::{TestStore, quick, until};
use crate::{Calls, impatient};

/// A host that answers 503 until it is well.
async fn host() -> (HttpEndpoint, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (is_well, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (well, counted) = (is_well.clone(), calls.clone());
    let endpoint = HttpEndpoint::start(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        let status = if well.load(Ordering::SeqCst) { 200 } else { 503 };
        async move { HttpReply::new(status, "") }
    });
    (endpoint.await.unwrap(), is_well, calls)
}

on_each_store! {
    async fn jobs_of_a_host_that_fails_wait_and_spend_no_retry(db) {
        async fn other(ran: lineclear::State<Arc<Calls>>) { ran.add(); }
        let (endpoint, is_well, calls) = host().await;
        let networks = vec!["127.0.0.0/8".parse().unwrap()];
        let reach = Reach { plain: true, ports: vec![endpoint.address().port()], networks };
        let options = BreakerOptions { failures: 3, pause: Duration::from_millis(200), ..BreakerOptions::default() };
        let (breakers, ran) = (Breakers::new(options), Arc::new(Calls::default()));
        let outbound = Outbound::new(reach, Default::default()).unwrap().breakers(breakers.clone());
        let node = Lineclear::builder().store(&db.url).options(quick()).state(outbound).state(ran.clone())
            .kind_with(http::KIND, impatient(20), http::run).kind("other", other).start().await.unwrap();
        let mut jobs = Vec::new();
        for _ in 0..20 {
            jobs.push(node.enqueue(http::KIND, &json!({"url": endpoint.url()})).await.unwrap().id);
        }
        let host = endpoint.address().to_string();
        until("its breaker is open", async || breakers.status(&host).state == BreakerState::Open).await;
        let name = format!("host {host}");
        let shown = || node.client().submitters().into_iter().find(|info| info.name == name);
        until("it is shown", async || shown().is_some_and(|info| info.status.state == "breaker open")).await;
        let info = shown().expect("it is shown");
        assert!(info.is_host && info.kinds.iter().all(|kind| kind.as_str() == http::KIND), "{info:?}");
        let detail = info.status.detail.expect("a detail");
        assert!(detail.contains("failures in a row since 2") && detail.ends_with("the last one: status 503"), "{detail}");
        until("other nodes see it", async || {
            let nodes = node.store().nodes(10).await.unwrap();
            nodes[0].submitters().iter().any(|reported| reported.is_host && reported.name == name)
        }).await;
        node.enqueue("other", &()).await.unwrap();
        until("other kinds run", async || ran.count() == 1).await;
        let outcome = async |word: ExecutionOutcome| {
            let mut all = 0;
            for job in &jobs {
                let detail = node.store().job(*job).await.unwrap().unwrap();
                all += detail.executions.iter().filter(|execution| execution.outcome == word).count();
            }
            all
        };
        until("jobs were given back", async || outcome(ExecutionOutcome::Snoozed).await >= 20).await;
        is_well.store(true, Ordering::SeqCst);
        for job in &jobs {
            until("it is completed", async || db.state(&node, *job).await == Some(JobState::Completed)).await;
        }
        assert_eq!(breakers.list(), [], "the breaker is closed");
        assert!(shown().is_none(), "it is well");
        let (failed, called) = (outcome(ExecutionOutcome::Failed).await, calls.load(Ordering::SeqCst));
        // Calls that had begun when the breaker opened, and one for each trial.
        assert_eq!(failed + jobs.len(), called, "a retry is spent for each failed call, and for nothing else");
        node.stop().await;
    }
}
