//! Live taps.

use lineclear_outbox::{Filter, NewEvent, Tapped};
use serde_json::json;

use super::kit::{ANY, append, append_or, log, number, soon};
use crate::kit::TestStore;

pub(crate) async fn a_tap_shows_new_events_in_order(db: &TestStore) {
    let log = log(db).await;
    append(db, &log, "a", 0..3).await;
    let mut all = log.tap(Filter::all(), 100).await.unwrap();
    let mut paid = log.tap(Filter::all().kinds(["order.paid"]), 100).await.unwrap();
    append(db, &log, "a", 3..6).await;
    let event = NewEvent::new("order.paid", &json!({"n": 6})).unwrap();
    append_or(db, &log, ("a", ANY), &[event], true).await.unwrap();
    for wanted in 3..7 {
        let Tapped::Event(event) = soon("an event", all.next()).await else { panic!("none is lost") };
        assert_eq!(number(&event), wanted);
    }
    let Tapped::Event(event) = soon("an event", paid.next()).await else { panic!("none is lost") };
    assert_eq!(number(&event), 6);
    assert_eq!(db.number("select count(*) from {t}subscription_checkpoint").await, 0, "it has no state");
}

pub(crate) async fn a_slow_tap_is_told_how_many_it_lost(db: &TestStore) {
    let log = log(db).await;
    let mut tap = log.tap(Filter::all(), 4).await.unwrap();
    append(db, &log, "a", 0..1_000).await;
    let (mut lost, mut got) = (0, Vec::new());
    while got.last() != Some(&999) {
        match soon("the last event", tap.next()).await {
            Tapped::Event(event) => got.push(number(&event)),
            Tapped::Lagged(count) => lost += count,
        }
    }
    assert!(lost > 0 && got.is_sorted(), "{lost} {got:?}");
    assert_eq!(lost + u64::try_from(got.len()).unwrap(), 1_000);
}
