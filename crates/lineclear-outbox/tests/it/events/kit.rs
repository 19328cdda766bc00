//! The log of a test, and a projection that notes each event in a table of the same database.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lineclear_outbox::{
    Appended, Event, EventLog, ExpectedVersion, HandlerError, NewEvent, OutboxError, Page, PostgresHandler,
    SqliteHandler, Subscription, SubscriptionOptions,
};
use serde_json::json;
use tokio::sync::Notify;

use crate::kit::{SOON, TestStore, connect_postgres};

pub(crate) const ANY: ExpectedVersion = ExpectedVersion::Any;

pub(crate) async fn log(db: &TestStore) -> EventLog {
    EventLog::open(&db.url).await.unwrap()
}

pub(crate) fn event(number: i64) -> NewEvent {
    NewEvent::new("order.placed", &json!({ "n": number })).unwrap()
}

pub(crate) fn number(event: &Event) -> i64 {
    event.payload::<serde_json::Value>().unwrap()["n"].as_i64().unwrap()
}

/// Quick, and with a short lock.
pub(crate) fn quick() -> SubscriptionOptions {
    SubscriptionOptions {
        lock_ttl: Duration::from_secs(3),
        timeout: Duration::from_secs(2),
        poll_interval: Duration::from_millis(20),
        backoff_first: Duration::from_millis(50),
        backoff_max: Duration::from_millis(200),
        ..SubscriptionOptions::default()
    }
}

/// Appends in a transaction of its own, which is committed or rolled back.
pub(crate) async fn append_or(
    db: &TestStore,
    log: &EventLog,
    (stream, expected): (&str, ExpectedVersion),
    events: &[NewEvent],
    commits: bool,
) -> Result<Appended, OutboxError> {
    if let Some(path) = db.url.strip_prefix("sqlite:") {
        let mut file = rusqlite::Connection::open(path).unwrap();
        file.busy_timeout(SOON).unwrap();
        let transaction = file.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
        let appended = log.append_sqlite(&transaction, stream, expected, events)?;
        if commits {
            transaction.commit().unwrap();
        }
        return Ok(appended);
    }
    let mut client = connect_postgres(&db.url).await;
    let transaction = client.transaction().await.unwrap();
    let appended = log.append_postgres(&transaction, stream, expected, events).await?;
    if commits {
        transaction.commit().await.unwrap();
    } else {
        transaction.rollback().await.unwrap();
    }
    Ok(appended)
}

pub(crate) async fn append(
    db: &TestStore,
    log: &EventLog,
    stream: &str,
    numbers: std::ops::Range<i64>,
) -> Appended {
    let events: Vec<NewEvent> = numbers.map(event).collect();
    append_or(db, log, (stream, ANY), &events, true).await.unwrap()
}

/// What a handler answers to the attempts at an event: the last answer stands for all further ones.
pub(crate) type Answers = Vec<Result<(), HandlerError>>;

/// Notes each event of version V in the table `effect_V`, in the transaction of its page.
#[derive(Clone, Default)]
pub(crate) struct Projection(Arc<Inner>);

#[derive(Default)]
struct Inner {
    answers: Mutex<HashMap<i64, Answers>>,
    /// Sizes of pages, in order.
    pages: Mutex<Vec<usize>>,
    /// Events that an external handler got.
    got: Mutex<Vec<Event>>,
    /// While it is set, a page waits after its effects, before the commit.
    holds: Mutex<Option<Arc<Hold>>>,
    swaps: Mutex<Vec<(i32, i32)>>,
}

/// Where a handler waits between its effects and the commit.
#[derive(Default)]
pub(crate) struct Hold {
    pub(crate) reached: Notify,
    pub(crate) goes_on: Notify,
}

impl Projection {
    /// Answers the attempts at this event so.
    pub(crate) fn answers(&self, number: i64, answers: Answers) {
        self.0.answers.lock().unwrap().insert(number, answers);
    }

    /// The next page waits after its effects.
    pub(crate) fn hold(&self) -> Arc<Hold> {
        let hold = Arc::new(Hold::default());
        *self.0.holds.lock().unwrap() = Some(hold.clone());
        hold
    }

    pub(crate) fn pages(&self) -> Vec<usize> {
        self.0.pages.lock().unwrap().clone()
    }

    pub(crate) fn swaps(&self) -> Vec<(i32, i32)> {
        self.0.swaps.lock().unwrap().clone()
    }

    /// The numbers that an external handler got, in order.
    pub(crate) fn numbers(&self) -> Vec<i64> {
        self.0.got.lock().unwrap().iter().map(number).collect()
    }

    pub(crate) fn got(&self) -> Vec<Event> {
        self.0.got.lock().unwrap().clone()
    }

    fn answer(&self, event: &Event) -> Result<(), HandlerError> {
        let mut answers = self.0.answers.lock().unwrap();
        match answers.get_mut(&number(event)) {
            Some(answers) if answers.len() > 1 => answers.remove(0),
            Some(answers) => answers[0].clone(),
            None => Ok(()),
        }
    }

    fn taken_hold(&self) -> Option<Arc<Hold>> {
        self.0.holds.lock().unwrap().take()
    }

    /// As a handler of single events.
    pub(crate) fn external(
        &self,
    ) -> impl Fn(Event) -> std::future::Ready<Result<(), HandlerError>> + Send + Sync + 'static {
        let this = self.clone();
        move |event| {
            let answer = this.answer(&event);
            this.0.got.lock().unwrap().push(event);
            std::future::ready(answer)
        }
    }

    /// Subscribes with the transaction of this database.
    pub(crate) async fn subscribe(
        &self,
        log: &EventLog,
        db: &TestStore,
        name: &str,
        options: SubscriptionOptions,
    ) -> Subscription {
        if db.url.starts_with("sqlite") {
            log.subscribe_sqlite(name, options, self.clone()).await.unwrap()
        } else {
            log.subscribe_postgres(name, options, self.clone()).await.unwrap()
        }
    }
}

fn create(version: i32, auto: &str) -> String {
    format!(
        "create table if not exists effect_{version} (id {auto}, position bigint not null unique, stream text not null, n bigint not null)"
    )
}

impl PostgresHandler for Projection {
    async fn handle(
        &self,
        page: &Page,
        transaction: &tokio_postgres::Transaction<'_>,
    ) -> Result<(), HandlerError> {
        self.0.pages.lock().unwrap().push(page.events.len());
        let positions: Vec<i64> = page.events.iter().map(|event| event.position).collect();
        let streams: Vec<&str> = page.events.iter().map(|event| &*event.stream).collect();
        let numbers: Vec<i64> = page.events.iter().map(number).collect();
        let sql = format!(
            "insert into effect_{} (position, stream, n) select * from unnest($1::bigint[], $2::text[], $3::bigint[])",
            page.version
        );
        use tokio_postgres::types::Type;
        let types = [Type::INT8_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY];
        let [one, two, three] = types;
        transaction.execute_typed(&sql, &[(&positions, one), (&streams, two), (&numbers, three)]).await?;
        if let Some(hold) = self.taken_hold() {
            hold.reached.notify_one();
            hold.goes_on.notified().await;
        }
        page.events.iter().try_for_each(|event| self.answer(event))
    }

    async fn prepare(
        &self,
        version: i32,
        transaction: &tokio_postgres::Transaction<'_>,
    ) -> Result<(), HandlerError> {
        let auto = "bigint generated always as identity primary key";
        Ok(transaction.batch_execute(&create(version, auto)).await?)
    }

    async fn swap(
        &self,
        old: i32,
        new: i32,
        transaction: &tokio_postgres::Transaction<'_>,
    ) -> Result<(), HandlerError> {
        self.0.swaps.lock().unwrap().push((old, new));
        Ok(transaction.batch_execute(&format!("drop table effect_{old}")).await?)
    }
}

impl SqliteHandler for Projection {
    fn handle(&self, page: &Page, transaction: &rusqlite::Transaction<'_>) -> Result<(), HandlerError> {
        self.0.pages.lock().unwrap().push(page.events.len());
        let sql = format!("insert into effect_{} (position, stream, n) values (?1, ?2, ?3)", page.version);
        let mut insert = transaction.prepare(&sql)?;
        for event in &page.events {
            insert.execute(rusqlite::params![event.position, event.stream, number(event)])?;
        }
        if let Some(hold) = self.taken_hold() {
            hold.reached.notify_one();
            let waits = hold.goes_on.notified();
            tokio::runtime::Handle::current().block_on(waits);
        }
        page.events.iter().try_for_each(|event| self.answer(event))
    }

    fn prepare(&self, version: i32, transaction: &rusqlite::Transaction<'_>) -> Result<(), HandlerError> {
        Ok(transaction.execute_batch(&create(version, "integer primary key autoincrement"))?)
    }

    fn swap(&self, old: i32, new: i32, transaction: &rusqlite::Transaction<'_>) -> Result<(), HandlerError> {
        self.0.swaps.lock().unwrap().push((old, new));
        Ok(transaction.execute_batch(&format!("drop table effect_{old}"))?)
    }
}

/// The numbers in a table of effects, in the order in which they were noted.
pub(crate) async fn effects(db: &TestStore, version: i32) -> Vec<i64> {
    let sql = format!("select n from effect_{version} order by id");
    if let Some(path) = db.url.strip_prefix("sqlite:") {
        let file = rusqlite::Connection::open(path).unwrap();
        file.busy_timeout(SOON).unwrap();
        let mut read = file.prepare(&sql).unwrap();
        let rows = read.query_map([], |row| row.get(0)).unwrap();
        return rows.collect::<rusqlite::Result<_>>().unwrap();
    }
    let client = connect_postgres(&db.url).await;
    client.query_typed(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

/// Waits until a subscription has caught up.
pub(crate) async fn caught_up(log: &EventLog, name: &str) {
    let done: Result<bool, OutboxError> = log.wait_until_caught_up(name, SOON).await;
    if !matches!(done, Ok(true)) {
        panic!("{done:?}: {:?}", log.show(name).await);
    }
}

/// Waits for a signal of a handler.
pub(crate) async fn soon<T>(what: &str, waits: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, waits).await {
        Ok(done) => done,
        Err(_) => panic!("in vain: {what}"),
    }
}
