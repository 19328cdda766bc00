//! A place for a node, and waiting for a fact.

use std::time::{Duration, Instant};

use lineclear::model::{JobState, Name};
use lineclear::store::JobId;
use lineclear::{Node, NodeOptions};
use lineclear_testkit::{PostgresDatabase, fresh_postgres};
use tempfile::TempDir;

/// A store of its own for one test.
pub(crate) struct Place {
    pub(crate) url: String,
    _database: Option<PostgresDatabase>,
    _folder: Option<TempDir>,
}

impl Place {
    pub(crate) fn sqlite() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        let url = folder.path().join("test.db").to_str().expect("a path").to_owned();
        Place { url, _database: None, _folder: Some(folder) }
    }

    pub(crate) async fn postgres() -> Place {
        let database = fresh_postgres().await;
        Place { url: database.url().to_owned(), _database: Some(database), _folder: None }
    }

    pub(crate) async fn state(&self, node: &Node, job: JobId) -> Option<JobState> {
        node.store().job(job).await.expect("the job can be read").map(|detail| detail.job.state)
    }
}

impl Place {
    /// Runs SQL behind everybody's back. `{t}` is replaced by what stands before a table's name.
    pub(crate) async fn sql(&self, sql: &str) {
        if self._database.is_none() {
            let connection = rusqlite::Connection::open(&self.url).expect("the file opens");
            connection.busy_timeout(Duration::from_secs(5)).expect("a timeout");
            connection.execute_batch(&sql.replace("{t}", "")).expect("the statement runs");
            return;
        }
        let (client, connection) =
            tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client.batch_execute(&sql.replace("{t}", "lineclear.")).await.expect("the statement runs");
    }

    /// Every lease ends now, and nobody is told.
    pub(crate) async fn let_leases_end(&self) {
        let hour = if self._database.is_none() { "3600000000" } else { "interval '1 hour'" };
        self.sql(&format!("update {{t}}background_job set due_at = due_at - 2 * {hour}")).await;
    }
}

/// Options for a test: what takes seconds by default takes a fraction of one.
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

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_so().await {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
