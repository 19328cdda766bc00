//! Work that runs on one node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lineclear_lock::{Locks, RunnerState, RunnerStatus, Singleton, Term};
use tokio_util::sync::CancellationToken;

use crate::kit::{Place, SOON};

struct Node {
    singleton: Singleton,
    stop: CancellationToken,
    running: tokio::task::JoinHandle<()>,
    starts: Arc<AtomicU32>,
}

impl Node {
    /// Runs work whose first `failures` starts fail: half of them panic.
    fn start(locks: &Locks, failures: u32) -> Node {
        let (singleton, stop) = (Singleton::new(locks, "mirror"), CancellationToken::new());
        let starts = Arc::new(AtomicU32::new(0));
        let (runner, stopping, counted) = (singleton.clone(), stop.clone(), starts.clone());
        let work = move |term: Term| {
            let start = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                match start {
                    start if start < failures && start % 2 == 0 => return Err(format!("failure {start}")),
                    start if start < failures => panic!("panic {start}"),
                    _ => term.ending().cancelled().await,
                }
                Ok(())
            }
        };
        let running = tokio::spawn(async move { runner.run(&stopping, work).await.unwrap() });
        Node { singleton, stop, running, starts }
    }

    async fn until(&self, holds: impl Fn(&RunnerStatus) -> bool) -> RunnerStatus {
        let mut status = self.singleton.status();
        let found = tokio::time::timeout(SOON, status.wait_for(holds)).await;
        found.unwrap_or_else(|_| panic!("in vain: {:?}", self.singleton.status().borrow())).unwrap().clone()
    }

    fn state(&self) -> RunnerState {
        self.singleton.status().borrow().state
    }

    async fn stop(self) {
        self.stop.cancel();
        self.running.await.unwrap();
    }
}

fn runs(status: &RunnerStatus) -> bool {
    status.state == RunnerState::Running
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_fails_or_panics_starts_again_on_its_node() {
    let place = Place::sqlite();
    let one = Node::start(&place.locks().await, 3);
    let failing = one.until(|status| status.failures == 1).await;
    let epoch = failing.epoch;
    let other = Node::start(&place.locks().await, 0);
    let well = one.until(|status| status.failures == 3 && runs(status)).await;
    assert_eq!((well.epoch, well.last_error.as_deref()), (epoch, Some("failure 2")), "in one tenure");
    while one.starts.load(Ordering::SeqCst) < 4 {
        tokio::task::yield_now().await;
    }
    assert_eq!(other.starts.load(Ordering::SeqCst), 0);
    assert_eq!(other.state(), RunnerState::Waiting);

    one.stop().await;
    let next = other.until(runs).await;
    assert!(next.epoch > epoch);
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_shown_as_the_last_error() {
    let node = Node::start(&Place::in_process().locks().await, 2);
    let failed = node.until(|status| status.failures == 2).await;
    assert_eq!(failed.last_error.as_deref(), Some("it panicked: panic 1"));
    let status = node.singleton.status();
    node.stop().await;
    assert_eq!(status.borrow().state, RunnerState::Stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_fails_again_and_again_moves_to_another_node() {
    let place = Place::sqlite();
    let one = Node::start(&place.locks().await, u32::MAX);
    one.until(|status| status.failures == 1).await;
    let other = Node::start(&place.locks().await, 0);
    other.until(runs).await;
    assert_eq!(one.state(), RunnerState::Waiting);
    let starts = one.starts.load(Ordering::SeqCst);
    assert_eq!(starts, 5, "not at once");
    other.stop().await;
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_hands_its_work_over() {
    let place = Place::sqlite();
    let one = Node::start(&place.locks().await, 0);
    one.until(runs).await;
    let other = Node::start(&place.locks().await, 0);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(other.state(), RunnerState::Waiting, "it stays where it is");
    one.singleton.hand_over();
    other.until(runs).await;
    assert_eq!(one.state(), RunnerState::Waiting);
    other.stop().await;
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_hands_its_work_over_to_the_one_that_it_names() {
    let place = Place::sqlite();
    let one = Node::start(&place.locks().await, 0);
    one.until(runs).await;
    let other = Node::start(&place.locks().await, 0);
    let locks = place.locks().await;
    let named = Node::start(&locks, 0);
    one.singleton.hand_over_to(&locks.holder().to_string());
    named.until(runs).await;
    assert_eq!((other.starts.load(Ordering::SeqCst), one.state()), (0, RunnerState::Waiting));
    for node in [other, one, named] {
        node.stop().await;
    }
}
