//! What only this machine can tell: its settings, its port, its clock.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use jiff::Timestamp;
use lineclear_model::doctor::{Check, CheckName, database};
use serde_json::Value;

use crate::api::{Api, At};
use crate::cmd::health::{ask, reachable};
use crate::cmd::serve;
use crate::config::{Config, Origin};
use crate::failure::Failure;

/// Longest wait for whoever listens on our port.
const WITHIN: Duration = Duration::from_secs(1);

/// Checks of the configuration, and the settings if they can be read.
pub(super) fn checks(at: &At) -> (Vec<Check>, Option<Config>) {
    let config = match at.config() {
        Ok(config) => config,
        Err(failure) => return (vec![refused(&failure)], None),
    };
    if let Err(failure) = serve::check(&config) {
        return (vec![refused(&failure)], Some(config));
    }
    let mut checks = vec![settings(&config)];
    // A server elsewhere has settings of its own.
    if !at.asks_a_server() {
        checks.extend(listener(&config));
    }
    (checks, Some(config))
}

fn refused(failure: &Failure) -> Check {
    let todo = failure
        .hinted()
        .unwrap_or("mend it there; lineclear config show --origin says where each setting comes from");
    Check::failure(CheckName::Settings, failure.message(), todo)
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
        format!("can be read: {files}, {others} from the environment and flags, the rest as they come"),
    )
}

/// Who could reach a server here, and whether its port is free.
fn listener(config: &Config) -> Vec<Check> {
    let address = match config.address() {
        Ok(address) => address,
        Err(failure) => return vec![refused(&failure)],
    };
    let listen = match serve::listens(config) {
        Ok(()) if address.ip().is_loopback() => {
            Check::ok(CheckName::Listen, format!("{address} is reached from this machine only"))
        }
        Ok(()) => {
            let says = format!(
                "{address} is reached from other machines, and asks who they are (auth = {})",
                config.text("auth")
            );
            Check::ok(CheckName::Listen, says)
        }
        Err(failure) => {
            let todo = "set auth = token and make one (lineclear token create), or bind = 127.0.0.1; `serve` does not start like this";
            Check::failure(CheckName::Listen, failure.message(), todo)
        }
    };
    vec![listen, port(address)]
}

fn port(address: SocketAddr) -> Check {
    let name = CheckName::Port;
    if address.port() == 0 {
        return Check::ok(name, "a free one is taken");
    }
    let at = reachable(address);
    if TcpStream::connect_timeout(&at, WITHIN).is_ok() {
        return match ask(at, "/livez", WITHIN) {
            Ok((true, said)) if said == "ok" => Check::ok(name, format!("a server answers on {at}")),
            _ => {
                let says = format!("something else listens on {at}, or a server that does not answer");
                Check::failure(
                    name,
                    says,
                    format!("who is it? ss -ltnp 'sport = :{}'; or take another --port", at.port()),
                )
            }
        };
    }
    match TcpListener::bind(address) {
        Ok(_) => Check::ok(name, format!("{} is free: no server runs here", address.port())),
        Err(error) => {
            let todo = "choose another --port or --bind; ports below 1024 need leave (CAP_NET_BIND_SERVICE)";
            Check::failure(name, format!("cannot listen on {address}: {error}"), todo)
        }
    }
}

/// Our clock against the database's, as a server tells it.
pub(super) async fn clock(api: &Api) -> Check {
    let before = Timestamp::now();
    let asked = api.get("/stats/now").await;
    let after = Timestamp::now();
    let at = asked
        .as_ref()
        .ok()
        .and_then(|now| now.get("at"))
        .and_then(Value::as_str)
        .and_then(|at| at.parse::<Timestamp>().ok());
    let Some(at) = at else {
        let why = asked.err().map_or("it does not say".to_owned(), |failure| failure.message().to_owned());
        return Check::skipped(CheckName::ClockHere, format!("the server does not tell the time: {why}"));
    };
    let off_by = (after.as_microsecond() - before.as_microsecond()).max(0) / 2;
    let ahead = at.as_microsecond().saturating_sub(before.as_microsecond() + off_by);
    database::clock(CheckName::ClockHere, "this machine", ahead, off_by, None)
}
