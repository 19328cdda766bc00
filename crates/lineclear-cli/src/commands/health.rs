//! `lineclear health`: the health of the local server, for probes of containers and service managers.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use crate::config::{Config, Flags, parse_duration};
use crate::failure::Failure;
use crate::output::{print, print_json, sanitize};

const EXAMPLES: &str = "Examples:
  lineclear health
  lineclear health --live --timeout 1s
  lineclear health --port 8080 --json

Exits with 0 if the server is ready, 10 if it is not, 6 if it cannot be reached, 7 if it does not respond in time.
It checks the server on this machine, on the port that `serve` would use here.";

/// Largest response to a probe.
const RESPONSE_MAX: u64 = 4096;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Health {
    /// Check only that the process is alive, not its database
    #[arg(long)]
    live: bool,
    /// How long to wait for the response
    #[arg(long, value_name = "TIME", default_value = "3s")]
    timeout: String,
    /// Address of the server [default: 127.0.0.1]
    #[arg(long, value_name = "IP")]
    bind: Option<String>,
    /// Port of the server [default: 7171]
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// Read this file instead of ./lineclear.toml and the user's own
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct HealthReport {
    healthy: bool,
    /// The server's word, such as `ok`.
    status: String,
    url: String,
}

impl Health {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let flags: Flags = [("bind", self.bind), ("port", self.port)]
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| (name, value)))
            .collect();
        let config = Config::read(&flags, self.config)?;
        let timeout =
            parse_duration(&self.timeout).map_err(|why| Failure::usage(format!("--timeout: {why}")))?;
        let address = reachable(config.address()?);
        let path = if self.live { "/livez" } else { "/readyz" };
        let url = format!("http://{address}{path}");
        let (healthy, status) =
            probe(address, path, timeout).map_err(|error| unreachable(&url, timeout, &error))?;
        let code = if healthy { ExitCode::SUCCESS } else { ExitCode::from(10) };
        if self.json {
            print_json(&HealthReport { healthy, status, url })?;
        } else {
            print(&format!("{}\n", sanitize(&status)))?;
        }
        Ok(code)
    }
}

/// A server that listens on all addresses is reached on the loopback address.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Sends a probe. Returns whether the status is 200, and the first line of the body.
pub(crate) fn probe(address: SocketAddr, path: &str, timeout: Duration) -> std::io::Result<(bool, String)> {
    let until = Instant::now() + timeout;
    // The system refuses a timeout of zero.
    let left = || until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let mut stream = TcpStream::connect_timeout(&address, left())?;
    stream.set_write_timeout(Some(left()))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut response = Vec::new();
    let mut part = [0; 512];
    while (response.len() as u64) < RESPONSE_MAX {
        if Instant::now() >= until {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left()))?;
        match stream.read(&mut part)? {
            0 => break,
            n => response.extend_from_slice(&part[..n]),
        }
    }
    let text = String::from_utf8_lossy(&response);
    let (head, body) = text
        .split_once("\r\n\r\n")
        .filter(|_| text.starts_with("HTTP/1."))
        .ok_or_else(|| std::io::Error::other("the response is not HTTP"))?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    let word = body.lines().next().unwrap_or_default().trim();
    Ok((status == "200", if word.is_empty() { format!("status {status}") } else { word.to_owned() }))
}

fn unreachable(url: &str, timeout: Duration, error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            Failure::coded(7, format!("{url} did not respond within {timeout:?}"))
        }
        _ => Failure::coded(6, format!("cannot reach {url}: {error}"))
            .hint("check that `lineclear serve` is running here; it may use another --port"),
    }
}
