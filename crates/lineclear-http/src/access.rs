//! Who may do what: scopes, and the rule that an open server answers to nobody but this machine.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// How the server knows who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// It does not: whoever reaches it may do everything. Only on a loopback address.
    #[default]
    OpenOnLoopback,
}

impl Access {
    /// Whether a server that listens there may know its clients in this way.
    pub(crate) fn check(&self, bind: SocketAddr) -> Result<(), String> {
        match self {
            Access::OpenOnLoopback if !bind.ip().is_loopback() => Err(format!(
                "{bind} can be reached from other machines, and anybody there could do everything; bind 127.0.0.1, and put \
                 a proxy that knows its users in front of it"
            )),
            Access::OpenOnLoopback => Ok(()),
        }
    }
}

/// A page of another site in a browser on this machine can reach a loopback address under a name of its own (DNS
/// rebinding). It cannot choose the name that the browser writes into the request.
pub(crate) async fn check_host(State(access): State<Access>, request: Request, next: Next) -> Response {
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        // A proxy before us may have looked at the other one.
        return Problem::malformed("two_hosts", "the header Host is there twice").into_response();
    }
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let named = request.uri().authority().map(|authority| authority.as_str()).or(host);
    if access == Access::OpenOnLoopback && !named.is_some_and(is_this_machine) {
        let detail = "this server answers to localhost, 127.0.0.1 and [::1] only";
        return Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail).into_response();
    }
    next.run(request).await
}

fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A page of another site must not change anything here through the browser of somebody who may. Browsers say where a
/// request comes from; programs say nothing, and are let in.
pub(crate) async fn check_site(request: Request, next: Next) -> Response {
    if request.method().is_safe() || is_same_site(&request) {
        return next.run(request).await;
    }
    let detail = "changes are not taken from pages of other sites";
    Problem::new(StatusCode::FORBIDDEN, "cross_site", detail).into_response()
}

fn is_same_site(request: &Request) -> bool {
    let text = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap_or_default());
    match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => {
            text("host").is_some_and(|host| origin.split_once("://").is_some_and(|(_, from)| from == host))
        }
        (None, None) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_few_names() {
        for host in
            ["localhost", "LOCALHOST:7171", "127.0.0.1", "127.0.0.1:80", "127.1.2.3:1", "[::1]", "[::1]:7171"]
        {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "",
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org:80",
            "0.0.0.0",
            "[::2]",
            "10.0.0.1",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }

    #[test]
    fn an_open_server_is_for_this_machine_alone() {
        let open = Access::OpenOnLoopback;
        for bind in ["127.0.0.1:0", "[::1]:7171"] {
            assert_eq!(open.check(bind.parse().unwrap()), Ok(()));
        }
        for bind in ["0.0.0.0:7171", "[::]:7171", "192.0.2.1:80"] {
            assert!(open.check(bind.parse().unwrap()).unwrap_err().contains(bind));
        }
    }
}
