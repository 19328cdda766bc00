//! One runner among several.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lineclear_lock::RunnerState;
use lineclear_outbox::{Counts, Delivery, DeliveryError, MessageState, OutboxOptions};

use crate::kit::{Receiver, TestStore, messages, quick, until};

pub(crate) async fn one_of_several_runners_delivers_and_another_takes_over(db: &TestStore) {
    let outbox = db.outbox().await;
    let receivers = [Receiver::default(), Receiver::default(), Receiver::default()];
    let mut runners = Vec::new();
    for receiver in &receivers {
        runners.push(outbox.start_with(quick(), receiver.sink()).await.unwrap());
    }
    let running = |runners: &[lineclear_outbox::Runner]| -> Vec<usize> {
        let state = |runner: &lineclear_outbox::Runner| runner.status().borrow().state;
        (0..runners.len()).filter(|at| state(&runners[*at]) == RunnerState::Running).collect()
    };
    until("one runs", async || running(&runners).len() == 1).await;
    let first = running(&runners)[0];
    db.write(&outbox, &messages(0..20), true).await.unwrap();
    receivers[first].wait_for(20).await;
    until("all are recorded", async || outbox.counts().await.unwrap() == Counts::default()).await;

    let registry = runners[first].locks().registry().unwrap().clone();
    registry.flush().await.unwrap();
    let lease = registry.lease("outbox-main").await.unwrap().pop().expect("it is in the registry");
    assert_eq!((lease.kind.as_deref(), lease.state.as_str()), (Some("outbox"), "held"), "{lease:?}");

    runners.remove(first).stop().await.unwrap();
    let others: Vec<&Receiver> = (0..3).filter(|at| *at != first).map(|at| &receivers[at]).collect();
    until("another runs", async || running(&runners).len() == 1).await;
    let second = running(&runners)[0];
    db.write(&outbox, &messages(20..40), true).await.unwrap();
    others[second].wait_for(20).await;
    assert_eq!(receivers.iter().map(|receiver| receiver.got().len()).sum::<usize>(), 40);
    for runner in runners {
        runner.stop().await.unwrap();
    }
}

/// The lock is taken away while messages are on their way: their results must not be recorded by the old runner, and no attempt is charged.
pub(crate) async fn a_runner_that_lost_its_lock_records_nothing(db: &TestStore) {
    let outbox = db.outbox().await;
    db.write(&outbox, &messages(0..5), true).await.unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let slow = move |_: Delivery| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {
            tokio::time::sleep(Duration::from_millis(600)).await;
            Err::<(), _>(DeliveryError::retry("it would be charged"))
        }
    };
    let options = OutboxOptions { lock_ttl: Duration::from_secs(30), ..quick() };
    let old = outbox.start_with(options, slow).await.unwrap();
    until("all are on their way", async || calls.load(Ordering::SeqCst) == 5).await;
    let locks = old.locks().clone();
    let seen = locks.inspect("outbox-main").await.unwrap().unwrap();
    assert!(locks.break_lock("outbox-main", &seen, "test", None).await.unwrap());
    let receiver = Receiver::default();
    let new = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    let got = receiver.wait_for(5).await;
    assert!(got.iter().all(|got| got.attempt == 1), "nothing was charged: {got:?}");
    until("they are recorded once", async || {
        outbox.list(MessageState::Delivered, None, 100).await.unwrap().len() == 5
    })
    .await;
    let delivered = outbox.list(MessageState::Delivered, None, 100).await.unwrap();
    assert!(delivered.iter().all(|message| message.attempts == 1), "{delivered:?}");
    old.stop().await.unwrap();
    new.stop().await.unwrap();
}
