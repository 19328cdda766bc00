//! Which servers may be called: public ones by https, unless the settings allow more. A URL is checked when it is saved, and the
//! addresses of its name when we connect; we connect only to addresses that were checked, whatever the name resolves to later.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use lineclear_model::Network;
use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Longest URL.
const URL_BYTES_MAX: usize = 2_048;

/// What the author of a job learns about a name without an address that may be called.
const NO_PUBLIC_ADDRESS: &str = "its name does not exist, or leads to an address that is not public and not among those that may be reached; the server's log says which";

/// Why a URL is not called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreachable(String);

impl Unreachable {
    fn because(why: impl Into<String>) -> Unreachable {
        Unreachable(why.into())
    }
}

/// Which servers may be called. Default: port 443 of public addresses, by https.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// Also http, and port 80.
    pub plain: bool,
    /// Other ports.
    pub ports: Vec<u16>,
    /// Networks that are not public.
    pub networks: Vec<Network>,
}

impl Reach {
    /// Checks a URL. The addresses of its name are checked when we connect.
    pub fn check(&self, text: &str) -> Result<Url, Unreachable> {
        if text.len() > URL_BYTES_MAX {
            return Err(Unreachable::because(format!("a URL has at most {URL_BYTES_MAX} bytes")));
        }
        let url = Url::parse(text).map_err(|error| Unreachable::because(format!("it is no URL: {error}")))?;
        match url.scheme() {
            "https" => {}
            "http" if self.plain => {}
            "http" => return Err(Unreachable::because("http is in the clear; only https is called here")),
            other => return Err(Unreachable::because(format!("{other:?} is not called; write https://…"))),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Unreachable::because("a URL must not have a user or a password in it; use a header"));
        }
        let port = url.port_or_known_default().unwrap_or_default();
        if !(port == 443 || (port == 80 && self.plain) || self.ports.contains(&port)) {
            return Err(Unreachable::because(format!("port {port} is not called here")));
        }
        // The parser has normalized addresses, also decimal, octal and hexadecimal ones.
        let host = url.host_str().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| Unreachable::because("it names no server"))?;
        let literal: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
        match literal {
            Some(address) if !self.allows(address) => Err(not_allowed(address)),
            _ => Ok(url),
        }
    }

    /// Whether an address may be reached.
    pub fn allows(&self, address: IpAddr) -> bool {
        let inner = inner(address);
        self.networks.iter().any(|network| network.contains(address))
            || (is_public(address) && inner.is_none_or(is_public))
            || inner.is_some_and(|inner| self.networks.iter().any(|network| network.contains(inner)))
    }
}

fn not_allowed(address: IpAddr) -> Unreachable {
    Unreachable::because(format!("{address} is no public address, and not among those that may be reached"))
}

/// The IPv4 address in an IPv6 address: mapped, NAT64 or 6to4.
fn inner(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(address) = address else { return None };
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] | [0, 0, 0, 0, 0xffff, 0] | [0x64, 0xff9b, 0, 0, 0, 0] => Some(v4(g, h)),
        [0, 0, 0, 0, 0, 0] if g != 0 => Some(v4(g, h)),
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

/// Whether an address is public, according to the registries of special addresses.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18..=19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, ..] = address.segments();
    // All assigned addresses are in 2000::/3; mapped forms are judged by their IPv4 address.
    let handed_out = (0x2000..=0x3fff).contains(&a) || inner(IpAddr::V6(address)).is_some();
    let special = matches!((a, b), (0x2001, ..0x200 | 0xdb8) | (0x3fff, _));
    handed_out && !special
}

/// Resolves names to addresses that may be reached; fails for others.
pub(crate) struct Names(pub(crate) Arc<Reach>);

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0.clone();
        Box::pin(async move {
            let why = match tokio::net::lookup_host((name.as_str(), 0)).await.map(Vec::from_iter) {
                Err(error) => error.to_string(),
                Ok(found) => match found.iter().find(|address| !reach.allows(address.ip())) {
                    None if !found.is_empty() => {
                        let addresses: Addrs = Box::new(found.into_iter());
                        return Ok(addresses);
                    }
                    None => "it has no address".to_owned(),
                    // One forbidden address makes the whole name suspect.
                    Some(address) => not_allowed(address.ip()).to_string(),
                },
            };
            // Outside of the job's span: authors of jobs read its log.
            tracing::warn!(parent: None, name = name.as_str(), why, "an http job did not call a host");
            // The same for all names: otherwise the author of a job could find out which internal names exist.
            Err(Unreachable::because(NO_PUBLIC_ADDRESS).into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside() -> Reach {
        let networks = ["10.1.0.0/16", "127.0.0.0/8", "fd00::/8"].map(|text| text.parse().unwrap());
        Reach { plain: true, ports: vec![8080], networks: networks.into() }
    }

    #[test]
    fn public_servers_are_reached_by_https() {
        for url in [
            "https://example.com",
            "https://example.com:443/a?b=c#d",
            "https://8.8.8.8/",
            "https://[2606:4700:4700::1111]/x",
            "https://[::ffff:8.8.8.8]/",
            "https://[64:ff9b::808:808]/",
            "https://münchen.example/",
            "HTTPS://EXAMPLE.COM/",
        ] {
            assert!(Reach::default().check(url).is_ok(), "{url}: {:?}", Reach::default().check(url));
        }
    }

    #[test]
    fn nothing_else_is() {
        for url in [
            "",
            "example.com",
            "//example.com",
            "https://",
            "http://example.com",
            "ftp://example.com",
            "file:///etc/passwd",
            "gopher://example.com",
            "javascript:alert(1)",
            "data:text/plain,x",
            "unix:/run/docker.sock",
            "https://user@example.com",
            "https://user:pass@example.com",
            "https://:pass@example.com",
            "https://example.com:22",
            "https://example.com:8443",
            "https://example.com:0",
            "https://example.com:99999",
            "https://127.0.0.1",
            "https://127.1",
            "https://127.0.0.1.",
            "https://2130706433",
            "https://0x7f000001",
            "https://0177.0.0.1",
            "https://0x7f.1",
            "https://127.000.000.001",
            "https://0",
            "https://0.0.0.0",
            "https://10.0.0.1",
            "https://172.16.0.1",
            "https://172.31.255.255",
            "https://192.168.1.1",
            "https://100.64.0.1",
            "https://169.254.169.254/latest/meta-data/",
            "https://192.0.0.192",
            "https://192.0.2.1",
            "https://198.18.0.1",
            "https://198.51.100.1",
            "https://203.0.113.1",
            "https://224.0.0.1",
            "https://240.0.0.1",
            "https://255.255.255.255",
            "https://[::]",
            "https://[::1]",
            "https://[::127.0.0.1]",
            "https://[::ffff:127.0.0.1]",
            "https://[::ffff:7f00:1]",
            "https://[::ffff:10.0.0.1]",
            "https://[::ffff:0:127.0.0.1]",
            "https://[64:ff9b::7f00:1]",
            "https://[64:ff9b::a9fe:a9fe]",
            "https://[64:ff9b:1::1]",
            "https://[2002:7f00:1::]",
            "https://[2002:a9fe:a9fe::1]",
            "https://[fe80::1]",
            "https://[fc00::1]",
            "https://[fd12:3456::1]",
            "https://[ff02::1]",
            "https://[2001:db8::1]",
            "https://[2001::1]",
            "https://[fec0::1]",
            "https://１２７.０.０.１",
            "https://①②⑦.⓪.⓪.①",
            "https://127%2e0%2e0%2e1",
        ] {
            assert!(Reach::default().check(url).is_err(), "{url} is called");
        }
        assert!(Reach::default().check(&format!("https://example.com/{}", "x".repeat(3_000))).is_err());
    }

    #[test]
    fn what_the_settings_name_is_reached_and_nothing_beside_it() {
        for url in [
            "http://example.com",
            "http://10.1.2.3:8080/hook",
            "https://127.0.0.1/",
            "https://[fd00::7]/",
            "https://[::ffff:10.1.2.3]/",
        ] {
            assert!(inside().check(url).is_ok(), "{url}");
        }
        for url in ["http://10.2.0.1", "http://10.1.2.3:22", "https://[fc00::7]/", "http://169.254.169.254"] {
            assert!(inside().check(url).is_err(), "{url}");
        }
    }

    #[tokio::test]
    async fn a_missing_name_and_an_internal_one_have_the_same_error() {
        let error = async |name: &str| match Names(Arc::default()).resolve(name.parse().unwrap()).await {
            Ok(_) => panic!("{name} is reached"),
            Err(error) => error.to_string(),
        };
        assert_eq!(error("localhost").await, error("no-such-name.invalid").await);
    }

    #[tokio::test]
    async fn a_name_that_leads_to_this_machine_leads_nowhere() {
        let resolve = |reach: Reach| Names(Arc::new(reach)).resolve("localhost".parse().unwrap());
        let Err(error) = resolve(Reach::default()).await else { panic!("localhost is reached") };
        assert!(error.to_string().contains("not public"), "{error}");
        let both = ["127.0.0.0/8", "::1"].map(|text| text.parse().unwrap());
        assert!(resolve(Reach { networks: both.into(), ..Reach::default() }).await.is_ok());
    }
}
