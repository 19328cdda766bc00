//! The `Host` header of an open server: protection against DNS rebinding.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// A page of another site can reach a loopback address under its own host name (DNS rebinding), but it cannot choose the `Host`
/// header that the browser sends. `open_at` is the address of an open server, which answers to this machine's names only.
pub(crate) async fn check_host(
    State(open_at): State<Option<IpAddr>>,
    request: Request,
    next: Next,
) -> Response {
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        // A proxy in front may have read the other one.
        return Problem::malformed("two_hosts", "the request has more than one Host header").into_response();
    }
    let host = request.headers().get(header::HOST).map(|host| host.to_str().unwrap_or_default());
    // A request line may contain a host, too. Which one a proxy or a browser means is not ours to guess: both must be this machine.
    let names = [host, request.uri().authority().map(|authority| authority.as_str())];
    let is_ours = |own| {
        names.iter().any(Option::is_some) && names.iter().flatten().all(|host| is_this_machine(host, own))
    };
    if open_at.is_some_and(|own| !is_ours(own)) {
        let detail = "this server answers to localhost, 127.0.0.1 and [::1] only";
        return Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail).into_response();
    }
    next.run(request).await
}

/// `own`: the address that the server listens on, which may be another loopback address than the usual one.
fn is_this_machine(host: &str, own: IpAddr) -> bool {
    let (name, port) = match host.find(']') {
        Some(end) => host.split_at(end + 1),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| {
            !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok()
        });
    if !is_port {
        return false;
    }
    let usual = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    let address = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse().map(IpAddr::V6).ok(),
        None => name.parse().map(IpAddr::V4).ok(),
    };
    name.eq_ignore_ascii_case("localhost") || address.is_some_and(|ip| ip == own || usual.contains(&ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_few_names() {
        let own = "127.0.0.7".parse().unwrap();
        for host in
            ["localhost", "LOCALHOST:7171", "127.0.0.1", "127.0.0.1:80", "127.0.0.7:1", "[::1]", "[::1]:7171"]
        {
            assert!(is_this_machine(host, own), "{host}");
        }
        for host in [
            "",
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org:80",
            "0.0.0.0",
            "127.9.9.9",
            "[::2]",
            "[::1].evil.example",
            "[::1]evil.example:80",
            "[::1]:",
            "[::1",
            "[localhost]",
            "[127.0.0.1]",
            "::1",
            "localhost:",
            "localhost:+80",
            "localhost:65536",
            "localhost:80:80",
            "user@localhost",
            "localhost@evil.example",
            "10.0.0.1",
        ] {
            assert!(!is_this_machine(host, own), "{host}");
        }
    }
}
