//! Remote workers that pull jobs from a node.

use lineclear::Client;
use lineclear::model::{Outcome, Payload};
use lineclear::remote::{PullError, RemoteWorker};
use lineclear::store::{Claim, FencedWrite, NewJob, RenewalStatus, StoreError};

use super::*;
use crate::kit::until_within;

const WAIT: Duration = Duration::from_secs(20);

fn worker(id: &str, kinds: &[&str], slots: u32) -> RemoteWorker {
    RemoteWorker {
        id: id.to_owned(),
        name: format!("worker {id}"),
        host: "host".to_owned(),
        pid: 1,
        version: "test/1".to_owned(),
        kinds: kinds.iter().map(|kind| name(kind)).collect(),
        slots,
    }
}

async fn server(db: &TestStore) -> lineclear::Node {
    server_with(db, NodeOptions::default().lease).await
}

/// A third of the lease is the interval of heartbeats, which may be late on a busy machine.
async fn server_with(db: &TestStore, lease: Duration) -> lineclear::Node {
    let options = NodeOptions { lease, renewal: lease / 6, ..quick() };
    Lineclear::builder()
        .store(db.url.as_str())
        .options(options)
        .kind("local", async || {})
        .start()
        .await
        .unwrap()
}

async fn complete(client: &Client, by: &RemoteWorker, claims: &[Claim]) -> Vec<FencedWrite> {
    let node = client.register_worker(by).await.unwrap();
    let done = |claim: &Claim| (claim.reference(), Outcome::Completed { output: None });
    let answers = client.settle_claims(node, claims.iter().map(done).collect()).await.unwrap();
    answers.into_iter().map(|answer| answer.expect("no row is locked")).collect()
}

on_each_store! {
    async fn a_worker_waits_for_a_job_and_settles_it(db) {
        let node = server(db).await;
        let (client, a) = (node.client(), worker("a", &["py"], 10));
        assert!(client.pull(&a, Duration::from_millis(50)).await.unwrap().is_empty());
        let waiting = tokio::spawn({
            let (client, a) = (client.clone(), a.clone());
            async move { client.pull(&a, WAIT).await.unwrap() }
        });
        let job = node.enqueue("py", &7).await.unwrap().id;
        let claims = waiting.await.unwrap();
        assert_eq!((claims.len(), claims[0].job, claims[0].input.as_str()), (1, job, "7"));
        assert_eq!(complete(&client, &a, &claims).await, [FencedWrite::Recorded]);
        assert_eq!(db.state(&node, job).await, Some(JobState::Completed));
        // The answer was lost: the worker settles again, and hears that it is recorded.
        assert_eq!(complete(&client, &a, &claims).await, [FencedWrite::Recorded]);
        let by = node.store().job(job).await.unwrap().unwrap().executions[0].node_name.clone();
        assert_eq!(by.as_deref(), Some("worker a"));
        node.stop().await;
    }

    async fn jobs_that_waited_before_the_first_worker_came_are_pulled(db) {
        let node = server(db).await;
        let early = node.enqueue("py", &1).await.unwrap().id;
        // The node does not know the kind.
        until("it is parked", async || db.state(&node, early).await == Some(JobState::Parked)).await;
        let claims = node.client().pull(&worker("a", &["py"], 10), WAIT).await.unwrap();
        assert_eq!(claims.iter().map(|claim| claim.job).collect::<Vec<_>>(), [early]);
        node.stop().await;
    }

    async fn many_workers_share_the_jobs_of_one_dispatch(db) {
        let node = server(db).await;
        let workers: Vec<RemoteWorker> = (0..20).map(|n| worker(&format!("w{n}"), &["py", "other"], 5)).collect();
        let polls: Vec<_> = workers.iter().map(|worker| {
            let (client, worker) = (node.client(), worker.clone());
            tokio::spawn(async move { (client.pull(&worker, WAIT).await.unwrap(), worker) })
        }).collect();
        until("all wait", async || node.client().submitters().iter().any(|s| s.name == "pull" && s.capacity >= 200)).await;
        let jobs = (0..20).map(|n| lineclear::store::NewJob::new(name("py"), Payload::of(&n).unwrap()));
        node.client().enqueue_jobs(jobs.collect()).await.unwrap();
        let mut got = std::collections::BTreeSet::new();
        for poll in polls {
            let (claims, worker) = poll.await.unwrap();
            assert!(!claims.is_empty(), "each got a share");
            got.extend(claims.iter().map(|claim| claim.job));
            assert!(complete(&node.client(), &worker, &claims).await.iter().all(|a| *a == FencedWrite::Recorded));
        }
        assert_eq!(got.len(), 20);
        node.stop().await;
    }

    async fn a_worker_of_two_kinds_gets_both_and_nothing_is_given_back(db) {
        let node = server(db).await;
        let (client, a) = (node.client(), worker("a", &["first", "second"], 5));
        assert!(client.pull(&a, Duration::from_millis(50)).await.unwrap().is_empty());
        for kind in ["first", "second"] {
            let jobs = (0..50).map(|n| lineclear::store::NewJob::new(name(kind), Payload::of(&n).unwrap()));
            client.enqueue_jobs(jobs.collect()).await.unwrap();
        }
        let mut got = Vec::new();
        while got.len() < 100 {
            let claims = client.pull(&a, WAIT).await.unwrap();
            assert!(claims.iter().all(|claim| claim.no == 1), "no job was leased before: {claims:?}");
            complete(&client, &a, &claims).await;
            got.extend(claims.into_iter().map(|claim| claim.kind));
        }
        let seconds = got[..50].iter().filter(|kind| kind.as_str() == "second").count();
        assert!((10..=40).contains(&seconds), "{seconds} of the first 50 are of the second kind");
        node.stop().await;
    }

    async fn a_worker_that_vanishes_is_charged_and_its_late_result_is_refused(db) {
        let node = server_with(db, Duration::from_secs(3)).await;
        let client = node.client();
        let (dead, alive) = (worker("dead", &["py"], 1), worker("alive", &["py"], 1));
        let job = node.enqueue("py", &1).await.unwrap().id;
        let first = client.pull(&dead, WAIT).await.unwrap();
        let mut again = Vec::new();
        until_within(Duration::from_secs(90), "another worker gets it", async || {
            again = client.pull(&alive, WAIT).await.unwrap();
            !again.is_empty()
        }).await;
        assert_eq!((again[0].job, again[0].no), (job, first[0].no + 1));
        assert_eq!(complete(&client, &dead, &first).await, [FencedWrite::Stale]);
        assert_eq!(complete(&client, &alive, &again).await, [FencedWrite::Recorded]);
        let crashed = "select count(*) from {t}execution where outcome = 'lost' and error_type = 'worker_lost'";
        assert_eq!(db.number(crashed).await, 1);
        node.stop().await;
    }

    async fn renewed_leases_last_and_a_worker_that_only_waits_lives(db) {
        let node = server_with(db, Duration::from_secs(3)).await;
        let (client, a) = (node.client(), worker("a", &["py"], 5));
        node.enqueue("py", &1).await.unwrap();
        let claims = client.pull(&a, WAIT).await.unwrap();
        let id = client.register_worker(&a).await.unwrap();
        let end = std::time::Instant::now() + Duration::from_secs(7);
        while std::time::Instant::now() < end {
            let renewed = client.renew_claims(id, vec![claims[0].reference()]).await.unwrap();
            assert_eq!(renewed[0].status, RenewalStatus::Renewed);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        assert_eq!(complete(&client, &a, &claims).await, [FencedWrite::Recorded]);
        node.stop().await;
    }

    async fn claims_whose_answer_was_lost_are_found_again_under_the_same_number(db) {
        let node = server(db).await;
        let (client, a) = (node.client(), worker("a", &["py"], 2));
        let job = node.enqueue("py", &1).await.unwrap().id;
        let lost = client.pull(&a, WAIT).await.unwrap();
        let id = client.register_worker(&a).await.unwrap();
        assert!(client.unknown_claims(id, &[lost[0].reference()]).await.unwrap().is_empty());
        let found = client.unknown_claims(id, &[]).await.unwrap();
        assert_eq!((found.len(), found[0].job, found[0].no), (1, job, lost[0].no));
        node.stop().await;
    }

    async fn a_worker_that_leaves_gives_its_jobs_back_uncharged(db) {
        let node = server(db).await;
        let (client, a) = (node.client(), worker("a", &["py"], 2));
        let job = node.enqueue("py", &1).await.unwrap().id;
        client.pull(&a, WAIT).await.unwrap();
        client.remove_worker(client.register_worker(&a).await.unwrap()).await.unwrap();
        let again = client.pull(&worker("b", &["py"], 2), WAIT).await.unwrap();
        assert_eq!((again[0].job, again[0].crashes, again[0].failures), (job, 0, 0));
        node.stop().await;
    }

    async fn a_kind_that_a_node_runs_is_not_pulled(db) {
        let node = server(db).await;
        let refused = node.client().pull(&worker("a", &["py", "local"], 1), WAIT).await;
        assert!(matches!(refused, Err(PullError::RoutedElsewhere { .. })), "{refused:?}");
        node.stop().await;
    }
}

/// A worker that has a poll open all the time, as workers do. When ten thousand register at once on a busy machine, some find no
/// connection in time and ask again.
async fn polls_for_ever(client: Client, worker: RemoteWorker, wait: Duration) {
    loop {
        match client.pull(&worker, wait).await {
            Ok(_) => {}
            Err(PullError::Store(StoreError::Unavailable { .. })) => {
                tokio::time::sleep(Duration::from_secs(1)).await
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// Workers wait, and cost hardly a statement; jobs that come then are given to them.
pub(crate) async fn workers_that_wait_cost_no_statement_each(count: u32, wait: Duration) {
    let db = TestStore::postgres().await;
    let builder = Lineclear::builder().store(db.url.as_str()).kind("local", async || {});
    let node = builder.start().await.unwrap();
    let sent = async || {
        let commits = "select xact_commit from pg_stat_database where datname = current_database()";
        // Some are counted late.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let before = db.number(commits).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        db.number(commits).await - before
    };
    let idle = sent().await;
    let workers = (0..count).map(|n| worker(&format!("w{n}"), &["py"], 1));
    let polls: Vec<_> =
        workers.map(|worker| tokio::spawn(polls_for_ever(node.client(), worker, wait))).collect();
    let waits = || {
        let submitters = node.client().submitters();
        submitters.iter().any(|to| to.name == "pull" && to.capacity >= count - count / 25)
    };
    until_within(Duration::from_secs(240), "all wait", async || waits()).await;
    let busy = sent().await;
    assert!(
        busy < idle + 50,
        "{busy} transactions in 5 s for {count} workers that wait; {idle} without them"
    );
    let jobs = (0..50).map(|n| NewJob::new(name("py"), Payload::of(&n).unwrap())).collect();
    node.client().enqueue_jobs(jobs).await.unwrap();
    let leased = "select count(*) from {t}background_job where leased_by is not null";
    until_within(Duration::from_secs(60), "workers get the jobs", async || db.number(leased).await == 50)
        .await;
    for poll in polls {
        poll.abort();
    }
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_workers_that_wait_cost_no_statement_each() {
    workers_that_wait_cost_no_statement_each(500, Duration::from_secs(2)).await;
}

#[tokio::test]
async fn a_node_that_does_not_dispatch_refuses_polls() {
    let options = NodeOptions { roles: vec![lineclear::Role::Planner], ..quick() };
    let node = Lineclear::builder().store(":memory:").options(options).start().await.unwrap();
    let refused = node.client().pull(&worker("a", &["py"], 1), WAIT).await;
    assert!(matches!(refused, Err(PullError::NoDispatcher)), "{refused:?}");
    node.stop().await;
}
