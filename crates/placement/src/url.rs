//! The address of the database, in the form that SQLAlchemy reads.

use std::fmt::Write;

use crate::ini::{IniError, refuse_control};

/// The file that PyMySQL reads its TLS settings from. It is named in the address.
pub const CLIENT_FILE: &str = "/etc/my.cnf";

/// A database, and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// The whole address, as another user has written it.
    Url(String),
    /// Its parts, as they are.
    Parts {
        /// name or address of the host
        host: String,
        /// the port, unless it is the usual one
        port: Option<u16>,
        /// the database on it
        name: String,
        /// user of the connection
        user: String,
        /// and by which password
        password: String,
    },
}

impl Database {
    /// The address.
    ///
    /// # Errors
    /// A part has a control character. Encoded it would get through the address, and be refused by
    /// the database at last.
    pub fn url(&self) -> Result<String, IniError> {
        match self {
            Database::Url(url) => Ok(url.clone()),
            Database::Parts { user, password, .. } => {
                refuse_control(user, "the user of the database")?;
                refuse_control(password, "the password of the database")?;
                Ok(format!(
                    "mysql+pymysql://{}:{}@{}?read_default_file={CLIENT_FILE}",
                    encoded(user),
                    encoded(password),
                    self.place()
                ))
            }
        }
    }

    /// Which database it is, without its password: another one has to be prepared anew.
    pub fn identity(&self) -> String {
        match self {
            Database::Parts { .. } => self.place(),
            Database::Url(url) => match (url.find("://"), url.rfind('@')) {
                (Some(scheme), Some(at)) if scheme + 3 <= at => url[at + 1..].to_owned(),
                _ => url.clone(),
            },
        }
    }

    /// Returns the host that the database runs on, if the address names one.
    pub fn host(&self) -> Option<String> {
        // Everybody who reads status sees the host. A text that is no address may be anything in
        // the Secret, so no part of it counts as a host.
        if matches!(self, Database::Url(url) if !url.contains("://")) {
            return None;
        }
        let identity = self.identity();
        let (server, _) = identity.split_once('/')?;
        let host = match server.strip_prefix('[') {
            Some(address) => address.split(']').next()?,
            None => server.split(':').next()?,
        };
        // A file, or an address without `//`, has none.
        Some(host.to_owned()).filter(|host| !host.is_empty() && !identity.contains("://"))
    }

    /// Host, port and name.
    fn place(&self) -> String {
        let Database::Parts {
            host, port, name, ..
        } = self
        else {
            return String::new();
        };
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.clone()
        };
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{host}{port}/{name}")
    }
}

/// Percent-encoded but for what RFC 3986 never reserves. SQLAlchemy decodes user and password once,
/// some versions with `+` as a blank.
pub(crate) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            // Writing to a text does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;
    use crate::ini::tests::HAZARDS;

    fn database(user: &str, password: &str) -> Database {
        let (host, name) = ("openstack.openstack.svc".into(), "placement".into());
        Database::Parts {
            host,
            port: None,
            name,
            user: user.into(),
            password: password.into(),
        }
    }

    fn decoded(text: &str) -> String {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let [first, tail @ ..] = rest {
            if *first == b'%' {
                bytes.push(
                    u8::from_str_radix(std::str::from_utf8(&tail[..2]).unwrap(), 16).unwrap(),
                );
                rest = &tail[2..];
            } else {
                bytes.push(if *first == b'+' { b' ' } else { *first });
                rest = tail;
            }
        }
        String::from_utf8(bytes).unwrap()
    }

    /// With the expression that `sqlalchemy/engine/url.py` splits an address by, as far as this
    /// form goes.
    fn comes_back(user: &str, password: &str) {
        let url = database(user, password).url().unwrap();
        let form = Regex::new(r"^([\w+]+)://([^:/]*)(?::([^@]*))?@(?:\[([^/?]+)\]|([^/:?]+))(?::([^/?]*))?/([^?]*)\?(.*)$").unwrap();
        let parts = form.captures(&url).unwrap();
        assert_eq!(
            (decoded(&parts[2]).as_str(), decoded(&parts[3]).as_str()),
            (user, password),
            "{url}"
        );
        assert_eq!(
            (&parts[1], &parts[5], &parts[7], &parts[8]),
            (
                "mysql+pymysql",
                "openstack.openstack.svc",
                "placement",
                "read_default_file=/etc/my.cnf"
            )
        );
    }

    #[test]
    fn every_hazard_comes_back() {
        HAZARDS
            .iter()
            .for_each(|hazard| comes_back("placement_1a2b", hazard));
    }

    proptest! {
        #[test]
        fn any_user_and_password_come_back(user in "\\PC{1,20}", password in "\\PC*") {
            comes_back(&user, &password);
        }
    }

    #[test]
    fn the_usual_password_is_written_as_it_is() {
        let url = database("placement_1a2b", "0123456789abcdef")
            .url()
            .unwrap();
        assert_eq!(
            url,
            "mysql+pymysql://placement_1a2b:0123456789abcdef@openstack.openstack.svc/placement?read_default_file=/etc/my.cnf"
        );
    }

    #[test]
    fn an_address_has_brackets_and_a_port_where_one_is_given() {
        let database = Database::Parts {
            host: "fd00::1".into(),
            port: Some(3307),
            name: "p".into(),
            user: "u".into(),
            password: "w".into(),
        };
        assert_eq!(
            (
                database.url().unwrap().as_str(),
                database.identity().as_str()
            ),
            (
                "mysql+pymysql://u:w@[fd00::1]:3307/p?read_default_file=/etc/my.cnf",
                "[fd00::1]:3307/p"
            )
        );
    }

    #[test]
    fn the_identity_of_an_address_has_no_password() {
        assert_eq!(
            Database::Url("mysql+pymysql://u:se@cret@db:3306/placement".into()).identity(),
            "db:3306/placement"
        );
        assert_eq!(
            Database::Url("sqlite:///p.db".into()).identity(),
            "sqlite:///p.db"
        );
    }

    #[test]
    fn a_value_that_is_no_address_has_no_host() {
        assert_eq!(
            Database::Url("mysql+pymysql://u:w@db.example:3306/placement".into())
                .host()
                .as_deref(),
            Some("db.example")
        );
        for value in ["pass/word", "p@ss/word", "sqlite:///p.db", "12345678"] {
            assert_eq!(Database::Url(value.into()).host(), None, "{value}");
        }
    }
}
