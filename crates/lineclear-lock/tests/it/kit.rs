//! Where the locks of a test are.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use lineclear_lock::{Backend, InProcess, LockOptions, Locks, backend};

/// Long enough for a busy machine, short enough to wait for.
pub(crate) const TTL: Duration = Duration::from_secs(3);

/// How long a test waits for what must happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A store of locks of one test.
pub(crate) struct Place {
    open: Box<dyn Fn() -> Arc<dyn Backend> + Send + Sync>,
    /// Where other processes find it.
    pub(crate) url: Option<String>,
    _kept: Box<dyn Any + Send + Sync>,
}

impl Place {
    pub(crate) fn in_process() -> Place {
        let map = InProcess::new();
        Place { open: Box::new(move || Arc::new(map.clone())), url: None, _kept: Box::new(()) }
    }

    pub(crate) fn sqlite() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("locks.db").display());
        Place::at(url, folder)
    }

    pub(crate) async fn postgres(options: &str) -> Place {
        let database = lineclear_testkit::fresh_postgres().await;
        Place::at(format!("{}?{options}", database.url()), database)
    }

    pub(crate) async fn pgbouncer() -> Place {
        let database = lineclear_testkit::fresh_postgres().await;
        Place::at(format!("{}?pooler=transaction", database.pgbouncer_url()), database)
    }

    #[cfg(feature = "redis")]
    pub(crate) fn redis() -> Place {
        let prefix = uuid::Uuid::new_v4();
        Place::at(format!("{}?prefix=test-{prefix}:", lineclear_testkit::redis_url()), ())
    }

    /// What a URL names; `kept` lives as long as the test.
    pub(crate) fn at(url: String, kept: impl Any + Send + Sync) -> Place {
        let named = url.clone();
        let open = move || backend(&named, &quick()).unwrap();
        Place { open: Box::new(open), url: Some(url), _kept: Box::new(kept) }
    }

    /// A backend of its own, as another process would have.
    pub(crate) fn backend(&self) -> Arc<dyn Backend> {
        (self.open)()
    }

    /// The locks, as another process would open them.
    pub(crate) async fn locks(&self) -> Locks {
        Locks::new(self.backend(), quick()).await.unwrap()
    }
}

impl Place {
    /// Runs SQL past the locks; `{t}` stands before a table's name, and `{2h}` is two hours.
    pub(crate) async fn sql(&self, sql: &str) {
        let url = self.url.as_deref().unwrap();
        if let Some(path) = url.strip_prefix("sqlite:") {
            let file = rusqlite::Connection::open(path).unwrap();
            file.busy_timeout(SOON).unwrap();
            let sql = sql.replace("{t}", "").replace("{2h}", "7200000000");
            return file.execute_batch(&sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        }
        #[cfg(feature = "mysql")]
        if url.starts_with("mysql:") {
            let sql = sql.replace("{t}", "").replace("{2h}", "interval 2 hour");
            return crate::stores::mysql::run(url, sql).await;
        }
        let sql = sql.replace("{t}", "lineclear.").replace("{2h}", "interval '2 hours'");
        crate::stores::postgres::connect(self)
            .await
            .batch_execute(&sql)
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
}

pub(crate) fn quick() -> LockOptions {
    LockOptions { retry_interval: Duration::from_millis(20), ..LockOptions::with_ttl(TTL) }
}
