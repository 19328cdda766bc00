//! Pause, reset, and what people see.

use std::time::Duration;

use lineclear_outbox::{EventLog, OutboxError, Start, SubscriptionOptions, SubscriptionState, Swap};

use super::kit::{Projection, append, caught_up, effects, log, quick, soon};
use crate::kit::{SOON, TestStore};

/// A handler that a test holds for a while.
fn patient() -> SubscriptionOptions {
    SubscriptionOptions { timeout: SOON, lock_ttl: SOON * 2, ..quick() }
}

/// Waits until a subscription that runs has passed all there is: another one that does the same may be expected to have done so, too.
async fn another_passes(log: &EventLog, name: &str) {
    let other = log.subscribe_with(name, quick(), Projection::default().external()).await.unwrap();
    caught_up(log, name).await;
    other.stop().await.unwrap();
}

pub(crate) async fn a_paused_subscription_does_nothing(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    let holds = db.url.starts_with("postgres").then(|| projection.hold());
    append(db, &log, "a", 0..3).await;
    let running = projection.subscribe(&log, db, "orders", patient()).await;
    let before = match &holds {
        // In SQLite, a handler in its transaction holds up everything that writes, also a pause.
        None => {
            caught_up(&log, "orders").await;
            3
        }
        Some(hold) => {
            soon("a page is handled", hold.reached.notified()).await;
            0
        }
    };
    assert!(log.pause("orders", "maintenance").await.unwrap());
    assert!(!log.pause("orders", "again").await.unwrap());
    if let Some(hold) = &holds {
        hold.goes_on.notify_one();
    }
    append(db, &log, "a", 3..5).await;
    another_passes(&log, "other").await;
    let seen = log.show("orders").await.unwrap().unwrap();
    assert_eq!((seen.state, seen.reason.as_deref()), (SubscriptionState::Paused, Some("maintenance")));
    assert_eq!(effects(db, 1).await.len(), before, "a page that is under way when it is paused is undone");
    let refused = log.wait_until_caught_up("orders", SOON).await.unwrap_err().to_string();
    assert!(refused.contains("\"orders\" is paused: maintenance"), "{refused}");

    assert!(log.resume("orders").await.unwrap());
    assert!(!log.resume("orders").await.unwrap());
    caught_up(&log, "orders").await;
    assert_eq!(effects(db, 1).await, [0, 1, 2, 3, 4]);
    running.stop().await.unwrap();
}

pub(crate) async fn a_subscription_is_reset_and_handles_events_again(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    let positions = append(db, &log, "a", 0..4).await.positions;
    let running = log.subscribe_with("mailer", quick(), projection.external()).await.unwrap();
    caught_up(&log, "mailer").await;
    assert_eq!(log.reset("mailer", Start::After(positions[1])).await.unwrap(), positions[1]);
    caught_up(&log, "mailer").await;
    assert_eq!(log.reset("mailer", Start::Beginning).await.unwrap(), 0);
    caught_up(&log, "mailer").await;
    log.pause("mailer", "").await.unwrap();
    append(db, &log, "a", 4..5).await;
    assert!(log.reset("mailer", Start::End).await.unwrap() > positions[3]);
    log.resume("mailer").await.unwrap();
    append(db, &log, "a", 5..6).await;
    caught_up(&log, "mailer").await;
    assert_eq!(projection.numbers(), [0, 1, 2, 3, 2, 3, 0, 1, 2, 3, 5]);
    running.stop().await.unwrap();
}

pub(crate) async fn a_checkpoint_that_was_moved_meanwhile_undoes_the_page(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    let positions = append(db, &log, "a", 0..5).await.positions;
    if db.url.starts_with("postgres") {
        let hold = projection.hold();
        let running = projection.subscribe(&log, db, "orders", patient()).await;
        soon("a page is handled", hold.reached.notified()).await;
        log.reset("orders", Start::After(positions[2])).await.unwrap();
        hold.goes_on.notify_one();
        caught_up(&log, "orders").await;
        running.stop().await.unwrap();
        assert_eq!(effects(db, 1).await, [3, 4]);
        assert_eq!(projection.pages(), [5, 2], "it was read again");
    } else {
        // While a handler has its transaction, nothing else writes. So the checkpoint moves while an external one works.
        let (note, moves) = (projection.external(), log.clone());
        let (second, moved) = (positions[2], std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
        let handler = move |event| {
            let (answer, log, first) =
                (note(event), moves.clone(), !moved.swap(true, std::sync::atomic::Ordering::SeqCst));
            async move {
                if first {
                    log.reset("orders", Start::After(second)).await?;
                }
                answer.await
            }
        };
        let running = log.subscribe_with("orders", patient(), handler).await.unwrap();
        caught_up(&log, "orders").await;
        running.stop().await.unwrap();
        assert_eq!(projection.numbers(), [0, 1, 2, 3, 4, 3, 4], "the checkpoint is where it was moved");
        assert_eq!(log.show("orders").await.unwrap().unwrap().handled, 2);
    }
}

pub(crate) async fn what_people_see_is_true(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    assert!(log.subscriptions().await.unwrap().is_empty() && log.show("orders").await.unwrap().is_none());
    let running = projection.subscribe(&log, db, "orders", quick()).await;
    append(db, &log, "a", 0..3).await;
    caught_up(&log, "orders").await;
    log.pause("orders", "lunch").await.unwrap();
    let positions = append(db, &log, "a", 3..8).await.positions;
    db.sql(if db.url.starts_with("sqlite") {
        "update {t}event set created_at = created_at - 3600000000 where version > 3"
    } else {
        "update {t}event set created_at = created_at - interval '1 hour' where version > 3"
    })
    .await;
    let seen = log.show("orders").await.unwrap().unwrap();
    assert_eq!((seen.name.as_str(), seen.version, seen.head), ("orders", 1, positions[4]));
    assert_eq!((seen.lag_events, seen.handled, seen.parked, seen.failures), (5, 3, 0, 0));
    assert!((3_600..3_700).contains(&seen.lag.as_secs()), "{:?}", seen.lag);
    assert!(seen.updated_at.elapsed().unwrap_or_default() < SOON);
    assert!(seen.rebuild.is_none() && seen.waits_for.is_empty() && seen.last_error.is_none());
    assert_eq!(log.subscriptions().await.unwrap().len(), 1);
    running.stop().await.unwrap();
}

pub(crate) async fn what_does_not_exist_is_refused(db: &TestStore) {
    let log = log(db).await;
    let refused = |error: OutboxError| {
        let text = error.to_string();
        assert!(text.contains("there is no subscription \"none\""), "{text}");
    };
    refused(log.pause("none", "").await.unwrap_err());
    refused(log.resume("none").await.unwrap_err());
    refused(log.skip("none").await.unwrap_err());
    refused(log.reset("none", Start::End).await.unwrap_err());
    refused(log.rebuild("none", Swap::OnRequest).await.unwrap_err());
    refused(log.wait_until_caught_up("none", Duration::from_secs(1)).await.unwrap_err());
    assert!(!log.swap("none").await.unwrap() && !log.cancel_rebuild("none").await.unwrap());
    assert!(log.parked("none", None, 10).await.unwrap().is_empty());
    for name in ["", "a b", "ü", "outbox-main", &"x".repeat(101)] {
        let refused = log.subscribe(name, Projection::default().external()).await.unwrap_err();
        assert!(refused.to_string().starts_with("refused by subscription"), "{refused}");
    }
    let elsewhere = if db.url.starts_with("sqlite") {
        log.subscribe_postgres("a", quick(), Projection::default()).await
    } else {
        log.subscribe_sqlite("a", quick(), Projection::default()).await
    };
    assert!(elsewhere.unwrap_err().to_string().contains("the log is not in"));
    assert!(log.tap(lineclear_outbox::Filter::all(), 0).await.is_err());
}
