//! The dispatcher of a node with slots of its own, for which remote workers wait: its passes are run by hand.

use std::sync::Arc;

use lineclear_model::Outcome;
use tokio::sync::{mpsc, oneshot};

use crate::Lineclear;
use crate::journey::dispatch::dispatcher::Dispatcher;
use crate::node::Shared;
use crate::node::pacer::Loop;
use crate::tests::*;

const WORKER: NodeId = NodeId(77);
const PASSES: i64 = 60;

struct ByHand {
    shared: Arc<Shared>,
    dispatcher: Dispatcher,
    _settlements: mpsc::Receiver<Settlement>,
}

impl ByHand {
    async fn new(pg: &Pg) -> ByHand {
        let mut built = Lineclear::builder().kind("local", async || {});
        let (kinds, routing) = built.checked_kinds().unwrap();
        let shared = built.share(kinds, routing, pg.store.clone()).await.unwrap();
        let (settle, _settlements) = mpsc::channel(100);
        ByHand { dispatcher: Dispatcher::new(&shared, settle), shared, _settlements }
    }

    /// A poll of the worker for jobs of the kind `pulled`.
    fn poll(&self, slots: u32) -> oneshot::Receiver<Vec<Claim>> {
        self.shared.polls.add(WORKER, [name("pulled")].into(), slots).expect("there is room").1
    }

    /// A pass of a node that was woken.
    async fn pass(&mut self) {
        self.dispatcher.run_once(true).await.unwrap();
    }
}

fn pulled() -> NewJob {
    NewJob { kind: name("pulled"), route: name("pull.pulled"), ..job() }
}

fn local() -> NewJob {
    NewJob { kind: name("local"), ..job() }
}

#[tokio::test]
async fn a_busy_node_does_not_ask_again_and_again_about_a_kind_without_jobs() {
    let sent = async |waits: bool| {
        let pg = Pg::open().await;
        let mut node = ByHand::new(&pg).await;
        let poll = waits.then(|| node.poll(5));
        for _ in 0..PASSES {
            node.pass().await;
        }
        drop(poll);
        pg.commits().await
    };
    let (without, with) = (sent(false).await, sent(true).await);
    assert!(with < without + PASSES / 2, "{with} with a worker that waits, {without} without");
}

#[tokio::test]
async fn a_kind_with_a_backlog_is_dispatched_without_asking() {
    let sent = async |waits: bool| {
        let pg = Pg::open().await;
        let mut node = ByHand::new(&pg).await;
        pg.store.enqueue_many(vec![pulled(); 100]).await.unwrap();
        for _ in 0..PASSES {
            let poll = waits.then(|| node.poll(1));
            node.pass().await;
            if let Some(mut poll) = poll {
                assert_eq!(poll.try_recv().unwrap().len(), 1);
            }
        }
        pg.commits().await
    };
    let (without, with) = (sent(false).await, sent(true).await);
    assert!(with < without + PASSES * 3 / 2, "{with} with a worker that takes jobs, {without} without");
}

#[tokio::test]
async fn a_job_that_is_queued_in_an_empty_lane_is_dispatched_by_the_next_pass() {
    let pg = Pg::open().await;
    let mut node = ByHand::new(&pg).await;
    let mut poll = node.poll(5);
    node.pass().await;
    node.pass().await;
    assert!(poll.try_recv().is_err(), "nothing waits");
    pg.store.enqueue_many(vec![pulled()]).await.unwrap();
    node.pass().await;
    let claims = poll.try_recv().expect("a job");
    // It goes back into the queue, which nothing announces but its settlement.
    let mut poll = node.poll(5);
    node.pass().await;
    let back = Settlement::new(&claims[0], Outcome::Released, lineclear_model::Verdict::Release);
    pg.store.settle(WORKER, vec![back]).await.unwrap();
    node.pass().await;
    assert_eq!(poll.try_recv().expect("the job").len(), 1);
}

#[tokio::test]
async fn neither_slots_nor_remote_workers_get_every_place_of_a_limit_that_both_want() {
    let pg = Pg::open().await;
    let mut node = ByHand::new(&pg).await;
    pg.group("one", 1).await;
    let of_group = |job: NewJob| NewJob { group: Some(name("one")), ..job };
    let jobs = [vec![of_group(pulled()); 5], vec![of_group(local()); 5]].concat();
    pg.store.enqueue_many(jobs).await.unwrap();
    let mut got = Vec::new();
    for _ in 0..2 {
        let mut poll = node.poll(1);
        node.pass().await;
        match poll.try_recv() {
            Ok(claims) => {
                got.push("worker");
                let done = Settlement::new(
                    &claims[0],
                    Outcome::Completed { output: None },
                    lineclear_model::Verdict::Complete,
                );
                pg.store.settle(WORKER, vec![done]).await.unwrap();
            }
            Err(_) => {
                let ours = format!(
                    "select count(*) from lineclear.background_job where leased_by = {}",
                    node.shared.id.0
                );
                assert_eq!(pg.number(&ours).await, 1);
                got.push("slot");
            }
        }
    }
    assert_eq!(got, ["worker", "slot"]);
}
