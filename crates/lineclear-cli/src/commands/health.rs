//! `lineclear health`: asks a server how it is, for the probes of containers and service managers.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;

use crate::config::{Config, Flags, span};
use crate::failure::Failure;
use crate::output::{plain, print, print_json};

const EXAMPLES: &str = "Examples:
  lineclear health
  lineclear health --live --within 1s
  lineclear health --port 8080 --json

Ends with 0 if the server is ready, 10 if it says that it is not, 6 if nobody answers, 7 if the answer takes too long.
Asks the server of this machine, on the port that `serve` would take from here.";

/// More than a server ever answers here.
const ANSWER_MAX: u64 = 4096;

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Health {
    /// Asks only whether the process lives, not whether its database answers
    #[arg(long)]
    live: bool,
    /// How long to wait for the answer
    #[arg(long, value_name = "TIME", default_value = "3s")]
    within: String,
    /// The address it listens on [default: 127.0.0.1]
    #[arg(long, value_name = "IP")]
    bind: Option<String>,
    /// The port it listens on [default: 7171]
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// This file, instead of ./lineclear.toml and the user's own
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    healthy: bool,
    /// In the server's word.
    said: String,
    url: String,
}

impl Health {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let flags: Flags = [("bind", self.bind), ("port", self.port)]
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| (name, value)))
            .collect();
        let config = Config::read(&flags, self.config)?;
        let within = span(&self.within).map_err(|why| Failure::usage(format!("--within: {why}")))?;
        let address = reachable(config.address()?);
        let path = if self.live { "/livez" } else { "/readyz" };
        let url = format!("http://{address}{path}");
        let (healthy, said) = ask(address, path, within).map_err(|error| no_answer(&url, within, &error))?;
        let code = if healthy { ExitCode::SUCCESS } else { ExitCode::from(10) };
        if self.json {
            print_json(&Answer { healthy, said, url })?;
        } else {
            print(&format!("{}\n", plain(&said)))?;
        }
        Ok(code)
    }
}

/// Who listens everywhere is asked on this machine's own address.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Whether it answered 200, and its word.
pub(crate) fn ask(address: SocketAddr, path: &str, within: Duration) -> std::io::Result<(bool, String)> {
    let until = Instant::now() + within;
    // Zero is no time for the system, but an error.
    let left = || until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let mut stream = TcpStream::connect_timeout(&address, left())?;
    stream.set_write_timeout(Some(left()))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    let mut part = [0; 512];
    while (answer.len() as u64) < ANSWER_MAX {
        if Instant::now() >= until {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left()))?;
        match stream.read(&mut part)? {
            0 => break,
            n => answer.extend_from_slice(&part[..n]),
        }
    }
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text
        .split_once("\r\n\r\n")
        .filter(|_| text.starts_with("HTTP/1."))
        .ok_or_else(|| std::io::Error::other("what answers there does not speak HTTP"))?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    let said = body.lines().next().unwrap_or_default().trim();
    Ok((status == "200", if said.is_empty() { format!("status {status}") } else { said.to_owned() }))
}

fn no_answer(url: &str, within: Duration, error: &std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            Failure::coded(7, format!("{url} did not answer within {within:?}"))
        }
        _ => Failure::coded(6, format!("{url} cannot be reached: {error}"))
            .hint("is `lineclear serve` running here, on another --port perhaps?"),
    }
}
