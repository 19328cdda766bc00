//! Submitters of the program's own that panic: the node goes on.

use std::sync::atomic::{AtomicBool, Ordering};

use lineclear::model::Outcome;
use lineclear::submitters::{Submission, SubmitFuture, SubmittedJob, Submitter, SubmitterStatus};

use super::*;

/// Panics where the test says, for as long as it says so.
#[derive(Clone, Default)]
struct Panicking {
    in_submit: Arc<AtomicBool>,
    in_capacity: Arc<AtomicBool>,
    in_status: Arc<AtomicBool>,
}

fn panic_if(flag: &AtomicBool) {
    assert!(!flag.load(Ordering::SeqCst), "on purpose");
}

impl Submitter for Panicking {
    fn submit(&self, _job: SubmittedJob) -> SubmitFuture {
        // Before there is a future.
        panic_if(&self.in_submit);
        Box::pin(async { Submission::Done(Outcome::Completed { output: None }) })
    }

    fn capacity(&self) -> u32 {
        panic_if(&self.in_capacity);
        4
    }

    fn status(&self) -> SubmitterStatus {
        panic_if(&self.in_status);
        SubmitterStatus::ready("elsewhere")
    }
}

async fn start(db: &TestStore, submitter: &Panicking) -> lineclear::Node {
    let builder = Lineclear::builder().store(db.url.as_str()).options(quick()).kind("local", async || {});
    builder.submitter("bad", submitter.clone()).submit_to("bad", ["x"]).start().await.unwrap()
}

async fn is_completed(db: &TestStore, node: &lineclear::Node, job: lineclear::store::JobId) {
    until("it is completed", async || db.state(node, job).await == Some(JobState::Completed)).await;
}

fn info(node: &lineclear::Node) -> lineclear::submitters::SubmitterInfo {
    node.client().submitters().into_iter().find(|info| info.name == "bad").unwrap()
}

#[tokio::test]
async fn a_submitter_that_panics_before_its_future_is_unreachable() {
    let (db, submitter) = (TestStore::sqlite().await, Panicking::default());
    submitter.in_submit.store(true, Ordering::SeqCst);
    let node = start(&db, &submitter).await;
    let job = node.enqueue("x", &1).await.unwrap().id;
    let unreachable =
        "select count(*) from execution where error_type = 'unreachable' and error_message like '%panicked%'";
    until("it could not be handed over", async || db.number(unreachable).await > 0).await;
    submitter.in_submit.store(false, Ordering::SeqCst);
    is_completed(&db, &node, job).await;
    node.stop().await;
}

#[tokio::test]
async fn a_submitter_whose_capacity_panics_gets_no_jobs_and_other_kinds_go_on() {
    let (db, submitter) = (TestStore::sqlite().await, Panicking::default());
    let node = start(&db, &submitter).await;
    submitter.in_capacity.store(true, Ordering::SeqCst);
    let waits = node.enqueue("x", &1).await.unwrap().id;
    let local = node.enqueue("local", &1).await.unwrap().id;
    is_completed(&db, &node, local).await;
    assert_eq!(info(&node).capacity, 0);
    assert_eq!(db.state(&node, waits).await, Some(JobState::Queued));
    submitter.in_capacity.store(false, Ordering::SeqCst);
    is_completed(&db, &node, waits).await;
    node.stop().await;
}

#[tokio::test]
async fn a_submitter_whose_status_panics_says_so_in_its_status() {
    let (db, submitter) = (TestStore::sqlite().await, Panicking::default());
    submitter.in_status.store(true, Ordering::SeqCst);
    let node = start(&db, &submitter).await;
    let job = node.enqueue("x", &1).await.unwrap().id;
    is_completed(&db, &node, job).await;
    let status = info(&node).status;
    assert_eq!(status.state, "its status panicked", "{status:?}");
    assert!(status.detail.as_deref().is_some_and(|detail| detail.contains("on purpose")), "{status:?}");
    node.stop().await;
}
