//! Jobs whose rows another transaction of the database holds.

use std::sync::Arc;
use std::time::Duration;

use lineclear::model::{ExecutionOutcome, JobState};
use lineclear_worker::{Done, Input, State, Worker};
use tokio::sync::Notify;

use crate::kit::{Calls, Place, Pulling, Served, outcomes, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_whose_row_is_locked_is_sent_again_and_holds_up_no_other() {
    async fn work(Input(n): Input<u32>, begun: State<Calls>, go_on: State<Arc<Notify>>) -> Done<u32> {
        begun.add();
        if n == 0 {
            go_on.notified().await;
        }
        Done(n)
    }
    let place = Place::postgres().await;
    // Longer than the test: no lease ends.
    let served = Served::start(&place, Duration::from_secs(300)).await;
    let (begun, go_on) = (Calls::default(), Arc::new(Notify::new()));
    let worker =
        Worker::builder().kind("work", work).state(begun.clone()).state(go_on.clone()).build().unwrap();
    let worker = Pulling::start(worker.pull(served.url(), None).slots(2));
    let locked = served.enqueue("work", 0).await;
    until("it runs", async || begun.count() == 1).await;
    let (client, connection) = tokio_postgres::connect(&place.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let lock = format!("begin; select from lineclear.background_job where id = {locked} for update");
    client.batch_execute(&lock).await.unwrap();
    go_on.notify_one();
    // More than the worker has slots, so that it must learn that their results are recorded.
    let mut jobs = Vec::new();
    for n in 1..=12 {
        jobs.push(served.enqueue("work", n).await);
    }
    for job in jobs {
        served.until(job, JobState::Completed).await;
    }
    assert_eq!(served.job(locked).await.job.state, JobState::Running, "its row is locked");
    client.batch_execute("rollback").await.unwrap();
    let detail = served.until(locked, JobState::Completed).await;
    assert_eq!(outcomes(&detail), [ExecutionOutcome::Completed], "it is recorded once: {detail:?}");
    worker.stop().await.unwrap();
    served.stop().await;
}
