//! IP addresses, blocks of them, and hardware addresses, as Go's package `net` reads them.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Reads an IP address as `net.ParseIP` does: IPv4 without leading zeros, IPv6 without a zone. One
/// of IPv4 in the form of IPv6 is one of IPv4.
pub(crate) fn ip(text: &str) -> Option<IpAddr> {
    text.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

/// Reads an IP address as `ParseIPSloppy` of `k8s.io/utils/net` does, which takes leading zeros in
/// IPv4.
pub(crate) fn ip_with_zeros(text: &str) -> Option<IpAddr> {
    ip(text).or_else(|| ip(&without_zeros(text)))
}

fn without_zeros(text: &str) -> String {
    let parts: Vec<_> = text
        .split('.')
        .map(|part| match part.trim_start_matches('0') {
            "" if !part.is_empty() => "0",
            rest => rest,
        })
        .collect();
    parts.join(".")
}

/// A block of addresses, with the address that it is written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The address before the slash, which need not be that of the network.
    pub(crate) address: IpAddr,
    /// The length of the prefix, at most the number of bits of an address.
    pub(crate) prefix: u32,
}

impl Block {
    /// Reads a block as `net.ParseCIDR` does.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        // No canonical form here: the prefix of an address of IPv6 counts 128 bits.
        let address: IpAddr = address.parse().ok()?;
        let is_number = !prefix.is_empty() && prefix.bytes().all(|b| b.is_ascii_digit());
        let prefix = is_number.then(|| prefix.parse().ok()).flatten()?;
        let block = Self { address, prefix };
        (prefix <= block.bits()).then_some(block)
    }

    /// Reads a block as `ParseCIDRSloppy` of `k8s.io/utils/net` does, which takes leading zeros in
    /// IPv4.
    pub(crate) fn parse_with_zeros(text: &str) -> Option<Self> {
        Self::parse(text).or_else(|| {
            let (address, prefix) = text.split_once('/')?;
            Self::parse(&format!("{}/{prefix}", without_zeros(address)))
        })
    }

    /// The block of one address.
    pub(crate) fn of_one(address: IpAddr) -> Self {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Self {
            address,
            prefix: bits,
        }
    }

    /// The number of bits of an address.
    pub(crate) fn bits(&self) -> u32 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// All its addresses, with the first and the last one, which IPv4 reserves.
    pub(crate) fn span(&self) -> Span {
        let hosts = self.bits() - self.prefix;
        let mask = u128::MAX.checked_shr(128 - hosts).unwrap_or_default();
        let number = number(self.address);
        Span {
            is_ipv4: self.address.is_ipv4(),
            first: number & !mask,
            last: number | mask,
        }
    }

    /// The same block, written with the address of its network.
    pub(crate) fn network(&self) -> Self {
        let span = self.span();
        Self {
            address: span.address(span.first),
            ..*self
        }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Addresses of one family that follow one another: at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    is_ipv4: bool,
    first: u128,
    last: u128,
}

impl Span {
    /// The addresses from one to another. `None` if they are of two families, or in the wrong
    /// order.
    pub(crate) fn between(first: IpAddr, last: IpAddr) -> Option<Self> {
        let span = Self {
            is_ipv4: first.is_ipv4(),
            first: number(first),
            last: number(last),
        };
        (first.is_ipv4() == last.is_ipv4() && span.first <= span.last).then_some(span)
    }

    /// The first address.
    pub(crate) fn first(&self) -> IpAddr {
        self.address(self.first)
    }

    /// The last address.
    pub(crate) fn last(&self) -> IpAddr {
        self.address(self.last)
    }

    /// The same without its first and its last address. `None` if none is left.
    pub(crate) fn inner(&self) -> Option<Self> {
        let inner = Self {
            first: self.first.checked_add(1)?,
            last: self.last.checked_sub(1)?,
            ..*self
        };
        (inner.first <= inner.last).then_some(inner)
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.is_ipv4 && (self.first..=self.last).contains(&number(address))
    }

    /// The addresses that are in both.
    pub(crate) fn common(&self, other: &Self) -> Option<Self> {
        let common = Self {
            first: self.first.max(other.first),
            last: self.last.min(other.last),
            ..*self
        };
        (self.is_ipv4 == other.is_ipv4 && common.first <= common.last).then_some(common)
    }

    /// Returns true if each address is in one of these spans.
    pub(crate) fn is_covered(&self, by: &[Self]) -> bool {
        let mut next = self.first;
        loop {
            let holds = |span: &&Self| {
                span.is_ipv4 == self.is_ipv4 && (span.first..=span.last).contains(&next)
            };
            let Some(end) = by.iter().filter(holds).map(|span| span.last).max() else {
                return false;
            };
            match end.checked_add(1) {
                Some(after) if end < self.last => next = after,
                _ => return true,
            }
        }
    }

    fn address(&self, number: u128) -> IpAddr {
        match u32::try_from(number) {
            Ok(number) if self.is_ipv4 => Ipv4Addr::from(number).into(),
            _ => Ipv6Addr::from(number).into(),
        }
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// Returns true if `net.ParseMAC` of Go reads the text: 6, 8 or 20 bytes as pairs of digits between
/// colons or hyphens, or as groups of four between dots.
pub(crate) fn is_hardware_address(text: &str) -> bool {
    let in_groups = |sign: char, digits: usize| {
        let groups: Vec<_> = text.split(sign).collect();
        let bytes = groups.len() * digits / 2;
        let is_group =
            |group: &&str| group.len() == digits && group.bytes().all(|b| b.is_ascii_hexdigit());
        [6, 8, 20].contains(&bytes) && groups.iter().all(is_group)
    };
    in_groups(':', 2) || in_groups('-', 2) || in_groups('.', 4)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn span(text: &str) -> Span {
        Block::parse(text).unwrap().span()
    }

    #[test]
    fn an_address_is_read_as_go_reads_it() {
        for text in ["192.0.2.1", "::", "2001:DB8::1", "::ffff:192.0.2.1"] {
            assert!(ip(text).is_some(), "{text}");
        }
        for text in [
            "",
            "192.0.2",
            "192.0.2.01",
            "fe80::1%eth0",
            " ::1",
            "192.0.2.1/24",
            "a",
        ] {
            assert_eq!(ip(text), None, "{text}");
        }
        assert_eq!(ip("::ffff:192.0.2.1"), ip("192.0.2.1"));
        assert_eq!(ip_with_zeros("192.000.002.010"), ip("192.0.2.10"));
        assert_eq!(ip_with_zeros("192.0..1"), None);
    }

    #[test]
    fn a_block_is_read_as_go_reads_it() {
        for (text, network, first, last) in [
            ("192.0.2.77/24", "192.0.2.0/24", "192.0.2.0", "192.0.2.255"),
            (
                "192.0.2.77/032",
                "192.0.2.77/32",
                "192.0.2.77",
                "192.0.2.77",
            ),
            ("0.0.0.0/0", "0.0.0.0/0", "0.0.0.0", "255.255.255.255"),
            (
                "2001:db8::7/125",
                "2001:db8::/125",
                "2001:db8::",
                "2001:db8::7",
            ),
            (
                "::/0",
                "::/0",
                "::",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            ),
        ] {
            let block = Block::parse(text).unwrap();
            assert_eq!(block.network().to_string(), network);
            let ends = [block.span().first(), block.span().last()];
            assert_eq!(ends.map(|end| end.to_string()), [first, last], "{text}");
        }
        for text in [
            "",
            "192.0.2.1",
            "192.0.2.1/",
            "192.0.2.1/33",
            "::1/129",
            "192.0.2.1/+4",
            "192.0.2.01/24",
            "x/24",
        ] {
            assert_eq!(Block::parse(text), None, "{text}");
        }
        assert_eq!(
            Block::parse_with_zeros("192.0.02.01/24"),
            Block::parse("192.0.2.1/24")
        );
    }

    #[test]
    fn spans_are_compared_by_their_addresses() {
        let block = span("192.0.2.0/24");
        assert_eq!(
            block.common(&span("192.0.2.128/25")),
            Some(span("192.0.2.128/25"))
        );
        assert_eq!(block.common(&span("192.0.3.0/24")), None);
        assert_eq!(span("::/0").common(&span("0.0.0.0/0")), None);
        assert_eq!(span("192.0.2.0/31").inner(), None);
        assert_eq!(
            span("192.0.2.0/30").inner().unwrap().first(),
            ip("192.0.2.1").unwrap()
        );
        assert!(block.is_covered(&[span("192.0.2.128/25"), span("192.0.2.0/25")]));
        assert!(!block.is_covered(&[span("192.0.2.0/25"), span("192.0.2.129/32")]));
        assert!(span("0.0.0.0/0").is_covered(&[span("0.0.0.0/0")]));
        assert!(span("::/0").is_covered(&[span("::/0")]));
        assert_eq!(Span::between(ip("::2").unwrap(), ip("::1").unwrap()), None);
    }

    #[test]
    fn a_hardware_address_has_six_eight_or_twenty_bytes() {
        let long = ["00"; 20].join("-");
        for text in [
            "02:00:00:00:00:0A",
            "02-00-00-00-00-0a",
            "0200.0000.000a",
            "02:00:00:00:00:00:00:01",
            &long,
        ] {
            assert!(is_hardware_address(text), "{text}");
        }
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:0g",
            "2:0:0:0:0:a",
            "020000.00000a",
            "02:00-00:00:00:00",
        ] {
            assert!(!is_hardware_address(text), "{text}");
        }
    }
}
