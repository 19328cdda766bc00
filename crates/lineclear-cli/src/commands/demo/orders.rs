//! Orders of the demo. Each is written with its message in one transaction; the outbox makes an e-mail job of the message.

use lineclear::outbox::{Message, Outbox};
use lineclear::rusqlite;
use lineclear_lock::postgres::PostgresTarget;
use serde_json::json;

/// The outbox, and the kind of the jobs that its messages become.
pub(super) const OUTBOX: &str = "orders";
pub(super) const TOPIC: &str = "send-email";

const CREATE: &str =
    "create table if not exists lineclear_demo_order (id bigint primary key, item text not null)";
const DROP: &str = "drop table if exists lineclear_demo_order";
const ITEMS: [&str; 4] = ["tea", "coffee", "cocoa", "mate"];

pub(super) struct Orders {
    outbox: Outbox,
    db: String,
    last: i64,
}

fn failed(error: impl std::fmt::Display) -> String {
    format!("an order cannot be written: {error}")
}

impl Orders {
    pub(super) async fn open(db: &str) -> Result<Orders, String> {
        let outbox = Outbox::open_named(db, OUTBOX).await.map_err(failed)?;
        let orders = Orders { outbox, db: db.to_owned(), last: 0 };
        // Those of an earlier demo are not needed.
        orders.execute(&format!("{DROP};{CREATE}")).await?;
        Ok(orders)
    }

    /// Writes an order and its message. Returns the number of the order.
    pub(super) async fn place(&mut self) -> Result<i64, String> {
        let number = self.last + 1;
        let item = ITEMS[usize::try_from(number).unwrap_or(0) % ITEMS.len()];
        let payload = json!({"order": number, "item": item, "to": format!("customer-{number}@example.com")});
        let message = Message::new(TOPIC, &payload).map_err(failed)?.key(format!("order-{number}"));
        let insert = format!("insert into lineclear_demo_order (id, item) values ({number}, '{item}')");
        if self.is_postgres() {
            let mut client = self.connect().await?;
            let transaction = client.transaction().await.map_err(failed)?;
            transaction.batch_execute(&insert).await.map_err(failed)?;
            self.outbox.write_postgres(&transaction, &[message]).await.map_err(failed)?;
            transaction.commit().await.map_err(failed)?;
        } else {
            let outbox = self.outbox.clone();
            self.on_file(move |file| {
                let transaction = file
                    .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
                    .map_err(failed)?;
                transaction.execute_batch(&insert).map_err(failed)?;
                outbox.write_sqlite(&transaction, &[message]).map_err(failed)?;
                transaction.commit().map_err(failed)
            })
            .await?;
        }
        self.last = number;
        Ok(number)
    }

    /// Removes the table of the orders.
    pub(super) async fn remove(self) -> Result<(), String> {
        self.execute(DROP).await
    }

    async fn execute(&self, sql: &str) -> Result<(), String> {
        if self.is_postgres() {
            return self.connect().await?.batch_execute(sql).await.map_err(failed);
        }
        let sql = sql.to_owned();
        self.on_file(move |file| file.execute_batch(&sql).map_err(failed)).await
    }

    fn is_postgres(&self) -> bool {
        self.db.contains("://") && !self.db.starts_with("sqlite:")
    }

    async fn connect(&self) -> Result<lineclear::tokio_postgres::Client, String> {
        PostgresTarget::new(&self.db).map_err(failed)?.connect("lineclear demo").await.map_err(failed)
    }

    async fn on_file(
        &self,
        work: impl FnOnce(&mut rusqlite::Connection) -> Result<(), String> + Send + 'static,
    ) -> Result<(), String> {
        let path = self.db.strip_prefix("sqlite://").or_else(|| self.db.strip_prefix("sqlite:"));
        let path = path.unwrap_or(&self.db).to_owned();
        let done = tokio::task::spawn_blocking(move || {
            let mut file = rusqlite::Connection::open(path).map_err(failed)?;
            // Nodes write to the file, too.
            file.busy_timeout(std::time::Duration::from_secs(5)).map_err(failed)?;
            work(&mut file)
        });
        done.await.map_err(failed)?
    }
}
