//! What every database must do.

use std::future::ready;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lineclear_lock::RunnerState;
use lineclear_outbox::{
    Counts, Delivery, DeliveryError, Message, MessageState, Outbox, OutboxError, OutboxOptions, Outboxes,
    Swept, inbox,
};
use serde_json::json;

use crate::kit::{Receiver, SOON, TestStore, message, messages, order, quick, until};

pub(crate) async fn a_message_is_delivered_with_all_that_was_written(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    let written = Message::new("order.placed", &json!({"order": 7, "text": "ä \u{1F682} \"\\"})).unwrap();
    let written = written.key("Order-7").header("tenant", "acme \"x\"").trace("00-ab-cd-01");
    let ids = db.write(&outbox, &[written, message(8)], true).await.unwrap();
    let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    let got = receiver.wait_for(2).await;
    let first = got.iter().find(|delivery| order(delivery) == 7).unwrap();
    assert_eq!(
        (Some(first.id), first.topic.as_str(), first.key.as_deref(), first.trace.as_deref(), first.attempt),
        (ids[0], "order.placed", Some("Order-7"), Some("00-ab-cd-01"), 1)
    );
    assert_eq!(first.headers.get("tenant").map(String::as_str), Some("acme \"x\""));
    let payload: serde_json::Value = first.payload().unwrap();
    assert_eq!(payload, json!({"order": 7, "text": "ä \u{1F682} \"\\"}));
    assert!(first.created_at.elapsed().unwrap_or_default() < SOON, "{:?}", first.created_at);
    assert_ne!(got[0].delivery_id, got[1].delivery_id);
    assert!(!first.delivery_id.is_nil());
    until("both are recorded", async || {
        outbox.list(MessageState::Delivered, None, 10).await.unwrap().len() == 2
    })
    .await;
    let shown = outbox.show(first.id).await.unwrap().unwrap();
    assert_eq!(
        (shown.state, shown.attempts, shown.delivery_id),
        (MessageState::Delivered, 1, first.delivery_id)
    );
    assert_eq!(outbox.counts().await.unwrap(), Counts::default());
    runner.stop().await.unwrap();
    assert_eq!(receiver.got().len(), 2, "once each");
}

pub(crate) async fn what_is_rolled_back_is_not_delivered(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    db.write(&outbox, &[message(1), message(2)], false).await.unwrap();
    db.write(&outbox, &[message(3)], true).await.unwrap();
    receiver.wait_for(1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(receiver.orders(), [3]);
    assert_eq!(db.number("select count(*) from orders").await, 1);
    runner.stop().await.unwrap();
}

pub(crate) async fn messages_of_a_key_arrive_in_order_and_others_do_not_wait(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    let all: Vec<Message> = (0..500).map(|number| message(number).key(format!("k{}", number % 7))).collect();
    db.write(&outbox, &all, true).await.unwrap();
    // A window that is smaller than the messages of a key.
    let options = OutboxOptions { window: 40, concurrency: 5, ..quick() };
    let runner = outbox.start_with(options, receiver.sink()).await.unwrap();
    receiver.wait_for(500).await;
    runner.stop().await.unwrap();
    for key in 0..7 {
        let of_key: Vec<i64> = receiver.orders().into_iter().filter(|number| number % 7 == key).collect();
        assert!(of_key.is_sorted() && of_key.len() == (500 - key as usize).div_ceil(7), "{key}: {of_key:?}");
    }
    assert_eq!(outbox.counts().await.unwrap(), Counts::default());
}

pub(crate) async fn a_failed_message_holds_up_its_key_and_nothing_else(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    receiver
        .answers(1, vec![Err(DeliveryError::retry("busy")), Err(DeliveryError::retry("still busy")), Ok(())]);
    let of_key = |number| message(number).key("a");
    db.write(&outbox, &[of_key(1), of_key(2), message(3), message(4).key("b")], true).await.unwrap();
    let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    receiver.wait_for(3).await;
    // Written while the first one waits: it waits behind it, too.
    db.write(&outbox, &[of_key(5), message(6)], true).await.unwrap();
    let got = receiver.wait_for(8).await;
    let orders = receiver.orders();
    let of_a: Vec<i64> = orders.iter().copied().filter(|number| [1, 2, 5].contains(number)).collect();
    assert_eq!(of_a, [1, 1, 1, 2, 5], "{orders:?}");
    let place_of = |number: i64| orders.iter().position(|order| *order == number).unwrap();
    let last_try = orders.iter().rposition(|order| *order == 1).unwrap();
    assert!(place_of(3) < last_try && place_of(4) < last_try && place_of(6) < last_try, "{orders:?}");
    let attempts: Vec<u32> = got.iter().filter(|got| order(got) == 1).map(|got| got.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    let ids: std::collections::HashSet<_> =
        got.iter().filter(|got| order(got) == 1).map(|got| got.delivery_id).collect();
    assert_eq!(ids.len(), 1, "one delivery id for all attempts");
    runner.stop().await.unwrap();
}

/// New messages of a key arrive all the time while its first one fails again and again: none may pass another.
pub(crate) async fn no_message_passes_one_of_its_key_that_was_set_aside(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    let fails = |times: usize| [vec![Err(DeliveryError::retry("busy")); times], vec![Ok(())]].concat();
    for order in (0..60).step_by(6) {
        receiver.answers(order, fails(2));
    }
    let options = OutboxOptions { window: 4, backoff_first: Duration::from_millis(20), ..quick() };
    let runner = outbox.start_with(options, receiver.sink()).await.unwrap();
    for order in 0..60 {
        db.write(&outbox, &[message(order).key("a")], true).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let got = receiver.wait_for(80).await;
    assert!(got.iter().map(order).is_sorted(), "{:?}", receiver.orders());
    runner.stop().await.unwrap();
}

/// An answer that no database can add to its time.
pub(crate) async fn a_message_that_is_to_wait_for_ever_holds_up_no_other_one(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    receiver.answers(1, vec![Err(DeliveryError::retry_in("never again", Duration::MAX))]);
    db.write(&outbox, &[message(1), message(2)], true).await.unwrap();
    let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    until("both are recorded", async || {
        let counts = outbox.counts().await.unwrap();
        (counts.ready, counts.waiting) == (0, 1)
    })
    .await;
    runner.stop().await.unwrap();
    assert_eq!(receiver.got().len(), 2);
    let waiting = outbox.list(MessageState::Waiting, None, 10).await.unwrap();
    assert!(
        waiting[0].at > std::time::SystemTime::now() + Duration::from_secs(9 * 365 * 86_400),
        "{waiting:?}"
    );
}

/// One receiver is away while another still works: what is read meanwhile must not pass the messages that were let go.
pub(crate) async fn no_message_passes_one_of_its_key_whose_receiver_is_away(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    receiver.answers(1, vec![Err(DeliveryError::unavailable("closed")), Ok(())]);
    let of_key = |number| message(number).key("a");
    let written = [message(0), of_key(1), message(2), message(3), of_key(4), of_key(5), of_key(6)];
    db.write(&outbox, &written, true).await.unwrap();
    let noted = receiver.sink();
    let sink = move |delivery: Delivery| {
        let is_slow = order(&delivery) == 0;
        let answer = noted(delivery);
        async move {
            if is_slow {
                tokio::time::sleep(Duration::from_millis(400)).await;
            }
            answer.await
        }
    };
    let runner = outbox.start_with(OutboxOptions { window: 4, ..quick() }, sink).await.unwrap();
    receiver.wait_for(8).await;
    let of_key: Vec<i64> = receiver.orders().into_iter().filter(|n| ![0, 2, 3].contains(n)).collect();
    assert_eq!(of_key, [1, 1, 4, 5, 6]);
    runner.stop().await.unwrap();
}

pub(crate) async fn a_message_that_always_fails_is_dead_and_can_be_replayed_or_discarded(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    for order in [1, 2, 3] {
        receiver.answers(order, vec![Err(DeliveryError::retry(format!("no \0 {order}")))]);
    }
    let ids = db.write(&outbox, &[message(1), message(2), message(3)], true).await.unwrap();
    let options = OutboxOptions { attempts_max: 3, ..quick() };
    let runner = outbox.start_with(options, receiver.sink()).await.unwrap();
    receiver.wait_for(9).await;
    until("all are dead", async || outbox.counts().await.unwrap().dead == 3).await;
    let dead = outbox.list(MessageState::Dead, None, 10).await.unwrap();
    assert_eq!(dead.iter().map(|message| Some(message.id)).collect::<Vec<_>>(), [ids[2], ids[1], ids[0]]);
    assert!(
        dead[0].attempts == 3 && dead[0].last_error.as_ref().is_some_and(|error| error.starts_with("no ")),
        "{dead:?}"
    );
    assert_eq!(outbox.list(MessageState::Dead, ids[1], 10).await.unwrap().len(), 1, "the next page");
    let (one, two) = (ids[0].unwrap(), ids[1].unwrap());
    assert_eq!(outbox.discard(&[two, 999_999]).await.unwrap(), 1);
    assert!(outbox.show(two).await.unwrap().is_none());
    receiver.answers(1, vec![Ok(())]);
    receiver.answers(3, vec![Ok(())]);
    assert_eq!(outbox.replay(&[one]).await.unwrap(), 1);
    let got = receiver.wait_for(10).await;
    assert_eq!((order(&got[9]), got[9].attempt), (1, 1), "with a new budget");
    assert_eq!(outbox.replay_all().await.unwrap(), 1);
    receiver.wait_for(11).await;
    until("none is left", async || outbox.counts().await.unwrap() == Counts::default()).await;
    assert_eq!(outbox.replay(&[one]).await.unwrap(), 0, "it is not dead any more");
    runner.stop().await.unwrap();
}

pub(crate) async fn a_rejected_message_is_dead_at_once_and_its_key_goes_on(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    receiver.answers(1, vec![Err(DeliveryError::reject("unknown customer"))]);
    db.write(&outbox, &[message(1).key("a"), message(2).key("a")], true).await.unwrap();
    let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    receiver.wait_for(2).await;
    assert_eq!(receiver.orders(), [1, 2]);
    until("one is dead", async || outbox.counts().await.unwrap().dead == 1).await;
    let dead = outbox.list(MessageState::Dead, None, 10).await.unwrap();
    assert_eq!((dead[0].attempts, dead[0].last_error.as_deref()), (1, Some("unknown customer")));
    runner.stop().await.unwrap();
}

pub(crate) async fn a_receiver_that_is_away_charges_no_message(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    for order in 1..=3 {
        receiver.answers(
            order,
            vec![
                Err(DeliveryError::unavailable("no route")),
                Err(DeliveryError::unavailable("no route")),
                Ok(()),
            ],
        );
    }
    let all = [message(1).key("a"), message(2).key("a"), message(3)];
    db.write(&outbox, &all, true).await.unwrap();
    let runner =
        outbox.start_with(OutboxOptions { attempts_max: 1, ..quick() }, receiver.sink()).await.unwrap();
    until("all are delivered", async || {
        outbox.list(MessageState::Delivered, None, 10).await.unwrap().len() == 3
    })
    .await;
    let status = runner.status().borrow().clone();
    let error = status.last_error.expect("it was shown that the receiver is away");
    assert!(error.contains("the receiver is away: no route"), "{error}");
    until("it is well again", async || runner.status().borrow().state == RunnerState::Running).await;
    runner.stop().await.unwrap();
    let got = receiver.got();
    assert!(got.iter().all(|got| got.attempt == 1), "{got:?}");
    let last = |number: i64| got.iter().rposition(|got| order(got) == number).unwrap();
    assert!(last(1) < last(2), "in order: {:?}", receiver.orders());
}

pub(crate) async fn a_delayed_message_waits_and_an_expired_one_is_dead(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    let started = std::time::Instant::now();
    let delay = Duration::from_millis(800);
    let all = [
        message(1).delay(delay).key("a"),
        message(2).key("a"),
        message(3).expires_in(Duration::ZERO),
        message(4).expires_in(Duration::from_secs(600)),
    ];
    db.write(&outbox, &all, true).await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    receiver.wait_for(2).await;
    let mut early = receiver.orders();
    early.sort_unstable();
    assert_eq!(early, [2, 4], "a delayed message holds up nothing");
    receiver.wait_for(3).await;
    assert!(started.elapsed() >= delay && receiver.orders()[2] == 1);
    until("one has expired", async || outbox.counts().await.unwrap().dead == 1).await;
    let dead = outbox.list(MessageState::Dead, None, 10).await.unwrap();
    assert!(dead[0].attempts == 0 && dead[0].last_error.as_ref().unwrap().contains("expired"), "{dead:?}");
    runner.stop().await.unwrap();
}

pub(crate) async fn a_dedup_key_is_written_once(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    let all = [message(1).dedup_key("a"), message(2).dedup_key("a"), message(3).dedup_key("A"), message(4)];
    let ids = db.write(&outbox, &all, true).await.unwrap();
    assert_eq!(ids.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true, true]);
    assert_eq!(db.write(&outbox, &[message(5).dedup_key("a")], true).await.unwrap(), [None]);
    let other = Outbox::open_named(&db.url, "other").await.unwrap();
    assert!(
        db.write(&other, &[message(6).dedup_key("a")], true).await.unwrap()[0].is_some(),
        "another outbox"
    );
    let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    receiver.wait_for(3).await;
    until("all are recorded", async || outbox.counts().await.unwrap() == Counts::default()).await;
    assert_eq!(
        db.write(&outbox, &[message(7).dedup_key("a")], true).await.unwrap(),
        [None],
        "after its delivery, too"
    );
    runner.stop().await.unwrap();
    let mut orders = receiver.orders();
    orders.sort_unstable();
    assert_eq!(orders, [1, 3, 4]);
}

pub(crate) async fn a_sink_that_panics_or_hangs_fails_its_message_only(db: &TestStore) {
    let outbox = db.outbox().await;
    db.write(&outbox, &messages(1..5), true).await.unwrap();
    let sink = |delivery: Delivery| async move {
        match order(&delivery) {
            1 => panic!("a defect"),
            2 => std::future::pending().await,
            _ => Ok(()),
        }
    };
    let options = OutboxOptions { attempts_max: 1, timeout: Duration::from_millis(300), ..quick() };
    let runner = outbox.start_with(options, sink).await.unwrap();
    until("two are dead", async || outbox.counts().await.unwrap().dead == 2).await;
    let dead = outbox.list(MessageState::Dead, None, 10).await.unwrap();
    let errors: Vec<&str> = dead.iter().filter_map(|message| message.last_error.as_deref()).collect();
    assert!(errors[0].contains("no answer within 300ms") && errors[1].contains("panicked"), "{errors:?}");
    assert_eq!(outbox.list(MessageState::Delivered, None, 10).await.unwrap().len(), 2);
    runner.stop().await.unwrap();
}

pub(crate) async fn bad_messages_are_refused_before_anything_is_written(db: &TestStore) {
    let outbox = db.outbox().await;
    for bad in [message(2).key(""), message(2).key("a\0b"), message(2).dedup_key("x".repeat(256))] {
        let refused = db.write(&outbox, &[message(1), bad], true).await.unwrap_err();
        assert!(matches!(refused, OutboxError::Refused { .. }), "{refused}");
    }
    assert_eq!(db.number("select count(*) from {t}outbox_message").await, 0);
    for name in ["", "a b", "ü", &"x".repeat(101)] {
        assert!(Outbox::open_named(&db.url, name).await.is_err(), "{name}");
    }
}

pub(crate) async fn delivered_messages_are_kept_or_deleted_as_the_options_say(db: &TestStore) {
    for (name, keep, kept) in [("kept", Duration::from_secs(60), 3), ("deleted", Duration::ZERO, 0)] {
        let (outbox, receiver) = (Outbox::open_named(&db.url, name).await.unwrap(), Receiver::default());
        db.write(&outbox, &messages(0..3), true).await.unwrap();
        let options = OutboxOptions { keep_delivered: keep, ..quick() };
        let runner = outbox.start_with(options, receiver.sink()).await.unwrap();
        receiver.wait_for(3).await;
        until("all are recorded", async || outbox.counts().await.unwrap() == Counts::default()).await;
        runner.stop().await.unwrap();
        assert_eq!(outbox.list(MessageState::Delivered, None, 10).await.unwrap().len(), kept);
    }
}

pub(crate) async fn a_runner_removes_only_what_its_own_outbox_keeps_no_longer(db: &TestStore) {
    for name in ["mine", "other"] {
        let (outbox, receiver) = (Outbox::open_named(&db.url, name).await.unwrap(), Receiver::default());
        db.write(&outbox, &[message(1).dedup_key("1")], true).await.unwrap();
        let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
        until("it is recorded", async || outbox.counts().await.unwrap() == Counts::default()).await;
        runner.stop().await.unwrap();
    }
    assert_eq!(db.number("select count(*) from {t}outbox_dedup").await, 2);
    let mine = Outbox::open_named(&db.url, "mine").await.unwrap();
    let none = Duration::ZERO;
    let options = OutboxOptions { keep_delivered: none, keep_dedup_keys: none, ..quick() };
    let runner = mine.start_with(options, Receiver::default().sink()).await.unwrap();
    until("they are removed", async || db.number("select count(*) from {t}outbox_dedup").await == 1).await;
    runner.stop().await.unwrap();
    let other = "select count(*) from {t}outbox_dedup where outbox = 'other'";
    assert_eq!(db.number(other).await, 1);
    assert_eq!(db.number("select count(*) from {t}outbox_delivered").await, 1);
    let other = Outbox::open_named(&db.url, "other").await.unwrap();
    assert_eq!(other.list(MessageState::Delivered, None, 10).await.unwrap().len(), 1);
}

/// While one transaction records that a message failed, another one reads the messages behind it.
pub(crate) async fn a_key_keeps_its_order_while_its_messages_fail_and_come(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    let tries = AtomicU32::new(0);
    let sink = {
        let noted = receiver.sink();
        move |delivery: Delivery| match tries.fetch_add(1, Ordering::SeqCst) % 3 {
            0 => ready(Err(DeliveryError::retry_in("not now", Duration::from_millis(20)))),
            _ => noted(delivery),
        }
    };
    let options = OutboxOptions { window: 20, attempts_max: 1_000, ..quick() };
    let runner = outbox.start_with(options, sink).await.unwrap();
    for first in (0..300).step_by(30) {
        let batch: Vec<Message> = (first..first + 30).map(|n| message(n).key(format!("{}", n % 5))).collect();
        db.write(&outbox, &batch, true).await.unwrap();
    }
    let got = receiver.wait_for(300).await;
    runner.stop().await.unwrap();
    for key in 0..5 {
        let of_key: Vec<i64> = got.iter().map(order).filter(|n| n % 5 == key).collect();
        assert!(of_key.is_sorted() && of_key.len() == 60, "{key}: {of_key:?}");
    }
}

pub(crate) async fn outboxes_of_one_database_are_separate(db: &TestStore) {
    let mail = Outbox::open_named(&db.url, "mail").await.unwrap();
    let main = db.outbox().await;
    let (of_mail, of_main) = (Receiver::default(), Receiver::default());
    db.write(&mail, &[message(1)], true).await.unwrap();
    db.write(&main, &[message(2)], true).await.unwrap();
    let one = mail.start_with(quick(), of_mail.sink()).await.unwrap();
    let two = main.start_with(quick(), of_main.sink()).await.unwrap();
    of_mail.wait_for(1).await;
    of_main.wait_for(1).await;
    assert_eq!((of_mail.orders(), of_main.orders()), (vec![1], vec![2]));
    one.stop().await.unwrap();
    two.stop().await.unwrap();
}

pub(crate) async fn messages_written_in_sql_are_delivered(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    let guide: Vec<&str> = include_str!("../../../../docs/outbox.md").split("```sql\n").skip(1).collect();
    let block = |number: usize| guide[number].split("```").next().unwrap();
    if db.url.starts_with("postgres") {
        // Twice: it has a dedup key.
        db.sql(block(0)).await;
        db.sql(block(0)).await;
        db.sql(
            "select {t}outbox_write('order.placed', '{\"order\": 2}', key => 'a', headers => '{\"n\": 1}')",
        )
        .await;
        db.sql("select {t}outbox_write('order.placed', '{\"order\": 4}', not_before => now() + interval '1 hour')").await;
        db.sql("select {t}outbox_write('order.placed', '{\"order\": 5}', not_before => 'infinity')").await;
        let waiting = outbox.list(MessageState::Waiting, None, 10).await.unwrap();
        assert_eq!(waiting.len(), 2, "infinity can be shown");
        db.sql(
            "select {t}outbox_write('order.placed', '{\"order\": 2}', not_before => '-infinity', key => 'b')",
        )
        .await;
        assert_eq!(
            (
                outbox.counts().await.unwrap().ready,
                outbox.list(MessageState::Ready, None, 10).await.unwrap().len()
            ),
            (3, 3)
        );
        db.sql("delete from {t}outbox_message where due_at = '-infinity'").await;
    } else {
        db.sql(block(1)).await;
        db.sql("insert into {t}outbox_message (topic, payload, headers) values ('order.placed', '{\"order\": 2}', '{\"n\": 1}')").await;
    }
    let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    let got = receiver.wait_for(2).await;
    let mut orders = receiver.orders();
    orders.sort_unstable();
    assert_eq!(orders, [2, 42]);
    let second = got.iter().find(|got| order(got) == 2).unwrap();
    assert_eq!(second.headers.get("n").map(String::as_str), Some("1"));
    assert!(!second.delivery_id.is_nil());
    runner.stop().await.unwrap();
}

pub(crate) async fn a_runner_that_stops_records_what_was_on_its_way(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    db.write(&outbox, &messages(0..10), true).await.unwrap();
    let noted = receiver.sink();
    let slow = move |delivery: Delivery| {
        let answer = noted(delivery);
        async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            answer.await
        }
    };
    let options = OutboxOptions { concurrency: 4, ..quick() };
    let runner = outbox.start_with(options, slow).await.unwrap();
    receiver.wait_for(4).await;
    runner.stop().await.unwrap();
    assert_eq!(receiver.got().len(), 4, "no more began");
    assert_eq!(outbox.list(MessageState::Delivered, None, 100).await.unwrap().len(), 4);
    assert_eq!(outbox.counts().await.unwrap().ready, 6);
}

pub(crate) async fn the_inbox_lets_a_delivery_through_once(db: &TestStore) {
    let id = uuid::Uuid::new_v4();
    let (schema, first, second) = if let Some(path) = db.url.strip_prefix("sqlite:") {
        let mut connection = rusqlite::Connection::open(path).unwrap();
        connection.execute_batch(inbox::SCHEMA_SQLITE).unwrap();
        let mut once = |consumer: &str, commits: bool| {
            let transaction =
                connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
            let first = inbox::once_sqlite(&transaction, consumer, id).unwrap();
            if commits {
                transaction.commit().unwrap();
            }
            first
        };
        (once("mail", false), [once("mail", true), once("bill", true)], once("mail", true))
    } else if db.url.starts_with("mysql") {
        use mysql_async::prelude::Queryable;
        let mut connection = crate::kit::connect_mysql(&db.url).await;
        connection.query_drop(inbox::SCHEMA_MYSQL).await.unwrap();
        let mut answers = Vec::new();
        for (consumer, commits) in [("mail", false), ("mail", true), ("bill", true), ("mail", true)] {
            let mut transaction = connection.start_transaction(mysql_async::TxOpts::default()).await.unwrap();
            answers.push(inbox::once_mysql(&mut transaction, consumer, id).await.unwrap());
            if commits {
                transaction.commit().await.unwrap();
            } else {
                transaction.rollback().await.unwrap();
            }
        }
        (answers[0], [answers[1], answers[2]], answers[3])
    } else {
        let mut client = crate::kit::connect_postgres(&db.url).await;
        client.batch_execute(inbox::SCHEMA_POSTGRES).await.unwrap();
        let mut answers = Vec::new();
        for (consumer, commits) in [("mail", false), ("mail", true), ("bill", true), ("mail", true)] {
            let transaction = client.transaction().await.unwrap();
            answers.push(inbox::once_postgres(&transaction, consumer, id).await.unwrap());
            if commits {
                transaction.commit().await.unwrap();
            }
        }
        (answers[0], [answers[1], answers[2]], answers[3])
    };
    assert!(schema, "rolled back");
    assert_eq!(first, [true, true], "of each consumer");
    assert!(!second, "it was handled");
}

pub(crate) async fn looking_creates_no_tables_and_finds_all_outboxes(db: &TestStore) {
    let all = Outboxes::new(&db.url).unwrap();
    assert!(!all.tables_exist().await.unwrap());
    assert!(!all.tables_exist().await.unwrap(), "looking created none");
    let main = db.outbox().await;
    assert!(all.tables_exist().await.unwrap() && all.names().await.unwrap().is_empty());
    let mail = Outbox::open_named(&db.url, "mail").await.unwrap();
    let later = Outbox::open_named(&db.url, "later").await.unwrap();
    db.write(&main, &messages(0..3), true).await.unwrap();
    db.write(&mail, &messages(0..3), true).await.unwrap();
    db.write(&later, &[message(1).delay(Duration::from_secs(600))], true).await.unwrap();
    assert_eq!(all.names().await.unwrap(), ["later", "mail", "main"]);
    let receiver = Receiver::default();
    let runner = mail.start_with(quick(), receiver.sink()).await.unwrap();
    until("mail is empty", async || mail.counts().await.unwrap() == Counts::default()).await;
    runner.stop().await.unwrap();
    assert_eq!(all.names().await.unwrap(), ["later", "mail", "main"], "one that delivered lately");
    assert!(all.outbox("a b").is_err());
    let found = all.outbox("main").unwrap().counts().await.unwrap();
    assert_eq!((found.ready, found.waiting, found.dead), (3, 0, 0));
}

pub(crate) async fn lists_leave_out_payloads_and_sweeps_end(db: &TestStore) {
    let (outbox, receiver) = (db.outbox().await, Receiver::default());
    for order in 1..=3 {
        receiver.answers(order, vec![Err(DeliveryError::reject("never"))]);
    }
    let written = [message(1).header("from", "shop"), message(2), message(3)];
    let ids: Vec<i64> = db.write(&outbox, &written, true).await.unwrap().into_iter().flatten().collect();
    let runner = outbox.start_with(quick(), receiver.sink()).await.unwrap();
    until("all are dead", async || outbox.counts().await.unwrap().dead == 3).await;
    let listed = outbox.list(MessageState::Dead, None, 10).await.unwrap();
    assert!(
        listed.iter().all(|message| message.payload.is_none() && message.headers.is_none()),
        "{listed:?}"
    );
    let shown = outbox.show(ids[0]).await.unwrap().unwrap();
    let payload: serde_json::Value = serde_json::from_str(&shown.payload.unwrap()).unwrap();
    assert_eq!((payload, shown.headers.unwrap().contains("shop")), (json!({"order": 1}), true));
    let other = Outbox::open_named(&db.url, "other").await.unwrap();
    assert!(other.show(ids[0]).await.unwrap().is_none(), "it is of another outbox");
    assert_eq!(other.replay_after(0).await.unwrap(), Swept { count: 0, next: None });

    assert_eq!(outbox.replay_after(ids[0]).await.unwrap(), Swept { count: 2, next: None });
    until("they are dead again", async || {
        receiver.got().len() == 5 && outbox.counts().await.unwrap().dead == 3
    })
    .await;
    assert_eq!(outbox.replay_all().await.unwrap(), 3, "it ends, although they die again");
    until("they are dead again", async || {
        receiver.got().len() == 8 && outbox.counts().await.unwrap().dead == 3
    })
    .await;
    assert_eq!(outbox.discard_after(ids[1]).await.unwrap(), Swept { count: 1, next: None });
    assert_eq!(outbox.discard_after(0).await.unwrap(), Swept { count: 2, next: None });
    assert_eq!(outbox.counts().await.unwrap(), Counts::default());
    runner.stop().await.unwrap();
}
