//! Messages of an outbox that become jobs and webhooks.

use std::sync::Mutex;

use lineclear::outbound::{Secret, VERIFY_WINDOW, verify};
use lineclear::outbox::{
    Counts, Delivery, EventLog, ExpectedVersion, JobRoute, Jobs, Message, MessageState, NewEvent, OnPoison,
    Outbox, OutboxOptions, Sink, Subscription, SubscriptionOptions, Webhook,
};
use lineclear::rusqlite;
use lineclear_testkit::{HttpCall, HttpEndpoint, HttpReply};
use serde_json::json;

use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Writes messages to an outbox in the database of the jobs.
async fn write(db: &TestStore, outbox: &Outbox, messages: &[Message]) {
    if db.url.starts_with("postgres") {
        let mut client = db.client().await;
        let transaction = client.transaction().await.unwrap();
        outbox.write_postgres(&transaction, messages).await.unwrap();
        return transaction.commit().await.unwrap();
    }
    let mut file = rusqlite::Connection::open(path(db)).unwrap();
    file.busy_timeout(Duration::from_secs(30)).unwrap();
    let transaction = file.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    outbox.write_sqlite(&transaction, messages).unwrap();
    transaction.commit().unwrap();
}

fn path(db: &TestStore) -> &str {
    db.url.strip_prefix("sqlite:").unwrap_or(&db.url)
}

fn options() -> OutboxOptions {
    let quick = Duration::from_millis(50);
    OutboxOptions { poll_interval: quick, backoff_first: quick, attempts_max: 3, ..OutboxOptions::default() }
}

/// The only attempt at a message that comes a second time.
fn delivery(topic: &str, payload: &str) -> Delivery {
    Delivery {
        id: 1,
        delivery_id: uuid::Uuid::new_v4(),
        topic: topic.to_owned(),
        key: None,
        payload: payload.to_owned(),
        headers: Default::default(),
        trace: None,
        attempt: 1,
        created_at: std::time::SystemTime::now(),
        epoch: lineclear_lock::Epoch::new(1),
    }
}

on_each_store! {
    async fn a_message_becomes_one_job_however_often_it_is_delivered(db) {
        async fn send(Input(mail): Input<serde_json::Value>) {
            assert!(mail["order"].is_i64(), "{mail}");
        }
        let node =
            Lineclear::builder().store(&db.url).options(quick()).kind("mail.send", send).start().await.unwrap();
        let outbox = Outbox::open(path(db)).await.unwrap();
        let mail = |order: i64| Message::new("mail.send", &json!({"order": order})).unwrap().key("a");
        write(db, &outbox, &[mail(7), mail(8), Message::new("no kind", &1).unwrap()]).await;
        let runner = outbox.start_with(options(), Jobs::new(node.client())).await.unwrap();
        let done = "select count(*) from {t}execution where outcome = 'completed'";
        until("both jobs ran", async || db.number(done).await == 2).await;
        until("one is dead", async || outbox.counts().await.unwrap().dead == 1).await;
        let dead = outbox.list(MessageState::Dead, None, 10).await.unwrap();
        assert!(dead[0].last_error.as_ref().unwrap().contains("the topic is not a kind"), "{dead:?}");
        runner.stop().await.unwrap();

        let jobs = Jobs::new(node.client()).of_kind(name("mail.send"));
        let again = delivery("anything", r#"{"order": 9}"#);
        for _ in 0..3 {
            jobs.deliver(again.clone()).await.unwrap();
        }
        until("it ran", async || db.number(done).await == 3).await;
        assert_eq!(db.number("select count(*) from {t}work_queue").await, 0);
        node.stop().await;
    }
}

/// Appends events to a log in the database of the jobs.
async fn append(db: &TestStore, log: &EventLog, events: &[NewEvent]) {
    if db.url.starts_with("postgres") {
        let mut client = db.client().await;
        let transaction = client.transaction().await.unwrap();
        log.append_postgres(&transaction, "order-7", ExpectedVersion::Any, events).await.unwrap();
        return transaction.commit().await.unwrap();
    }
    let mut file = rusqlite::Connection::open(path(db)).unwrap();
    file.busy_timeout(Duration::from_secs(30)).unwrap();
    let transaction = file.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    log.append_sqlite(&transaction, "order-7", ExpectedVersion::Any, events).unwrap();
    transaction.commit().unwrap();
}

on_each_store! {
    async fn an_event_becomes_one_job_in_the_transaction_of_its_checkpoint(db) {
        async fn send(Input(mail): Input<serde_json::Value>) {
            assert!(mail["order"].is_i64(), "{mail}");
        }
        let node =
            Lineclear::builder().store(&db.url).options(quick()).kind("mail.send", send).start().await.unwrap();
        let log = EventLog::open(path(db)).await.unwrap();
        let events: Vec<NewEvent> =
            (0..5).map(|order| NewEvent::new("mail.send", &json!({"order": order})).unwrap()).collect();
        append(db, &log, &events).await;
        append(db, &log, &[NewEvent::new("no kind", &1).unwrap()]).await;
        let name = Subscription::route_name("mailer", "mail.send");
        let options = SubscriptionOptions { on_poison: OnPoison::Park, ..SubscriptionOptions::default() };
        let handler = JobRoute::new(node.client());
        let route = if db.url.starts_with("postgres") {
            log.subscribe_postgres(&name, options, handler).await.unwrap()
        } else {
            log.subscribe_sqlite(&name, options, handler).await.unwrap()
        };
        assert!(log.wait_until_caught_up(&name, Duration::from_secs(30)).await.unwrap());
        let done = "select count(*) from {t}execution where outcome = 'completed'";
        until("all jobs ran", async || db.number(done).await == 5).await;
        let parked = log.parked(&name, None, 10).await.unwrap();
        assert!(parked[0].last_error.as_ref().unwrap().contains("the type is not a kind"), "{parked:?}");
        assert_eq!(log.show(&name).await.unwrap().unwrap().handled, 5);
        route.stop().await.unwrap();
        assert_eq!(db.number("select count(*) from {t}work_queue").await, 0, "one job each");
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_becomes_a_signed_call() {
    let calls: Arc<Mutex<Vec<HttpCall>>> = Arc::default();
    let noted = calls.clone();
    let endpoint = HttpEndpoint::start(move |call: HttpCall| {
        let mut calls = noted.lock().unwrap();
        calls.push(call);
        let reply = match calls.len() {
            1 => HttpReply::new(500, "a defect"),
            _ => HttpReply::new(204, ""),
        };
        async { reply }
    })
    .await
    .unwrap();
    let db = TestStore::sqlite().await;
    let outbox = Outbox::open(path(&db)).await.unwrap();
    let secrets: Vec<Secret> = vec![SECRET.parse().unwrap()];
    let message = Message::new("order.placed", &json!({"order": 7})).unwrap();
    write(&db, &outbox, &[message.key("order-7").header("tenant", "acme").trace("00-ab-cd-01")]).await;
    let webhook = Webhook::new(&format!("http://{}/hook", endpoint.address()), secrets.clone()).unwrap();
    let runner = outbox.start_with(options(), webhook).await.unwrap();
    until("it is delivered", async || outbox.counts().await.unwrap() == Counts::default()).await;
    runner.stop().await.unwrap();

    let calls = calls.lock().unwrap().clone();
    assert_eq!(calls.len(), 2, "once more after the error");
    assert_eq!(calls[0].header("webhook-id"), calls[1].header("webhook-id"), "the same delivery");
    let headers = calls[1]
        .headers
        .iter()
        .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
        .collect();
    verify(&secrets, &headers, &calls[1].body, VERIFY_WINDOW).unwrap();
    assert_eq!((calls[1].path.as_str(), calls[1].header("traceparent")), ("/hook", Some("00-ab-cd-01")));
    let body: serde_json::Value = serde_json::from_slice(&calls[1].body).unwrap();
    assert_eq!(
        (&body["type"], &body["data"], &body["key"], &body["headers"]["tenant"]),
        (&json!("order.placed"), &json!({"order": 7}), &json!("order-7"), &json!("acme"))
    );
    assert!(body["timestamp"].as_str().unwrap().ends_with('Z'), "{body}");
}

#[tokio::test]
async fn answers_of_a_receiver_say_whether_a_message_is_tried_again() {
    let endpoint = HttpEndpoint::start(|call: HttpCall| async move {
        let status = call.path.trim_start_matches('/').parse().unwrap();
        HttpReply::Response(status, vec![("retry-after".to_owned(), "7".to_owned())], "why".to_owned())
    })
    .await
    .unwrap();
    let attempt = async |status: u16| {
        let webhook = Webhook::new(&format!("http://{}/{status}", endpoint.address()), []).unwrap();
        webhook.deliver(delivery("a", "1")).await.unwrap_err()
    };
    for status in [400, 404, 500] {
        let error = attempt(status).await;
        assert!(
            error.to_string().contains(&format!("answered {status}")) && error.to_string().ends_with("why"),
            "{error}"
        );
        assert_eq!(error, lineclear::outbox::DeliveryError::retry(error.to_string()));
    }
    let gone = attempt(410).await;
    assert_eq!(gone, lineclear::outbox::DeliveryError::reject(gone.to_string()));
    let busy = attempt(503).await;
    assert_eq!(busy, lineclear::outbox::DeliveryError::retry_in(busy.to_string(), Duration::from_secs(7)));
    for bad in ["", "ftp://a/b", "/a", "http://"] {
        assert!(Webhook::new(bad, []).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_receiver_that_is_away_is_left_alone_after_some_calls() {
    let port = lineclear_testkit::free_port().unwrap();
    let webhook = Webhook::new(&format!("http://127.0.0.1:{port}"), []).unwrap();
    let mut errors = Vec::new();
    for _ in 0..6 {
        errors.push(webhook.deliver(delivery("a", "1")).await.unwrap_err());
    }
    assert_eq!(errors[0], lineclear::outbox::DeliveryError::retry(errors[0].to_string()));
    assert_eq!(
        errors[5],
        lineclear::outbox::DeliveryError::unavailable(errors[5].to_string()),
        "the breaker is open"
    );
}
