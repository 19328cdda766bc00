//! Rebuilds in the shadow of the active version.

use lineclear_outbox::{HandlerError, SubscriptionState, Swap};

use super::kit::{Projection, append, caught_up, effects, log, quick};
use crate::kit::{TestStore, until};

pub(crate) async fn a_rebuild_takes_the_place_of_the_active_version(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    append(db, &log, "a", 0..50).await;
    let running = projection.subscribe(&log, db, "orders", quick()).await;
    caught_up(&log, "orders").await;
    assert_eq!(log.rebuild("orders", Swap::WhenCaughtUp).await.unwrap(), 2);
    for part in 5..15 {
        // The log grows meanwhile.
        append(db, &log, "b", part * 10..part * 10 + 10).await;
    }
    until("it is the active one", async || log.show("orders").await.unwrap().unwrap().version == 2).await;
    append(db, &log, "c", 150..160).await;
    caught_up(&log, "orders").await;
    assert_eq!(effects(db, 2).await, (0..160).collect::<Vec<_>>(), "each once, in order");
    assert_eq!(projection.swaps(), [(1, 2)]);
    let seen = log.show("orders").await.unwrap().unwrap();
    assert!(
        seen.rebuild.is_none() && seen.state == SubscriptionState::Running && seen.handled == 160,
        "{seen:?}"
    );
    running.stop().await.unwrap();
    let gone = format!(
        "select count(*) from {}",
        if db.url.starts_with("sqlite") {
            "sqlite_master where name = 'effect_1'"
        } else {
            "pg_class where relname = 'effect_1'"
        }
    );
    assert_eq!(db.number(&gone).await, 0, "the handler dropped the old table in the transaction of the swap");
}

pub(crate) async fn a_rebuild_that_is_cancelled_leaves_no_trace(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    append(db, &log, "a", 0..20).await;
    let running = projection.subscribe(&log, db, "orders", quick()).await;
    caught_up(&log, "orders").await;
    assert_eq!(log.rebuild("orders", Swap::OnRequest).await.unwrap(), 2);
    let refused = log.rebuild("orders", Swap::OnRequest).await.unwrap_err().to_string();
    assert!(refused.contains("a rebuild of \"orders\" is going on"), "{refused}");
    until("it has caught up", async || {
        let seen = log.show("orders").await.unwrap().unwrap();
        seen.rebuild.is_some_and(|rebuild| rebuild.lag_events == 0)
    })
    .await;
    assert_eq!(log.show("orders").await.unwrap().unwrap().state, SubscriptionState::Rebuilding);
    assert!(log.cancel_rebuild("orders").await.unwrap());
    append(db, &log, "a", 20..25).await;
    caught_up(&log, "orders").await;
    let seen = log.show("orders").await.unwrap().unwrap();
    assert_eq!((seen.version, seen.handled, seen.state), (1, 25, SubscriptionState::Running));
    assert_eq!(effects(db, 1).await, (0..25).collect::<Vec<_>>());
    assert_eq!(effects(db, 2).await, (0..20).collect::<Vec<_>>(), "what it wrote is its own");

    // No version is given twice: the tables of the cancelled one are not in the way.
    assert_eq!(log.rebuild("orders", Swap::WhenCaughtUp).await.unwrap(), 3);
    until("it is the active one", async || log.show("orders").await.unwrap().unwrap().version == 3).await;
    assert_eq!(effects(db, 3).await, (0..25).collect::<Vec<_>>());
    assert_eq!(projection.swaps(), [(1, 3)]);
    running.stop().await.unwrap();
}

pub(crate) async fn a_rebuild_that_fails_does_not_disturb_the_active_version(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    append(db, &log, "a", 0..10).await;
    let running = projection.subscribe(&log, db, "orders", quick()).await;
    caught_up(&log, "orders").await;
    projection.answers(7, vec![Err(HandlerError::reject("not any more"))]);
    log.rebuild("orders", Swap::WhenCaughtUp).await.unwrap();
    until("the rebuild stops", async || {
        let seen = log.show("orders").await.unwrap().unwrap();
        seen.rebuild.is_some_and(|rebuild| rebuild.state == SubscriptionState::Stopped)
    })
    .await;
    append(db, &log, "a", 10..15).await;
    caught_up(&log, "orders").await;
    let seen = log.show("orders").await.unwrap().unwrap();
    assert_eq!((seen.version, seen.handled, seen.failures), (1, 15, 0));
    assert_eq!(effects(db, 1).await, (0..15).collect::<Vec<_>>());
    let rebuild = seen.rebuild.unwrap();
    assert_eq!((rebuild.last_error.as_deref(), rebuild.lag_events), (Some("not any more"), 8));
    // The defect is gone.
    projection.answers(7, vec![Ok(())]);
    log.resume("orders").await.unwrap();
    until("it is the active one", async || log.show("orders").await.unwrap().unwrap().version == 2).await;
    assert_eq!(effects(db, 2).await, (0..15).collect::<Vec<_>>());
    running.stop().await.unwrap();
}

pub(crate) async fn a_swap_waits_for_a_request(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    append(db, &log, "a", 0..10).await;
    let running = projection.subscribe(&log, db, "orders", quick()).await;
    log.rebuild("orders", Swap::OnRequest).await.unwrap();
    until("it has caught up", async || {
        let seen = log.show("orders").await.unwrap().unwrap();
        seen.rebuild.is_some_and(|rebuild| rebuild.position >= seen.head && !rebuild.swaps)
    })
    .await;
    // A node that starts anew finds the rebuild and goes on with it.
    running.stop().await.unwrap();
    let again = projection.subscribe(&log, db, "orders", quick()).await;
    append(db, &log, "a", 10..12).await;
    caught_up(&log, "orders").await;
    assert_eq!(log.show("orders").await.unwrap().unwrap().version, 1);
    assert!(log.swap("orders").await.unwrap());
    until("it is the active one", async || log.show("orders").await.unwrap().unwrap().version == 2).await;
    assert_eq!(effects(db, 2).await, (0..12).collect::<Vec<_>>());
    again.stop().await.unwrap();
}

pub(crate) async fn only_effects_in_this_database_can_be_rebuilt(db: &TestStore) {
    let log = log(db).await;
    let running = log.subscribe_with("mailer", quick(), Projection::default().external()).await.unwrap();
    let refused = log.rebuild("mailer", Swap::WhenCaughtUp).await.unwrap_err().to_string();
    assert!(refused.contains("has its effects elsewhere"), "{refused}");
    running.stop().await.unwrap();
}
