//! Handlers that run inside `enqueue`.

use lineclear::model::Outcome;
use lineclear::node::Builder;

use super::*;

#[tokio::test]
async fn enqueue_returns_after_the_handler_with_its_outcome() {
    let calls = Arc::new(Calls::default());
    let node = Lineclear::builder()
        .store(":memory:")
        .state(calls.clone())
        .kind("double", async |calls: State<Arc<Calls>>, Input(n): Input<u32>| {
            calls.add();
            if n == 0 { Err::<Done<u32>, HandlerError>("zero".into()) } else { Ok(Done(n * 2)) }
        })
        .inline()
        .start()
        .await
        .unwrap();
    let done = node.enqueue("double", &21).await.unwrap();
    assert_eq!(
        done.outcome,
        Some(Outcome::Completed { output: Some(lineclear::model::Payload::of(&42).unwrap()) })
    );
    assert_eq!(calls.count(), 1);
    let failed = node.enqueue("double", &0).await.unwrap();
    assert!(matches!(failed.outcome, Some(Outcome::Failed(_))), "{:?}", failed.outcome);
    let detail = node.store().job(failed.id).await.unwrap().unwrap();
    assert_eq!(detail.job.state, JobState::Retrying);
}

/// A node with work for each of its loops: a manifest that is due every second, and a kind whose first attempt fails.
fn with_work(db: &TestStore, calls: &Arc<Calls>) -> Builder {
    async fn flaky(calls: State<Arc<Calls>>) -> Result<(), HandlerError> {
        if calls.add() == 1 { Err("no".into()) } else { Ok(()) }
    }
    let options = NodeOptions { heartbeat: Duration::from_millis(200), ..quick() };
    let every_second = Schedule::every(Duration::from_secs(1)).unwrap();
    Lineclear::builder()
        .store(db.url.as_str())
        .options(options)
        .state(calls.clone())
        .kind_with("flaky", impatient(5), flaky)
        .kind("tick", async || {})
        .manifest(Manifest::new(name("clock"), name("tick"), every_second))
}

on_each_store! {
    async fn nothing_runs_in_the_background_of_an_inline_node(db) {
        let calls = Arc::new(Calls::default());
        let node = with_work(db, &calls).inline().start().await.unwrap();
        let failed = node.enqueue("flaky", &()).await.unwrap();
        assert!(matches!(failed.outcome, Some(Outcome::Failed(_))), "{:?}", failed.outcome);
        let seen_at = node.store().nodes(10).await.unwrap()[0].seen_at;
        // Another node with the same work, on a database of its own, shows what happens meanwhile where loops run.
        let (elsewhere, other_calls) = (TestStore::sqlite().await, Arc::new(Calls::default()));
        let other = with_work(&elsewhere, &other_calls).start().await.unwrap();
        let job = other.enqueue("flaky", &()).await.unwrap().id;
        let other_seen_at = other.store().nodes(10).await.unwrap()[0].seen_at;
        until("its job was tried again", async || elsewhere.state(&other, job).await == Some(JobState::Completed)).await;
        until("it planned twice", async || elsewhere.number("select count(*) from {t}tick").await >= 2).await;
        until("it was seen", async || other.store().nodes(10).await.unwrap()[0].seen_at > other_seen_at).await;
        other.stop().await;
        assert_eq!(calls.count(), 1, "no retry");
        assert_eq!(db.state(&node, failed.id).await, Some(JobState::Retrying));
        assert_eq!(db.number("select count(*) from {t}tick").await, 0, "no plan");
        let nodes = node.store().nodes(10).await.unwrap();
        assert!(nodes.len() == 1 && nodes[0].seen_at == seen_at, "no heartbeat: {nodes:?}");
    }
}

on_each_store! {
    async fn an_inline_kind_runs_in_its_caller_beside_local_kinds(db) {
        let node = Lineclear::builder()
            .store(db.url.as_str())
            .options(quick())
            .kind("now", async |Input(n): Input<u32>| Done(n + 1))
            .kind("later", async || {})
            .submit_to("inline", ["now"])
            .start()
            .await
            .unwrap();
        let jobs = (0..10_u32).map(|n| {
            let client = node.client();
            async move { (n, client.enqueue("now", &n).await.unwrap()) }
        });
        for (n, enqueued) in futures_join(jobs).await {
            let output = lineclear::model::Payload::of(&(n + 1)).unwrap();
            assert_eq!(enqueued.outcome, Some(Outcome::Completed { output: Some(output) }));
            assert_eq!(db.state(&node, enqueued.id).await, Some(JobState::Completed));
        }
        let job = node.enqueue("later", &1).await.unwrap();
        assert_eq!(job.outcome, None);
        until("it is completed", async || db.state(&node, job.id).await == Some(JobState::Completed)).await;
        node.stop().await;
    }
}

on_each_store! {
    async fn a_caller_that_goes_away_leaves_no_job_unsettled(db) {
        let node = Lineclear::builder()
            .store(db.url.as_str())
            .options(quick())
            .kind("slow", async || tokio::time::sleep(Duration::from_millis(300)).await)
            .submit_to("inline", ["slow"])
            .start()
            .await
            .unwrap();
        let client = node.client();
        let caller = tokio::spawn(async move { client.enqueue("slow", &1).await });
        let mut job = None;
        until("it runs", async || {
            let running = node.store().jobs(&Default::default(), None, 1).await.unwrap().items.into_iter().next();
            job = running.filter(|job| job.state == JobState::Running).map(|job| job.id);
            job.is_some()
        }).await;
        caller.abort();
        let job = job.unwrap();
        until("it is completed", async || db.state(&node, job).await == Some(JobState::Completed)).await;
        assert_eq!(node.client().submitters()[0].in_flight, 0, "no slot is taken");
        node.stop().await;
    }
}

#[tokio::test]
async fn retries_and_delayed_jobs_run_with_a_later_enqueue() {
    let calls = Arc::new(Calls::default());
    let retry = lineclear::model::RetryPolicy { delay: Duration::from_millis(20), ..Default::default() };
    let options = lineclear::KindOptions { retry, ..Default::default() };
    let node = Lineclear::builder()
        .store(":memory:")
        .state(calls.clone())
        .kind_with("flaky", options, async |calls: State<Arc<Calls>>| {
            calls.add();
            if calls.count() == 1 { Err::<(), HandlerError>("no".into()) } else { Ok(()) }
        })
        .kind("other", async || {})
        .inline()
        .start()
        .await
        .unwrap();
    let job = node.enqueue("flaky", &1).await.unwrap().id;
    tokio::time::sleep(Duration::from_millis(100)).await;
    node.enqueue("other", &1).await.unwrap();
    let detail = node.store().job(job).await.unwrap().unwrap();
    assert_eq!((detail.job.state, calls.count()), (JobState::Completed, 2));
}

#[tokio::test]
async fn all_ways_to_queue_a_job_run_it_and_its_dependents_inline() {
    let manifest = |key: &str, schedule| Manifest::new(name(key), name("count"), schedule);
    let calls = Arc::new(Calls::default());
    let node = Lineclear::builder()
        .store(":memory:")
        .state(calls.clone())
        .kind("count", async |calls: State<Arc<Calls>>| {
            calls.add();
        })
        .kind("fails", async || Err::<(), HandlerError>("no".into()))
        .manifest(manifest("parent", Schedule::on_demand()))
        .manifest(manifest(
            "child",
            Schedule::after(vec![name("parent")], lineclear::model::schedule::Need::All).unwrap(),
        ))
        .inline()
        .start()
        .await
        .unwrap();
    let client = node.client();
    let new = |kind: &str| {
        lineclear::store::NewJob::new(name(kind), lineclear::model::Payload::parse("1").unwrap())
    };
    let many = client.enqueue_jobs(vec![new("count"), new("fails"), new("count")]).await.unwrap();
    use lineclear::model::ExecutionOutcome::{Completed, Failed};
    let outcomes: Vec<_> = many.iter().map(|job| job.outcome.as_ref().map(Outcome::word)).collect();
    assert_eq!(outcomes, [Completed, Failed, Completed].map(Some));
    assert_eq!(calls.count(), 2);
    let triggered = client.trigger(name("parent"), Default::default()).await.unwrap().unwrap();
    assert_eq!(calls.count(), 4, "the manifest and its dependent");
    assert_eq!(node.store().job(triggered).await.unwrap().unwrap().job.state, JobState::Completed);
    client.retry(triggered, Default::default()).await.unwrap();
    assert_eq!(calls.count(), 6, "again, and its dependent");
}

/// Runs futures beside each other.
async fn futures_join<T: Send + 'static>(
    all: impl Iterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let tasks: Vec<_> = all.map(tokio::spawn).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}
