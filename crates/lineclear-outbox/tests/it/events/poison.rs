//! Events that fail.

use std::time::Duration;

use lineclear_outbox::{HandlerError, OnPoison, SubscriptionOptions, SubscriptionState, SubscriptionView};

use super::kit::{Projection, append, caught_up, effects, log, quick};
use crate::kit::{TestStore, until};

async fn state(log: &lineclear_outbox::EventLog, name: &str) -> SubscriptionView {
    log.show(name).await.unwrap().unwrap()
}

pub(crate) async fn an_event_that_fails_stops_the_subscription(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    projection.answers(3, vec![Err(HandlerError::retry("no \0 stock"))]);
    let appended = append(db, &log, "a", 0..6).await;
    let options = SubscriptionOptions { attempts_max: 3, ..quick() };
    let running = projection.subscribe(&log, db, "orders", options).await;
    until("it stops", async || state(&log, "orders").await.state == SubscriptionState::Stopped).await;
    let seen = state(&log, "orders").await;
    assert_eq!(effects(db, 1).await, [0, 1, 2], "those before it are handled");
    assert_eq!(
        (seen.position, seen.failed_position, seen.failures, seen.lag_events),
        (appended.positions[2], Some(appended.positions[3]), 3, 3)
    );
    assert!(
        seen.last_error.as_ref().is_some_and(|error| error.starts_with("no ") && error.ends_with("stock"))
    );
    assert!(seen.reason.as_ref().is_some_and(|reason| reason.contains("failed 3 times")), "{seen:?}");
    assert!(seen.failed_at.is_some() && !seen.lag.is_zero());
    // One page of all, then one by one, and three attempts at the one that fails.
    assert_eq!(projection.pages(), [6, 1, 1, 1, 1, 1, 1]);

    assert!(log.resume("orders").await.unwrap());
    until("it fails again", async || projection.pages().len() == 10).await;
    until("it stops again", async || state(&log, "orders").await.state == SubscriptionState::Stopped).await;
    assert!(log.skip("orders").await.unwrap());
    caught_up(&log, "orders").await;
    assert_eq!(effects(db, 1).await, [0, 1, 2, 4, 5]);
    let seen = state(&log, "orders").await;
    assert_eq!((seen.state, seen.failed_position, seen.reason), (SubscriptionState::Running, None, None));
    assert!(!log.skip("orders").await.unwrap(), "it fails at none");
    running.stop().await.unwrap();
}

pub(crate) async fn an_event_that_fails_is_parked_and_the_others_go_on(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    projection.answers(1, vec![Err(HandlerError::retry("no stock"))]);
    projection.answers(3, vec![Err(HandlerError::reject("no such item"))]);
    projection.answers(4, vec![Err(HandlerError::retry("once")), Err(HandlerError::retry("twice")), Ok(())]);
    append(db, &log, "a", 0..6).await;
    let options = SubscriptionOptions { attempts_max: 2, on_poison: OnPoison::Park, page_size: 2, ..quick() };
    let running = projection.subscribe(&log, db, "orders", options).await;
    caught_up(&log, "orders").await;
    // The first attempt at the fourth was in a page with the fifth, which tells nothing about either.
    assert_eq!(effects(db, 1).await, [0, 2, 4, 5]);
    let parked = log.parked("orders", None, 10).await.unwrap();
    let shown: Vec<(i64, u32, Option<&str>)> = parked
        .iter()
        .map(|parked| (super::kit::number(&parked.event), parked.attempts, parked.last_error.as_deref()))
        .collect();
    assert_eq!(shown, [(3, 1, Some("no such item")), (1, 2, Some("no stock"))], "newest first");
    assert_eq!(log.parked("orders", Some(parked[0].id), 10).await.unwrap().len(), 1, "the next page");
    let seen = state(&log, "orders").await;
    assert_eq!((seen.parked, seen.handled, seen.state), (2, 4, SubscriptionState::Running));
    running.stop().await.unwrap();
}

/// An answer that no database can add to its time.
pub(crate) async fn an_event_that_is_to_wait_for_ever_is_recorded(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    projection.answers(0, vec![Err(HandlerError::retry_in("never again", Duration::MAX))]);
    append(db, &log, "a", 0..1).await;
    let running = projection.subscribe(&log, db, "orders", quick()).await;
    until("it is recorded", async || state(&log, "orders").await.failures == 1).await;
    running.stop().await.unwrap();
    assert_eq!(projection.pages(), [1]);
}

pub(crate) async fn parked_events_are_replayed_or_discarded(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    for number in [0, 1, 2] {
        projection.answers(number, vec![Err(HandlerError::reject("no"))]);
    }
    append(db, &log, "a", 0..5).await;
    let options = SubscriptionOptions { on_poison: OnPoison::Park, ..quick() };
    let running = projection.subscribe(&log, db, "orders", options).await;
    caught_up(&log, "orders").await;
    let parked = log.parked("orders", None, 10).await.unwrap();
    let id = |number: usize| parked[2 - number].id;
    assert_eq!(log.discard_parked("orders", &[id(0), 999_999]).await.unwrap(), 1);
    assert_eq!(log.discard_parked("other", &[id(1)]).await.unwrap(), 0);
    projection.answers(1, vec![Ok(())]);
    projection.answers(2, vec![Err(HandlerError::retry("still not"))]);
    assert_eq!(log.replay_parked("orders", &[id(1), id(2)]).await.unwrap(), 2);
    until("one is handled, and the other fails", async || {
        let parked = log.parked("orders", None, 10).await.unwrap();
        matches!(&parked[..], [one] if one.attempts == 2 && !one.replays)
    })
    .await;
    assert_eq!(effects(db, 1).await, [3, 4, 1]);
    let left = log.parked("orders", None, 10).await.unwrap();
    assert_eq!(left[0].last_error.as_deref(), Some("still not"));
    running.stop().await.unwrap();
}

pub(crate) async fn a_handler_that_lacks_something_is_charged_nothing(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    let away = || Err(HandlerError::unavailable("no route"));
    projection.answers(1, vec![away(), away(), away(), Ok(())]);
    append(db, &log, "a", 0..3).await;
    let options = SubscriptionOptions { attempts_max: 1, ..quick() };
    let running = projection.subscribe(&log, db, "orders", options).await;
    caught_up(&log, "orders").await;
    assert_eq!(effects(db, 1).await, [0, 1, 2]);
    assert_eq!(projection.pages(), [3, 3, 3, 3], "the page is tried again as it is");
    let seen = state(&log, "orders").await;
    assert_eq!((seen.state, seen.failures), (SubscriptionState::Running, 0));
    assert_eq!(seen.last_error.as_deref(), Some("no route"));
    running.stop().await.unwrap();
}

pub(crate) async fn a_handler_that_panics_fails(db: &TestStore) {
    let log = log(db).await;
    append(db, &log, "a", 0..3).await;
    let got = Projection::default();
    let note = got.external();
    let handler = move |event: lineclear_outbox::Event| {
        let answer = note(event.clone());
        async move {
            match super::kit::number(&event) {
                0 => panic!("a defect"),
                1 => std::future::pending().await,
                _ => answer.await,
            }
        }
    };
    let options = SubscriptionOptions {
        attempts_max: 1,
        on_poison: OnPoison::Park,
        timeout: std::time::Duration::from_millis(200),
        ..quick()
    };
    let running = log.subscribe_with("mailer", options, handler).await.unwrap();
    caught_up(&log, "mailer").await;
    let parked = log.parked("mailer", None, 10).await.unwrap();
    let errors: Vec<&str> = parked.iter().filter_map(|parked| parked.last_error.as_deref()).collect();
    assert_eq!(errors, ["no answer within 200ms", "the handler panicked: a defect"]);
    running.stop().await.unwrap();
}

pub(crate) async fn an_external_event_that_fails_is_poison_too(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    projection.answers(1, vec![Err(HandlerError::retry("no")), Err(HandlerError::retry("no")), Ok(())]);
    projection.answers(2, vec![Err(HandlerError::retry("never"))]);
    append(db, &log, "a", 0..5).await;
    let options = SubscriptionOptions { attempts_max: 3, ..quick() };
    let running = log.subscribe_with("mailer", options, projection.external()).await.unwrap();
    until("it stops", async || state(&log, "mailer").await.state == SubscriptionState::Stopped).await;
    assert_eq!(projection.numbers(), [0, 1, 1, 1, 2, 2, 2], "none is handled again that was handled");
    assert_eq!(state(&log, "mailer").await.handled, 2);
    assert!(log.skip("mailer").await.unwrap());
    caught_up(&log, "mailer").await;
    assert_eq!(projection.numbers()[7..], [3, 4]);
    running.stop().await.unwrap();
}
