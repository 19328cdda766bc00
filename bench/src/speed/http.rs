//! Enqueue over HTTP: 32 connections that send one job at a time, compared with sixteen callers of the library.
//!
//! Server and clients share the process and its cores, so that the ratio is the worst that one machine shows.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use lineclear::{Lineclear, Node, NodeOptions, Role};
use lineclear_http::{HttpOptions, Server};
use lineclear_measure::{INPUT, interleave, median, rate};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::enqueue::{CALLERS, SINGLE_JOBS, by_store, single_load};
use super::{KIND, announce};
use crate::measure::{grouped, spread};
use crate::report::{Bound, Unit};
use crate::{Database, Figure, Purpose, Scale, ScratchDb};

const CONNECTIONS: u32 = 32;
const LEAST: f64 = 0.5;
const ROUNDS: u32 = 5;

pub(super) async fn run(database: Database, scale: Scale) -> Result<Vec<Figure>> {
    let by_library = single_load(scale);
    let calls = scale.of(SINGLE_JOBS / CONNECTIONS);
    let jobs = calls * CONNECTIONS;
    announce(database, jobs, "jobs are enqueued alternately over HTTP and by the library");
    let db = ScratchDb::new(database, Purpose::Speed).await?;
    let measured = interleave(2, scale.rounds(ROUNDS), async |side| {
        db.clear_jobs().await?;
        db.settle_down().await?;
        let (rate, asked) = match side {
            0 => (over_http(&db, calls).await?, jobs),
            _ => (by_store(&db, by_library).await?, by_library.jobs),
        };
        let queued = db.number("select count(*) from {t}work_queue").await?;
        ensure!(queued == i64::from(asked), "{queued} of {asked} jobs are queued");
        Ok(rate)
    })
    .await?;
    let (http, library) = (&measured[0], &measured[1]);
    let name = format!("enqueue {} one by one: {CALLERS} callers → {CONNECTIONS} by HTTP", grouped(jobs));
    // SQLite has one writer; there is no bound.
    let bound = (database == Database::Postgres).then_some(Bound::AtLeast(LEAST));
    let figure = Figure::new(database, name, Unit::JobsPerSecond, Some(median(library)), median(http));
    Ok(vec![figure.bound(bound).note(spread(library, http))])
}

/// A server like that of `lineclear serve`, with a node that runs no jobs.
async fn serve(db: &ScratchDb) -> Result<(Node, SocketAddr, CancellationToken)> {
    let options = NodeOptions { roles: vec![Role::Planner], ..NodeOptions::default() };
    let node = Lineclear::builder().store(db.url()).options(options).start().await?;
    let options = HttpOptions { bind: SocketAddr::from(([127, 0, 0, 1], 0)), ..HttpOptions::default() };
    let server = Server::bind(options, node.client(), None).await?;
    let (address, stop) = (server.address(), CancellationToken::new());
    tokio::spawn(server.run(stop.clone().cancelled_owned()));
    Ok((node, address, stop))
}

async fn over_http(db: &ScratchDb, calls: u32) -> Result<f64> {
    let (node, address, stop) = serve(db).await?;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(address).await?);
    }
    let start = Instant::now();
    let all = connections.into_iter().map(|mut connection| {
        tokio::spawn(async move {
            for _ in 0..calls {
                connection.enqueue().await?;
            }
            anyhow::Ok(())
        })
    });
    for one in all.collect::<Vec<_>>() {
        one.await??;
    }
    let rate = rate(calls * CONNECTIONS, start);
    stop.cancel();
    node.stop().await;
    Ok(rate)
}

/// A persistent connection, and the request that it sends.
struct Connection {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
    line: String,
    body: Vec<u8>,
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let body = format!(r#"{{"kind":"{KIND}","input":{INPUT}}}"#);
        let head = format!(
            "POST /api/v1/jobs HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let request = [head, body].concat().into_bytes();
        Ok(Connection { stream: BufReader::new(stream), request, line: String::new(), body: Vec::new() })
    }

    /// Sends the request and reads the whole response.
    async fn enqueue(&mut self) -> Result<()> {
        self.stream.get_mut().write_all(&self.request).await?;
        let mut length = 0;
        let mut first = true;
        loop {
            self.line.clear();
            self.stream.read_line(&mut self.line).await?;
            let line = self.line.trim_end();
            if std::mem::take(&mut first) {
                ensure!(line.starts_with("HTTP/1.1 201"), "the server responded {line:?}");
            }
            if line.is_empty() {
                break;
            }
            if let Some(text) = line.strip_prefix("content-length: ") {
                length = text.parse().context("a length")?;
            }
        }
        self.body.resize(length, 0);
        self.stream.read_exact(&mut self.body).await?;
        Ok(())
    }
}
