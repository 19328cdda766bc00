//! Where the outbox of a test is, and a sink that notes what it gets.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lineclear_outbox::{Delivery, DeliveryError, Message, Outbox, OutboxError, OutboxOptions};
use mysql_async::prelude::Queryable;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// How long a test waits for what must happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// The database of one test.
pub(crate) struct TestStore {
    pub(crate) url: String,
    _kept: Box<dyn Any + Send + Sync>,
}

impl TestStore {
    pub(crate) fn sqlite() -> TestStore {
        let folder = tempfile::tempdir().unwrap();
        TestStore {
            url: format!("sqlite:{}", folder.path().join("shop.db").display()),
            _kept: Box::new(folder),
        }
    }

    pub(crate) async fn postgres() -> TestStore {
        let database = lineclear_testkit::fresh_postgres().await;
        TestStore { url: database.url().to_owned(), _kept: Box::new(database) }
    }

    pub(crate) async fn pgbouncer() -> TestStore {
        let database = lineclear_testkit::fresh_postgres().await;
        TestStore {
            url: format!("{}?pooler=transaction", database.pgbouncer_url()),
            _kept: Box::new(database),
        }
    }

    pub(crate) async fn mysql() -> TestStore {
        let server = lineclear_testkit::mysql_url();
        let name = format!("outbox_{}", uuid::Uuid::new_v4().simple());
        let mut connection = connect_mysql(&server).await;
        connection.query_drop(format!("create database {name}")).await.unwrap();
        let (start, _) = server.rsplit_once('/').unwrap();
        TestStore { url: format!("{start}/{name}"), _kept: Box::new(()) }
    }

    pub(crate) async fn outbox(&self) -> Outbox {
        Outbox::open(&self.url).await.unwrap()
    }

    /// Writes messages in a transaction of the application, together with an order, and commits it or rolls it back.
    pub(crate) async fn write(
        &self,
        outbox: &Outbox,
        messages: &[Message],
        commits: bool,
    ) -> Result<Vec<Option<i64>>, OutboxError> {
        let pending = self.begin(outbox, messages).await?;
        let ids = pending.ids.clone();
        if commits {
            pending.commit().await;
        } else {
            pending.roll_back().await;
        }
        Ok(ids)
    }

    /// Writes messages in a transaction that stays open.
    pub(crate) async fn begin(&self, outbox: &Outbox, messages: &[Message]) -> Result<Pending, OutboxError> {
        if let Some(path) = self.url.strip_prefix("sqlite:") {
            let mut connection = rusqlite::Connection::open(path).unwrap();
            connection.busy_timeout(SOON).unwrap();
            connection.execute_batch("create table if not exists orders (id integer)").unwrap();
            let transaction =
                connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
            transaction.execute("insert into orders values (1)", []).unwrap();
            let ids = outbox.write_sqlite(&transaction, messages)?;
            // The tests of SQLite keep no transaction open beside another: it has one writer.
            std::mem::forget(transaction);
            return Ok(Pending { ids, how: How::Sqlite(connection) });
        }
        if self.url.starts_with("mysql") {
            let mut connection = connect_mysql(&self.url).await;
            connection.query_drop("create table if not exists orders (id bigint)").await.unwrap();
            let mut transaction = connection.start_transaction(mysql_async::TxOpts::default()).await.unwrap();
            transaction.query_drop("insert into orders values (1)").await.unwrap();
            let ids = outbox.write_mysql(&mut transaction, messages).await?;
            std::mem::forget(transaction);
            return Ok(Pending { ids, how: How::Mysql(Box::new(connection)) });
        }
        let client = connect_postgres(&self.url).await;
        client.batch_execute("create table if not exists orders (id bigint)").await.unwrap();
        client.batch_execute("begin; insert into orders values (1)").await.unwrap();
        let ids = outbox.write_postgres(&client, messages).await?;
        Ok(Pending { ids, how: How::Postgres(client) })
    }

    /// Runs SQL past the outbox; `{t}` stands before a table's name.
    pub(crate) async fn sql(&self, sql: &str) {
        if let Some(path) = self.url.strip_prefix("sqlite:") {
            let connection = rusqlite::Connection::open(path).unwrap();
            connection.busy_timeout(SOON).unwrap();
            return connection.execute_batch(&sql.replace("{t}", "lineclear_")).unwrap();
        }
        if self.url.starts_with("mysql") {
            return connect_mysql(&self.url)
                .await
                .query_drop(sql.replace("{t}", "lineclear_"))
                .await
                .unwrap();
        }
        connect_postgres(&self.url).await.batch_execute(&sql.replace("{t}", "lineclear.")).await.unwrap();
    }

    /// A number that SQL returns.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        if let Some(path) = self.url.strip_prefix("sqlite:") {
            let connection = rusqlite::Connection::open(path).unwrap();
            connection.busy_timeout(SOON).unwrap();
            return connection.query_row(&sql.replace("{t}", "lineclear_"), [], |row| row.get(0)).unwrap();
        }
        if self.url.starts_with("mysql") {
            let found: Option<i64> =
                connect_mysql(&self.url).await.query_first(sql.replace("{t}", "lineclear_")).await.unwrap();
            return found.unwrap();
        }
        let row = connect_postgres(&self.url)
            .await
            .query_typed_one(&sql.replace("{t}", "lineclear."), &[])
            .await
            .unwrap();
        row.get(0)
    }
}

/// A transaction of the application that has not ended.
pub(crate) struct Pending {
    pub(crate) ids: Vec<Option<i64>>,
    how: How,
}

enum How {
    Sqlite(rusqlite::Connection),
    Mysql(Box<mysql_async::Conn>),
    Postgres(tokio_postgres::Client),
}

impl Pending {
    pub(crate) async fn commit(self) {
        self.end("commit").await;
    }

    pub(crate) async fn roll_back(self) {
        self.end("rollback").await;
    }

    async fn end(self, word: &str) {
        match self.how {
            How::Sqlite(connection) => connection.execute_batch(word).unwrap(),
            How::Mysql(mut connection) => connection.query_drop(word).await.unwrap(),
            How::Postgres(client) => client.batch_execute(word).await.unwrap(),
        }
    }
}

pub(crate) async fn connect_mysql(url: &str) -> mysql_async::Conn {
    let opts = mysql_async::Opts::from_url(url).unwrap();
    let opts = mysql_async::OptsBuilder::from_opts(opts).prefer_socket(false);
    mysql_async::Conn::new(opts).await.unwrap()
}

pub(crate) async fn connect_postgres(url: &str) -> tokio_postgres::Client {
    lineclear_lock::postgres::PostgresTarget::new(url).unwrap().connect("shop").await.unwrap()
}

/// Options of tests: quick, and with a short lock.
pub(crate) fn quick() -> OutboxOptions {
    OutboxOptions {
        lock_ttl: Duration::from_secs(2),
        poll_interval: Duration::from_millis(20),
        backoff_first: Duration::from_millis(100),
        backoff_max: Duration::from_millis(400),
        keep_delivered: Duration::from_secs(60),
        ..OutboxOptions::default()
    }
}

pub(crate) fn message(number: i64) -> Message {
    Message::new("order.placed", &json!({"order": number})).unwrap()
}

pub(crate) fn messages(numbers: std::ops::Range<i64>) -> Vec<Message> {
    numbers.map(message).collect()
}

/// What a receiver answers to the attempts of one order: the last answer stands for all further ones.
pub(crate) type Answers = Vec<Result<(), DeliveryError>>;

/// A receiver that notes each attempt.
#[derive(Clone, Default)]
pub(crate) struct Receiver(Arc<Inner>);

#[derive(Default)]
struct Inner {
    got: Mutex<Vec<Delivery>>,
    answers: Mutex<HashMap<i64, Answers>>,
    changed: Notify,
}

pub(crate) fn order(delivery: &Delivery) -> i64 {
    let payload: Value = serde_json::from_str(&delivery.payload).unwrap();
    payload["order"].as_i64().unwrap()
}

impl Receiver {
    /// Answers the attempts of this order so.
    pub(crate) fn answers(&self, order: i64, answers: Answers) {
        self.0.answers.lock().unwrap().insert(order, answers);
    }

    pub(crate) fn sink(
        &self,
    ) -> impl Fn(Delivery) -> std::future::Ready<Result<(), DeliveryError>> + Send + Sync + 'static {
        let inner = self.0.clone();
        move |delivery| {
            let order = order(&delivery);
            let mut answers = inner.answers.lock().unwrap();
            let answer = match answers.get_mut(&order) {
                Some(answers) if answers.len() > 1 => answers.remove(0),
                Some(answers) => answers[0].clone(),
                None => Ok(()),
            };
            drop(answers);
            inner.got.lock().unwrap().push(delivery);
            inner.changed.notify_one();
            std::future::ready(answer)
        }
    }

    /// All attempts, in their order.
    pub(crate) fn got(&self) -> Vec<Delivery> {
        self.0.got.lock().unwrap().clone()
    }

    pub(crate) fn orders(&self) -> Vec<i64> {
        self.got().iter().map(order).collect()
    }

    /// Waits for so many attempts.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Delivery> {
        let enough = async {
            while self.0.got.lock().unwrap().len() < count {
                self.0.changed.notified().await;
            }
        };
        let waited = tokio::time::timeout(SOON, enough).await;
        assert!(waited.is_ok(), "{} of {count} came: {:?}", self.got().len(), self.orders());
        self.got()
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    until_within(SOON, what, holds).await;
}

/// Waits longer.
pub(crate) async fn until_within(limit: Duration, what: &str, holds: impl AsyncFn() -> bool) {
    let waited = tokio::time::timeout(limit, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(waited.await.is_ok(), "in vain: {what}");
}
