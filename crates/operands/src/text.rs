//! The syntax of names, paths and addresses, and lists of them for people. The same rules stand in
//! the schema, as CEL.

use std::net::IpAddr;

pub use weft_plan::is_object_name;

/// The name of a namespace (RFC 1123 label).
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_object_name(text) && !text.contains('.')
}

/// The key of a label or taint: a name, and before it perhaps a DNS name and a slash.
pub fn is_label_key(text: &str) -> bool {
    let (prefix, name) = text
        .rsplit_once('/')
        .map_or((None, text), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_object_name) && !name.is_empty() && is_label_value(name)
}

/// The value of a label. It may be empty.
pub fn is_label_value(text: &str) -> bool {
    let is_outer = |b: &u8| b.is_ascii_alphanumeric();
    text.len() <= 63
        && text
            .bytes()
            .all(|b| is_outer(&b) || matches!(b, b'-' | b'_' | b'.'))
        && text.as_bytes().first().is_none_or(is_outer)
        && text.as_bytes().last().is_none_or(is_outer)
}

/// A DNS domain without a dot at the end.
pub fn is_dns_domain(text: &str) -> bool {
    is_object_name(text) && text.split('.').all(|part| part.len() <= 63)
}

/// An IP address, as CEL's `isIP` has it: one of IPv4 is not written as one of IPv6
/// (`::ffff:192.0.2.1`).
pub fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>()
        .is_ok_and(|ip| !matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some()))
}

/// The name of a network interface (`dev_valid_name` of Linux): at most 15 bytes, no blank, `/` or
/// `:`.
pub fn is_interface(text: &str) -> bool {
    (1..=15).contains(&text.len())
        && !matches!(text, "." | "..")
        && !text.contains(|c: char| c == '/' || c == ':' || c.is_ascii_whitespace())
}

/// The absolute path of a socket: 107 bytes are what a socket address holds.
pub fn is_socket(text: &str) -> bool {
    text.len() <= 107 && is_absolute(text)
}

/// An absolute path in normal form, of at most 255 bytes. No colon: Kubernetes refuses it in a
/// mount.
pub fn is_absolute(text: &str) -> bool {
    let parts = text.strip_prefix('/').map(|rest| rest.split('/'));
    text.len() <= 255
        && parts.is_some_and(|mut parts| {
            parts.all(|part| {
                !matches!(part, "" | "." | "..")
                    && !part.contains(|c: char| c == ':' || c.is_ascii_control())
            })
        })
}

/// The first three of some names and how many more there are, as there may be thousands:
/// `a, b, c and 7 more`.
pub fn some(names: &[impl AsRef<str>]) -> String {
    let (shown, more) = names.split_at(names.len().min(3));
    let shown: Vec<_> = shown.iter().map(AsRef::as_ref).collect();
    let more = if more.is_empty() {
        String::new()
    } else {
        format!(" and {} more", more.len())
    };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_names_some_are_shown() {
        assert_eq!(some(&[""; 0]), "");
        assert_eq!(some(&["a", "b", "c"]), "a, b, c");
        assert_eq!(some(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
    }

    #[test]
    fn an_interface_has_a_name_that_linux_takes() {
        for name in ["eth0", "eth1.7", "a", "bond0-slave.100"] {
            assert!(is_interface(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "a b",
            "a/b",
            "a:1",
            "sixteen-letters-",
            "a\tb",
        ] {
            assert!(!is_interface(name), "{name:?}");
        }
    }

    #[test]
    fn an_address_is_written_as_what_it_is() {
        assert!(is_ip("192.0.2.1") && is_ip("2001:db8::1") && is_ip("::"));
        assert!(
            !is_ip("::ffff:192.0.2.1")
                && !is_ip("192.0.2.01")
                && !is_ip("a")
                && !is_ip("192.0.2.1/24")
        );
    }
}
