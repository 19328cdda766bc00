//! Redis, which keeps nothing on the disk unless a test needs that.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    Server,
    place::{Lifetime, Place, find_in_path},
    process::Process,
};
use crate::port::free_port;

/// Names the server for tests.
pub const VARIABLE: &str = "LINECLEAR_TEST_REDIS_URL";

const LOG: &str = "redis.log";
const SETTINGS: &[&str] = &["--bind", "127.0.0.1", "--save", "", "--daemonize", "no"];

/// Starts a server without a password.
pub async fn start(place: &Place) -> Result<Server> {
    let port = free_port()?;
    let process = run(place, port, &[]).await?;
    Ok(Server { variable: VARIABLE, url: url(port), process: Some(process) })
}

fn url(port: u16) -> String {
    format!("redis://127.0.0.1:{port}/0")
}

/// Starts the server, and waits until it answers. Its files are in the folder of the place.
async fn run(place: &Place, port: u16, settings: &[String]) -> Result<Process> {
    let mut command = place.command(&program()?, "KILL");
    command.args(SETTINGS).arg("--port").arg(port.to_string()).args(settings);
    // Killed: the data that it must keep is on the disk already.
    let mut process = Process::spawn("Redis", command, &place.dir().join(LOG), Signal::KILL)?;
    process.ready(async || answers(port).await).await?;
    Ok(process)
}

async fn answers(port: u16) -> Result<()> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    server.write_all(b"PING\r\n").await?;
    let mut answer = [0; 5];
    server.read_exact(&mut answer).await?;
    ensure!(&answer == b"+PONG", "it is not ready yet");
    Ok(())
}

/// A server for one test, which can be killed and started again. It ends when this is dropped.
pub struct PrivateRedis {
    port: u16,
    settings: Vec<String>,
    /// `None` while it is stopped.
    process: Option<Process>,
    /// Declared last, so that the files go after the process that uses them.
    place: Place,
}

impl PrivateRedis {
    /// Starts a server, with settings (`--name`, `value`, …) beside those that all test servers have. Call it on a thread
    /// that lives as long as the server shall.
    pub async fn start(settings: &[&str]) -> Result<Self> {
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let place = Place::in_memory(Lifetime::Ours)?;
        let mut server = Self { port: free_port()?, settings, process: None, place };
        server.start_again().await?;
        Ok(server)
    }

    /// Where it listens, also after it was stopped and started again.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it: its connections break, and data that is not on the disk is gone.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts it with its data on the disk.
    pub async fn start_again(&mut self) -> Result<()> {
        self.process = Some(run(&self.place, self.port, &self.settings).await?);
        Ok(())
    }
}

fn program() -> Result<PathBuf> {
    find_in_path("redis-server")
        .with_context(|| format!("redis-server is not in PATH: run scripts/install, or set {VARIABLE}"))
}
