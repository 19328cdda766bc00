//! Authentication and authorization: tokens, sessions and proxies say who calls, scopes say what the caller may do.

mod guard;
mod keyed_limiter;
mod lockout;
mod principal;
mod rate_limit;
mod required_scopes;
mod revalidate;
mod token_cache;
mod trusted_proxy;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

pub(crate) use guard::{COOKIE, ClientAddress, Guard, authorize, insufficient_scope, session_cookie};
pub use lineclear_model::Network;
pub(crate) use principal::{Caller, Credential, LocalUser, Principal};
pub(crate) use required_scopes::{Operation, RequiredScopes, Requirement};
pub(crate) use revalidate::Revalidation;
pub use trusted_proxy::TrustedProxy;

/// How the server authenticates its callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Not at all: every caller may do everything. Only on a loopback address.
    #[default]
    OpenOnLoopback,
    /// By tokens.
    Tokens,
    /// By tokens, and by the headers of a trusted proxy.
    TrustedProxy(TrustedProxy),
}

impl Access {
    /// Checks whether a server on this address may authenticate in this way.
    pub(crate) fn check(&self, bind: SocketAddr) -> Result<(), String> {
        match self {
            Access::OpenOnLoopback if !bind.ip().is_loopback() => Err(format!(
                "{bind} can be reached from other machines, which would have full access; require tokens (auth = token), \
                 trust a proxy that authenticates its users (auth = proxy), or bind 127.0.0.1"
            )),
            Access::OpenOnLoopback | Access::Tokens => Ok(()),
            Access::TrustedProxy(proxy) => proxy.check(),
        }
    }

    /// The address of an open server, which answers to this machine's names only. `None`: it answers to any name.
    pub(crate) fn open_at(&self, bind: SocketAddr) -> Option<IpAddr> {
        (*self == Access::OpenOnLoopback).then_some(bind.ip())
    }

    /// The addresses of trusted proxies.
    pub(crate) fn proxies(&self) -> Vec<Network> {
        match self {
            Access::TrustedProxy(proxy) => proxy.peers.clone(),
            Access::OpenOnLoopback | Access::Tokens => Vec::new(),
        }
    }
}

/// The key under which limits count an address. One machine may use a whole /64 of IPv6 addresses, so they count as one.
pub(crate) fn address_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_needs_peers_and_valid_headers() {
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
    fn an_open_server_listens_on_loopback_addresses_only() {
        let open = Access::OpenOnLoopback;
        for bind in ["127.0.0.1:0", "[::1]:7171"] {
            assert_eq!(open.check(bind.parse().unwrap()), Ok(()));
        }
        for bind in ["0.0.0.0:7171", "[::]:7171", "192.0.2.1:80"] {
            assert!(open.check(bind.parse().unwrap()).unwrap_err().contains(bind));
        }
    }
}
