//! MAC addresses and ranges of them.

use std::{cmp::Ordering, fmt, str::FromStr};

/// A 48-bit MAC address. It keeps the text that it was written as, so that what a user reads back
/// is what the user wrote. Two addresses are compared by their value.
#[derive(Clone, Debug)]
pub struct MacAddress {
    octets: [u8; 6],
    text: String,
}

/// The rule that an address or a range breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MacError {
    /// The text is no MAC address.
    #[error("{0:?} is not a MAC address of six octets: write it like 02:00:00:00:00:00")]
    Syntax(String),
    /// The address stands for a group of stations.
    #[error(
        "{0} is a multicast address, which no interface may have: the first octet must be even, as in 02"
    )]
    Multicast(MacAddress),
    /// The end is not above the start.
    #[error(
        "the range ends at {end}, which is not above its start {start}: exchange them, or choose a higher end"
    )]
    Backward {
        /// the first address
        start: MacAddress,
        /// the last address
        end: MacAddress,
    },
}

impl MacAddress {
    /// Reports whether the address stands for a group of stations (IEEE 802: the lowest bit of the
    /// first octet).
    pub fn is_multicast(&self) -> bool {
        self.octets[0] & 1 == 1
    }

    /// Returns the six octets of the address.
    pub fn octets(&self) -> [u8; 6] {
        self.octets
    }
}

impl From<[u8; 6]> for MacAddress {
    fn from(octets: [u8; 6]) -> Self {
        let text = octets.map(|octet| format!("{octet:02x}")).join(":");
        Self { octets, text }
    }
}

/// Reads the three notations that Go's `net.ParseMAC` knows, which is what KubeMacPool reads with:
/// `02:00:5e:10:00:01`, `02-00-5e-10-00-01` and `0200.5e10.0001`. Go also takes addresses of 8 and
/// 20 octets. No virtual machine has those.
impl FromStr for MacAddress {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let syntax = || MacError::Syntax(text.to_owned());
        let (separator, digits) = match text.chars().find(|c| !c.is_ascii_hexdigit()) {
            Some(separator @ (':' | '-')) => (separator, 2),
            Some('.') => ('.', 4),
            _ => return Err(syntax()),
        };
        let mut groups = text.split(separator);
        let mut octets = [0; 6];
        for chunk in octets.chunks_mut(digits / 2) {
            let group = groups
                .next()
                .filter(|group| {
                    group.len() == digits && group.bytes().all(|b| b.is_ascii_hexdigit())
                })
                .ok_or_else(syntax)?;
            let value = u16::from_str_radix(group, 16)
                .map_err(|_| syntax())?
                .to_be_bytes();
            chunk.copy_from_slice(&value[value.len() - chunk.len()..]);
        }
        if groups.next().is_some() {
            return Err(syntax());
        }
        Ok(Self {
            octets,
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for MacAddress {
    fn eq(&self, other: &Self) -> bool {
        self.octets == other.octets
    }
}

impl Eq for MacAddress {}

impl PartialOrd for MacAddress {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for MacAddress {
    fn cmp(&self, other: &Self) -> Ordering {
        self.octets.cmp(&other.octets)
    }
}

/// A range of unicast addresses, both ends included, the end above the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacRange {
    start: MacAddress,
    end: MacAddress,
}

impl MacRange {
    /// The range from `start` to `end`.
    ///
    /// # Errors
    /// An end is a multicast address, or the end is not above the start.
    pub fn new(start: MacAddress, end: MacAddress) -> Result<Self, MacError> {
        match () {
            () if start.is_multicast() => Err(MacError::Multicast(start)),
            () if end.is_multicast() => Err(MacError::Multicast(end)),
            () if start >= end => Err(MacError::Backward { start, end }),
            () => Ok(Self { start, end }),
        }
    }

    /// 2^24 locally administered unicast addresses, `02:XX:XX:00:00:00` to `02:XX:XX:ff:ff:ff`,
    /// with XX:XX drawn by `random`.
    pub fn random(random: &mut dyn FnMut(&mut [u8])) -> Self {
        let mut prefix = [0; 2];
        random(&mut prefix);
        let [a, b] = prefix;
        Self {
            start: [2, a, b, 0, 0, 0].into(),
            end: [2, a, b, 0xff, 0xff, 0xff].into(),
        }
    }

    /// Returns the first address of the range.
    pub fn start(&self) -> &MacAddress {
        &self.start
    }

    /// Returns the last address of the range.
    pub fn end(&self) -> &MacAddress {
        &self.end
    }

    /// Reports whether an address is in the range, its ends included.
    #[must_use]
    pub fn contains(&self, address: &MacAddress) -> bool {
        self.start <= *address && *address <= self.end
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn mac(text: &str) -> MacAddress {
        text.parse().unwrap()
    }

    #[test]
    fn three_notations_are_read_and_kept() {
        for text in ["02:00:5e:10:00:01", "02-00-5E-10-00-01", "0200.5e10.0001"] {
            assert_eq!(mac(text).octets(), [2, 0, 0x5e, 0x10, 0, 1], "{text}");
            assert_eq!(mac(text).to_string(), text);
        }
    }

    #[test]
    fn nothing_else_is_read() {
        for text in [
            "",
            "02",
            "02:00:00:00:00",
            "02:00:00:00:00:00:00",
            "02:00:00:00:00:00:00:00",
            "02:00-00:00:00:00",
            "2:0:0:0:0:0",
            "02:00:00:00:00:0g",
            "020000000000",
            "0200.0000",
            "02:00:00:00:00:00 ",
            "+2:00:00:00:00:00",
            ":::::",
        ] {
            assert!(text.parse::<MacAddress>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_range_is_compared_as_a_whole() {
        // The first octet decides, though the last one grows.
        assert!(matches!(
            MacRange::new(mac("0a:00:00:00:00:00"), mac("02:00:00:00:00:ff")),
            Err(MacError::Backward { .. })
        ));
        assert!(matches!(
            MacRange::new(mac("02:00:00:00:00:01"), mac("02-00-00-00-00-01")),
            Err(MacError::Backward { .. })
        ));
        assert!(MacRange::new(mac("02:00:00:00:00:ff"), mac("02:00:00:00:01:00")).is_ok());
        assert!(matches!(
            MacRange::new(mac("03:00:00:00:00:00"), mac("06:00:00:00:00:00")),
            Err(MacError::Multicast(_))
        ));
        assert!(matches!(
            MacRange::new(mac("02:00:00:00:00:00"), mac("05:00:00:00:00:00")),
            Err(MacError::Multicast(_))
        ));
    }

    #[test]
    fn a_random_range_is_locally_administered_and_unicast() {
        let range = MacRange::random(&mut |bytes| bytes.copy_from_slice(&[0xab, 0x0c]));
        assert_eq!(
            (
                range.start().to_string().as_str(),
                range.end().to_string().as_str()
            ),
            ("02:ab:0c:00:00:00", "02:ab:0c:ff:ff:ff")
        );
    }

    proptest! {
        #[test]
        fn an_address_survives_its_text(octets: [u8; 6]) {
            prop_assert_eq!(MacAddress::from(octets).to_string().parse::<MacAddress>().unwrap().octets(), octets);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = text.parse::<MacAddress>();
        }

        #[test]
        fn nor_any_text_of_the_right_letters(text in "[0-9a-fA-F:.+-]{0,20}") {
            if let Ok(mac) = text.parse::<MacAddress>() {
                prop_assert_eq!(mac.to_string(), text);
            }
        }

        #[test]
        fn a_range_holds_exactly_if_the_numbers_do(start: [u8; 6], end: [u8; 6]) {
            let holds = start < end && start[0] % 2 == 0 && end[0] % 2 == 0;
            prop_assert_eq!(MacRange::new(start.into(), end.into()).is_ok(), holds);
        }
    }
}
