//! Who may do what: tokens, proxies and scopes, and the rule that an open server answers to nobody but this machine.

mod failures;
mod guard;
mod needs;
mod rates;
mod still;
mod tokens;
mod who;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use lineclear_model::{Scope, Scopes};

use crate::problem::Problem;
pub(crate) use failures::as_one;
pub(crate) use guard::{COOKIE, ClientAddress, Gate, cookie_of, guard, lacks};
pub use lineclear_model::Network;
pub(crate) use needs::{Need, Needs, Operation};
pub(crate) use still::Still;
pub(crate) use who::{Person, Principal, Shown, Who};

/// How the server knows who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// It does not: whoever reaches it may do everything. Only on a loopback address.
    #[default]
    OpenOnLoopback,
    /// By tokens: whoever has none gets nothing.
    Tokens,
    /// By tokens, and by what a proxy in front of it says.
    TrustedProxy(TrustedProxy),
}

/// A proxy that knows its users. What it says is believed only if it is at the other end of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedProxy {
    /// Where it is.
    pub peers: Vec<Network>,
    /// The header that names the user.
    pub user_header: String,
    /// The header with what the user may do: `lineclear-read`, `lineclear-operate`, `lineclear-admin`, among other words.
    pub scopes_header: Option<String>,
    /// What every user may do, if there is no such header.
    pub scopes: Scopes,
}

impl TrustedProxy {
    /// At these places; users are named by `X-Forwarded-User`, and may look at everything.
    pub fn new(peers: Vec<Network>) -> TrustedProxy {
        let scopes = [Scope::Read].into_iter().collect();
        TrustedProxy { peers, user_header: "X-Forwarded-User".to_owned(), scopes_header: None, scopes }
    }

    fn check(&self) -> Result<(), String> {
        if self.peers.is_empty() {
            return Err("a trusted proxy needs an address, or nobody would be let in".to_owned());
        }
        for name in [Some(&self.user_header), self.scopes_header.as_ref()].into_iter().flatten() {
            name.parse::<HeaderName>().map_err(|_| format!("{name:?} is no name of a header"))?;
        }
        Ok(())
    }
}

impl Access {
    /// Whether a server that listens there may know its clients in this way.
    pub(crate) fn check(&self, bind: SocketAddr) -> Result<(), String> {
        match self {
            Access::OpenOnLoopback if !bind.ip().is_loopback() => Err(format!(
                "{bind} can be reached from other machines, and anybody there could do everything; ask for tokens (auth = token), \
                 trust a proxy that knows its users (auth = proxy), or bind 127.0.0.1"
            )),
            Access::OpenOnLoopback | Access::Tokens => Ok(()),
            Access::TrustedProxy(proxy) => proxy.check(),
        }
    }

    /// The address under which alone it answers, beside the usual names of this machine. `None`: under any name.
    pub(crate) fn only_at(&self, bind: SocketAddr) -> Option<IpAddr> {
        (*self == Access::OpenOnLoopback).then_some(bind.ip())
    }

    /// Where proxies are that are trusted.
    pub(crate) fn proxies(&self) -> Vec<Network> {
        match self {
            Access::TrustedProxy(proxy) => proxy.peers.clone(),
            Access::OpenOnLoopback | Access::Tokens => Vec::new(),
        }
    }
}

/// A page of another site in a browser on this machine can reach a loopback address under a name of its own (DNS
/// rebinding). It cannot choose the name that the browser writes into the request.
pub(crate) async fn check_host(State(open): State<Option<IpAddr>>, request: Request, next: Next) -> Response {
    if request.headers().get_all(header::HOST).iter().count() > 1 {
        // A proxy before us may have looked at the other one.
        return Problem::malformed("two_hosts", "the header Host is there twice").into_response();
    }
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let named = request.uri().authority().map(|authority| authority.as_str()).or(host);
    if open.is_some_and(|own| !named.is_some_and(|named| is_this_machine(named, own))) {
        let detail = "this server answers to localhost, 127.0.0.1 and [::1] only";
        return Problem::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", detail).into_response();
    }
    next.run(request).await
}

/// `own`: where the server listens, which may be another address of this machine than the usual one.
fn is_this_machine(host: &str, own: IpAddr) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let usual = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|ip| ip == own || usual.contains(&ip))
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
            "10.0.0.1",
        ] {
            assert!(!is_this_machine(host, own), "{host}");
        }
    }

    #[test]
    fn a_proxy_needs_a_place_and_headers_that_can_be() {
        let anywhere: SocketAddr = "0.0.0.0:80".parse().unwrap();
        let there = TrustedProxy::new(vec!["10.0.0.1".parse().unwrap()]);
        let check = |proxy: TrustedProxy| Access::TrustedProxy(proxy).check(anywhere);
        assert_eq!(check(there.clone()), Ok(()));
        assert!(check(TrustedProxy { peers: Vec::new(), ..there.clone() }).is_err());
        assert!(check(TrustedProxy { user_header: "x y".to_owned(), ..there.clone() }).is_err());
        assert!(check(TrustedProxy { scopes_header: Some(String::new()), ..there }).is_err());
        assert_eq!(Access::Tokens.check(anywhere), Ok(()));
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
