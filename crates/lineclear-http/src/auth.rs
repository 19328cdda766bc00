//! Authentication and authorization: tokens, sessions and proxies say who calls, scopes say what the caller may do.

mod failures;
mod guard;
mod held_shares;
mod keyed_limiter;
mod lockout;
mod principal;
mod proxy_users;
mod quota;
mod rate_limit;
mod required_scopes;
mod revalidate;
mod token_cache;
mod trusted_proxies;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

pub(crate) use guard::{
    COOKIE, ClientAddress, Guard, StreamKind, authorize, bearer, insufficient_scope, require_origin,
    session_cookie,
};
pub(crate) use held_shares::HeldShares;
pub use lineclear_model::Network;
pub(crate) use principal::{Caller, Credential, LocalUser, Principal};
pub use proxy_users::ProxyUsers;
pub(crate) use quota::Share;
pub(crate) use required_scopes::{Operation, RequiredScopes, Requirement};
pub(crate) use revalidate::Revalidation;
pub use trusted_proxies::{PROXY_SECRET_HEADER, ProxySecret, TrustedProxies};

/// How the server authenticates its callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Not at all: every caller may do everything. Only on a loopback address.
    #[default]
    OpenOnLoopback,
    /// By tokens.
    Tokens,
    /// By tokens, and by the headers of a trusted proxy.
    ProxyUsers(ProxyUsers),
}

impl Access {
    /// Checks whether a server on this address may authenticate in this way.
    pub(crate) fn check(&self, bind: SocketAddr, proxies: &TrustedProxies) -> Result<(), String> {
        match self {
            Access::OpenOnLoopback if !bind.ip().is_loopback() => Err(format!(
                "{bind} can be reached from other machines, which would have full access; require tokens (auth = token), \
                 trust a proxy that authenticates its users (auth = proxy), or bind 127.0.0.1"
            )),
            Access::OpenOnLoopback | Access::Tokens => proxies.check(),
            Access::ProxyUsers(users) => users.check(proxies),
        }
    }

    /// The address of an open server, which answers to this machine's names only. `None`: it answers to any name.
    pub(crate) fn open_at(&self, bind: SocketAddr) -> Option<IpAddr> {
        (*self == Access::OpenOnLoopback).then_some(bind.ip())
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
    fn a_proxy_that_names_users_needs_an_address_a_secret_and_valid_headers() {
        let anywhere: SocketAddr = "0.0.0.0:80".parse().unwrap();
        let secret = Some(ProxySecret::new("0123456789abcdef0123456789abcdef").unwrap());
        let check = |networks: &[&str], secret: &Option<ProxySecret>, users: ProxyUsers| {
            let networks = networks.iter().map(|network| network.parse().unwrap()).collect();
            let proxies = TrustedProxies { networks, secret: secret.clone() };
            Access::ProxyUsers(users).check(anywhere, &proxies)
        };
        let users = ProxyUsers::default();
        for networks in [&["10.0.0.1"][..], &["127.0.0.1"], &["10.0.0.0/8", "::1"]] {
            assert_eq!(check(networks, &secret, users.clone()), Ok(()));
            let refused = check(networks, &None, users.clone()).unwrap_err();
            assert!(refused.contains("proxy_secret_file"), "{networks:?}: {refused}");
        }
        assert!(check(&[], &secret, users.clone()).is_err());
        let bad = ProxyUsers { user_header: "x y".to_owned(), ..users.clone() };
        assert!(check(&["10.0.0.1"], &secret, bad).is_err());
        let bad = ProxyUsers { scopes_header: Some(String::new()), ..users };
        assert!(check(&["10.0.0.1"], &secret, bad).is_err());
        assert_eq!(Access::Tokens.check(anywhere, &TrustedProxies::default()), Ok(()));
    }

    #[test]
    fn a_proxy_on_this_machine_needs_a_secret_in_every_mode() {
        let secret = ProxySecret::new("0123456789abcdef0123456789abcdef").unwrap();
        let local: SocketAddr = "127.0.0.1:80".parse().unwrap();
        for access in [Access::Tokens, Access::OpenOnLoopback] {
            for (network, is_local) in
                [("127.0.0.1", true), ("::1", true), ("0.0.0.0/0", true), ("10.0.0.1", false)]
            {
                let networks = vec!["192.0.2.1".parse().unwrap(), network.parse().unwrap()];
                let with = TrustedProxies { networks, secret: Some(secret.clone()) };
                assert_eq!(access.check(local, &with), Ok(()));
                let without = TrustedProxies { secret: None, ..with };
                let refused = access.check(local, &without).err().unwrap_or_default();
                assert_eq!(refused.contains("proxy_secret_file"), is_local, "{network}: {refused}");
            }
        }
    }

    #[test]
    fn an_open_server_listens_on_loopback_addresses_only() {
        let (open, none) = (Access::OpenOnLoopback, TrustedProxies::default());
        for bind in ["127.0.0.1:0", "[::1]:7171"] {
            assert_eq!(open.check(bind.parse().unwrap(), &none), Ok(()));
        }
        for bind in ["0.0.0.0:7171", "[::]:7171", "192.0.2.1:80"] {
            assert!(open.check(bind.parse().unwrap(), &none).unwrap_err().contains(bind));
        }
    }
}
