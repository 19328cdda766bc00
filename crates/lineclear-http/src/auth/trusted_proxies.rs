//! Proxies in front of the server. The server believes what they forward: the address of the client and, with `auth = proxy`, the user.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use lineclear_model::Network;

/// The header in which a proxy sends the shared secret.
pub const PROXY_SECRET_HEADER: &str = "x-lineclear-proxy-secret";
/// Shortest secret, in bytes.
const SECRET_BYTES_MIN: usize = 32;
const FORWARDED_FOR: &str = "x-forwarded-for";

/// A secret that the proxy adds to each request. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxySecret(String);

impl ProxySecret {
    /// Checks a secret: at least 32 printable ASCII characters without blanks.
    pub fn new(text: &str) -> Result<ProxySecret, String> {
        if text.len() < SECRET_BYTES_MIN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "must have at least {SECRET_BYTES_MIN} printable ASCII characters and no blanks; make one with: openssl rand -hex 32"
            ));
        }
        Ok(ProxySecret(text.to_owned()))
    }

    /// Whether a request has it. Compares in constant time.
    fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut all = headers.get_all(PROXY_SECRET_HEADER).iter();
        let (Some(sent), None) = (all.next(), all.next()) else { return false };
        let (sent, own) = (sent.as_bytes(), self.0.as_bytes());
        let differing = |(one, other): (&u8, &u8)| std::hint::black_box(one ^ other);
        let difference = sent.iter().zip(own).map(differing).fold(0, |all, bits| all | bits);
        sent.len() == own.len() && difference == 0
    }
}

impl fmt::Debug for ProxySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProxySecret(…)")
    }
}

/// The proxies in front of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies {
    /// Their addresses. Headers from other addresses are ignored.
    pub networks: Vec<Network>,
    /// A secret that each of their requests must have. `auth = proxy` requires one, and so does a proxy on this machine.
    pub secret: Option<ProxySecret>,
}

impl TrustedProxies {
    /// Every local process can connect from a loopback address. Without a secret, it could name any address as the client's: to
    /// guess tokens without being locked out, to lock out others, and to write a false address into the log.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.secret.is_none() && self.networks.iter().any(Network::has_loopback) {
            return Err("trusted_proxies has an address of this machine, from which every local process can forge X-Forwarded-For; set \
                        proxy_secret_file or LINECLEAR_PROXY_SECRET, and let the proxy send it as X-Lineclear-Proxy-Secret"
                .to_owned());
        }
        Ok(())
    }

    /// Whether an address belongs to a proxy. Many clients share it.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.networks.iter().any(|network| network.contains(address))
    }

    /// Whether a request comes from a proxy: by its address, and by the secret if there is one.
    pub(super) fn sent(&self, peer: IpAddr, headers: &HeaderMap) -> bool {
        self.contains(peer) && self.secret.as_ref().is_none_or(|secret| secret.is_in(headers))
    }

    /// The address of the client: the peer, or the last address in `X-Forwarded-For` that is not a proxy of ours. What stands left of
    /// it was written by the client.
    pub(super) fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        if !self.sent(peer, headers) {
            return peer;
        }
        let mut client = peer;
        for line in headers.get_all(FORWARDED_FOR).iter().rev() {
            for hop in line.to_str().unwrap_or_default().rsplit(',') {
                let Some(hop) = address_of(hop.trim()) else { return client };
                client = hop;
                if !self.contains(hop) {
                    return client;
                }
            }
        }
        client
    }
}

/// An address, which some proxies write with its port.
fn address_of(text: &str) -> Option<IpAddr> {
    let plain = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    plain.parse().ok().or_else(with_port).map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    fn proxies(secret: Option<&str>) -> TrustedProxies {
        let networks = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap()).to_vec();
        TrustedProxies { networks, secret: secret.map(|text| ProxySecret::new(text).unwrap()) }
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn the_client_is_the_last_address_that_is_no_proxy() {
        let address = |peer: &str, lines: &[&str]| {
            let lines: Vec<_> = lines.iter().map(|line| (FORWARDED_FOR, *line)).collect();
            proxies(None).client_address(peer.parse().unwrap(), &headers(&lines)).to_string()
        };
        for (peer, lines, client) in [
            ("10.0.0.1", &["192.0.2.7"][..], "192.0.2.7"),
            ("10.0.0.1", &["1.1.1.1, 192.0.2.7"], "192.0.2.7"),
            ("10.0.0.1", &["1.1.1.1", "192.0.2.7"], "192.0.2.7"),
            ("10.0.0.1", &["1.1.1.1, 192.0.2.7, 10.2.3.4", "10.9.9.9"], "192.0.2.7"),
            ("10.0.0.1", &["192.0.2.7:4711"], "192.0.2.7"),
            ("10.0.0.1", &["[2001:db8::7]:4711"], "2001:db8::7"),
            ("10.0.0.1", &["[2001:db8::7]"], "2001:db8::7"),
            ("10.0.0.1", &["::ffff:192.0.2.7"], "192.0.2.7"),
            ("fd00::1", &["2001:db8::7"], "2001:db8::7"),
            ("10.0.0.1", &["10.0.0.7"], "10.0.0.7"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["192.0.2.7, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["192.0.2.7, , 10.0.0.2"], "10.0.0.2"),
            ("192.0.2.1", &["192.0.2.7"], "192.0.2.1"),
        ] {
            assert_eq!(address(peer, lines), client, "{peer} {lines:?}");
        }
    }

    #[test]
    fn without_the_secret_nothing_is_believed() {
        let (proxies, peer) = (proxies(Some(SECRET)), "10.0.0.1".parse().unwrap());
        let forwarded = (FORWARDED_FOR, "192.0.2.7");
        let client = |more: &[(&'static str, &str)]| {
            proxies.client_address(peer, &headers(&[&[forwarded], more].concat()))
        };
        let near = SECRET.replace('f', "e");
        assert_eq!(client(&[(PROXY_SECRET_HEADER, SECRET)]).to_string(), "192.0.2.7");
        for wrong in ["", "x", &SECRET[1..], &near, &format!("{SECRET}0")] {
            assert_eq!(client(&[(PROXY_SECRET_HEADER, wrong)]), peer, "{wrong}");
        }
        assert_eq!(client(&[]), peer);
        let twice = (PROXY_SECRET_HEADER, SECRET);
        assert_eq!(client(&[twice, twice]), peer, "which one did the proxy send?");
    }

    #[test]
    fn a_secret_is_long_and_is_not_shown() {
        for bad in ["", "short", &SECRET[1..], &format!("{SECRET} "), "\u{e9}".repeat(32).as_str()] {
            assert!(ProxySecret::new(bad).is_err(), "{bad}");
        }
        assert!(!format!("{:?}", proxies(Some(SECRET))).contains(SECRET));
    }
}
