//! What runners count.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lineclear_outbox::{Counts, DeliveryError, HandlerError, OnPoison, OutboxOptions, SubscriptionOptions};
use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use crate::events::kit::{Projection, append, caught_up, log};
use crate::kit::{Receiver, TestStore, messages, quick, until};

/// Counters by name, of the thread of one test.
#[derive(Clone, Default)]
struct Sums(Arc<Mutex<BTreeMap<String, u64>>>);

struct One(Sums, String);

impl CounterFn for One {
    fn increment(&self, value: u64) {
        *self.0.0.lock().unwrap().entry(self.1.clone()).or_default() += value;
    }
    fn absolute(&self, _: u64) {
        unreachable!("runners only count up");
    }
}

impl Recorder for Sums {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let label = key.labels().next().map(|label| format!(" {}={}", label.key(), label.value()));
        let name = format!("{}{}", key.name(), label.unwrap_or_default());
        Counter::from_arc(Arc::new(One(self.clone(), name)))
    }
    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }
    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

impl Sums {
    fn of(&self, kind: &str, label: &str) -> Vec<(String, u64)> {
        let sums = self.0.lock().unwrap();
        let counted = sums.iter().filter_map(|(name, sum)| {
            let name = name.strip_prefix(kind)?.strip_suffix(label)?;
            Some((name.to_owned(), *sum))
        });
        counted.collect()
    }
}

/// On one thread, so that the recorder of this thread gets all that is counted.
#[tokio::test]
async fn attempts_and_dead_messages_are_counted() {
    let sums = Sums::default();
    let _recorder = metrics::set_default_local_recorder(&sums);
    let (db, receiver) = (TestStore::sqlite(), Receiver::default());
    receiver.answers(1, vec![Err(DeliveryError::retry("busy")), Ok(())]);
    receiver.answers(2, vec![Err(DeliveryError::retry("always"))]);
    receiver.answers(3, vec![Err(DeliveryError::reject("no"))]);
    let outbox = db.outbox().await;
    db.write(&outbox, &messages(0..4), true).await.unwrap();
    let options = OutboxOptions { attempts_max: 3, ..quick() };
    let runner = outbox.start_with(options, receiver.sink()).await.unwrap();
    until("two are dead", async || outbox.counts().await.unwrap() == Counts { dead: 2, ..Counts::default() })
        .await;
    runner.stop().await.unwrap();
    let expected = [("attempts_total", 7), ("dead_total", 2), ("delivered_total", 2), ("failed_total", 5)];
    let expected = expected.map(|(name, sum)| (name.to_owned(), sum));
    assert_eq!(sums.of("lineclear_outbox_", " outbox=main"), expected);
}

#[tokio::test]
async fn handled_failed_and_parked_events_are_counted() {
    let sums = Sums::default();
    let _recorder = metrics::set_default_local_recorder(&sums);
    let (db, projection) = (TestStore::sqlite(), Projection::default());
    projection.answers(1, vec![Err(HandlerError::retry("once")), Ok(())]);
    projection.answers(2, vec![Err(HandlerError::retry("always"))]);
    projection.answers(3, vec![Err(HandlerError::reject("no"))]);
    let log = log(&db).await;
    append(&db, &log, "a", 0..5).await;
    let options = SubscriptionOptions {
        attempts_max: 2,
        on_poison: OnPoison::Park,
        page_size: 1,
        ..crate::events::kit::quick()
    };
    let running = projection.subscribe(&log, &db, "orders", options).await;
    caught_up(&log, "orders").await;
    running.stop().await.unwrap();
    let expected = [("failed_total", 4), ("handled_total", 3), ("parked_total", 2)];
    let expected = expected.map(|(name, sum)| (name.to_owned(), sum));
    assert_eq!(sums.of("lineclear_subscription_", " subscription=orders"), expected);
}
