//! The address of a Keystone, in one spelling, so that two of them can be compared.

use std::{fmt, net::Ipv6Addr, str::FromStr};

use regex::Regex;
use weft_api::placement::patterns;

/// Scheme, host, port and path of a Keystone: `https://Keystone.example:443/identity/v3/` and
/// `https://keystone.example/identity` are the same one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address(String);

/// The mistake in an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It names a user.
    #[error(
        "{0:?} must have no user and no password: remove everything from // up to the @, the Secret of keystone.adminSecret holds both"
    )]
    User(String),
    /// It has more than a path.
    #[error("{0:?} must have no query and no fragment: remove the ? or # and everything after it")]
    Query(String),
    /// The text is not an address.
    #[error(
        "{0:?} must be a web address, for example https://keystone.example:5000, with a port from 1 to 65535 and a path of plain segments: letters, digits, '-', '.', '_' and '~' between single slashes, and no segment . or .."
    )]
    Form(String),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        // The patterns are constants, all of them read by a test.
        let fits = |pattern: &str| Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text));
        if fits(patterns::USER_IN_ADDRESS) {
            return Err(AddressError::User(text.to_owned()));
        }
        if text.contains(['?', '#']) {
            return Err(AddressError::Query(text.to_owned()));
        }
        let form = || AddressError::Form(text.to_owned());
        if !fits(patterns::KEYSTONE_ADDRESS) {
            return Err(form());
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(form)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // An address in brackets has colons of its own.
        let port = authority
            .rfind(':')
            .filter(|at| authority.rfind(']').is_none_or(|bracket| bracket < *at));
        let (host, port) = authority.split_at(port.unwrap_or(authority.len()));
        let usual = if scheme == "https" { ":443" } else { ":80" };
        let port = if port == usual { "" } else { port };
        let host = match host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
        {
            Some(address) => format!("[{}]", address.parse::<Ipv6Addr>().map_err(|_| form())?),
            None => host.to_ascii_lowercase(),
        };
        let path = path.trim_end_matches('/');
        Ok(Self(format!(
            "{scheme}://{host}{port}{}",
            path.strip_suffix("/v3").unwrap_or(path)
        )))
    }
}

impl Address {
    /// The address of version 3 of the API, without a slash at its end: requests go to what is
    /// below it.
    pub fn api(&self) -> String {
        format!("{}/v3", self.0)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Several of them, separated by commas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Addresses(pub Vec<Address>);

impl FromStr for Addresses {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        text.split(',')
            .map(str::trim)
            .filter(|one| !one.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            &self
                .0
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(","),
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn one_keystone_has_one_spelling() {
        for (one, other) in [
            (
                "https://Keystone.Example:443/v3/",
                "https://keystone.example",
            ),
            (
                "http://keystone.example:80/identity/v3",
                "http://keystone.example/identity/",
            ),
            ("http://[FD00:0::1]:5000", "http://[fd00::1]:5000/v3"),
        ] {
            assert_eq!(read(one), read(other));
            assert_eq!(read(&read(one).to_string()), read(one));
            assert_eq!(read(&read(one).api()), read(one));
        }
        assert_eq!(
            read("https://keystone.example/identity/").api(),
            "https://keystone.example/identity/v3"
        );
        assert_eq!(read("http://[fd00::1]").to_string(), "http://[fd00::1]");
    }

    #[test]
    fn another_scheme_host_port_or_path_is_another_keystone() {
        let one = read("https://keystone.example:5000/identity");
        for other in [
            "http://keystone.example:5000/identity",
            "https://keystone.example.evil.example:5000/identity",
            "https://keystone.example/identity",
            "https://keystone.example:5000",
            "https://keystone.example:5000/identity/more",
            "https://keystone.example.:5000/identity",
        ] {
            assert_ne!(read(other), one);
        }
    }

    #[test]
    fn a_list_names_the_address_that_is_wrong() {
        let list: Addresses = "https://a , http://b:5000/v3,".parse().unwrap();
        assert_eq!(list.to_string(), "https://a,http://b:5000");
        assert_eq!(
            "https://a,*".parse::<Addresses>(),
            Err(AddressError::Form("*".to_owned()))
        );
    }
}
