//! Secrets in what people see: the fields that hold them, and the text in their place.
//!
//! Everything that shows values uses this module: plans, graphs, the agent's commands, reports of
//! hosts, differences of objects, and `weft report`. It is for showing only: no part of Weft
//! applies, stores or compares what comes from [`masked`].
//!
//! # The rule
//! A field holds a secret if its name, in lower case and without signs and blanks, ends in one of
//! [`SECRET_NAMES`]. So `ssl_key`, `802-1x.password`, `Pre-shared key` and `DB_PASSWORD` do. The
//! field `value` next to a `name` belongs to that name. These hold none:
//!
//! - a `key` alone: selectors of Kubernetes, tunnels (GRE) and Secrets' entries have that field;
//! - keys that anybody may know, or that are numbers: [`PUBLIC_NAMES`] and [`NUMBERS`];
//! - a name that ends in `key` with the path of a file, such as `private-key` of 802.1X;
//! - a name that ends in `token` with an IPv6 address: the end of an interface's address;
//! - a field that is on or off, or has no value.

use std::{collections::BTreeSet, net::Ipv6Addr};

use serde_json::Value;

/// The text that nmstate writes in place of a secret. In a state it says that a value is there, and
/// not which one.
pub const HIDDEN: &str = "<_password_hid_by_nmstate>";

/// The text in place of a secret inside another text.
pub const REPLACED: &str = "<hidden>";

/// A value with fewer characters is in too many texts by chance.
pub const SHORTEST: usize = 4;

/// The ends of the names of fields, variables and options whose values are secret, in lower case and
/// without signs.
pub const SECRET_NAMES: [&str; 10] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "psk",
    "secret",
    "token",
    "key",
    "mkacak",
    "credentials",
];

/// The same as a regular expression without groups, as texts write the names: with signs, and a `key`
/// with the word before it.
pub const NAME_PATTERN: &str = "(?:password|passwd|pass[_-]?phrase|pwd|psk|secret|token|[a-z0-9]+[_-]?key|mka[_-]?cak|credentials)";

/// Names of several words and of files, in the form of [`NAME_PATTERN`]. Prose has many words before
/// `key`, so those that make it a secret are named.
pub const PHRASE_PATTERN: &str = "(?:(?:private|secret|pre-?shared|shared|api|access|session|encryption|signing|ssh|ssl|tls|wep|wpa|auth|authentication)[ \t]key|[a-z0-9]+[.]key|pass[ \t]phrase|mka[ \t]cak)";

/// Ends of names of keys that anybody may know, in the form of [`SECRET_NAMES`].
pub const PUBLIC_NAMES: [&str; 4] = ["publickey", "pubkey", "topologykey", "rsasigkey"];

/// Names of keys that are numbers, in the form of [`SECRET_NAMES`]: a partition of InfiniBand, the
/// keys of a tunnel, and those of ports in the aggregation of links.
pub const NUMBERS: [&str; 9] = [
    "pkey",
    "ikey",
    "okey",
    "inkey",
    "outkey",
    "inputkey",
    "outputkey",
    "aduserportkey",
    "lacpaggregationkey",
];

/// Folders with files of keys. A key in base64 may begin with `/`, and with none of these.
const FOLDERS: [&str; 9] = [
    "etc", "home", "opt", "root", "run", "srv", "tmp", "usr", "var",
];

/// Reports whether fields of this name hold secrets, with few exceptions by their values: see
/// [`is_secret`]. The name may be the place of a field, such as `interfaces[eth1].802.1x.password`.
///
/// # Examples
/// ```
/// use weft_plan::secrets::is_secret_name;
///
/// assert!(is_secret_name("ssl_key") && is_secret_name("Pre-shared key"));
/// assert!(!is_secret_name("key") && !is_secret_name("public-key"));
/// ```
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let plain = plain(name);
    let last = name.rsplit(['.', ']', '/']).next().unwrap_or_default();
    let last = self::plain(last);
    // `tls.key` is the name of a file, and the last step of a place in a state is the field.
    let is_plain_key = plain == "key" || last == "key" && name.contains('[');
    let ends = |ends: &[&str]| ends.iter().any(|end| plain.ends_with(end));
    !is_plain_key
        && ends(&SECRET_NAMES)
        && !ends(&PUBLIC_NAMES)
        && !NUMBERS.contains(&last.as_str())
}

/// A name in lower case, without signs and blanks.
fn plain(name: &str) -> String {
    let plain = name.chars().filter(char::is_ascii_alphanumeric);
    plain.collect::<String>().to_lowercase()
}

/// Reports whether a field with this name and scalar value holds a secret.
#[must_use]
pub fn is_secret(name: &str, value: &Value) -> bool {
    let text = match value {
        Value::String(text) => text.trim(),
        Value::Number(_) => "",
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return false,
    };
    let ends = |end: &str| plain(name).ends_with(end);
    is_secret_name(name)
        && !(ends("key") && is_file(text))
        && !(ends("token") && text.parse::<Ipv6Addr>().is_ok())
}

/// Reports whether a text is the path of a file, by itself or as a URL.
fn is_file(text: &str) -> bool {
    let path = text.strip_prefix("file://").unwrap_or(text);
    let folder = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    folder.is_some_and(|(folder, _)| FOLDERS.contains(&folder))
        && path
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || "/._-".contains(character))
}

/// The value with `mask` in place of each secret in it.
#[must_use]
pub fn masked(value: &Value, mask: &str) -> Value {
    masked_at("", value, mask)
}

/// The value of the field `name` with `mask` in place of each secret in it.
#[must_use]
pub fn masked_at(name: &str, value: &Value, mask: &str) -> Value {
    let mut masked = value.clone();
    hide_at(name, &mut masked, mask);
    masked
}

/// Puts `mask` in place of each secret in a value.
pub fn hide(value: &mut Value, mask: &str) {
    hide_at("", value, mask);
}

fn hide_at(name: &str, value: &mut Value, mask: &str) {
    match value {
        Value::Object(map) => {
            let pair = map.get("name").and_then(Value::as_str).map(str::to_owned);
            for (key, below) in map {
                hide_at(name_of(pair.as_deref(), key), below, mask);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|entry| hide_at(name, entry, mask)),
        scalar if is_secret(name, scalar) => *scalar = mask.into(),
        _ => {}
    }
}

/// The secrets in a value, for [`without`]. Those that are in too many texts by chance are left out.
#[must_use]
pub fn values(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect("", value, &mut found);
    found
}

fn collect(name: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            let pair = map.get("name").and_then(Value::as_str);
            map.iter()
                .for_each(|(key, below)| collect(name_of(pair, key), below, found));
        }
        Value::Array(list) => list.iter().for_each(|entry| collect(name, entry, found)),
        scalar if is_secret(name, scalar) => {
            let text = scalar
                .as_str()
                .map_or_else(|| scalar.to_string(), str::to_owned);
            if text.chars().count() >= SHORTEST && text != HIDDEN {
                found.insert(text);
            }
        }
        _ => {}
    }
}

/// The name by which a field is judged. The field `value` of an environment variable, or of another
/// pair of name and value, has the name in it.
fn name_of<'a>(name: Option<&'a str>, key: &'a str) -> &'a str {
    name.filter(|_| key == "value").unwrap_or(key)
}

/// Reports whether a mask is anywhere in a state, so that it must not be applied as it is.
#[must_use]
pub fn has_mask(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.values().any(has_mask),
        Value::Array(list) => list.iter().any(has_mask),
        Value::String(text) => text == HIDDEN,
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The text without these secrets, wherever they are in it.
#[must_use]
pub fn without<S: AsRef<str>>(text: &str, secrets: impl IntoIterator<Item = S>) -> String {
    let mut found: Vec<S> = secrets
        .into_iter()
        .filter(|secret| !secret.as_ref().is_empty() && text.contains(secret.as_ref()))
        .collect();
    // One that begins with another one would leave its end.
    found.sort_by_key(|secret| std::cmp::Reverse(secret.as_ref().len()));
    found.iter().fold(text.to_owned(), |text, secret| {
        text.replace(secret.as_ref(), REPLACED)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn names_of_every_spelling_hold_secrets() {
        for name in [
            "password",
            "DB_PASSWORD",
            "802-1x.password",
            "interfaces[eth1].802.1x.password",
            "private-key-password",
            "Pass phrase",
            "psk",
            "libreswan.psk",
            "ssl_key",
            "private key",
            "Pre-shared key",
            "apiKey",
            "tls.key",
            "mka-cak",
            "client.secret",
            "auth token",
            "ac_credentials",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn names_that_only_look_like_those_of_secrets_hold_none() {
        for name in [
            "key",
            "interfaces[gre1].gre.key",
            "interfaces[ib0].infiniband.pkey",
            "pkey",
            "public-key",
            "sshPublicKey",
            "topologyKey",
            "leftrsasigkey",
            "ad_user_port_key",
            "lacp-aggregation-key",
            "ip-tunnel.input-key",
            "secretName",
            "secretRef",
            "keyFile",
            "keys",
            "identity",
            "mka-ckn",
            "tokens-used",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn a_value_can_show_that_it_is_no_secret() {
        for (name, value, is) in [
            ("private-key", json!("/etc/pki/client.key"), false),
            ("ssl_key", json!("file:///etc/openvswitch/key.pem"), false),
            ("ssl_key", json!("/etcAbc+Def/9="), true),
            ("private-key", json!("/etc/with a blank"), true),
            ("password", json!("/etc/passwd"), true),
            ("token", json!("::12:34"), false),
            ("token", json!("abcd"), true),
            ("token", json!(1234), true),
            ("token", json!(true), false),
            ("token", json!(null), false),
        ] {
            assert_eq!(is_secret(name, &value), is, "{name}: {value}");
        }
    }

    #[test]
    fn planted_secrets_are_masked_and_their_neighbours_are_not() {
        let planted: Value = serde_saphyr::from_str(include_str!("../tests/planted.yaml")).unwrap();
        let clear = planted.to_string();
        let count = |text: &str, mark: &str| text.matches(mark).count();
        assert!(count(&clear, "pl4nted") >= 50, "{clear}");
        let shown = masked(&planted, HIDDEN).to_string();
        let kept = count(&clear, "h4rmless");
        assert_eq!(
            (count(&shown, "pl4nted"), count(&shown, "h4rmless")),
            (0, kept)
        );
        let text = without(&clear, values(&planted));
        assert_eq!(
            (count(&text, "pl4nted"), count(&text, "h4rmless")),
            (0, kept)
        );
    }

    #[test]
    fn a_masked_value_has_its_form_and_no_secret() {
        let value = json!({
            "ovs-db": {"external_ids": {"ssl_key": "hunter2", "rack": "7"}},
            "tokens": ["kept"], "api-key": ["first", {"identity": "node", "psk": 4711}],
            "psk": {"secretRef": {"name": "wire", "key": "psk"}},
            "env": [{"name": "PASSWORD", "value": "hunter3"}, {"name": "MODE", "value": "fast"}],
        });
        assert_eq!(
            masked(&value, "***"),
            json!({
                "ovs-db": {"external_ids": {"ssl_key": "***", "rack": "7"}},
                "tokens": ["kept"], "api-key": ["***", {"identity": "node", "psk": "***"}],
                "psk": {"secretRef": {"name": "wire", "key": "psk"}},
                "env": [{"name": "PASSWORD", "value": "***"}, {"name": "MODE", "value": "fast"}],
            })
        );
        assert_eq!(masked_at("psk", &json!("hunter2"), "***"), "***");
        assert!(has_mask(&masked(&value, HIDDEN)) && !has_mask(&value));
    }

    #[test]
    fn texts_lose_the_values_of_a_state_but_not_short_ones() {
        let state = json!({"a_key": "hunter", "b_key": "hunter22", "c_key": 5, "mtu": 1500,
            "password": HIDDEN});
        let values = values(&state);
        let text = format!("hunter22 is no hunter, 5 of 1500, {HIDDEN}");
        assert_eq!(
            without(&text, &values),
            format!("{REPLACED} is no {REPLACED}, 5 of 1500, {HIDDEN}")
        );
        assert_eq!(without("all", [""]), "all");
    }
}
