//! The one connection that carries all locks: made when it is needed, and made again when it has ended.

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
use super::target::Place;
use crate::error::LockError;

/// How long the watch over a connection waits for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

type Tds = Client<Compat<TcpStream>>;

#[derive(Debug)]
pub(crate) struct Link {
    place: Place,
    wire: Mutex<Option<Arc<Wire>>>,
}

/// A connection; it is closed when this is dropped, and when it has ended.
#[derive(Debug)]
pub(crate) struct Wire {
    client: Arc<Mutex<Option<Tds>>>,
    /// Cancelled when the connection has ended, and by us to end it.
    pub(crate) ended: CancellationToken,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.ended.cancel();
    }
}

impl Link {
    pub(crate) fn new(place: Place) -> Link {
        Link { place, wire: Mutex::new(None) }
    }

    /// The connection, which lives as far as we know.
    pub(crate) async fn wire(&self) -> Result<Arc<Wire>, LockError> {
        let mut wire = self.wire.lock().await;
        if let Some(alive) = wire.as_ref().filter(|wire| !wire.ended.is_cancelled()) {
            return Ok(alive.clone());
        }
        *wire = None;
        Ok(wire.insert(Arc::new(connect(&self.place).await?)).clone())
    }
}

impl Wire {
    /// Asks, and gives the first row of the answer.
    pub(crate) async fn ask(&self, sql: &str, params: &[&dyn ToSql]) -> Result<Option<Row>, LockError> {
        Ok(self.rows(sql, params).await?.into_iter().next())
    }

    /// Asks. If this is dropped before the answer has come, because that takes too long, the connection is given up: it may be dead, and an
    /// answer that is not read would be taken for that of the next question.
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
pub(super) async fn connect(place: &Place) -> Result<Wire, LockError> {
    let mut address = place.config.get_addr();
    let (client, twin) = loop {
        match log_in(&place.config, &address).await {
            // A gateway names the server that it stands before; once is enough.
            Err(Error::Routing { host, port }) if address == place.config.get_addr() => {
                address = format!("{host}:{port}");
            }
            logged_in => break logged_in.map_err(classify)?,
        }
    };
    let wire = Wire { client: Arc::new(Mutex::new(Some(client))), ended: CancellationToken::new() };
    tokio::spawn(watch(wire.client.clone(), twin, wire.ended.clone()));
    Ok(wire)
}

async fn log_in(config: &Config, address: &str) -> Result<(Tds, TcpStream), Error> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let stream = stream.into_std()?;
    let twin = TcpStream::from_std(stream.try_clone()?)?;
    let client = Client::connect(config.clone(), TcpStream::from_std(stream)?.compat_write()).await?;
    Ok((client, twin))
}

/// The driver reads only while it waits for an answer. So that a connection is known to have ended when nobody asks, this looks at
/// what arrives, without taking it away.
async fn watch(client: Arc<Mutex<Option<Tds>>>, twin: TcpStream, ended: CancellationToken) {
    let gone = async {
        loop {
            drop(twin.peek(&mut [0]).await);
            // It may be the answer to a question that is on its way.
            let mut idle = client.lock().await;
            let mut byte = [0];
            let unread = tokio::select! {
                biased;
                _ = twin.peek(&mut byte) => true,
                () = std::future::ready(()) => false,
            };
            let Some(client) = idle.as_mut().filter(|_| unread) else { continue };
            // The end, or something that only the driver understands.
            if !matches!(timeout(ANSWER_WITHIN, answer(client, "select 1", &[])).await, Ok(Ok(_))) {
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
