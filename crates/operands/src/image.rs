//! References of container images, and registries that hold copies of them.
//!
//! The grammar is that of the registry protocol's reference implementation
//! (<https://github.com/distribution/reference>), which container runtimes use:
//! `[host[:port]/]path[:tag][@digest]`.
//!
//! `oci_spec::distribution::Reference` does not serve here. It refuses a registry with an IPv6
//! address, and writes `docker.io/library/` and `:latest` into short references.

use std::{fmt, str::FromStr};

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference(String);

/// Not a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not the reference of a container image: write it like registry.example/team/image:v1 or registry.example/team/image@sha256:…, the path in lower case"
)]
pub struct ImageReferenceError(String);

impl FromStr for ImageReference {
    type Err = ImageReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_reference(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ImageReferenceError(text.to_owned()))
        }
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The three parts of an image reference, as Helm and kustomize take them.
#[derive(Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// Host and path.
    pub repository: &'a str,
    /// Empty if the reference has none.
    pub tag: &'a str,
    /// `sha256:…`, or empty if the reference has none.
    pub digest: &'a str,
}

/// Takes a reference apart: `[host[:port]/]path[:tag][@digest]`.
pub fn parts(reference: &str) -> Parts<'_> {
    let (rest, digest) = reference.split_once('@').unwrap_or((reference, ""));
    // A colon before the last slash is that of a port.
    let name = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (repository, tag) = match rest[name..].find(':') {
        Some(colon) => (&rest[..name + colon], &rest[name + colon + 1..]),
        None => (rest, ""),
    };
    Parts {
        repository,
        tag,
        digest,
    }
}

/// A registry, or a folder of one, that holds images of others under their own paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry(String);

/// Not a registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a registry: write it like registry.example, registry.example:5000 or registry.example/mirror, without https:// and without a slash at the end"
)]
pub struct RegistryError(String);

impl FromStr for Registry {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (host, path) = text
            .split_once('/')
            .map_or((text, None), |(host, path)| (host, Some(path)));
        let right = looks_like_host(host) && is_host(host) && path.is_none_or(is_path);
        if right {
            Ok(Self(text.to_owned()))
        } else {
            Err(RegistryError(text.to_owned()))
        }
    }
}

impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Registry {
    /// The reference of the copy that this registry holds: path, tag and digest stay, the host is
    /// another.
    pub fn copy_of(&self, reference: &str) -> String {
        let path = match reference.split_once('/') {
            Some((host, path)) if looks_like_host(host) => path,
            _ => reference,
        };
        format!("{self}/{path}")
    }
}

/// Reports whether what is before the first slash names a host, not a folder of docker.io.
fn looks_like_host(text: &str) -> bool {
    text == "localhost"
        || text.contains(['.', ':'])
        || text.contains(|c: char| c.is_ascii_uppercase())
}

fn is_reference(text: &str) -> bool {
    let (rest, digest) = text
        .split_once('@')
        .map_or((text, None), |(rest, digest)| (rest, Some(digest)));
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (rest, None),
    };
    let is_name = match name.split_once('/') {
        Some((host, path)) if is_host(host) => is_path(path),
        _ => is_path(name),
    };
    is_name && tag.is_none_or(is_tag) && digest.is_none_or(is_digest)
}

/// A DNS name in either case, or an IP address (IPv6 in brackets), and perhaps a port.
fn is_host(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    };
    let is_port = |port: &str| {
        port.strip_prefix(':')
            .is_some_and(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
    };
    if let Some((ip, port)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let is_ip = !ip.is_empty() && ip.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
        return is_ip && (port.is_empty() || is_port(port));
    }
    let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
    name.split('.').all(is_part) && (port.is_empty() || is_port(port))
}

/// Lower-case letters and digits in parts, with one of `.`, `_`, `__` or any number of `-` between
/// them. At most 255 bytes.
fn is_path(text: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_separator =
        |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|b| b == b'-');
    let is_part = |part: &str| {
        part.bytes().next().is_some_and(alphanumeric)
            && part.bytes().last().is_some_and(alphanumeric)
            && part
                .split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
                .all(is_separator)
    };
    text.len() <= 255 && text.split('/').all(is_part)
}

fn is_tag(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(word)
        && text.bytes().all(|b| word(b) || b == b'.' || b == b'-')
}

/// Of an algorithm that runtimes know, in lower-case hex.
fn is_digest(text: &str) -> bool {
    let digits = |algorithm| match algorithm {
        "sha256" => Some(64),
        "sha384" => Some(96),
        "sha512" => Some(128),
        _ => None,
    };
    text.split_once(':').is_some_and(|(algorithm, hex)| {
        digits(algorithm) == Some(hex.len())
            && hex
                .bytes()
                .all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn references_are_those_of_container_runtimes() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let right = [
            "a",
            "team/image",
            "localhost/a",
            "[2001:db8::1]:5000/a/b",
            "Registry.Example:5000/a__b/c--d.e_f:V1.0_x-1",
            "UPPER/a:1",
        ];
        for text in right
            .into_iter()
            .map(str::to_owned)
            .chain([format!("a@{digest}"), format!("r.example/a:v1@{digest}")])
        {
            assert_eq!(
                text.parse::<ImageReference>()
                    .map(|reference| reference.to_string()),
                Ok(text)
            );
        }
        let wrong = [
            "",
            "/a",
            "a/",
            "a//b",
            "A",
            "a:",
            "a:-b",
            "a b",
            "a:b c",
            "r.example/A",
            "r.example:x/a",
            "-r.example/a",
            "https://r.example/a",
            "a___b",
            "a._b",
            "a@sha256:00",
            "a@md5:00000000000000000000000000000000",
            "a\n",
            "a:1\n",
            "[::1/a",
            "[]/a",
        ];
        for text in wrong.into_iter().map(str::to_owned).chain([
            format!("a@{}", digest.to_uppercase()),
            "a".repeat(256),
            format!("a:{}", "1".repeat(129)),
        ]) {
            assert!(text.parse::<ImageReference>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn references_fall_apart_at_tag_and_digest_and_not_at_a_port() {
        for (reference, repository, tag, digest) in [
            ("localhost/weft:0.1.0", "localhost/weft", "0.1.0", ""),
            (
                "registry.example:5000/weft",
                "registry.example:5000/weft",
                "",
                "",
            ),
            (
                "registry.example:5000/a/weft:1@sha256:ab",
                "registry.example:5000/a/weft",
                "1",
                "sha256:ab",
            ),
            ("weft", "weft", "", ""),
        ] {
            assert_eq!(
                parts(reference),
                Parts {
                    repository,
                    tag,
                    digest
                }
            );
        }
    }

    #[test]
    fn a_registry_holds_copies_under_the_same_paths() {
        let registry: Registry = "registry.example:5000/mirror".parse().unwrap();
        for (original, copy) in [
            (
                "ghcr.io/team/image:v1",
                "registry.example:5000/mirror/team/image:v1",
            ),
            (
                "quay.io/kubevirt/a@sha256:0b",
                "registry.example:5000/mirror/kubevirt/a@sha256:0b",
            ),
            ("[::1]:5000/a", "registry.example:5000/mirror/a"),
            ("localhost/a", "registry.example:5000/mirror/a"),
            ("team/image", "registry.example:5000/mirror/team/image"),
            ("image:v1", "registry.example:5000/mirror/image:v1"),
        ] {
            assert_eq!(registry.copy_of(original), copy);
        }
        for text in [
            "registry.example",
            "localhost",
            "localhost:5000/a/b",
            "10.0.0.1/x",
            "[::1]",
        ] {
            assert!(text.parse::<Registry>().is_ok(), "{text}");
        }
        // Without a dot or a port it would be a folder of docker.io.
        for text in [
            "",
            "mirror",
            "mirror/x",
            "https://registry.example",
            "registry.example/",
            "registry.example/Mirror",
            "registry.example/a:v1",
        ] {
            assert!(text.parse::<Registry>().is_err(), "{text:?}");
        }
    }
}
