//! Private, throw-away servers on free loopback ports.
//!
//! Each server is one file with a `start` function and the name of the environment variable that holds its
//! URL. Where that variable is set already, the server it names is used and none is started.
//!
//! A server ends with the [`Servers`] value that started it, also when the process of that value is killed with SIGKILL,
//! because the kernel then signals the server (`setpriv --pdeathsig`). In that last case its files stay behind, and the
//! next start removes them. Without `setpriv`, servers survive a SIGKILL of the process that started them.

pub mod mysql;
pub mod pgbouncer;
pub mod place;
pub mod postgres;
pub mod process;
pub mod redis;

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::Result;

use place::{Lifetime, Place, SCRATCH_VARIABLE};
use postgres::Durability;
use process::{Process, Record};

/// A server that tests may use.
pub struct Server {
    /// The environment variable that passes its URL to tests.
    pub variable: &'static str,
    /// Where it listens.
    pub url: String,
    /// `None` if it was running before.
    process: Option<Process>,
}

impl Server {
    /// The server that the environment names, if it does.
    fn given(variable: &'static str) -> Option<Self> {
        let url = env::var(variable).ok().filter(|url| !url.is_empty())?;
        Some(Self { variable, url, process: None })
    }
}

/// All servers. They stop when this is dropped.
pub struct Servers {
    /// In the order in which they are stopped: a proxy comes before its server.
    servers: Vec<Server>,
    /// Where tests keep their own files; `None` if the environment names a folder.
    scratch: Option<PathBuf>,
    /// Declared last, so that the files go after the processes that use them.
    place: Place,
}

impl Servers {
    /// Starts the servers that the environment does not name. Call it on a thread that lives as long as the servers should: the
    /// kernel's signal comes when that thread ends.
    pub async fn start(lifetime: Lifetime, durability: Durability) -> Result<Self> {
        let place = match durability {
            Durability::ThrowAway => Place::in_memory(lifetime)?,
            Durability::Synced => Place::new(lifetime)?,
        };
        let scratch = match env::var_os(SCRATCH_VARIABLE).filter(|folder| !folder.is_empty()) {
            Some(_) => None,
            None => Some(place.subfolder("tests")?),
        };
        let postgres = match Server::given(postgres::VARIABLE) {
            Some(server) => server,
            None => postgres::start(&place, durability).await?,
        };
        let pgbouncer = match Server::given(pgbouncer::VARIABLE) {
            Some(server) => server,
            None => pgbouncer::start(&place, &postgres.url).await?,
        };
        let mysql = match Server::given(mysql::VARIABLE) {
            Some(server) => server,
            None => mysql::start(&place).await?,
        };
        let redis = match Server::given(redis::VARIABLE) {
            Some(server) => server,
            None => redis::start(&place).await?,
        };
        Ok(Self { servers: vec![redis, mysql, pgbouncer, postgres], scratch, place })
    }

    /// Environment variables that tell tests where the servers are, and where to keep files.
    pub fn environment(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let servers = self.servers.iter().rev().map(|server| (server.variable, server.url.as_str()));
        servers.chain(self.scratch().and_then(Path::to_str).map(|folder| (SCRATCH_VARIABLE, folder)))
    }

    /// The folder for the files of tests, unless the environment names one.
    pub fn scratch(&self) -> Option<&Path> {
        self.scratch.as_deref()
    }

    /// Detaches the servers: they keep running. Returns the records that stop them later.
    pub fn leave(self) -> Vec<Record> {
        self.place.keep();
        self.servers.into_iter().filter_map(|server| server.process).map(Process::leave).collect()
    }

    /// The folder that holds the servers' files.
    pub fn dir(&self) -> &Path {
        self.place.dir()
    }
}
