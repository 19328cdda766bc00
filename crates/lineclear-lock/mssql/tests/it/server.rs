//! A made-up SQL Server: the mock's protocol, and what the documentation says of `sp_getapplock`. It knows our statements by the name
//! in their first line, and does what they mean.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use mssql_mock_tds::protocol::{
    PacketType, build_prelogin_response, build_query_result, build_routing_login_response,
};
use mssql_mock_tds::server::ConnectionProcessor;
use mssql_mock_tds::{ColumnDefinition, ColumnValue, QueryResponse, Row, SqlDataType, TerminalError};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::packets::{self, Message, Statement};
use crate::tables::Tables;

/// What is said once, instead of what would be true.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Say {
    /// A code of `sp_getapplock`.
    Got(i32),
    /// An error by its number and class.
    Error(u32, u8),
    /// Nothing.
    Nothing,
    /// Nothing, and the connection ends.
    Goodbye,
}

#[derive(Default)]
pub(crate) struct State {
    /// By their names: who has them, how often.
    pub(crate) locks: HashMap<String, (u64, u32)>,
    epochs: HashMap<Vec<u8>, Epoch>,
    /// Rows that open transactions share.
    pub(crate) shared: Vec<(u64, Vec<u8>)>,
    pub(crate) script: VecDeque<(&'static str, Say)>,
    pub(crate) table: bool,
    pub(crate) read_only: bool,
    /// Every request for a lock is granted.
    pub(crate) pretends: bool,
    /// The answer to a login.
    pub(crate) login: Option<Say>,
    /// The port that a login is redirected to.
    pub(crate) route: Option<u16>,
    connections: HashMap<u64, CancellationToken>,
    pub(crate) tables: Tables,
}

#[derive(Default)]
struct Epoch {
    epoch: i64,
    holder: String,
    kind: Option<String>,
    ttl: i64,
}

pub(crate) struct Server {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
    stop: CancellationToken,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Server {
    pub(crate) async fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, stop) = (listener.local_addr().unwrap().port(), CancellationToken::new());
        let server = Server { port, state: Arc::default(), stop: stop.clone() };
        let state = server.state.clone();
        tokio::spawn(async move { stop.run_until_cancelled(accept(listener, state)).await });
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("mssql://sa:secret@127.0.0.1:{}/app?encrypt=off", self.port)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The next time that this statement comes.
    pub(crate) fn say(&self, statement: &'static str, say: Say) {
        self.state().script.push_back((statement, say));
    }

    /// Ends all connections, as `KILL` does.
    pub(crate) fn kill_all(&self) {
        self.state().connections.values().for_each(CancellationToken::cancel);
    }

    pub(crate) fn connections(&self) -> usize {
        self.state().connections.len()
    }
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    static NO: AtomicU64 = AtomicU64::new(50);
    while let Ok((stream, _)) = listener.accept().await {
        let (no, state, killed) =
            (NO.fetch_add(1, Ordering::SeqCst), state.clone(), CancellationToken::new());
        state.lock().unwrap().connections.insert(no, killed.clone());
        tokio::spawn(async move {
            killed.run_until_cancelled(session(no, stream, &state)).await;
            let mut state = state.lock().unwrap();
            state.connections.remove(&no);
            // What a session has ends with it.
            state.locks.retain(|_, (holder, _)| *holder != no);
            state.shared.retain(|(holder, _)| *holder != no);
        });
    }
}

async fn session(no: u64, mut stream: TcpStream, state: &Mutex<State>) {
    let (peer, nothing) = (stream.peer_addr().unwrap(), Arc::default());
    let mut mock = ConnectionProcessor::new(no, peer, nothing, None);
    while let Some(message) = packets::next(&mut stream).await {
        let answer = match message.kind {
            PacketType::PreLogin => Ok(build_prelogin_response()),
            PacketType::Login7 if state.lock().unwrap().login.is_some() => {
                Err(state.lock().unwrap().login.unwrap())
            }
            PacketType::Login7 if state.lock().unwrap().route.is_some() => {
                let port = state.lock().unwrap().route.unwrap();
                Ok(build_routing_login_response("127.0.0.1", port, &[None], true, None, false))
            }
            PacketType::SqlBatch | PacketType::RpcRequest => state
                .lock()
                .unwrap()
                .answer(no, &packets::statement(&message))
                .map(|said| build_query_result(&said)),
            kind => {
                if kind == PacketType::TransactionManager {
                    // Whatever begins or ends: nothing is shared any more.
                    state.lock().unwrap().shared.retain(|(holder, _)| *holder != no);
                }
                let Message { raw, .. } = message;
                mock.buffer_mut().extend_from_slice(&raw);
                Ok(mock.process_packet(&mut stream).await.unwrap().expect("the mock knows it"))
            }
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(Say::Error(number, class)) => build_query_result(&error(number, class)),
            Err(Say::Goodbye) => return,
            // Until the client has enough of it.
            Err(_) => return drop(packets::next(&mut stream).await),
        };
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn error(number: u32, class: u8) -> QueryResponse {
    QueryResponse::error_only(TerminalError::new(number, class, format!("error {number} of the server")))
}

/// One row of numbers; none: null.
fn numbers<const N: usize>(columns: [(&str, Option<i64>); N]) -> QueryResponse {
    let values = columns.iter().map(|(_, value)| value.map_or(ColumnValue::Null, ColumnValue::BigInt));
    let values = Row::new(values.collect());
    QueryResponse::new(
        columns.map(|(name, _)| ColumnDefinition::new(name, SqlDataType::BigInt)).into(),
        vec![values],
    )
}

impl State {
    fn answer(&mut self, session: u64, said: &Statement) -> Result<QueryResponse, Say> {
        let scripted = self.script.iter().position(|(statement, _)| *statement == said.name());
        match scripted.and_then(|at| self.script.remove(at)) {
            Some((_, Say::Got(code))) if code < 0 => {
                return Ok(numbers([("got", Some(code.into())), ("epoch", None)]));
            }
            // Granted after a wait.
            Some((_, Say::Got(code))) => {
                let took = self.take(session, said);
                return Ok(numbers([("got", Some(code.into())), ("epoch", took)]));
            }
            Some((_, say)) => return Err(say),
            None => {}
        }
        if let Some(answer) = self.tables.answer(said) {
            return answer.map_err(|number| Say::Error(number, 16));
        }
        Ok(match said.name() {
            "lock_try" => numbers([("got", Some(if self.lock(session, said) { 0 } else { -1 }))]),
            "lock_acquire" => {
                let epoch = self.take(session, said);
                numbers([("got", Some(if epoch.is_some() { 0 } else { -1 })), ("epoch", epoch)])
            }
            "lock_extend" => numbers([("held", Some(self.holds(session, said).into()))]),
            "lock_release" => {
                let held = self.holds(session, said);
                let resource = said.text(1).unwrap();
                self.locks
                    .entry(resource.clone())
                    .and_modify(|(holder, times)| *times -= u32::from(*holder == session));
                self.locks.retain(|_, (_, times)| *times > 0);
                numbers([("released", Some(if held { 0 } else { -999 }))])
            }
            "lock_read" => self.read(said),
            "lock_fence" => {
                let (name, epoch) = (said.bytes(1), said.number(2));
                let mut row = numbers([("epoch", Some(epoch))]);
                if self.epochs.get(&name).is_some_and(|row| row.epoch == epoch) {
                    self.shared.push((session, name));
                } else {
                    row.rows.clear();
                }
                row
            }
            "lock_schema" if self.table => error(2714, 16),
            "lock_schema" => {
                self.table = true;
                QueryResponse::new(Vec::new(), Vec::new())
            }
            text if text.contains("databasepropertyex") => {
                numbers([("writable", Some((!self.read_only).into())), ("made", Some(self.table.into()))])
            }
            "select 1" => QueryResponse::select_one(),
            other => panic!("the server does not know: {other}"),
        })
    }

    /// Exclusive, and for the same session as often as it likes.
    fn lock(&mut self, session: u64, said: &Statement) -> bool {
        let resource = said.text(1).unwrap();
        assert!(resource.encode_utf16().count() <= 255, "the server would cut it off: {resource}");
        let (holder, times) = self.locks.entry(resource).or_insert((session, 0));
        let granted = *holder == session || self.pretends;
        *times += u32::from(*holder == session);
        granted
    }

    fn holds(&self, session: u64, said: &Statement) -> bool {
        self.locks.get(&said.text(1).unwrap()).is_some_and(|(holder, _)| *holder == session || self.pretends)
    }

    fn take(&mut self, session: u64, said: &Statement) -> Option<i64> {
        assert!(self.table, "there is no table");
        let name = said.bytes(2);
        if !self.lock(session, said) {
            return None;
        }
        // A row that a transaction shares cannot be written: what was taken is given back.
        if self.shared.iter().any(|(_, shared)| *shared == name) {
            self.locks.retain(|resource, _| *resource != said.text(1).unwrap());
            return None;
        }
        let row = self.epochs.entry(name).or_default();
        *row = Epoch {
            epoch: row.epoch + 1,
            holder: said.text(3).unwrap(),
            kind: said.text(4),
            ttl: said.number(5),
        };
        Some(row.epoch)
    }

    fn read(&self, said: &Statement) -> QueryResponse {
        let mut said_back = numbers([("epoch", None), ("ttl_ms", None), ("held", None)]);
        said_back.rows.clear();
        for name in ["holder", "kind"] {
            said_back.columns.push(ColumnDefinition::new(name, SqlDataType::NVarCharMax));
        }
        if let Some(row) = self.epochs.get(&said.bytes(2)) {
            let held = self.locks.contains_key(&said.text(1).unwrap());
            let text = |text: &str| ColumnValue::NVarCharMax(vec![text.encode_utf16().collect()]);
            let mut values: Vec<_> = [row.epoch, row.ttl, held.into()].map(ColumnValue::BigInt).into();
            values
                .extend([text(&row.holder), row.kind.as_deref().map_or(ColumnValue::NVarCharMaxNull, text)]);
            said_back.rows.push(Row::new(values));
        }
        said_back
    }
}
