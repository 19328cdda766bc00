//! Very many rows of one sort hold up nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lineclear::model::{GroupSpec, Payload};
use lineclear::store::{ChangeSource, NewJob};
use lineclear::{Lineclear, NodeOptions, State};
use tokio::sync::Semaphore;

use crate::children::{end, store, up};
use crate::documents::readme::example;
use crate::kit::{TestStore, name, until, until_within};
use lineclear_testkit::{PrivatePostgres, Program};

/// It finds by polling only what is there when it starts.
fn never_polls() -> NodeOptions {
    NodeOptions { poll: Duration::from_secs(3600), ..NodeOptions::default() }
}

fn job(kind: &str) -> NewJob {
    NewJob::new(name(kind), Payload::parse("{}").expect("a payload"))
}

async fn waits_for_a_permit(State(permits): State<Arc<Semaphore>>) {
    permits.acquire().await.expect("it is open").forget();
}

/// More than two batches become due while the only slot is taken: all are promoted, and the most urgent one runs next.
async fn all_that_is_due_is_promoted(db: TestStore) {
    const JOBS: usize = 12_000;
    let store = store(&db).await;
    let due_at = Some(store.next_plan().await.expect("the time").now.offset(3_600_000_000));
    for _ in 0..JOBS / 500 {
        let jobs = vec![NewJob { due_at, ..job("blocks") }; 500];
        store.enqueue_many(jobs).await.expect("enqueued");
    }
    let urgent = NewJob { due_at: due_at.map(|due_at| due_at.offset(1_000)), priority: 31, ..job("urgent") };
    let urgent = store.enqueue(urgent).await.expect("enqueued").id;
    let hours = if db.url.starts_with("postgres") { "interval '2 hours'" } else { "7200000000" };
    db.sql(&format!("update {{t}}work_queue set due_at = due_at - {hours}, rank = rank - 7200000000")).await;
    store.enqueue(NewJob { priority: 31, ..job("blocks") }).await.expect("it takes the slot");

    let permits = Arc::new(Semaphore::new(0));
    let node = Lineclear::builder()
        .store(db.url.as_str())
        .options(NodeOptions { slots: 1, ..never_polls() })
        .state(permits.clone())
        .kind("blocks", waits_for_a_permit)
        .kind("urgent", async || {})
        .start()
        .await
        .expect("a node");
    until_within(Duration::from_secs(60), "all are promoted, although the slot is taken", async || {
        db.number("select count(*) from {t}work_queue where phase = 'later'").await == 0
    })
    .await;
    permits.add_permits(1);
    until("the most urgent one runs before 12,000 others", async || {
        let final_ = format!("select count(*) from {{t}}execution where final and job_id = {}", urgent.0);
        db.number(&final_).await == 1
    })
    .await;
    assert!(db.number("select count(*) from {t}execution where final").await <= 2, "it was the next");
    permits.close();
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_becomes_due_at_once_is_promoted_whatever_the_slots_on_postgres() {
    all_that_is_due_is_promoted(TestStore::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_becomes_due_at_once_is_promoted_whatever_the_slots_on_sqlite() {
    all_that_is_due_is_promoted(TestStore::sqlite().await).await;
}

/// Groups of which each is full nearly all the time: room that becomes free is filled at once, not with the next poll.
async fn many_groups_are_worked_off(db: TestStore) {
    const GROUPS: usize = 100;
    const JOBS: usize = 5;
    let store = store(&db).await;
    let limit = GroupSpec { limit: Some(1), ..GroupSpec::default() };
    let groups: BTreeMap<_, _> = (0..GROUPS).map(|n| (format!("g{n}"), limit.clone())).collect();
    store.upsert_groups(groups, ChangeSource::Edit).await.expect("groups");
    let jobs =
        (0..GROUPS * JOBS).map(|n| NewJob { group: Some(name(&format!("g{}", n % GROUPS))), ..job("work") });
    store.enqueue_many(jobs.collect()).await.expect("enqueued");
    let node = Lineclear::builder()
        .store(db.url.as_str())
        .options(NodeOptions { slots: 200, ..never_polls() })
        .kind("work", async || tokio::time::sleep(Duration::from_millis(20)).await)
        .start()
        .await
        .expect("a node");
    until_within(Duration::from_secs(60), "all are completed, without a poll", async || {
        let done = "select count(*) from {t}execution where final and outcome = 'completed'";
        db.number(done).await == i64::try_from(GROUPS * JOBS).expect("a few")
    })
    .await;
    node.stop().await;
    let overlapping = "select count(*) from {t}execution a join {t}execution b on a.group_id = b.group_id and a.job_id < b.job_id
                       where a.started_at < b.finished_at and b.started_at < a.finished_at";
    assert_eq!(db.number(overlapping).await, 0, "one of each group at a time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups_that_are_full_are_worked_off_without_a_poll_on_postgres() {
    many_groups_are_worked_off(TestStore::postgres().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups_that_are_full_are_worked_off_without_a_poll_on_sqlite() {
    many_groups_are_worked_off(TestStore::sqlite().await).await;
}

#[tokio::test]
async fn the_cleaner_repeats_the_batch_that_was_full_and_not_the_others() {
    let server = PrivatePostgres::start(&["log_statement=all"]).await.expect("a server");
    let db = TestStore::at(server.url());
    drop(store(&db).await);
    db
        .sql(
            "insert into {t}execution (job_id, claim_no, final, outcome, origin, kind, created_at, due_at, finished_at)
             select n, 1, true, 'completed', 'adhoc', 'work', now(), now(), now() - interval '1 year' from generate_series(1, 20500) n",
        )
        .await;
    let node = Program::at(example("child")).args([db.url.as_str(), "cleaner", "30000", "clean=2000"]);
    let nodes = up([node]).await;
    until("all are cleaned", async || db.number("select count(*) from {t}execution").await == 0).await;
    end(nodes).await;
    let log = server.log().expect("a log");
    let sent =
        |statement: &str| log.lines().filter(|line| line.contains(&format!("-- {statement} ·"))).count();
    let (history, sessions) = (sent("clean_history"), sent("clean_session"));
    assert!(sessions >= 1 && history >= 21, "{history} batches of history, {sessions} of sessions");
    assert!(history >= sessions + 15, "{history} batches of history, {sessions} of sessions");
}

#[tokio::test]
async fn a_long_cleaning_does_not_delay_the_wake_of_forgotten_jobs() {
    let db = TestStore::postgres().await;
    drop(store(&db).await);
    // Half a second for each batch of a thousand.
    db
        .sql(
            "create function public.slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.0005); return old; end'; \
             create trigger slow before delete on lineclear.execution for each row execute function public.slow(); \
             insert into lineclear.execution (job_id, claim_no, final, outcome, origin, kind, created_at, due_at, finished_at) \
             select n, 1, true, 'completed', 'adhoc', 'work', now(), now(), now() - interval '1 year' from generate_series(1, 60000) n",
        )
        .await;
    let left = "select count(*) from {t}execution";
    let node = Program::at(example("child")).args([db.url.as_str(), "cleaner", "30000", "clean=200"]);
    let nodes = up([node]).await;
    until("it cleans", async || db.number(left).await < 60_000).await;
    // As a node leaves it that dies between settling and waking.
    db
        .sql(
            "insert into {t}work_queue (id, origin, fresh, kind, route, input, priority, due_at, phase, rank, gated, limit_key) \
             values (9000000, 'adhoc', false, 'work', 'main', '{}', 0, now(), 'held', 0, true, 'k')",
        )
        .await;
    until("it wakes the job", async || {
        db.number("select count(*) from {t}work_queue where phase = 'ready'").await == 1
    })
    .await;
    assert!(db.number(left).await > 0, "it still cleans");
    end(nodes).await;
}
