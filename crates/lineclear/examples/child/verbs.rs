//! One verb of the store, called again and again by many processes at once, until they are killed.

use std::time::Duration;

use lineclear::model::{Outcome, Verdict};
use lineclear::store::{Dispatch, FencedWrite, Lease, NodeId, Settlement, main_route};
use lineclear::{HandlerError, Store, StoreOptions};

/// Small, so that all of them get a share.
const BATCH: u32 = 20;
/// Workers of one process.
const WORKERS: usize = 4;
/// How long to wait when there is nothing to do.
const PAUSE: Duration = Duration::from_millis(5);

/// Dispatches jobs, for workers to claim.
pub(crate) async fn dispatch(url: &str) -> Result<(), HandlerError> {
    let store = open(url).await?;
    loop {
        for job in store.dispatch(Dispatch::new(main_route(), BATCH)).await? {
            println!("job {job} handed over");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Claims what was handed over, and completes it.
pub(crate) async fn claim(url: &str, length: Duration) -> Result<(), HandlerError> {
    let store = open(url).await?;
    let node = NodeId(i64::from(std::process::id()));
    let workers = (0..WORKERS).map(|_| tokio::spawn(work(store.clone(), Lease { node, length })));
    for worker in workers.collect::<Vec<_>>() {
        worker.await??;
    }
    Ok(())
}

async fn work(store: Store, lease: Lease) -> Result<(), HandlerError> {
    loop {
        let claims = store.claim(main_route(), BATCH, lease).await?;
        let complete = |claim| Settlement::new(claim, Outcome::Completed { output: None }, Verdict::Complete);
        let answers = store.settle(lease.node, claims.iter().map(complete).collect()).await?;
        for (claim, answer) in claims.iter().zip(answers) {
            let said = if answer == FencedWrite::Recorded { "accepted" } else { "refused" };
            println!("job {} claim {} {said}", claim.job, claim.no);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn open(url: &str) -> Result<Store, HandlerError> {
    let store = Store::open(StoreOptions::new(url)?).await?;
    println!("process {} is up", std::process::id());
    Ok(store)
}
