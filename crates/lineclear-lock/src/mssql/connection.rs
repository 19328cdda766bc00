//! The one connection that carries all locks. It is opened when it is needed, and opened again when it has ended.

use std::sync::Arc;
use std::time::Duration;

use tiberius::error::Error;
use tiberius::{Client, Config, Row, ToSql};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_util::compat::{Compat, TokioAsyncWriteCompatExt};
use tokio_util::sync::CancellationToken;

use super::classify;
use super::target::MssqlTarget;
use crate::error::LockError;

/// How long the watch over a connection waits for an answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

type Tds = Client<Compat<TcpStream>>;

#[derive(Debug)]
pub(crate) struct Connection {
    target: MssqlTarget,
    session: Mutex<Option<Arc<Session>>>,
}

/// A connection; it is closed when this is dropped, and when it has ended.
#[derive(Debug)]
pub(crate) struct Session {
    client: Arc<Mutex<Option<Tds>>>,
    /// Cancelled when the connection has ended, and to end it.
    pub(crate) ended: CancellationToken,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl Connection {
    pub(crate) fn new(target: MssqlTarget) -> Connection {
        Connection { target, session: Mutex::new(None) }
    }

    /// The session, which is alive as far as we know.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, LockError> {
        let mut session = self.session.lock().await;
        if let Some(alive) = session.as_ref().filter(|session| !session.ended.is_cancelled()) {
            return Ok(alive.clone());
        }
        *session = None;
        Ok(session.insert(Arc::new(connect(&self.target).await?)).clone())
    }
}

impl Session {
    /// Runs a statement and returns its first row.
    pub(crate) async fn query_opt(&self, sql: &str, params: &[&dyn ToSql]) -> Result<Option<Row>, LockError> {
        Ok(self.rows(sql, params).await?.into_iter().next())
    }

    /// Runs a statement. If the future is dropped before the answer has come, because that takes too long, the connection is closed: it may be
    /// dead, and an answer that is not read would be taken for that of the next statement.
    pub(crate) async fn rows(&self, sql: &str, params: &[&dyn ToSql]) -> Result<Vec<Row>, LockError> {
        let mut client = self.client.lock().await;
        let Some(client) = client.as_mut().filter(|_| !self.ended.is_cancelled()) else {
            return Err(LockError::unavailable("the connection has ended"));
        };
        let unanswered = self.ended.clone().drop_guard();
        let answer = answer(client, sql, params).await;
        if !answer.as_ref().is_err_and(is_broken) {
            unanswered.disarm();
        }
        answer.map_err(classify)
    }
}

async fn answer(client: &mut Tds, sql: &str, params: &[&dyn ToSql]) -> Result<Vec<Row>, Error> {
    let answer =
        if params.is_empty() { client.simple_query(sql).await? } else { client.query(sql, params).await? };
    answer.into_first_result().await
}

/// Whether the connection has ended, and the locks on it with it. The server closes it after errors of class 20 and above.
fn is_broken(error: &Error) -> bool {
    match error {
        Error::Server(error) => error.class() >= 20,
        Error::Conversion(_) => false,
        _ => true,
    }
}

/// Connects, on the runtime of the caller.
pub(super) async fn connect(target: &MssqlTarget) -> Result<Session, LockError> {
    let mut address = target.config.get_addr();
    let (client, twin) = loop {
        match log_in(&target.config, &address).await {
            // A gateway names the server behind it; follow it once.
            Err(Error::Routing { host, port }) if address == target.config.get_addr() => {
                address = format!("{host}:{port}");
            }
            logged_in => break logged_in.map_err(classify)?,
        }
    };
    let session = Session { client: Arc::new(Mutex::new(Some(client))), ended: CancellationToken::new() };
    tokio::spawn(watch(session.client.clone(), twin, session.ended.clone()));
    Ok(session)
}

async fn log_in(config: &Config, address: &str) -> Result<(Tds, TcpStream), Error> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    let twin = TcpStream::from_std(stream.try_clone()?)?;
    let client = Client::connect(config.clone(), TcpStream::from_std(stream)?.compat_write()).await?;
    Ok((client, twin))
}

/// The driver reads only while it waits for an answer. To notice the end of an idle connection, this peeks at what arrives.
async fn watch(client: Arc<Mutex<Option<Tds>>>, twin: TcpStream, ended: CancellationToken) {
    let gone = async {
        loop {
            drop(twin.peek(&mut [0]).await);
            // It may be the answer to a statement that is running.
            let mut idle = client.lock().await;
            let mut byte = [0];
            let unread = tokio::select! {
                biased;
                _ = twin.peek(&mut byte) => true,
                () = std::future::ready(()) => false,
            };
            let Some(client) = idle.as_mut().filter(|_| unread) else { continue };
            // The end of the connection, or a message that only the driver understands.
            if !matches!(timeout(REQUEST_TIMEOUT, answer(client, "select 1", &[])).await, Ok(Ok(_))) {
                return;
            }
        }
    };
    tokio::select! {
        () = gone => ended.cancel(),
        () = ended.cancelled() => {}
    }
    *client.lock().await = None;
}
