//! PostgreSQL, tuned to be thrown away: nothing is synced to disk, unless that is what is measured.

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
    process::{Process, lasting_port, on_free_port},
};
use crate::pg;

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

/// Many tests run at once, each with pools of its own.
const SETTINGS: &[&str] = &[
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=300",
    // Checkpoints come with every dropped database anyway.
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

/// What PostgreSQL does unless told otherwise, said aloud; with more memory and room for WAL, so that no checkpoint
/// falls into a measurement by chance.
const SYNCED: &[&str] = &[
    "shared_buffers=1GB",
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "max_wal_size=8GB",
    "wal_level=replica",
    // So that a benchmark can say which statement was the slowest.
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
    on_free_port(async |port| {
        let mut command = place.command(&programs.join("postgres"), "INT");
        command.arg("-D").arg(&data).arg("-p").arg(port.to_string());
        command.args(SETTINGS.iter().chain(own).flat_map(|setting| ["-c", setting]));
        // SIGINT is the fast shutdown: it does not wait for clients.
        let process = run(place, command, &url(port), Signal::INT).await?;
        Ok(Server { variable: VARIABLE, url: url(port), process: Some(process) })
    })
    .await
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

/// A server of one test alone, that can be stopped and started again with its data. It ends when this is dropped.
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
        let mut server =
            Self { port: lasting_port()?, settings: all.collect(), programs, process: None, place };
        server.start_again().await?;
        Ok(server)
    }

    /// Starts a server that takes connections by TLS, too, as `localhost`; gives the file of the authority that says so.
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

    /// Stops it at once (SIGQUIT): its connections break, nothing is tidied up, and the next start recovers.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts it with the data that it has.
    pub async fn start_again(&mut self) -> Result<()> {
        let mut command = self.place.command(&self.programs.join("postgres"), "QUIT");
        command.arg("-D").arg(self.place.dir().join(DATA)).arg("-p").arg(self.port.to_string());
        command.args(self.settings.iter().flat_map(|setting| ["-c", setting]));
        self.process = Some(run(&self.place, command, &self.url(), Signal::QUIT).await?);
        Ok(())
    }

    /// What it has logged since it was started last.
    pub fn log(&self) -> Result<String> {
        Ok(fs::read_to_string(self.place.dir().join(LOG))?)
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

/// The folder that holds `postgres` and `initdb`: Debian's newest version, or what `PATH` leads to.
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
