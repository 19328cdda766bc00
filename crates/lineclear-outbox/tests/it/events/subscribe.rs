//! Subscriptions: what they get, in which order, and where their effects are.

use lineclear_lock::RunnerState;
use lineclear_outbox::{Filter, NewEvent, Start, Subscription, SubscriptionOptions, SubscriptionState};
use serde_json::json;

use super::kit::{ANY, Projection, append, append_or, caught_up, effects, log, quick, soon};
use crate::kit::{TestStore, until};

pub(crate) async fn effects_and_checkpoint_are_committed_together(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    append(db, &log, "a", 0..10).await;
    let options = SubscriptionOptions { page_size: 4, ..quick() };
    let running = projection.subscribe(&log, db, "orders", options).await;
    caught_up(&log, "orders").await;
    assert_eq!(effects(db, 1).await, (0..10).collect::<Vec<_>>());
    assert_eq!(projection.pages(), [4, 4, 2]);
    append(db, &log, "b", 10..12).await;
    caught_up(&log, "orders").await;
    assert_eq!(effects(db, 1).await.len(), 12);
    running.stop().await.unwrap();

    append(db, &log, "b", 12..13).await;
    let again = projection.subscribe(&log, db, "orders", quick()).await;
    caught_up(&log, "orders").await;
    assert_eq!(effects(db, 1).await, (0..13).collect::<Vec<_>>(), "it goes on where it stopped");
    let seen = log.show("orders").await.unwrap().unwrap();
    assert_eq!((seen.handled, seen.kind.as_str(), seen.lag_events), (13, "transaction", 0));
    again.stop().await.unwrap();
}

pub(crate) async fn an_external_handler_gets_each_event_in_order(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    let running = log.subscribe_with("mailer", quick(), projection.external()).await.unwrap();
    append(db, &log, "a", 0..7).await;
    append(db, &log, "b", 7..9).await;
    caught_up(&log, "mailer").await;
    assert_eq!(projection.numbers(), (0..9).collect::<Vec<_>>());
    let in_log = log.read(0, &Filter::all(), 100).await.unwrap();
    assert_eq!(projection.got(), in_log);
    running.stop().await.unwrap();
    let again = log.subscribe_with("mailer", quick(), projection.external()).await.unwrap();
    append(db, &log, "b", 9..10).await;
    caught_up(&log, "mailer").await;
    assert_eq!(projection.numbers().len(), 10, "nothing came again");
    again.stop().await.unwrap();
}

pub(crate) async fn a_filter_names_types_and_streams(db: &TestStore) {
    let log = log(db).await;
    for (number, (stream, kind)) in [
        ("order-1", "order.placed"),
        ("order-2", "order.paid"),
        ("cart-1", "order.placed"),
        ("order", "refund"),
        ("Order-3", "order.placed"),
        ("order-%", "orderXplaced"),
    ]
    .into_iter()
    .enumerate()
    {
        let event = NewEvent::new(kind, &json!({ "n": number })).unwrap();
        append_or(db, &log, (stream, ANY), &[event], true).await.unwrap();
    }
    for (name, filter, wanted) in [
        ("all", Filter::all(), vec![0, 1, 2, 3, 4, 5]),
        ("kinds", Filter::all().kinds(["order.placed", "refund"]), vec![0, 2, 3, 4]),
        ("beginnings", Filter::all().kinds(["order.*"]), vec![0, 1, 2, 4]),
        ("streams", Filter::all().streams(["order-*", "cart-1"]), vec![0, 1, 2, 5]),
        ("both", Filter::all().kinds(["order.placed"]).streams(["order-*"]), vec![0]),
        ("none", Filter::all().kinds(["order.%", "*placed"]), vec![]),
    ] {
        let projection = Projection::default();
        let options = SubscriptionOptions { filter: filter.clone(), ..quick() };
        let running = log.subscribe_with(name, options, projection.external()).await.unwrap();
        caught_up(&log, name).await;
        running.stop().await.unwrap();
        assert_eq!(projection.numbers(), wanted, "{name}");
        assert_eq!(log.read(0, &filter, 100).await.unwrap(), projection.got(), "{name}");
    }
}

/// More positions than one statement looks at.
pub(crate) async fn rare_events_are_found_and_the_others_are_not_read_again(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    append(db, &log, "rare", 1..2).await;
    for _ in 0..6 {
        append(db, &log, "frequent", 0..10_000).await;
    }
    append(db, &log, "rare", 2..3).await;
    let options = SubscriptionOptions { filter: Filter::all().streams(["rare"]), ..quick() };
    let running = projection.subscribe(&log, db, "rare", options).await;
    caught_up(&log, "rare").await;
    assert_eq!(effects(db, 1).await, [1, 2]);
    assert_eq!(projection.pages(), [1, 1], "two ranges");
    assert_eq!(log.show("rare").await.unwrap().unwrap().handled, 2);
    running.stop().await.unwrap();
}

pub(crate) async fn a_subscription_starts_where_it_is_told(db: &TestStore) {
    let log = log(db).await;
    let before = append(db, &log, "a", 0..3).await;
    let mut started = Vec::new();
    for (name, start, wanted) in [
        ("beginning", Start::Beginning, vec![0, 1, 2, 3]),
        ("end", Start::End, vec![3]),
        ("after", Start::After(before.positions[1]), vec![2, 3]),
    ] {
        let projection = Projection::default();
        let options = SubscriptionOptions { start, ..quick() };
        let running = log.subscribe_with(name, options, projection.external()).await.unwrap();
        started.push((name, projection, running, wanted));
    }
    append(db, &log, "a", 3..4).await;
    for (name, projection, running, wanted) in started {
        caught_up(&log, name).await;
        running.stop().await.unwrap();
        assert_eq!(projection.numbers(), wanted, "{name}");
    }
    // The checkpoint exists: another start changes nothing.
    let projection = Projection::default();
    let again = log.subscribe_with("end", quick(), projection.external()).await.unwrap();
    append(db, &log, "a", 4..5).await;
    caught_up(&log, "end").await;
    assert_eq!(projection.numbers(), [4]);
    again.stop().await.unwrap();
}

pub(crate) async fn subscriptions_of_one_log_are_separate(db: &TestStore) {
    let log = log(db).await;
    let route = Subscription::route_name("billing", "order.placed");
    assert_eq!(route, "event-route-billing-order.placed");
    let (one, two) = (Projection::default(), Projection::default());
    one.answers(1, vec![Err(lineclear_outbox::HandlerError::reject("no"))]);
    let first = log.subscribe_with("mailer", quick(), one.external()).await.unwrap();
    let second = log.subscribe_with(&route, quick(), two.external()).await.unwrap();
    append(db, &log, "a", 0..3).await;
    caught_up(&log, &route).await;
    assert_eq!(two.numbers(), [0, 1, 2]);
    until("the other stops", async || {
        log.show("mailer").await.unwrap().unwrap().state == SubscriptionState::Stopped
    })
    .await;
    let names: Vec<String> = log.subscriptions().await.unwrap().into_iter().map(|seen| seen.name).collect();
    assert_eq!(names, [route, "mailer".to_owned()]);
    first.stop().await.unwrap();
    second.stop().await.unwrap();
}

pub(crate) async fn one_of_several_nodes_handles_and_another_takes_over(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(projection.subscribe(&log, db, "orders", quick()).await);
    }
    let running = |nodes: &[Subscription]| -> Vec<usize> {
        (0..nodes.len()).filter(|at| nodes[*at].status().borrow().state == RunnerState::Running).collect()
    };
    until("one runs", async || running(&nodes).len() == 1).await;
    let first = running(&nodes)[0];
    append(db, &log, "a", 0..20).await;
    caught_up(&log, "orders").await;

    let registry = nodes[first].locks().registry().unwrap().clone();
    registry.flush().await.unwrap();
    let lease = registry.lease("orders").await.unwrap().pop().expect("it is in the registry");
    assert_eq!((lease.kind.as_deref(), lease.state.as_str()), (Some("subscription"), "held"), "{lease:?}");

    nodes.remove(first).stop().await.unwrap();
    until("another runs", async || running(&nodes).len() == 1).await;
    append(db, &log, "a", 20..40).await;
    caught_up(&log, "orders").await;
    assert_eq!(effects(db, 1).await, (0..40).collect::<Vec<_>>());
    for node in nodes {
        node.stop().await.unwrap();
    }
}

/// The lock is taken away while a handler works.
pub(crate) async fn a_node_that_lost_its_lock_commits_nothing(db: &TestStore) {
    let (log, projection) = (log(db).await, Projection::default());
    append(db, &log, "a", 0..5).await;
    // While a handler has its transaction, no other process can take the lock. So this one has none.
    let calls = projection.clone();
    let (reached, goes_on) =
        (std::sync::Arc::new(tokio::sync::Notify::new()), std::sync::Arc::new(tokio::sync::Notify::new()));
    let slow = {
        let (reached, goes_on) = (reached.clone(), goes_on.clone());
        move |event| {
            let (answer, reached, goes_on) = (calls.external()(event), reached.clone(), goes_on.clone());
            async move {
                reached.notify_one();
                goes_on.notified().await;
                answer.await
            }
        }
    };
    let options = SubscriptionOptions {
        lock_ttl: std::time::Duration::from_secs(30),
        timeout: crate::kit::SOON,
        ..quick()
    };
    let old = log.subscribe_with("orders", options, slow).await.unwrap();
    soon("it works", reached.notified()).await;
    let locks = old.locks().clone();
    let seen = locks.inspect("orders").await.unwrap().unwrap();
    assert!(locks.break_lock("orders", &seen, "test", None).await.unwrap());
    let successor = Projection::default();
    let new = log.subscribe_with("orders", quick(), successor.external()).await.unwrap();
    caught_up(&log, "orders").await;
    assert_eq!(successor.numbers(), [0, 1, 2, 3, 4], "nothing was recorded by the old one");
    goes_on.notify_one();
    new.stop().await.unwrap();
    old.stop().await.unwrap();
    assert_eq!(log.show("orders").await.unwrap().unwrap().handled, 5);
}
