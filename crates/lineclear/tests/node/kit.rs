//! A database for a node, and waiting for a condition.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lineclear::model::{JobState, Name};
use lineclear::store::{JobId, StoreOptions};
use lineclear::{Node, NodeOptions, Store};
use lineclear_testkit::{PostgresDatabase, Template};
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio_postgres::Client;

/// A store for one test.
pub(crate) struct TestStore {
    pub(crate) url: String,
    /// The test's own connection, past any pooler, kept between statements: a connection costs more than a statement, and
    /// `until` sends many.
    connection: Mutex<Option<Arc<Client>>>,
    database: Option<PostgresDatabase>,
    _folder: Option<TempDir>,
}

impl TestStore {
    pub(crate) async fn sqlite() -> TestStore {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("test.db");
        template().sqlite(&file, async |path: PathBuf| migrate(path.to_str().expect("a path")).await).await;
        let url = file.to_str().expect("a path").to_owned();
        TestStore { url, connection: Mutex::default(), database: None, _folder: Some(folder) }
    }

    pub(crate) async fn postgres() -> TestStore {
        let database = migrated().await;
        let url = database.url().to_owned();
        TestStore { url, connection: Mutex::default(), database: Some(database), _folder: None }
    }

    /// PostgreSQL, reached through pgbouncer in transaction mode.
    pub(crate) async fn pgbouncer() -> TestStore {
        let database = migrated().await;
        let url = format!("{}?pooler=transaction", database.pgbouncer_url());
        TestStore { url, connection: Mutex::default(), database: Some(database), _folder: None }
    }

    /// A server that the caller starts and stops.
    pub(crate) fn at(url: String) -> TestStore {
        TestStore { url, connection: Mutex::default(), database: None, _folder: None }
    }

    /// A new connection for the test itself, past any pooler.
    pub(crate) async fn client(&self) -> Client {
        let url = self.database.as_ref().map_or(self.url.as_str(), |database| database.url());
        let (client, connection) =
            tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client
    }

    /// The connection that is kept, or another one if that has ended.
    async fn connection(&self) -> Arc<Client> {
        let kept = self.connection.lock().await.clone();
        if let Some(client) = kept.filter(|client| !client.is_closed()) {
            return client;
        }
        let client = Arc::new(self.client().await);
        *self.connection.lock().await = Some(client.clone());
        client
    }

    fn is_sqlite(&self) -> bool {
        !self.url.starts_with("postgres")
    }

    /// The first number that a query finds. `{t}` is replaced by what stands before a table's name.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        if self.is_sqlite() {
            let row = self.file().query_row(&sql.replace("{t}", ""), [], |row| row.get(0));
            return row.unwrap_or_else(|e| panic!("{sql}: {e}"));
        }
        let row = self.connection().await.query_one(&sql.replace("{t}", "lineclear."), &[]).await;
        row.unwrap_or_else(|e| panic!("{sql}: {e:?}")).get(0)
    }

    /// Runs SQL past the store; `{t}` as above.
    pub(crate) async fn sql(&self, sql: &str) {
        if self.is_sqlite() {
            return self.file().execute_batch(&sql.replace("{t}", "")).expect("the statement runs");
        }
        let sql = sql.replace("{t}", "lineclear.");
        self.connection().await.batch_execute(&sql).await.expect("the statement runs");
    }

    fn file(&self) -> rusqlite::Connection {
        let file = rusqlite::Connection::open(&self.url).expect("the file opens");
        file.busy_timeout(Duration::from_secs(10)).expect("a timeout");
        file
    }

    /// Ends every lease now, without a word to the nodes.
    pub(crate) async fn let_leases_end(&self) {
        let hour = if self.is_sqlite() { "3600000000" } else { "interval '1 hour'" };
        self.sql(&format!("update {{t}}background_job set due_at = due_at - 2 * {hour}")).await;
    }

    pub(crate) async fn state(&self, node: &Node, job: JobId) -> Option<JobState> {
        node.store().job(job).await.expect("the job can be read").map(|detail| detail.job.state)
    }
}

/// A copy of a database that was migrated once for all tests.
pub(crate) async fn migrated() -> PostgresDatabase {
    template().postgres(async |url: String| migrate(&url).await).await
}

fn template() -> Template {
    Template::of_folder("lineclear", concat!(env!("CARGO_MANIFEST_DIR"), "/migrations"))
}

async fn migrate(url: &str) {
    drop(Store::open(StoreOptions::new(url).expect("a URL")).await.expect("the store opens"));
}

/// Options for a test: intervals of a fraction of a second instead of seconds.
pub(crate) fn quick() -> NodeOptions {
    NodeOptions {
        poll: Duration::from_millis(50),
        plan_interval: Duration::from_millis(200),
        ..NodeOptions::default()
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, is_so: impl AsyncFnMut() -> bool) {
    until_within(Duration::from_secs(30), what, is_so).await;
}

/// Waits until a condition holds, for a longer time.
pub(crate) async fn until_within(time: Duration, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + time;
    while !is_so().await {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
