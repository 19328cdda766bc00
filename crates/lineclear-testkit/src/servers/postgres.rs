//! PostgreSQL, tuned for throw-away data: nothing is synced to disk, except for benchmarks.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;

use super::{
    Server,
    place::{Lifetime, Place, find_in_path},
    process::Process,
};
use crate::{pg, port::free_port};

/// Names the server for tests.
pub const VARIABLE: &str = "LINECLEAR_TEST_POSTGRES_URL";

const DATA: &str = "postgres";
const LOG: &str = "postgres.log";
const DEBIAN: &str = "/usr/lib/postgresql";

/// Whether a commit is on the disk when the server says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing is synced: for tests.
    ThrowAway,
    /// As in production: for measurements.
    Synced,
}

/// Many tests run at once, each with its own pools.
const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=300",
    // For tests of prepared transactions.
    "max_prepared_transactions=16",
    // Every dropped database causes a checkpoint anyway.
    "checkpoint_timeout=1h",
    "logging_collector=off",
    "log_min_duration_statement=-1",
    "log_statement=none",
    "timezone=UTC",
];

/// No test may wait for a disk.
const THROW_AWAY: &[&str] = &[
    "shared_buffers=256MB",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "max_wal_size=1GB",
    "wal_level=minimal",
    "max_wal_senders=0",
];

/// PostgreSQL's defaults, written out; with more memory and room for WAL, so that no checkpoint happens during a
/// measurement.
const SYNCED: &[&str] = &[
    "shared_buffers=1GB",
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "max_wal_size=8GB",
    "wal_level=replica",
    // For benchmarks, which report the slowest statement.
    "shared_preload_libraries=pg_stat_statements",
];

/// Starts a server with one superuser, `postgres`, who needs no password.
pub async fn start(place: &Place, durability: Durability) -> Result<Server> {
    let own = match durability {
        Durability::ThrowAway => THROW_AWAY,
        Durability::Synced => SYNCED,
    };
    let programs = programs()?;
    let data = place.dir().join(DATA);
    init(place, &programs, &data)?;
    let port = free_port()?;
    let mut command = place.command(&programs.join("postgres"), "INT");
    command.arg("-D").arg(&data).arg("-p").arg(port.to_string());
    command.args(SETTINGS.iter().chain(own).flat_map(|setting| ["-c", setting]));
    // SIGINT is the fast shutdown: it does not wait for clients.
    let process = run(place, command, &url(port), Signal::INT).await?;
    Ok(Server { variable: VARIABLE, url: url(port), process: Some(process) })
}

fn url(port: u16) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/postgres")
}

/// Starts the server, and waits until it answers.
async fn run(place: &Place, command: Command, url: &str, stop: Signal) -> Result<Process> {
    let mut process = Process::spawn("PostgreSQL", command, &place.dir().join(LOG), stop)?;
    process.ready(async || pg::connect(url).await).await?;
    Ok(process)
}

/// A server for one test, which can be stopped and started again with its data. It ends when this is dropped.
pub struct PrivatePostgres {
    port: u16,
    settings: Vec<String>,
    programs: PathBuf,
    /// `None` while it is stopped.
    process: Option<Process>,
    /// Declared last, so that the files go after the process that uses them.
    place: Place,
}

impl PrivatePostgres {
    /// Starts a server, with settings (`name=value`) beside or instead of those that all test servers have. Call it on a
    /// thread that lives as long as the server shall.
    pub async fn start(settings: &[&str]) -> Result<Self> {
        Self::start_at(Place::in_memory(Lifetime::Ours)?, settings).await
    }

    async fn start_at(place: Place, settings: &[&str]) -> Result<Self> {
        let programs = programs()?;
        init(&place, &programs, &place.dir().join(DATA))?;
        let all = SETTINGS.iter().chain(THROW_AWAY).chain(settings).map(|setting| (*setting).to_owned());
        let mut server = Self { port: free_port()?, settings: all.collect(), programs, process: None, place };
        server.start_again().await?;
        Ok(server)
    }

    /// Starts a server that also accepts TLS, as `localhost`; returns the file of the certificate authority.
    pub async fn start_with_tls() -> Result<(Self, PathBuf)> {
        let place = Place::in_memory(Lifetime::Ours)?;
        let (key, certificate, authority) = certify(&place)?;
        let tls = [
            "ssl=on".to_owned(),
            format!("ssl_key_file={}", key.display()),
            format!("ssl_cert_file={}", certificate.display()),
        ];
        Ok((Self::start_at(place, &tls.each_ref().map(String::as_str)).await?, authority))
    }

    /// Where it listens, also after it was stopped and started again.
    pub fn url(&self) -> String {
        url(self.port)
    }

    /// Stops it at once (SIGQUIT): its connections break, and the next start recovers.
    pub fn stop(&mut self) {
        self.thaw();
        self.process = None;
    }

    /// Freezes it (SIGSTOP) with all its sessions: connections stay open, and get no answer.
    pub fn freeze(&self) {
        self.signal_all(Signal::STOP);
    }

    /// Ends a freeze.
    pub fn thaw(&self) {
        self.signal_all(Signal::CONT);
    }

    fn signal_all(&self, signal: Signal) {
        if let Some(process) = &self.process {
            process.signal_with_children(signal);
        }
    }

    /// Starts it with its data.
    pub async fn start_again(&mut self) -> Result<()> {
        let mut command = self.place.command(&self.programs.join("postgres"), "QUIT");
        command.arg("-D").arg(self.place.dir().join(DATA)).arg("-p").arg(self.port.to_string());
        command.args(self.settings.iter().flat_map(|setting| ["-c", setting]));
        self.process = Some(run(&self.place, command, &self.url(), Signal::QUIT).await?);
        Ok(())
    }

    /// Its log since the last start.
    pub fn log(&self) -> Result<String> {
        Ok(fs::read_to_string(self.place.dir().join(LOG))?)
    }
}

impl Drop for PrivatePostgres {
    /// A frozen process would not stop.
    fn drop(&mut self) {
        self.thaw();
    }
}

fn init(place: &Place, programs: &Path, data: &Path) -> Result<()> {
    let output = place
        .command(&programs.join("initdb"), "KILL")
        .arg("-D")
        .arg(data)
        // The C locale sorts text by bytes, as SQLite does.
        .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"])
        .output()
        .context("running initdb")?;
    if !output.status.success() {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("initdb failed ({}):\n{out}{err}", output.status);
    }
    Ok(())
}

/// A key and a certificate for `localhost`, and the authority that signed it, made for this server alone.
fn certify(place: &Place) -> Result<(PathBuf, PathBuf, PathBuf)> {
    let openssl = find_in_path("openssl").context("no openssl in PATH: run scripts/install")?;
    fs::write(place.dir().join("names"), "subjectAltName=DNS:localhost\n")?;
    let new = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for arguments in [
        format!("{new} -x509 -days 2 -subj /CN=authority -keyout authority.key -out authority.crt"),
        format!("{new} -subj /CN=localhost -keyout server.key -out server.csr"),
        "x509 -req -in server.csr -CA authority.crt -CAkey authority.key -CAcreateserial -days 2 -extfile names -out server.crt".to_owned(),
    ] {
        let output = place.command(&openssl, "KILL").args(arguments.split(' ')).output().context("running openssl")?;
        if !output.status.success() {
            bail!("openssl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    let file = |name: &str| place.dir().join(name);
    Ok((file("server.key"), file("server.crt"), file("authority.crt")))
}

/// The folder that holds `postgres` and `initdb`: Debian's newest version, or the one in `PATH`.
fn programs() -> Result<PathBuf> {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin")))
        })
        .filter(|(_, bin)| bin.join("postgres").is_file() && bin.join("initdb").is_file())
        .max();
    if let Some((_, bin)) = newest {
        return Ok(bin);
    }
    // `initdb` looks for its neighbours beside itself, so a link has to be followed.
    let initdb = find_in_path("initdb").and_then(|found| found.canonicalize().ok());
    initdb.and_then(|file| Some(file.parent()?.to_path_buf())).with_context(|| {
        format!("no initdb in {DEBIAN}/*/bin nor in PATH: run scripts/install, or set {VARIABLE}")
    })
}
