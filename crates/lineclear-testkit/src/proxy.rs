//! A network that fails on command: a TCP proxy that can delay, cut and fall silent.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream, lookup_host},
    sync::watch,
    task::JoinHandle,
    time::sleep,
};

use crate::url;

/// Bytes carried at a time. While the network is silent, up to this many wait in each direction of a
/// connection.
const CHUNK: usize = 16 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Forward,
    Silent,
    Cut,
}

/// Bytes of clients on dead connections that are kept at most.
const SWALLOWED_MAX: usize = 64 * 1024;

#[derive(Clone, Copy)]
struct Weather {
    mode: Mode,
    delay: Duration,
    /// Connections up to this number are dead: they stay open and carry nothing, for ever.
    dead_through: usize,
}

const FAIR: Weather = Weather { mode: Mode::Forward, delay: Duration::ZERO, dead_through: 0 };

/// A proxy on a free loopback port. It and its connections end when this is dropped.
pub struct Proxy {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    /// How many connections are open.
    open: watch::Sender<usize>,
    /// How many there were so far: the number of the newest.
    accepted: watch::Sender<usize>,
    /// What clients sent on dead connections.
    swallowed: Swallowed,
    listener: JoinHandle<()>,
}

type Swallowed = Arc<Mutex<Vec<u8>>>;

impl Proxy {
    /// Starts a proxy in front of a server, given as `host:port`.
    pub async fn to(server: &str) -> Result<Self> {
        let server = lookup_host(server).await?.next().with_context(|| format!("no address for {server}"))?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (weather, open, accepted) =
            (watch::Sender::new(FAIR), watch::Sender::new(0), watch::Sender::new(0));
        let swallowed = Swallowed::default();
        let network = Network { server, weather: weather.clone(), swallowed: swallowed.clone() };
        let listener = tokio::spawn(listen(listener, network, open.clone(), accepted.clone()));
        Ok(Self { address, weather, open, accepted, swallowed, listener })
    }

    /// Starts a proxy in front of the server that a database URL names.
    pub async fn to_url(database_url: &str) -> Result<Self> {
        Self::to(&url::host_and_port(database_url)).await
    }

    /// Where the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same database, reached through the proxy.
    pub fn url_for(&self, database_url: &str) -> String {
        url::with_address(database_url, self.address)
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        *self.open.borrow()
    }

    /// From now on, delays all bytes for this long, in each direction.
    pub fn delay(&self, delay: Duration) {
        self.weather.send_modify(|weather| weather.delay = delay);
    }

    /// Closes all connections, and from now on closes new ones at once. All are closed when this returns.
    pub async fn cut(&self) {
        self.weather.send_modify(|weather| weather.mode = Mode::Cut);
        // The sender is ours, so that waiting cannot fail.
        self.open.subscribe().wait_for(|open| *open == 0).await.ok();
    }

    /// Leaves connections open and accepts new ones, but carries no bytes that arrive after this call, in any
    /// direction.
    pub fn silence(&self) {
        self.weather.send_modify(|weather| weather.mode = Mode::Silent);
    }

    /// The connections that are open now carry nothing any more, in any direction and for ever, and the server keeps them open. New
    /// connections work.
    pub fn silence_open(&self) {
        let dead_through = *self.accepted.borrow();
        self.weather.send_modify(|weather| weather.dead_through = dead_through);
    }

    /// What clients have sent on connections that [`Proxy::silence_open`] silenced.
    pub fn swallowed(&self) -> Vec<u8> {
        self.swallowed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends delay, cut and silence. Bytes that silence held back arrive now.
    pub fn heal(&self) {
        self.weather.send_modify(|weather| {
            *weather = Weather { dead_through: weather.dead_through, ..FAIR };
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.weather.send_modify(|weather| weather.mode = Mode::Cut);
        self.listener.abort();
    }
}

#[derive(Clone)]
struct Network {
    server: SocketAddr,
    weather: watch::Sender<Weather>,
    swallowed: Swallowed,
}

async fn listen(
    listener: TcpListener,
    network: Network,
    open: watch::Sender<usize>,
    accepted: watch::Sender<usize>,
) {
    while let Ok((client, _)) = listener.accept().await {
        // Accepted and closed, not refused: another process could get the port of a closed listener.
        if network.weather.borrow().mode == Mode::Cut {
            continue;
        }
        open.send_modify(|open| *open += 1);
        accepted.send_modify(|accepted| *accepted += 1);
        let number = *accepted.borrow();
        let (network, open) = (network.clone(), open.clone());
        tokio::spawn(async move {
            carry(client, number, &network).await;
            open.send_modify(|open| *open -= 1);
        });
    }
}

/// One connection, until an end closes it or it is cut. Dropping the sockets closes both halves.
async fn carry(mut client: TcpStream, number: usize, network: &Network) {
    let mut cut = network.weather.subscribe();
    let mut dead = network.weather.subscribe();
    tokio::select! {
        _ = cut.wait_for(|weather| weather.mode == Mode::Cut) => {}
        _ = connect_and_pump(&mut client, number, network, &mut dead) => {}
    }
}

async fn connect_and_pump(
    client: &mut TcpStream,
    number: usize,
    network: &Network,
    dead: &mut watch::Receiver<Weather>,
) -> io::Result<()> {
    let mut weather = network.weather.subscribe();
    until_not_silent(&mut weather).await;
    let mut server = TcpStream::connect(network.server).await?;
    // Delays are ours to make.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let pumps = async {
            tokio::try_join!(
                pump(from_client, to_server, weather.clone()),
                pump(from_server, to_client, weather)
            )
        };
        tokio::select! {
            ended = pumps => return ended.map(drop),
            _ = dead.wait_for(|weather| number <= weather.dead_through) => {}
        }
    }
    // The server's side stays open until the client closes its own.
    swallow(client, &network.swallowed).await
}

/// Reads what the client sends, and carries it nowhere.
async fn swallow(client: &mut TcpStream, swallowed: &Mutex<Vec<u8>>) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = client.read(&mut chunk).await?;
        if length == 0 {
            return Ok(());
        }
        let mut all = swallowed.lock().unwrap_or_else(PoisonError::into_inner);
        let room = SWALLOWED_MAX.saturating_sub(all.len());
        all.extend_from_slice(&chunk[..length.min(room)]);
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut weather: watch::Receiver<Weather>,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = from.read(&mut chunk).await?;
        let delay = weather.borrow().delay;
        if !delay.is_zero() {
            sleep(delay).await;
        }
        until_not_silent(&mut weather).await;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&chunk[..length]).await?;
    }
}

async fn until_not_silent(weather: &mut watch::Receiver<Weather>) {
    // It fails if the proxy is gone, and then the connection ends anyway.
    weather.wait_for(|weather| weather.mode != Mode::Silent).await.ok();
}
