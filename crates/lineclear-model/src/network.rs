//! Networks: one address, or all with a common prefix.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network: `10.0.0.0/8`, `fd00::/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Whether an address is in it. An IPv4 address that is written as IPv6 is the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                ours.to_bits() & mask == other.to_bits() & mask
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                ours.to_bits() & mask == other.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl Network {
    /// Whether it has addresses of the loopback interface, which every local process can use.
    pub fn has_loopback(&self) -> bool {
        let loopback = match self.address {
            IpAddr::V4(_) => Network { address: Ipv4Addr::LOCALHOST.into(), bits: 8 },
            IpAddr::V6(_) => Network { address: Ipv6Addr::LOCALHOST.into(), bits: 128 },
        };
        self.contains(loopback.address) || loopback.contains(self.address)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let bad = || format!("{text:?} is not a network; write it like 10.0.0.0/8, or as one address");
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| bad())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return Err(bad());
        }
        Ok(Network { address, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_its_networks_and_in_no_other() {
        for (network, address, is_in) in [
            ("10.0.0.0/8", "10.200.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::1", "::1", true),
        ] {
            let found = network.parse::<Network>().unwrap().contains(address.parse().unwrap());
            assert_eq!(found, is_in, "{address} in {network}");
        }
    }

    #[test]
    fn a_network_with_loopback_addresses_is_known() {
        for yes in ["127.0.0.1", "127.0.0.0/8", "127.7.0.0/16", "0.0.0.0/0", "::1", "::/0", "::/64"] {
            assert!(yes.parse::<Network>().unwrap().has_loopback(), "{yes}");
        }
        for no in ["10.0.0.0/8", "126.0.0.0/8", "128.0.0.0/1", "::2", "fd00::/8"] {
            assert!(!no.parse::<Network>().unwrap().has_loopback(), "{no}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "proxy", "10.0.0.1/", "/8", "10.0.0.0/-1"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
