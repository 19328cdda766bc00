//! Subscriptions over HTTP.

use std::time::Duration;

use lineclear::tokio_postgres::{self, NoTls, connect};
use lineclear_http::{Access, HttpOptions};
use lineclear_outbox::{
    Event, EventLog, ExpectedVersion, HandlerError, NewEvent, OnPoison, Page, PostgresHandler, Subscription,
    SubscriptionOptions,
};
use serde_json::{Value, json};

use crate::kit::Served;

/// Appends events to one stream as an application does. Returns their positions.
pub(crate) async fn append(served: &Served, stream: &str, events: &[NewEvent]) -> Vec<i64> {
    let log = EventLog::open(&served.url).await.unwrap();
    if served.url.starts_with("postgres") {
        let (mut client, connection) = connect(&served.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let transaction = client.transaction().await.unwrap();
        let appended = log.append_postgres(&transaction, stream, ExpectedVersion::Any, events).await.unwrap();
        transaction.commit().await.unwrap();
        appended.positions
    } else {
        let mut file = rusqlite::Connection::open(&served.url).unwrap();
        file.busy_timeout(Duration::from_secs(30)).unwrap();
        let transaction = file.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
        let appended = log.append_sqlite(&transaction, stream, ExpectedVersion::Any, events).unwrap();
        transaction.commit().unwrap();
        appended.positions
    }
}

pub(crate) fn event(order: u32) -> NewEvent {
    NewEvent::new("order.placed", &json!({"order": order, "password": "hunter2"})).unwrap()
}

/// Subscribes with a handler that wants no event.
pub(crate) async fn reject(served: &Served, name: &str, on_poison: OnPoison) -> Subscription {
    let log = EventLog::open(&served.url).await.unwrap();
    let options = SubscriptionOptions { on_poison, ..SubscriptionOptions::default() };
    let handler = |_: Event| std::future::ready(Err::<(), _>(HandlerError::reject("unknown customer")));
    log.subscribe_with(name, options, handler).await.unwrap()
}

/// Parks events, and stops the subscription.
pub(crate) async fn park(served: &Served, name: &str, events: &[NewEvent]) {
    append(served, "order-1", events).await;
    let running = reject(served, name, OnPoison::Park).await;
    let path = format!("/api/v1/subscriptions/{name}");
    served.until(&path, |one| one["parked"].as_u64() == Some(events.len() as u64)).await;
    running.stop().await.unwrap();
}

struct Nothing;

impl PostgresHandler for Nothing {
    async fn handle(&self, _: &Page, _: &tokio_postgres::Transaction<'_>) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// Subscribes with effects in the database.
pub(crate) async fn project(served: &Served, name: &str) -> Subscription {
    let log = EventLog::open(&served.url).await.unwrap();
    let options = SubscriptionOptions::default();
    if served.url.starts_with("postgres") {
        log.subscribe_postgres(name, options, Nothing).await.unwrap()
    } else {
        let handler = |_: &Page, _: &rusqlite::Transaction<'_>| Ok(());
        log.subscribe_sqlite(name, options, handler).await.unwrap()
    }
}

async fn act(served: &Served, name: &str, verb: &str, body: &str) -> crate::kit::Answer {
    served.post(&format!("/api/v1/subscriptions/{name}/{verb}"), body).await
}

async fn a_database_without_an_event_log_has_none(served: &Served) {
    assert_eq!(served.get("/api/v1/subscriptions").await.json(), json!({"items": [], "next": null}));
    for path in ["mailer", "a%20b", "mailer/parked", "mailer/parked/1"] {
        assert_eq!(served.get(&format!("/api/v1/subscriptions/{path}")).await.status, 404, "{path}");
    }
    for (verb, body) in [
        ("pause", "{}"),
        ("resume", ""),
        ("skip", ""),
        ("reset", r#"{"to": "end"}"#),
        ("rebuild", ""),
        ("rebuild:swap", ""),
        ("rebuild:cancel", ""),
        ("parked:replay", r#"{"all": true}"#),
        ("parked:discard", r#"{"all": true}"#),
    ] {
        let answer = act(served, "mailer", verb, body).await;
        assert_eq!((answer.status, answer.code()), (404, "not_found".to_owned()), "{verb}");
    }
    // Looking has created no tables.
    assert!(EventLog::open_existing(&served.url).await.unwrap().is_none());
}

async fn a_subscription_is_shown_with_its_lag_and_its_node(served: &Served) {
    let positions = append(served, "order-1", &[event(1), event(2)]).await;
    let running = reject(served, "mailer", OnPoison::Stop).await;
    let stops = |one: &Value| {
        one["state"] == "stopped"
            && one["runner"]["state"] == "running"
            && one["lag_ms"].as_u64().is_some_and(|ms| ms > 0)
    };
    let one = served.until("/api/v1/subscriptions/mailer", stops).await;
    let node = &served.get("/api/v1/nodes").await.json()["items"][0]["name"];
    assert_eq!((&one["runner"]["node"], &one["runners"], &one["lag_events"]), (node, &json!(1), &json!(2)));
    assert_eq!(
        (&one["failed_position"], &one["head"], &one["last_error"], &one["kind"]),
        (
            &json!(positions[0].to_string()),
            &json!(positions[1].to_string()),
            &json!("unknown customer"),
            &json!("external")
        ),
        "{one}"
    );
    assert!(one["reason"].is_string() && one["rebuild"].is_null(), "{one}");
    let all = served.get("/api/v1/subscriptions").await.json();
    assert_eq!((&all["items"][0]["name"], &all["items"][0]["state"]), (&json!("mailer"), &json!("stopped")));
    running.stop().await.unwrap();
    served.until("/api/v1/subscriptions/mailer", |one| one["runner"].is_null()).await;
    assert_eq!(served.get("/api/v1/subscriptions/mailre").await.status, 404);
}

async fn a_subscription_is_paused_resumed_skipped_and_reset_and_the_audit_has_it(served: &Served) {
    let positions = append(served, "order-1", &[event(1), event(2)]).await;
    reject(served, "mailer", OnPoison::Stop).await.stop().await.unwrap();
    let paused = act(served, "mailer", "pause", r#"{"reason": "the schema changes"}"#).await.json();
    assert_eq!((&paused["changed"], &paused["state"]), (&json!(true), &json!("paused")), "{paused}");
    assert_eq!(act(served, "mailer", "pause", "").await.json()["changed"], false, "it can be repeated");
    let one = served.get("/api/v1/subscriptions/mailer").await.json();
    assert_eq!(one["reason"], "the schema changes");
    let long = json!({"reason": "x".repeat(501)}).to_string();
    assert_eq!(act(served, "mailer", "pause", &long).await.status, 422);
    assert_eq!(act(served, "mailer", "pause", r#"{"why": "x"}"#).await.status, 400);
    assert_eq!(act(served, "mailer", "resume", "").await.json()["changed"], true);
    assert_eq!(act(served, "mailer", "resume", "").await.json()["changed"], false);

    let running = reject(served, "mailer", OnPoison::Stop).await;
    served.until("/api/v1/subscriptions/mailer", |one| one["state"] == "stopped").await;
    running.stop().await.unwrap();
    let other = json!({"position": positions[1].to_string()}).to_string();
    let refused = act(served, "mailer", "skip", &other).await;
    assert_eq!((refused.status, refused.code()), (409, "changed".to_owned()));
    assert_eq!(act(served, "mailer", "skip", r#"{"position": "x"}"#).await.status, 422);
    let this = json!({"position": positions[0].to_string()}).to_string();
    let skipped = act(served, "mailer", "skip", &this).await.json();
    assert_eq!(
        (&skipped["position"], &skipped["state"]),
        (&json!(positions[0].to_string()), &json!("running"))
    );
    let refused = act(served, "mailer", "skip", &this).await;
    assert_eq!((refused.status, refused.code()), (409, "not_failing".to_owned()), "it skips no other one");

    let beyond = json!({"to": (positions[1] + 1).to_string()}).to_string();
    for (body, status) in
        [(&*beyond, 422), (r#"{"to": "start"}"#, 422), (r#"{"to": "-1"}"#, 422), ("{}", 400)]
    {
        assert_eq!(act(served, "mailer", "reset", body).await.status, status, "{body}");
    }
    for (to, position) in [
        ("beginning", "0".to_owned()),
        (&positions[0].to_string(), positions[0].to_string()),
        ("end", positions[1].to_string()),
    ] {
        let reset = act(served, "mailer", "reset", &json!({"to": to}).to_string()).await.json();
        assert_eq!(reset["position"], position, "{to}: {reset}");
    }
    let audit = served.get("/api/v1/audit").await.json();
    let rows = audit["items"].as_array().unwrap();
    let find = |action: &str| rows.iter().find(|row| row["action"] == action).unwrap();
    let last = find("reset_subscription");
    assert_eq!((&last["target"], &last["details"]["to"]), (&json!("mailer"), &json!("end")), "{audit}");
    let done = |row: &&Value| row["action"] == "pause_subscription" && row["details"]["changed"] == true;
    let first = rows.iter().find(done).unwrap();
    assert_eq!(first["details"]["reason"], "the schema changes", "{audit}");
    for action in ["resume_subscription", "skip_subscription_event"] {
        assert_eq!(find(action)["target"], "mailer", "{action}");
    }
}

async fn parked_events_are_listed_shown_replayed_and_discarded(served: &Served) {
    park(served, "mailer", &[event(1), event(2), event(3)]).await;
    let path = "/api/v1/subscriptions/mailer/parked";
    let page = served.get(&format!("{path}?limit=2")).await.json();
    let ids: Vec<String> =
        page["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect();
    assert!(ids.len() == 2 && page["items"][0].get("payload").is_none(), "{page}");
    assert_eq!(
        (&page["items"][0]["type"], &page["items"][0]["stream"]),
        (&json!("order.placed"), &json!("order-1"))
    );
    let next = page["next"].as_str().unwrap();
    let rest = served.get(&format!("{path}?limit=2&cursor={next}")).await.json();
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (1, &Value::Null));
    let one = served.get(&format!("{path}/{}", ids[0])).await.json();
    assert_eq!(
        (&one["payload"]["order"], &one["last_error"]),
        (&json!(3), &json!("unknown customer")),
        "{one}"
    );
    assert!(!one.to_string().contains("hunter2"), "{one}");
    for (bad, status) in [("?cursor=x", 400), ("?limit=0", 400), ("/x", 404), ("/999999", 404)] {
        assert_eq!(served.get(&format!("{path}{bad}")).await.status, status, "{bad}");
    }
    for body in [
        "{}",
        r#"{"ids": ["1"], "all": true}"#,
        r#"{"ids": ["x"]}"#,
        r#"{"ids": ["1"], "after": "1"}"#,
        r#"{"all": true, "after": "x"}"#,
    ] {
        for verb in ["parked:replay", "parked:discard"] {
            assert_eq!(act(served, "mailer", verb, body).await.status, 422, "{verb} {body}");
        }
    }
    let some = json!({"ids": [ids[0], "999999"]}).to_string();
    assert_eq!(act(served, "mailer", "parked:replay", &some).await.json(), json!({"count": 1, "next": null}));
    assert_eq!(served.get(&format!("{path}/{}", ids[0])).await.json()["replays"], true);
    assert_eq!(act(served, "mailer", "parked:discard", &some).await.json()["count"], 1);
    assert_eq!(act(served, "mailer", "parked:discard", &some).await.json()["count"], 0, "it can be repeated");
    let after = json!({"all": true, "after": ids[1]}).to_string();
    assert_eq!(act(served, "mailer", "parked:discard", &after).await.json()["count"], 1);
    assert_eq!(act(served, "mailer", "parked:discard", r#"{"all": true}"#).await.json()["count"], 1);
    assert_eq!(served.get("/api/v1/subscriptions/mailer").await.json()["parked"], 0);
}

async fn a_rebuild_is_begun_swapped_and_cancelled(served: &Served) {
    append(served, "order-1", &[event(1)]).await;
    reject(served, "mailer", OnPoison::Stop).await.stop().await.unwrap();
    let refused = act(served, "mailer", "rebuild", "").await;
    assert_eq!((refused.status, refused.code()), (409, "cannot_rebuild".to_owned()));
    assert!(refused.body.contains("reset it"), "{refused:?}");

    let running = project(served, "totals").await;
    served.until("/api/v1/subscriptions/totals", |one| one["runner"].is_object()).await;
    for verb in ["rebuild:swap", "rebuild:cancel"] {
        let refused = act(served, "totals", verb, "").await;
        assert_eq!((refused.status, refused.code()), (409, "no_rebuild".to_owned()), "{verb}");
    }
    let begun = act(served, "totals", "rebuild", r#"{"on_request": true}"#).await.json();
    assert!(begun["version"] == 2 && begun["node"].is_string(), "{begun}");
    assert_eq!(act(served, "totals", "rebuild", "").await.status, 409, "one is going on");
    let one = served.get("/api/v1/subscriptions/totals").await.json();
    assert_eq!(
        (&one["state"], &one["rebuild"]["version"], &one["rebuild"]["swaps"]),
        (&json!("rebuilding"), &json!(2), &json!(false))
    );
    assert_eq!(act(served, "totals", "rebuild:cancel", "").await.json()["version"], 2);
    assert_eq!(act(served, "totals", "rebuild", r#"{"on_request": true}"#).await.json()["version"], 3);
    assert_eq!(act(served, "totals", "rebuild:swap", "").await.status, 200);
    let swapped = |one: &Value| one["version"] == 3 && one["rebuild"].is_null();
    served.until("/api/v1/subscriptions/totals", swapped).await;
    running.stop().await.unwrap();
}

on_each_store! {
    a_database_without_an_event_log_has_none
    a_subscription_is_shown_with_its_lag_and_its_node
    a_subscription_is_paused_resumed_skipped_and_reset_and_the_audit_has_it
    parked_events_are_listed_shown_replayed_and_discarded
    a_rebuild_is_begun_swapped_and_cancelled
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_may_look_at_subscriptions_and_not_change_them() {
    let served = Served::sqlite_with(|http: &mut HttpOptions| http.access = Access::Tokens).await;
    let (read, operate) = (served.token("read").await, served.token("operate").await);
    reject(&served, "mailer", OnPoison::Stop).await.stop().await.unwrap();
    let path = "/api/v1/subscriptions/mailer";
    assert_eq!(served.with(&read, "GET", path, "").await.status, 200);
    assert_eq!(served.with(&read, "POST", &format!("{path}/pause"), "{}").await.status, 403);
    assert_eq!(served.with(&operate, "POST", &format!("{path}/pause"), "{}").await.status, 200);
    let one = served.with(&read, "GET", path, "").await.json();
    assert!(one["reason"].as_str().unwrap().starts_with("paused by "), "{one}");
    served.end().await;
}
