//! Outboxes and runners over HTTP.

use std::time::Duration;

use lineclear::tokio_postgres::{NoTls, connect};
use lineclear_http::{Access, HttpOptions};
use lineclear_outbox::{Delivery, DeliveryError, Message, Outbox, Runner};
use serde_json::{Value, json};

use crate::kit::Served;

/// Writes messages as an application does.
pub(crate) async fn write(served: &Served, messages: &[Message]) -> Vec<i64> {
    let outbox = Outbox::open(&served.url).await.unwrap();
    let ids = if served.url.starts_with("postgres") {
        let (mut client, connection) = connect(&served.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let transaction = client.transaction().await.unwrap();
        let ids = outbox.write_postgres(&transaction, messages).await.unwrap();
        transaction.commit().await.unwrap();
        ids
    } else {
        let mut file = rusqlite::Connection::open(&served.url).unwrap();
        file.busy_timeout(Duration::from_secs(30)).unwrap();
        let transaction = file.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
        let ids = outbox.write_sqlite(&transaction, messages).unwrap();
        transaction.commit().unwrap();
        ids
    };
    ids.into_iter().flatten().collect()
}

/// Runs the outbox with a receiver that wants none of its messages.
pub(crate) async fn reject(served: &Served) -> Runner {
    let outbox = Outbox::open(&served.url).await.unwrap();
    let sink = |_: Delivery| std::future::ready(Err::<(), _>(DeliveryError::reject("unknown customer")));
    outbox.start(sink).await.unwrap()
}

/// Writes messages that die.
pub(crate) async fn die(served: &Served, messages: &[Message]) -> Vec<i64> {
    let ids = write(served, messages).await;
    let runner = reject(served).await;
    let dead = |page: &Value| page["items"][0]["dead"].as_u64() == Some(ids.len() as u64);
    served.until("/api/v1/outboxes", dead).await;
    runner.stop().await.unwrap();
    ids
}

pub(crate) fn message(order: u32) -> Message {
    Message::new("order.placed", &json!({"order": order, "password": "hunter2"})).unwrap()
}

async fn a_database_without_an_outbox_has_none(served: &Served) {
    assert_eq!(served.get("/api/v1/outboxes").await.json(), json!({"items": [], "next": null}));
    for path in [
        "/api/v1/outboxes/main/messages",
        "/api/v1/outboxes/main/messages/1",
        "/api/v1/outboxes/a%20b/messages",
    ] {
        assert_eq!(served.get(path).await.status, 404, "{path}");
    }
    let answer = served.post("/api/v1/outboxes/main/messages:replay", r#"{"all": true}"#).await;
    assert_eq!((answer.status, answer.code()), (404, "not_found".to_owned()));
    // Looking has created no tables.
    let outboxes = lineclear_outbox::Outboxes::new(&served.url).unwrap();
    assert!(!outboxes.tables_exist().await.unwrap());
}

async fn an_outbox_is_shown_with_its_lag_and_its_runner(served: &Served) {
    write(served, &[message(1), message(2), message(3).delay(Duration::from_secs(600))]).await;
    let page = served.until("/api/v1/outboxes", |page| page["items"][0]["lag_ms"].as_u64() > Some(0)).await;
    let outbox = &page["items"][0];
    assert_eq!(
        (&outbox["name"], &outbox["ready"], &outbox["waiting"]),
        (&json!("main"), &json!(2), &json!(1))
    );
    assert_eq!((&outbox["runner"], &outbox["runners"]), (&Value::Null, &json!(0)));

    let runner = reject(served).await;
    let runs =
        |page: &Value| page["items"][0]["runner"]["state"] == "running" && page["items"][0]["dead"] == 2;
    let page = served.until("/api/v1/outboxes", runs).await;
    let (outbox, node) = (&page["items"][0], &served.get("/api/v1/nodes").await.json()["items"][0]["name"]);
    assert_eq!(
        (&outbox["runner"]["node"], &outbox["lag_ms"], &outbox["runners"]),
        (node, &json!(0), &json!(1))
    );
    let is_loop = |runner: &&Value| runner["kind"] == "loop" && runner["since"].is_string();
    let loops = |page: &Value| page["items"].as_array().unwrap().iter().filter(is_loop).count();
    let runners = served.until("/api/v1/runners", |page| loops(page) >= 3).await;
    let all = runners["items"].as_array().unwrap();
    assert!(
        all.iter().filter(is_loop).all(|one| &one["node"] == node && one["state"] == "running"),
        "{runners}"
    );
    let first = &all[0];
    assert_eq!((&first["name"], &first["kind"]), (&json!("outbox-main"), &json!("outbox")), "{runners}");
    assert_eq!((&first["state"], &first["node"]), (&json!("running"), node), "{runners}");

    runner.stop().await.unwrap();
    let page = served.until("/api/v1/outboxes", |page| page["items"][0]["runner"].is_null()).await;
    assert_eq!(page["items"][0]["dead"], 2);
    served.until("/api/v1/runners", |page| page["items"][0]["state"] == "stopped").await;
}

async fn messages_are_listed_page_by_page_and_shown_without_secrets(served: &Served) {
    let ids = die(served, &[message(1).key("a").header("token", "hush"), message(2), message(3)]).await;
    let path = "/api/v1/outboxes/main/messages";
    let page = served.get(&format!("{path}?state=dead&limit=2")).await.json();
    let listed: Vec<&str> =
        page["items"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(listed, [ids[2].to_string(), ids[1].to_string()]);
    assert!(page["items"][0].get("payload").is_none(), "{page}");
    let next = page["next"].as_str().unwrap();
    let page = served.get(&format!("{path}?state=dead&limit=2&cursor={next}")).await.json();
    assert_eq!((page["items"].as_array().unwrap().len(), &page["next"]), (1, &Value::Null));
    let one = served.get(&format!("{path}/{}", ids[0])).await.json();
    assert_eq!(
        (&one["topic"], &one["key"], &one["state"], &one["attempts"]),
        (&json!("order.placed"), &json!("a"), &json!("dead"), &json!(1))
    );
    assert_eq!(
        (&one["last_error"], &one["payload"]["order"]),
        (&json!("unknown customer"), &json!(1)),
        "{one}"
    );
    assert!(!one.to_string().contains("hunter2") && !one.to_string().contains("hush"), "{one}");
    assert_eq!(served.get(path).await.json()["items"], json!([]), "the default is ready");
    for (bad, status) in
        [("?state=lost", 400), ("?cursor=x", 400), ("?limit=0", 400), ("?x=1", 400), ("/0", 404), ("/x", 404)]
    {
        assert_eq!(served.get(&format!("{path}{bad}")).await.status, status, "{bad}");
    }
    assert_eq!(served.get("/api/v1/outboxes/man/messages").await.status, 404, "nothing is known of it");
    assert_eq!(served.get(&format!("/api/v1/outboxes/man/messages/{}", ids[0])).await.status, 404);
}

async fn dead_messages_are_replayed_and_discarded_and_the_audit_has_it(served: &Served) {
    let ids = die(served, &[message(1), message(2), message(3)]).await;
    let path = "/api/v1/outboxes/main/messages";
    let act = async |verb: &str, body: &str| served.post(&format!("{path}:{verb}"), body).await;
    for (body, status) in [
        ("{}", 422),
        (r#"{"ids": ["1"], "all": true}"#, 422),
        (r#"{"ids": ["x"]}"#, 422),
        (r#"{"ids": ["1"], "after": "1"}"#, 422),
        (r#"{"all": true, "after": "x"}"#, 422),
        (r#"{"all": true, "force": true}"#, 400),
    ] {
        for verb in ["replay", "discard"] {
            assert_eq!(act(verb, body).await.status, status, "{verb} {body}");
        }
    }
    let many: Vec<String> = (1..=1_001).map(|id| id.to_string()).collect();
    assert_eq!(act("replay", &json!({"ids": many}).to_string()).await.status, 422);
    let key = [("Idempotency-Key", "k"), ("Content-Type", "application/json")];
    let keyed = served.send("POST", &format!("{path}:replay"), &key, br#"{"all": true}"#).await;
    assert_eq!(keyed.status, 400, "as dead letters: {keyed:?}");

    let one = json!({"ids": [ids[0].to_string(), "999999"]}).to_string();
    assert_eq!(act("replay", &one).await.json(), json!({"count": 1, "next": null}));
    assert_eq!(act("replay", &one).await.json()["count"], 0, "it can be repeated");
    assert_eq!(act("discard", &one).await.json()["count"], 0, "it is not dead any more");
    let after = json!({"all": true, "after": ids[1].to_string()}).to_string();
    assert_eq!(act("discard", &after).await.json()["count"], 1);
    assert_eq!(act("replay", r#"{"all": true}"#).await.json(), json!({"count": 1, "next": null}));
    let counts = served.get("/api/v1/outboxes").await.json();
    assert_eq!(
        (&counts["items"][0]["ready"], &counts["items"][0]["dead"]),
        (&json!(2), &json!(0)),
        "{counts}"
    );
    let audit = served.get("/api/v1/audit").await.json();
    let rows = audit["items"].as_array().unwrap();
    let last = rows.iter().find(|row| row["action"] == "replay_outbox_messages").unwrap();
    assert_eq!((&last["target"], &last["details"]), (&json!("main"), &json!({"all": true, "count": 1})));
    assert!(
        rows.iter().any(|row| row["action"] == "discard_outbox_messages" && row["details"]["count"] == 1),
        "{audit}"
    );
}

on_each_store! {
    a_database_without_an_outbox_has_none
    an_outbox_is_shown_with_its_lag_and_its_runner
    messages_are_listed_page_by_page_and_shown_without_secrets
    dead_messages_are_replayed_and_discarded_and_the_audit_has_it
}

/// An outbox with two partitions, whose messages with these keys die. Returns the ids of the dead ones of its first partition.
pub(crate) async fn die_in_partitions(served: &Served) -> Vec<i64> {
    let outbox = Outbox::open_named(&served.url, "orders").await.unwrap();
    outbox.partitioned(2).await.unwrap();
    let (client, connection) = connect(&served.url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let messages: Vec<Message> = (0..8).map(|order| message(order).key(format!("k{order}"))).collect();
    outbox.write_postgres(&client, &messages).await.unwrap();
    let sink = |_: Delivery| std::future::ready(Err::<(), _>(DeliveryError::reject("unknown customer")));
    let runner = outbox.start(sink).await.unwrap();
    let dead = |page: &Value| {
        page["items"].as_array().unwrap().iter().filter_map(|one| one["dead"].as_u64()).sum::<u64>() == 8
    };
    served.until("/api/v1/outboxes", dead).await;
    runner.stop().await.unwrap();
    let first = outbox.partitions().await.unwrap().remove(0);
    let listed = first.list(lineclear_outbox::MessageState::Dead, None, 10).await.unwrap();
    assert!(!listed.is_empty() && listed.len() < 8, "{listed:?}");
    listed.iter().map(|message| message.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_of_an_outbox_are_outboxes_of_their_own_names() {
    let served = Served::postgres().await;
    let ids = die_in_partitions(&served).await;
    let all = served.get("/api/v1/outboxes").await.json();
    let names: Vec<&str> =
        all["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["orders", "orders/0", "orders/1"]);
    let path = "/api/v1/outboxes/orders%2F0/messages";
    let page = served.get(&format!("{path}?state=dead")).await.json();
    assert_eq!(page["items"].as_array().unwrap().len(), ids.len());
    let one = served.get(&format!("{path}/{}", ids[0])).await.json();
    assert_eq!((&one["outbox"], &one["state"]), (&json!("orders/0"), &json!("dead")), "{one}");
    assert_eq!(served.get(&format!("/api/v1/outboxes/orders%2F1/messages/{}", ids[0])).await.status, 404);
    assert_eq!(served.get("/api/v1/outboxes/orders%2F64/messages").await.status, 404);
    let body = json!({"ids": [ids[0].to_string()]}).to_string();
    assert_eq!(served.post(&format!("{path}:replay"), &body).await.json()["count"], 1);
    let discarded = served.post(&format!("{path}:discard"), r#"{"all": true}"#).await.json();
    assert_eq!(discarded["count"], ids.len() - 1);
    let audit = served.get("/api/v1/audit").await.json();
    assert!(audit["items"].as_array().unwrap().iter().any(|row| row["target"] == "orders/0"), "{audit}");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_may_look_at_messages_and_not_change_them() {
    let served = Served::sqlite_with(|http: &mut HttpOptions| http.access = Access::Tokens).await;
    let (read, operate) = (served.token("read").await, served.token("operate").await);
    let ids = write(&served, &[message(1)]).await;
    let path = format!("/api/v1/outboxes/main/messages/{}", ids[0]);
    assert_eq!(served.with(&read, "GET", &path, "").await.status, 200);
    let all = r#"{"all": true}"#;
    assert_eq!(served.with(&read, "POST", "/api/v1/outboxes/main/messages:discard", all).await.status, 403);
    assert_eq!(
        served.with(&operate, "POST", "/api/v1/outboxes/main/messages:discard", all).await.status,
        200
    );
    served.end().await;
}
