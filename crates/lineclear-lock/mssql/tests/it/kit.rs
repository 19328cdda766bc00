//! Where the locks of a test are.

use std::sync::Arc;
use std::time::Duration;

use lineclear_lock::{Backend, LockOptions, Locks, backend};
use tiberius::{AuthMethod, Client, Config};
use tokio::net::TcpStream;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};

use crate::server::Server;

/// Long enough for a busy machine, short enough to wait for.
pub(crate) const TTL: Duration = Duration::from_secs(2);
/// How long a test waits for what must happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A store of locks of one test.
pub(crate) struct Place {
    pub(crate) url: Option<String>,
    server: Option<Server>,
}

impl Place {
    pub(crate) async fn made_up() -> Place {
        let server = Server::start().await;
        Place { url: Some(server.url()), server: Some(server) }
    }

    /// A new database of the server that is named; it is left behind.
    #[cfg(feature = "real-server")]
    pub(crate) async fn real() -> Place {
        let url = std::env::var("LINECLEAR_TEST_MSSQL_URL").expect("LINECLEAR_TEST_MSSQL_URL names a server");
        let name = format!("lineclear_test_{}", uuid::Uuid::new_v4().simple());
        let (address, options) = url.split_once('?').unwrap_or((&url, ""));
        let (server, _) = address.rsplit_once('/').expect("it names a database");
        let mut client = connect(&url).await;
        client.simple_query(format!("create database {name}")).await.unwrap().into_results().await.unwrap();
        Place { url: Some(format!("{server}/{name}?{options}")), server: None }
    }

    /// A separate backend, as another process would have.
    pub(crate) fn backend(&self) -> Arc<dyn Backend> {
        backend(self.url.as_deref().unwrap(), &quick()).unwrap()
    }

    /// Runs SQL past the locks; `{t}` stands before a table's name, and `{2h}` is two hours.
    pub(crate) async fn sql(&self, sql: &str) {
        let sql = sql.replace("{t}", "").replace("{2h}", "7200000000");
        match &self.server {
            Some(server) => server.state().tables.run(&sql),
            None => {
                let mut client = connect(self.url.as_deref().unwrap()).await;
                // Names are kept as bytes.
                let sql = sql.replace("= 'held'", "= 0x68656c64").replace("= 'idle'", "= 0x69646c65");
                let sql = sql
                    .replace("select 'gone'", "select 0x676f6e65")
                    .replace("select 'here'", "select 0x68657265");
                client.simple_query(sql).await.unwrap().into_results().await.unwrap();
            }
        }
    }

    /// The locks, as another process would open them.
    pub(crate) async fn locks(&self) -> Locks {
        Locks::new(self.backend(), quick()).await.unwrap()
    }
}

pub(crate) fn quick() -> LockOptions {
    LockOptions { retry_interval: Duration::from_millis(20), ..LockOptions::with_ttl(TTL) }
}

/// So long that no renewal can be what notices something.
pub(crate) fn patient() -> LockOptions {
    LockOptions::with_ttl(Duration::from_secs(60))
}

/// A plain connection: what stands between `//` and `?` in a URL without `%`.
pub(crate) async fn connect(url: &str) -> Client<Compat<TcpStream>> {
    let (_, rest) = url.split_once("://").unwrap();
    let (login, rest) = rest.split('?').next().unwrap().rsplit_once('@').unwrap();
    let ((user, password), (address, database)) =
        (login.split_once(':').unwrap(), rest.split_once('/').unwrap());
    let mut config = Config::new();
    config.database(database);
    config.authentication(AuthMethod::sql_server(user, password));
    let stream = TcpStream::connect(address).await.unwrap();
    Client::connect(config, stream.compat_write()).await.unwrap()
}
