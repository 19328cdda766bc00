//! Transactions that draw their ids early and commit late.

use std::time::Duration;

use lineclear_outbox::{Counts, OutboxOptions};

use crate::kit::{Receiver, TestStore, message, order, quick, until};

/// SQLite has one writer at a time: transactions commit in the order of their ids.
fn has_one_writer(db: &TestStore) -> bool {
    db.url.starts_with("sqlite")
}

pub(crate) async fn a_message_of_a_late_transaction_is_delivered(db: &TestStore) {
    if has_one_writer(db) {
        return;
    }
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    let late = db.begin(&outbox, &[message(1)]).await.unwrap();
    db.write(&outbox, &[message(2), message(3)], true).await.unwrap();
    receiver.wait_for(2).await;
    let mut early = receiver.orders();
    early.sort_unstable();
    assert_eq!(early, [2, 3]);
    late.commit().await;
    receiver.wait_for(3).await;
    assert_eq!(receiver.orders()[2], 1);
    runner.stop().await.unwrap();
}

/// Another key has passed the late one before it is committed; then its own key goes on.
pub(crate) async fn a_late_message_arrives_before_those_of_its_key_that_were_written_after_it(
    db: &TestStore,
) {
    if has_one_writer(db) {
        return;
    }
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    for round in 0..5 {
        let late = db.begin(&outbox, &[message(round * 10 + 1).key("a")]).await.unwrap();
        db.write(&outbox, &[message(round * 10 + 2).key("b")], true).await.unwrap();
        until("the other key is recorded", async || outbox.counts().await.unwrap() == Counts::default())
            .await;
        late.commit().await;
        db.write(&outbox, &[message(round * 10 + 3).key("a")], true).await.unwrap();
        let got = receiver.wait_for(3 * (usize::try_from(round).unwrap() + 1)).await;
        let of_round: Vec<i64> = got.iter().map(|got| order(got) % 10).skip(3 * round as usize).collect();
        assert_eq!(of_round, [2, 1, 3], "round {round}");
    }
    runner.stop().await.unwrap();
}

/// Each key is written by one program, in one transaction after the other; the transactions of the others overlap with these.
pub(crate) async fn keys_keep_their_order_while_transactions_overlap(db: &TestStore) {
    const EACH: i64 = 25;
    if has_one_writer(db) {
        return;
    }
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    db.write(&outbox, &[message(-1)], true).await.unwrap();
    let options = OutboxOptions { window: 8, ..quick() };
    let runner = outbox.start_with(options, receiver.sink()).await.unwrap();
    let writers = (0..6_i64).map(|writer| {
        let outbox = &outbox;
        async move {
            for n in 0..EACH {
                let written = [message(writer * EACH + n).key(format!("k{writer}"))];
                let open = db.begin(outbox, &written).await.unwrap();
                // Some commit at once, and some are passed by others.
                tokio::time::sleep(Duration::from_millis(((n * 7 + writer * 5) % 4 * 10).unsigned_abs()))
                    .await;
                if (n + writer) % 5 == 0 {
                    open.roll_back().await;
                    db.write(outbox, &written, true).await.unwrap();
                } else {
                    open.commit().await;
                }
            }
        }
    });
    let [one, two, three, four, five, six] = writers.collect::<Vec<_>>().try_into().ok().unwrap();
    tokio::join!(one, two, three, four, five, six);
    let got = receiver.wait_for(6 * usize::try_from(EACH).unwrap() + 1).await;
    for writer in 0..6 {
        let of_key: Vec<i64> = got.iter().map(order).filter(|n| *n >= 0 && n / EACH == writer).collect();
        assert!(of_key.is_sorted() && of_key.len() == 25, "{writer}: {of_key:?}");
    }
    runner.stop().await.unwrap();
}
