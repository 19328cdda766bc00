//! A node whose subscription notes each event in a table of the same database: `subscription_node URL TTL_MS PAUSE_MS`. Between its effects and the
//! commit it writes a line, and pauses.

use std::time::Duration;

use lineclear_outbox::{EventLog, HandlerError, Page, PostgresHandler, SqliteHandler, SubscriptionOptions};

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
struct Notes {
    pause: Duration,
}

impl Notes {
    fn sql(page: &Page) -> String {
        let rows: Vec<String> = page.events.iter().map(|event| format!("({})", event.payload)).collect();
        format!("insert into effect (n) values {}", rows.join(", "))
    }
}

impl PostgresHandler for Notes {
    async fn handle(
        &self,
        page: &Page,
        transaction: &tokio_postgres::Transaction<'_>,
    ) -> Result<(), HandlerError> {
        transaction.batch_execute(&Notes::sql(page)).await?;
        println!("effects");
        tokio::time::sleep(self.pause).await;
        Ok(())
    }
}

impl SqliteHandler for Notes {
    fn handle(&self, page: &Page, transaction: &rusqlite::Transaction<'_>) -> Result<(), HandlerError> {
        transaction.execute_batch(&Notes::sql(page))?;
        println!("effects");
        std::thread::sleep(self.pause);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, ttl, pause] = arguments.as_slice() else {
        return Err("usage: subscription_node URL TTL_MS PAUSE_MS".into());
    };
    let lock_ttl = Duration::from_millis(ttl.parse()?);
    let options = SubscriptionOptions {
        lock_ttl,
        timeout: lock_ttl * 9 / 10,
        page_size: 10,
        attempts_max: 1,
        poll_interval: Duration::from_millis(20),
        ..SubscriptionOptions::default()
    };
    let notes = Notes { pause: Duration::from_millis(pause.parse()?) };
    let log = EventLog::open(url).await?;
    let _running = if url.starts_with("postgres") {
        log.subscribe_postgres("notes", options, notes).await?
    } else {
        log.subscribe_sqlite("notes", options, notes).await?
    };
    std::future::pending().await
}
