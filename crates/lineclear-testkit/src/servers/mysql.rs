//! MariaDB from Debian, tuned for throw-away data. If the environment names a MySQL, that is used.

use std::{fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use tokio::{io::AsyncReadExt, net::TcpStream};

use super::{
    Server,
    place::{Lifetime, Place, find_in_path},
    process::Process,
};
use crate::port::free_port;

/// Names the server for tests.
pub const VARIABLE: &str = "LINECLEAR_TEST_MYSQL_URL";

const DATA: &str = "mysql";
const LOG: &str = "mysql.log";
const INIT: &str = "mysql.sql";
/// Debian's own account may connect only through a socket.
const ACCOUNT: &str = "create user if not exists root@'127.0.0.1';
grant all privileges on *.* to root@'127.0.0.1' with grant option;
";

const SETTINGS: &[&str] = &[
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--max-connections=500",
    "--innodb-buffer-pool-size=32M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
];
/// Small, because it is written for every server.
const REDO_LOG: &str = "--innodb-log-file-size=8M";

/// Starts a server with one account, `root`, that needs no password.
pub async fn start(place: &Place) -> Result<Server> {
    init(place)?;
    let port = free_port()?;
    let process = run(place, port, &[]).await?;
    Ok(Server { variable: VARIABLE, url: url(port), process: Some(process) })
}

fn url(port: u16) -> String {
    format!("mysql://root@127.0.0.1:{port}/mysql")
}

/// Starts the server, and waits until it greets.
async fn run(place: &Place, port: u16, settings: &[String]) -> Result<Process> {
    // Its data is thrown away, or recovered: a stop need not be clean.
    let mut command = place.command(&program("mariadbd")?, "KILL");
    configure(&mut command, place);
    command.args(SETTINGS).args(settings).arg(format!("--port={port}"));
    for (option, file) in [("init-file", INIT), ("socket", "mysql.sock"), ("pid-file", "mysql.pid")] {
        command.arg(format!("--{option}={}", place.dir().join(file).display()));
    }
    let mut process = Process::spawn("MariaDB", command, &place.dir().join(LOG), Signal::KILL)?;
    process.ready(async || greeted(port).await).await?;
    Ok(process)
}

/// Reads the greeting of the server: length, number, and the version of the protocol.
async fn greeted(port: u16) -> Result<()> {
    let mut greeting = [0; 5];
    TcpStream::connect(("127.0.0.1", port)).await?.read_exact(&mut greeting).await?;
    ensure!(greeting[4] == 10, "it does not accept clients yet");
    Ok(())
}

/// A server for one test, which can be stopped and started again with its data. It ends when this is dropped.
pub struct PrivateMysql {
    port: u16,
    settings: Vec<String>,
    /// `None` while it is stopped.
    process: Option<Process>,
    /// Declared last, so that the files go after the process that uses them.
    place: Place,
}

impl PrivateMysql {
    /// Starts a server, with settings (`--name=value`) beside those that all test servers have. Call it on a thread that
    /// lives as long as the server shall.
    pub async fn start(settings: &[&str]) -> Result<Self> {
        let place = Place::in_memory(Lifetime::Ours)?;
        init(&place)?;
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { port: free_port()?, settings, process: None, place };
        server.start_again().await?;
        Ok(server)
    }

    /// Where it listens, also after it was stopped and started again.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Kills it: its connections break, and the next start recovers.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts it with its data.
    pub async fn start_again(&mut self) -> Result<()> {
        self.process = Some(run(&self.place, self.port, &self.settings).await?);
        Ok(())
    }
}

fn configure(command: &mut Command, place: &Place) {
    command.arg("--no-defaults").arg(format!("--datadir={}", place.dir().join(DATA).display())).arg(REDO_LOG);
    // A server removes temporary tables when it starts: in a shared folder, also those of other servers.
    command.arg(format!("--tmpdir={}", place.dir().display()));
}

fn init(place: &Place) -> Result<()> {
    fs::write(place.dir().join(INIT), ACCOUNT)?;
    let mut command = place.command(&program("mariadb-install-db")?, "KILL");
    configure(&mut command, place);
    command.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
    let output = command.output().context("running mariadb-install-db")?;
    if !output.status.success() {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("mariadb-install-db failed ({}):\n{out}{err}", output.status);
    }
    Ok(())
}

fn program(name: &str) -> Result<PathBuf> {
    find_in_path(name)
        .with_context(|| format!("{name} is not in PATH: run scripts/install, or set {VARIABLE}"))
}
