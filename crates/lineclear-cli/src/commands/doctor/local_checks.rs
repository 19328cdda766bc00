//! Checks of this machine: its settings, its port, its clock.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use jiff::Timestamp;
use lineclear_model::doctor::{Check, CheckName, database};
use serde_json::Value;

use crate::api_client::{ApiClient, ApiTarget};
use crate::commands::health::{probe, reachable};
use crate::commands::serve;
use crate::config::{Config, Origin};
use crate::failure::Failure;

/// Longest wait for a response on the configured port.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Checks of the configuration, and the settings if they are valid.
pub(super) fn checks(target: &ApiTarget) -> (Vec<Check>, Option<Config>) {
    let config = match target.config() {
        Ok(config) => config,
        Err(failure) => return (vec![refused(&failure)], None),
    };
    if let Err(failure) = serve::check(&config) {
        return (vec![refused(&failure)], Some(config));
    }
    let mut checks = vec![settings(&config)];
    // A remote server has its own settings.
    if !target.is_server() {
        checks.extend(listener(&config));
    }
    (checks, Some(config))
}

fn refused(failure: &Failure) -> Check {
    let remedy = failure
        .hint_text()
        .unwrap_or("correct the setting; lineclear config show --origin says where each one comes from");
    Check::failure(CheckName::Settings, failure.message(), remedy)
}

fn settings(config: &Config) -> Check {
    let mut files: Vec<String> = Vec::new();
    let mut others = 0;
    for (_, value) in config.values() {
        match &value.origin {
            Origin::File(path) if !files.contains(&path.display().to_string()) => {
                files.push(path.display().to_string())
            }
            Origin::Environment(_) | Origin::Flag => others += 1,
            Origin::File(_) | Origin::Default => {}
        }
    }
    let files = if files.is_empty() { "no file".to_owned() } else { files.join(" and ") };
    Check::ok(
        CheckName::Settings,
        format!("valid: {files}, {others} from the environment and flags, the others have their defaults"),
    )
}

/// Who could reach a server here, and whether its port is free.
fn listener(config: &Config) -> Vec<Check> {
    let address = match config.address() {
        Ok(address) => address,
        Err(failure) => return vec![refused(&failure)],
    };
    let listen = match serve::check_listener(config) {
        Ok(()) if address.ip().is_loopback() => {
            Check::ok(CheckName::Listen, format!("{address} is reachable from this machine only"))
        }
        Ok(()) => {
            let message = format!(
                "{address} is reachable from other machines and requires authentication (auth = {})",
                config.text("auth")
            );
            Check::ok(CheckName::Listen, message)
        }
        Err(failure) => {
            let remedy = failure.hint_text().unwrap_or(
                "set auth = token and create one (lineclear token create), or bind = 127.0.0.1; `serve` refuses to start with these settings",
            );
            Check::failure(CheckName::Listen, failure.message(), remedy)
        }
    };
    vec![listen, port(address)]
}

fn port(address: SocketAddr) -> Check {
    let name = CheckName::Port;
    if address.port() == 0 {
        return Check::ok(name, "0: the server picks a free port");
    }
    let at = reachable(address);
    if TcpStream::connect_timeout(&at, PROBE_TIMEOUT).is_ok() {
        return match probe(at, "/livez", PROBE_TIMEOUT) {
            Ok((true, status)) if status == "ok" => Check::ok(name, format!("a server responds on {at}")),
            _ => {
                let message = format!("another program listens on {at}, or a server that does not respond");
                Check::failure(
                    name,
                    message,
                    format!("find it with ss -ltnp 'sport = :{}', or choose another --port", at.port()),
                )
            }
        };
    }
    match TcpListener::bind(address) {
        Ok(_) => Check::ok(name, format!("{} is free: no server runs here", address.port())),
        Err(error) => {
            let remedy = "choose another --port or --bind; ports below 1024 need CAP_NET_BIND_SERVICE";
            Check::failure(name, format!("cannot listen on {address}: {error}"), remedy)
        }
    }
}

/// Compares this machine's clock with the database's, as the server reports it.
pub(super) async fn clock(api: &ApiClient) -> Check {
    let before = Timestamp::now();
    let response = api.get("/stats/now").await;
    let after = Timestamp::now();
    let at = response
        .as_ref()
        .ok()
        .and_then(|now| now.get("at"))
        .and_then(Value::as_str)
        .and_then(|at| at.parse::<Timestamp>().ok());
    let Some(at) = at else {
        let why = response
            .err()
            .map_or("no time in the response".to_owned(), |failure| failure.message().to_owned());
        return Check::skipped(CheckName::ClockHere, format!("the server does not report the time: {why}"));
    };
    let off_by = (after.as_microsecond() - before.as_microsecond()).max(0) / 2;
    let ahead = at.as_microsecond().saturating_sub(before.as_microsecond() + off_by);
    database::clock(CheckName::ClockHere, "this machine", ahead, off_by, None)
}
