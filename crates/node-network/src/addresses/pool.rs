//! A pool of addresses, `spec.addressPools.NAME` of a policy.

use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;
use weft_api::node_network::AddressPool;

/// A range of addresses of one family, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    is_ipv4: bool,
    first: u128,
    last: u128,
}

/// The addresses that nodes may get.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pool {
    range: Range,
    exclude: Vec<Range>,
    /// The length of the prefix that an address is configured with.
    pub(crate) prefix_length: u8,
    /// The range, for people.
    text: String,
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the range {}", self.text)
    }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    }
}

impl Range {
    /// Reads `FIRST-LAST`, a CIDR or one address.
    fn parse(text: &str) -> Result<(Self, Option<IpNet>), String> {
        const RULE: &str = "must be a CIDR such as 192.0.2.0/24, or the first and the last address of one family such as 192.0.2.10-192.0.2.99";
        let wrong = || format!("{text:?} {RULE}");
        if text.contains('/') {
            let net: IpNet = text.parse().map_err(|_| wrong())?;
            if net.addr() != net.network() {
                return Err(format!(
                    "{text:?} has bits behind its prefix: write {}, or the first and the last address",
                    net.trunc()
                ));
            }
            let (first, last) = (number(net.network()), number(net.broadcast()));
            let range = Self {
                is_ipv4: net.addr().is_ipv4(),
                first,
                last,
            };
            return Ok((range, Some(net)));
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let read = |part: &str| part.trim().parse::<IpAddr>().map_err(|_| wrong());
        let (first, last) = (read(first)?, read(last)?);
        if first.is_ipv4() != last.is_ipv4() || number(first) > number(last) {
            return Err(wrong());
        }
        let range = Self {
            is_ipv4: first.is_ipv4(),
            first: number(first),
            last: number(last),
        };
        Ok((range, None))
    }

    fn contains(self, ip: IpAddr) -> bool {
        self.is_ipv4 == ip.is_ipv4() && (self.first..=self.last).contains(&number(ip))
    }

    fn address(self, number: u128) -> Option<IpAddr> {
        match self.is_ipv4 {
            true => Some(IpAddr::V4(Ipv4Addr::from(u32::try_from(number).ok()?))),
            false => Some(IpAddr::V6(Ipv6Addr::from(number))),
        }
    }
}

impl Pool {
    /// Reads a pool. An error names each field below the pool's with its mistake.
    pub(crate) fn read(pool: &AddressPool) -> Result<Self, Vec<(String, String)>> {
        let mut mistakes = Vec::new();
        let mut exclude = Vec::new();
        let range = Range::parse(&pool.range);
        for (index, text) in pool.exclude.iter().flatten().enumerate() {
            let field = format!("exclude[{index}]");
            match (Range::parse(text), &range) {
                (Err(message), _) => mistakes.push((field, message)),
                (Ok((found, _)), Ok((range, _))) if found.is_ipv4 != range.is_ipv4 => {
                    let message = format!(
                        "{text:?} must be of the family of the range {:?}",
                        pool.range
                    );
                    mistakes.push((field, message));
                }
                (Ok((found, _)), _) => exclude.push(found),
            }
        }
        let (mut range, net) = match range {
            Ok(range) => range,
            Err(message) => {
                mistakes.insert(0, ("range".to_owned(), message));
                return Err(mistakes);
            }
        };
        let longest: u8 = if range.is_ipv4 { 32 } else { 128 };
        let given = pool
            .prefix_length
            .or(net.map(|net| i64::from(net.prefix_len())));
        let prefix_length = match given.map(u8::try_from) {
            Some(Ok(length)) if (1..=longest).contains(&length) => length,
            Some(_) => {
                let message = format!(
                    "{} must be from 1 to {longest} for the range {:?}",
                    given.unwrap_or_default(),
                    pool.range
                );
                mistakes.push(("prefixLength".to_owned(), message));
                return Err(mistakes);
            }
            None => {
                let message = format!(
                    "is missing, and the range {:?} has no prefix: set it, for example 24",
                    pool.range
                );
                mistakes.push(("prefixLength".to_owned(), message));
                return Err(mistakes);
            }
        };
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        // The address of the network and the one for broadcasts (RFC 919), or the anycast address
        // of routers (RFC 4291, 2.6.1), are no host's.
        if let Some(net) = net.filter(|net| net.prefix_len() + 1 < net.max_prefix_len()) {
            range.first += 1;
            if net.addr().is_ipv4() {
                range.last -= 1;
            }
        }
        Ok(Self {
            range,
            exclude,
            prefix_length,
            text: pool.range.clone(),
        })
    }

    /// Reports whether a node may have this address.
    pub(crate) fn contains(&self, ip: IpAddr) -> bool {
        self.range.contains(ip) && !self.exclude.iter().any(|range| range.contains(ip))
    }

    /// Returns the lowest address that is not taken. The search begins at `from`, and leaves its end
    /// there, so that a caller that assigns many addresses searches the range once.
    pub(crate) fn free(&self, taken: &BTreeSet<IpAddr>, from: &mut Option<u128>) -> Option<IpAddr> {
        let mut next = from.unwrap_or(self.range.first);
        while next <= self.range.last {
            *from = Some(next);
            let ip = self.range.address(next)?;
            let excluded = self.exclude.iter().find(|range| range.contains(ip));
            match excluded {
                Some(range) => next = range.last.checked_add(1)?,
                None if taken.contains(&ip) => next = next.checked_add(1)?,
                None => return Some(ip),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pool(range: &str, exclude: &[&str], prefix_length: Option<i64>) -> AddressPool {
        AddressPool {
            range: range.to_owned(),
            exclude: Some(exclude.iter().map(|text| (*text).to_owned()).collect()),
            prefix_length,
        }
    }

    /// All addresses, in their order.
    fn all(pool: &Pool) -> Vec<String> {
        let mut taken = BTreeSet::new();
        let mut from = None;
        while let Some(ip) = pool.free(&taken, &mut from) {
            assert!(pool.contains(ip), "{ip}");
            taken.insert(ip);
        }
        taken.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_pool_has_the_addresses_of_hosts_without_exclusions() {
        for (range, exclude, length, wanted) in [
            (
                "192.0.2.0/29",
                &["192.0.2.1", "192.0.2.4-192.0.2.5"][..],
                None,
                "192.0.2.2 192.0.2.3 192.0.2.6",
            ),
            (
                "192.0.2.254-192.0.3.1",
                &[],
                Some(23),
                "192.0.2.254 192.0.2.255 192.0.3.0 192.0.3.1",
            ),
            ("192.0.2.0/31", &[], None, "192.0.2.0 192.0.2.1"),
            ("192.0.2.7/32", &[], None, "192.0.2.7"),
            (
                "255.255.255.254-255.255.255.255",
                &["255.255.255.255"],
                Some(24),
                "255.255.255.254",
            ),
            (
                "2001:db8::/126",
                &["2001:db8::2"],
                None,
                "2001:db8::1 2001:db8::3",
            ),
            (
                "2001:db8::9-2001:db8::a",
                &[],
                Some(64),
                "2001:db8::9 2001:db8::a",
            ),
            ("192.0.2.0/30", &["192.0.2.0/24"], None, ""),
        ] {
            let read = Pool::read(&pool(range, exclude, length)).unwrap();
            assert_eq!(all(&read).join(" "), wanted, "{range}");
        }
        let last = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        let read = Pool::read(&pool(&format!("{last}-{last}"), &[], Some(128))).unwrap();
        assert_eq!(all(&read), [last]);
    }

    #[test]
    fn a_large_pool_is_not_walked_through() {
        let read = Pool::read(&pool("2001:db8::/64", &["2001:db8::/65"], None)).unwrap();
        assert_eq!(
            read.free(&BTreeSet::new(), &mut None).unwrap().to_string(),
            "2001:db8:0:0:8000::"
        );
    }

    #[test]
    fn a_mistake_names_field_value_and_rule() {
        for (pool, field, message) in [
            (pool("192.0.2.0", &[], None), "prefixLength", "is missing"),
            (
                pool("192.0.2.0/33", &[], None),
                "range",
                "\"192.0.2.0/33\" must be a CIDR",
            ),
            (
                pool("192.0.2.1/24", &[], None),
                "range",
                "write 192.0.2.0/24",
            ),
            (
                pool("192.0.2.9-192.0.2.1", &[], Some(24)),
                "range",
                "the first and the last address",
            ),
            (
                pool("192.0.2.9-2001:db8::1", &[], Some(24)),
                "range",
                "of one family",
            ),
            (
                pool("192.0.2.0/24", &["2001:db8::1"], None),
                "exclude[0]",
                "family of the range",
            ),
            (
                pool("192.0.2.0/24", &["x"], None),
                "exclude[0]",
                "\"x\" must be a CIDR",
            ),
            (
                pool("192.0.2.0/24", &[], Some(33)),
                "prefixLength",
                "33 must be from 1 to 32",
            ),
            (
                pool("0.0.0.0/0", &[], None),
                "prefixLength",
                "0 must be from 1 to 32",
            ),
        ] {
            let mistakes = Pool::read(&pool).unwrap_err();
            assert!(
                mistakes[0].0 == field && mistakes[0].1.contains(message),
                "{mistakes:?}"
            );
        }
    }
}
