//! pgbouncer in transaction mode, in front of the PostgreSQL that tests use.

use std::{fmt::Write, fs, os::unix::fs::PermissionsExt};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tokio_postgres::{Config, config::Host};

use super::{
    Server,
    place::{Place, find_in_path},
    process::Process,
};
use crate::{pg, port::free_port, url};

/// Names the server for tests.
pub const VARIABLE: &str = "LINECLEAR_TEST_PGBOUNCER_URL";

/// Starts a pooler in front of the server that `postgres_url` names. It knows every database of that server.
pub async fn start(place: &Place, postgres_url: &str) -> Result<Server> {
    let program = find_in_path("pgbouncer")
        .with_context(|| format!("pgbouncer is not in PATH: run scripts/install, or set {VARIABLE}"))?;
    let upstream = upstream(postgres_url)?;
    let port = free_port()?;
    let config = place.dir().join("pgbouncer.ini");
    fs::write(&config, settings(&upstream, port))?;
    // Another account reads it, and it may hold the password of a user's server.
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600))?;
    place.give(&config)?;
    let mut command = place.command(&program, "KILL");
    command.arg(&config);
    let log = place.dir().join("pgbouncer.log");
    let mut process = Process::spawn("pgbouncer", command, &log, Signal::TERM)?;
    let address = ([127, 0, 0, 1], port).into();
    let url = url::with_address(postgres_url, address);
    process.ready(async || pg::connect(&url).await).await?;
    Ok(Server { variable: VARIABLE, url, process: Some(process) })
}

/// The server and the role with which pgbouncer connects, whatever role the client names.
fn upstream(postgres_url: &str) -> Result<String> {
    let config: Config = postgres_url.parse().context("parsing the PostgreSQL URL")?;
    let host = match config.get_hosts() {
        [Host::Tcp(host)] => host.clone(),
        [Host::Unix(path)] => path.display().to_string(),
        _ => bail!("pgbouncer needs one host to connect to"),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let mut upstream = format!("host={host} port={port} user={}", config.get_user().unwrap_or("postgres"));
    if let Some(password) = config.get_password() {
        write!(upstream, " password={}", quote(&String::from_utf8_lossy(password)))?;
    }
    Ok(upstream)
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn settings(upstream: &str, port: u16) -> String {
    format!(
        "[databases]
* = {upstream}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 500
default_pool_size = 40
ignore_startup_parameters = extra_float_digits,options
; Each test has a database of its own: connections to one that is not used any more are soon given back.
server_idle_timeout = 2
; A test may break the server behind us, and expects it back as soon as it is healed.
server_login_retry = 1
"
    )
}
