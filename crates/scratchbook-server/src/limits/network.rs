//! Networks: addresses with a common prefix.

use std::net::IpAddr;
use std::str::FromStr;

use scratchbook::{Error, Result};

/// Addresses with a common prefix, such as `10.0.0.0/8` and `2001:db8::/32`, or one address.
///
/// ```
/// use scratchbook_server::Network;
///
/// # fn main() -> scratchbook::Result<()> {
/// let network: Network = "10.0.0.0/8".parse()?;
/// assert!(network.has("10.1.2.3".parse().unwrap()));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// An IPv6 address; IPv4 addresses are mapped to IPv6.
    first: u128,
    /// How many bits at the end may differ.
    any: u32,
}

impl Network {
    fn new(address: IpAddr, any: u32) -> Self {
        Self { first: cut(bits(address), any), any }
    }

    /// Returns the network of a client: a single IPv4 address, or an IPv6 network of 64 bits, since a single client may
    /// have all addresses of such a network.
    pub(crate) fn of_client(address: IpAddr) -> Self {
        let address = address.to_canonical();
        Self::new(address, if address.is_ipv4() { 0 } else { 64 })
    }

    /// Returns whether an address is in the network.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        cut(bits(address), self.any) == self.first
    }
}

impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || Error::invalid(format!("'{text}' is no address; write 10.0.0.7, 10.0.0.0/8 or 2001:db8::/32"));
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(all), str::parse::<u32>).ok().filter(|length| *length <= all);
        Ok(Self::new(address, all - length.ok_or_else(wrong)?))
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn cut(bits: u128, any: u32) -> u128 {
    bits & u128::MAX.checked_shl(any).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_that_begin_like_it() {
        for (network, has, has_not) in [
            ("10.0.0.0/8", "10.1.2.3", "11.0.0.0"),
            ("10.0.0.7", "10.0.0.7", "10.0.0.8"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"),
            ("2001:db8::/32", "2001:db8:1::1", "2001:db9::1"),
            ("0.0.0.0/0", "255.1.2.3", "2001:db8::1"),
            ("2001:db8::1/128", "2001:db8::1", "2001:db8::2"),
        ] {
            let network: Network = network.parse().unwrap();
            assert!(network.has(has.parse().unwrap()) && !network.has(has_not.parse().unwrap()), "{network:?}");
        }
        assert!("::/0".parse::<Network>().unwrap().has("10.0.0.1".parse().unwrap()));
        for wrong in ["", "10.0.0", "10.0.0.0/33", "10.0.0.0/", "::/129", "10.0.0.0/-1", "proxy.example"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_client_with_one_address_of_ipv6_has_all_of_its_network() {
        let of = |address: &str| Network::of_client(address.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("10.0.0.1"), of("::ffff:10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
