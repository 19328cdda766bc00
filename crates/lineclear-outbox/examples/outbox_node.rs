//! A node whose outbox goes to tables of the same database: `outbox_node URL TTL_MS STARTS_FILE PAUSE_MS`. The receiver uses the inbox, so that each
//! message takes effect once. It writes a line to the file as each attempt begins: the time, the number of the runner, its
//! process, and the key. Then it pauses.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use lineclear_lock::Moment;
use lineclear_outbox::{Delivery, DeliveryError, Outbox, OutboxOptions, inbox};
use mysql_async::prelude::Queryable;
use tokio::sync::Mutex;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Connections of the receiver.
const CONNECTIONS: u64 = 4;

enum Connection {
    Postgres(tokio_postgres::Client),
    Mysql(mysql_async::Conn),
    Sqlite(rusqlite::Connection),
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, ttl, starts, pause] = arguments.as_slice() else {
        return Err("usage: outbox_node URL TTL_MS STARTS_FILE PAUSE_MS".into());
    };
    let outbox = Outbox::open(url).await?;
    let connections: Vec<Mutex<Option<Connection>>> = (0..CONNECTIONS).map(|_| Mutex::default()).collect();
    let connections = Arc::new(connections);
    let starts = Arc::new(std::fs::OpenOptions::new().append(true).create(true).open(starts)?);
    let (pause, receiver_url) = (Duration::from_millis(pause.parse()?), url.clone());
    let sink = move |delivery: Delivery| {
        let (connections, starts, url) = (connections.clone(), starts.clone(), receiver_url.clone());
        async move {
            let (epoch, key) = (delivery.epoch, delivery.key.as_deref().unwrap_or_default());
            let line = format!("{} {epoch} {} {key}\n", Moment::now().micros(), std::process::id());
            (&*starts).write_all(line.as_bytes()).map_err(|error| DeliveryError::retry(error.to_string()))?;
            tokio::time::sleep(pause).await;
            let mut hasher = DefaultHasher::new();
            delivery.key.hash(&mut hasher);
            let connection = &connections[usize::try_from(hasher.finish() % CONNECTIONS).unwrap_or(0)];
            let mut slot = connection.lock().await;
            // An attempt may be dropped half-way: a connection whose answer was not read is not used again.
            let mut taken = match slot.take() {
                Some(taken) => taken,
                None => connect(&url).await.map_err(away)?,
            };
            receive(&mut taken, &delivery).await.map_err(away)?;
            *slot = Some(taken);
            Ok(())
        }
    };
    let options = OutboxOptions {
        lock_ttl: Duration::from_millis(ttl.parse()?),
        // A message that is charged is delivered all the same: the tests look at the attempts of what was delivered.
        attempts_max: 5,
        keep_delivered: Duration::from_secs(3_600),
        poll_interval: Duration::from_millis(20),
        ..OutboxOptions::default()
    };
    let runner = outbox.start_with(options, sink).await?;
    let mut status = runner.status();
    loop {
        let now = status.borrow_and_update().clone();
        println!("{} {}", now.state.as_str(), now.epoch.map_or(0, |epoch| epoch.get()));
        status.changed().await?;
    }
}

/// A database that is away is away for all messages.
fn away(error: Error) -> DeliveryError {
    DeliveryError::unavailable(error.to_string())
}

async fn connect(url: &str) -> Result<Connection, Error> {
    if let Some(path) = url.strip_prefix("sqlite:") {
        let connection = rusqlite::Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(30))?;
        return Ok(Connection::Sqlite(connection));
    }
    if url.starts_with("mysql") {
        return Ok(Connection::Mysql(
            mysql_async::Conn::new(lineclear_lock::mysql::connect_options(url)?).await?,
        ));
    }
    let target = lineclear_lock::postgres::PostgresTarget::new(url)?;
    Ok(Connection::Postgres(target.connect("receiver").await?))
}

/// Records the effect of a message, or that it came again.
async fn receive(connection: &mut Connection, delivery: &Delivery) -> Result<(), Error> {
    let key = delivery.key.as_deref().unwrap_or_default();
    let number: i64 = serde_json::from_str(&delivery.payload)?;
    match connection {
        Connection::Postgres(client) => {
            let transaction = client.transaction().await?;
            let table = if inbox::once_postgres(&transaction, "test", delivery.delivery_id).await? {
                "effect"
            } else {
                "again"
            };
            let sql = format!("insert into {table} (k, n) values ('{key}', {number})");
            transaction.batch_execute(&sql).await?;
            transaction.commit().await?;
        }
        Connection::Mysql(conn) => {
            let mut transaction = conn.start_transaction(mysql_async::TxOpts::default()).await?;
            let table = if inbox::once_mysql(&mut transaction, "test", delivery.delivery_id).await? {
                "effect"
            } else {
                "again"
            };
            transaction.query_drop(format!("insert into {table} (k, n) values ('{key}', {number})")).await?;
            transaction.commit().await?;
        }
        Connection::Sqlite(file) => {
            let transaction = file.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let table = if inbox::once_sqlite(&transaction, "test", delivery.delivery_id)? {
                "effect"
            } else {
                "again"
            };
            transaction.execute(
                &format!("insert into {table} (k, n) values (?1, ?2)"),
                rusqlite::params![key, number],
            )?;
            transaction.commit()?;
        }
    }
    Ok(())
}
