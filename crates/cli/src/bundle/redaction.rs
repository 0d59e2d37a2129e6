//! The removal of secret values from objects and texts.
//!
//! Two nets lie over each other. The first knows the values of the Secrets that the user may read,
//! and finds them wherever they are, plain, escaped or in base64. The second knows the names of
//! fields and the forms of texts that hold secrets, such as `password: x`, and needs no Secret.

use std::{collections::BTreeSet, sync::LazyLock};

use aho_corasick::{AhoCorasick, MatchKind};
use anyhow::{Context, Result};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use regex::{Captures, Regex};
use serde_json::{Map, Value, json};
use weft_plan::{
    LAST_APPLIED, escape, kinds,
    secrets::{
        NAME_PATTERN as NAMES, PHRASE_PATTERN as PHRASES, SHORTEST, is_secret, is_secret_name,
    },
};

/// Stands where a secret value was.
pub const REMOVED: &str = "<removed>";

/// A name and a value in a text, the value up to the end of the line: `password = two words`. Also
/// both values of a change in the history of a node: `~ interfaces[eth1].802.1x.password: x -> y`.
static LINE: LazyLock<Regex> = LazyLock::new(|| {
    regex(&format!(
        r#"(?im)^([ \t]*(?:export[ \t]+|[~+][ \t]+)?["']?([\w.\[\]-]*(?:{NAMES}|{PHRASES}))["']?[ \t]*[:=][ \t]*)(\S.*)$"#
    ))
});
/// The same inside a line: `password=x, user=y` and `"password": "x"`.
static INLINE: LazyLock<Regex> = LazyLock::new(|| {
    regex(&format!(
        r#"(?i)(([\w.\[\]-]*(?:{NAMES}|{PHRASES}))\\?["']?[ \t]*[:=][ \t]*)(\\?"[^"\n]*"|'[^'\n]*'|[^\s,;}}\])"']+)"#
    ))
});
/// A name and a value with a blank between them: an option such as `--psk x`, also in a list, and a
/// property such as `802-1x.password x`. One word alone can be prose, and so can the name of an
/// object, such as `osp-secret`.
static BLANK: LazyLock<Regex> = LazyLock::new(|| {
    regex(&format!(
        r#"(?im)((?:(?:^|[\s"'=\[(,])--?((?:[\w.-]*[\w.-])?{NAMES})|\b([\w-]*\w(?:[._]{NAMES}|-(?:password|passwd|passphrase|pwd|psk))))(?:["'],?)?[ \t]+)("[^"\n]*"|'[^'\n]*'|[^\s,;}}\])"'<]+)"#
    ))
});
/// A line of a configuration file with a name, a blank and a value.
static PAIR: LazyLock<Regex> =
    LazyLock::new(|| regex(&format!(r#"(?im)^([ \t]*({NAMES})[ \t]+)(\S+)[ \t]*$"#)));
/// An option of a command without its value.
static OPTION: LazyLock<Regex> = LazyLock::new(|| regex(r"^--?([\w.-]+)$"));
/// The password in a URL.
static URL: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"([A-Za-z][A-Za-z0-9+.-]*://[^\s:/@"']*):([^\s"'<>]+)@"#));
/// A header with credentials.
static HEADER: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?i)\b(bearer|basic)[ \t]+[A-Za-z0-9._~+/=-]{8,}"));
/// A JSON Web Token (RFC 7519).
static WEB_TOKEN: LazyLock<Regex> =
    LazyLock::new(|| regex(r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+"));
/// A private key in PEM (RFC 7468), also one whose end is cut off.
static KEY: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)")
});

#[allow(
    clippy::expect_used,
    reason = "the patterns are constants, and tests use each of them"
)]
fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a valid pattern")
}

/// The values of Secrets.
#[derive(Default)]
pub struct Values {
    texts: BTreeSet<Vec<u8>>,
    names: BTreeSet<String>,
}

impl Values {
    /// Adds all values of a Secret, and its name.
    pub fn add(&mut self, secret: &Value) {
        let name = secret["metadata"]["name"].as_str();
        self.names.extend(name.map(str::to_owned));
        let data = secret["data"].as_object().into_iter().flatten();
        for (_, value) in data {
            let decoded = value.as_str().and_then(|text| STANDARD.decode(text).ok());
            self.add_value(&decoded.unwrap_or_default());
        }
    }

    fn add_value(&mut self, value: &[u8]) {
        self.texts.insert(value.to_vec());
        let Ok(text) = std::str::from_utf8(value) else {
            return;
        };
        // A log may have one line of a key alone.
        if text.contains("-----BEGIN ") {
            let lines = text.lines().map(str::trim);
            let body = lines.filter(|line| line.len() >= 16 && !line.starts_with("-----"));
            self.texts.extend(body.map(|line| line.as_bytes().to_vec()));
        }
        // Files of programs, and the credentials of registries, have secrets inside.
        match serde_json::from_str::<Value>(text) {
            Ok(inside @ (Value::Object(_) | Value::Array(_))) => self.add_leaves(&inside),
            _ => {
                for pattern in [&*LINE, &*INLINE] {
                    let found = pattern.captures_iter(text);
                    let secret = found.filter(|found| hides(&found[2], &found[3]));
                    self.texts.extend(secret.map(|found| value_of(&found[3])));
                }
                let urls = URL.captures_iter(text);
                self.texts.extend(urls.map(|found| value_of(&found[2])));
            }
        }
    }

    fn add_leaves(&mut self, value: &Value) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match value.as_str() {
                        Some(text) if is_secret(key, value) || key == "auth" => {
                            self.texts.insert(text.as_bytes().to_vec());
                        }
                        _ => self.add_leaves(value),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add_leaves(item)),
            _ => {}
        }
    }
}

/// The bytes of a value in a text, without quotes.
fn value_of(text: &str) -> Vec<u8> {
    unquoted(text).as_bytes().to_vec()
}

fn unquoted(text: &str) -> &str {
    text.trim().trim_matches(['"', '\'', '\\'])
}

/// Reports whether a value in a text is secret by its name.
fn hides(name: &str, value: &str) -> bool {
    is_secret(name, &unquoted(value).into())
}

/// Removes secret values.
pub struct Redaction {
    known: AhoCorasick,
    /// Names of Secrets, which a field such as `secret` refers to.
    names: BTreeSet<String>,
}

impl Redaction {
    /// Knows these values. A value that equals one of the public words, such as the name of a
    /// namespace, is everywhere in the report and remains. So does the name of a Secret in a field
    /// whose name ends in `secret`, as that is a reference.
    ///
    /// # Errors
    /// There are too many values.
    pub fn new(values: &Values, public: &BTreeSet<String>) -> Result<Self> {
        let is_public = |value: &[u8]| {
            std::str::from_utf8(value).is_ok_and(|text| public.contains(text.trim()))
        };
        let forms: BTreeSet<Vec<u8>> = values
            .texts
            .iter()
            .filter(|value| value.trim_ascii().len() >= SHORTEST && !is_public(value))
            .flat_map(|value| forms(value))
            .collect();
        let known = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(forms)
            .context("too many values of Secrets")?;
        Ok(Self {
            known,
            names: values.names.clone(),
        })
    }

    /// Returns a text without secret values.
    pub fn text(&self, text: &str) -> String {
        let mut plain = String::with_capacity(text.len());
        let mut end = 0;
        for found in self.known.find_iter(text) {
            // A value of bytes may end inside a character.
            let (Some(before), true) = (
                text.get(end..found.start()),
                text.is_char_boundary(found.end()),
            ) else {
                continue;
            };
            plain.push_str(before);
            plain.push_str(REMOVED);
            end = found.end();
        }
        plain.push_str(text.get(end..).unwrap_or_default());
        without_forms(&plain)
    }

    /// Learns the names of Secrets that a resource of Weft's refers to. A user may not be able to
    /// list Secrets, and has to see which one is meant.
    pub fn learn(&mut self, resource: &Value) {
        if resource["kind"] == kinds::PLACEMENT_API.kind {
            let spec = &resource["spec"];
            let names = [
                &spec["secret"],
                &spec["auth"]["applicationCredentialSecret"],
            ];
            let names = names.into_iter().filter_map(Value::as_str);
            self.names.extend(names.map(str::to_owned));
        }
    }

    /// Returns an object without secret values and without `managedFields`. Of a Secret, only name,
    /// type and keys remain.
    pub fn object(&self, mut object: Value) -> Value {
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata {
            metadata.remove("managedFields");
        }
        self.value(object)
    }

    fn value(&self, value: Value) -> Value {
        match value {
            Value::Object(map) if map.get("kind").is_some_and(|kind| kind == "Secret") => {
                self.secret(&map)
            }
            Value::Object(map) => Value::Object(self.fields(map)),
            Value::Array(items) => self.items(items),
            Value::String(text) => Value::String(self.string(&text)),
            other => other,
        }
    }

    /// The items of a list, which may be the arguments of a command.
    fn items(&self, items: Vec<Value>) -> Value {
        let mut name = String::new();
        let without = items.into_iter().map(|item| {
            let option = item.as_str().and_then(|text| OPTION.captures(text));
            let is_value = item.is_string() && option.is_none() && is_secret(&name, &item);
            name = option.map_or_else(String::new, |found| found[1].to_owned());
            if is_value {
                REMOVED.into()
            } else {
                self.value(item)
            }
        });
        without.collect()
    }

    fn fields(&self, map: Map<String, Value>) -> Map<String, Value> {
        // An environment variable, or another pair of name and value.
        let pair = map.get("name").and_then(Value::as_str).map(str::to_owned);
        let without = |(key, value): (String, Value)| {
            let name = pair.as_deref().filter(|_| key == "value").unwrap_or(&key);
            let value = match value {
                Value::String(name) if self.is_reference(&key, &name) => Value::String(name),
                value if is_secret(name, &value) => REMOVED.into(),
                Value::Array(items) if is_secret_name(name) => {
                    items.iter().map(|_| REMOVED).collect()
                }
                Value::String(text) if key == LAST_APPLIED => self
                    .json(&text)
                    .unwrap_or_else(|| REMOVED.to_owned())
                    .into(),
                value => self.value(value),
            };
            (key, value)
        };
        map.into_iter().map(without).collect()
    }

    /// Reports whether a field refers to a Secret by its name.
    fn is_reference(&self, key: &str, value: &str) -> bool {
        key.to_lowercase().ends_with("secret") && self.names.contains(value)
    }

    /// A Secret, or a reference to one.
    fn secret(&self, map: &Map<String, Value>) -> Value {
        if !map.contains_key("metadata") {
            return Value::Object(self.fields(map.clone()));
        }
        secret(&Value::Object(map.clone()))
    }

    fn string(&self, text: &str) -> String {
        self.json(text).unwrap_or_else(|| self.text(text))
    }

    /// A text that is JSON, such as the configuration of a network or an annotation.
    fn json(&self, text: &str) -> Option<String> {
        let begins = text.trim_start().starts_with(['{', '[']);
        let value: Value = serde_json::from_str(text).ok().filter(|_| begins)?;
        let without = self.value(value.clone());
        Some(if without == value {
            text.to_owned()
        } else {
            without.to_string()
        })
    }
}

/// Name, type and keys of a Secret.
pub fn secret(secret: &Value) -> Value {
    let keys: BTreeSet<&String> = ["data", "stringData"]
        .iter()
        .flat_map(|field| secret[*field].as_object().into_iter().flatten())
        .map(|(key, _)| key)
        .collect();
    let metadata = &secret["metadata"];
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"namespace": metadata["namespace"], "name": metadata["name"]},
        "type": secret["type"], "keys": keys,
    })
}

/// Removes values by the form of the text around them.
fn without_forms(text: &str) -> String {
    let behind = |found: &Captures<'_>| match hides(&found[2], &found[3]) {
        true => format!("{}{REMOVED}", &found[1]),
        false => found[0].to_owned(),
    };
    let text = KEY.replace_all(text, REMOVED);
    let text = WEB_TOKEN.replace_all(&text, REMOVED);
    let text = HEADER.replace_all(&text, |found: &Captures<'_>| {
        format!("{} {REMOVED}", &found[1])
    });
    let text = URL.replace_all(&text, |found: &Captures<'_>| {
        format!("{}:{REMOVED}@", &found[1])
    });
    let text = LINE.replace_all(&text, behind);
    let text = INLINE.replace_all(&text, behind);
    let text = PAIR.replace_all(&text, behind);
    let blank = |found: &Captures<'_>| {
        let name = found
            .get(2)
            .or(found.get(3))
            .map_or("", |name| name.as_str());
        match hides(name, &found[4]) {
            true => format!("{}{REMOVED}", &found[1]),
            false => found[0].to_owned(),
        }
    };
    BLANK.replace_all(&text, blank).into_owned()
}

/// All forms in which a text may have a value.
fn forms(value: &[u8]) -> Vec<Vec<u8>> {
    let mut plain = BTreeSet::from([value.to_vec(), value.trim_ascii().to_vec()]);
    if let Ok(text) = std::str::from_utf8(value) {
        for text in [text, text.trim()] {
            plain.insert(escape::text(text).into_owned().into_bytes());
            plain.insert(percent_encoded(text).into_bytes());
            // In JSON, and in JSON that is a string of JSON.
            let once = escaped(text);
            plain.insert(escaped(&once).into_bytes());
            plain.insert(once.into_bytes());
        }
    }
    let mut forms: BTreeSet<Vec<u8>> = plain.clone();
    for value in &plain {
        for offset in 0..3 {
            forms.extend(in_base64(value, offset));
        }
    }
    forms.retain(|form| form.len() >= SHORTEST);
    forms.into_iter().collect()
}

fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// As in the user information of a URL (RFC 3986).
fn percent_encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// The characters that a value has in base64 (RFC 4648) behind this many other bytes, whatever is
/// before and after it.
fn in_base64(value: &[u8], offset: usize) -> Vec<Vec<u8>> {
    let mut bytes = vec![0; offset];
    bytes.extend_from_slice(value);
    let (begin, end) = ([0, 2, 3][offset], bytes.len() * 8 / 6);
    // Fewer characters are in other texts by chance.
    if end < begin + 5 {
        return Vec::new();
    }
    [
        STANDARD_NO_PAD.encode(&bytes),
        URL_SAFE_NO_PAD.encode(&bytes),
    ]
    .map(|text| text.as_bytes()[begin..end].to_vec())
    .into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn redaction(values: &[&str]) -> Redaction {
        let mut known = Values::default();
        let data: Map<String, Value> = values
            .iter()
            .enumerate()
            .map(|(index, value)| (format!("key{index}"), STANDARD.encode(value).into()))
            .collect();
        known.add(&json!({"data": data}));
        Redaction::new(&known, &BTreeSet::from(["openstack".to_owned()])).unwrap()
    }

    #[test]
    fn a_value_of_a_secret_is_found_in_every_form() {
        let value = "gr\u{fc}n & \"blue\"\n/7+>>?~";
        let redaction = redaction(&[value, "openstack", "abc"]);
        let inside = |before: &str, after: &str| STANDARD.encode(format!("{before}{value}{after}"));
        for text in [
            value.to_owned(),
            json!({"a": {"b": value}}).to_string(),
            json!({"a": json!({"b": value}).to_string()}).to_string(),
            percent_encoded(value),
            escape::text(value).into_owned(),
            inside("", ""),
            inside("a", ""),
            inside("ab", "tail"),
            URL_SAFE_NO_PAD.encode(format!("abc{value}")),
        ] {
            let plain = redaction.text(&format!("before {text} after"));
            assert!(
                plain.contains(REMOVED)
                    && plain.starts_with("before ")
                    && plain.ends_with(" after"),
                "{plain}"
            );
            for part in [
                "gr\u{fc}n",
                "blue",
                "/7+>>?~",
                &STANDARD.encode(value)[4..20],
            ] {
                assert!(!plain.contains(part), "{part}: {plain}");
            }
        }
        let harmless = "the namespace openstack, and abc";
        assert_eq!(redaction.text(harmless), harmless);
    }

    #[test]
    fn secrets_inside_a_value_are_found_by_themselves() {
        let file = "[database]\nconnection = mysql+pymysql://u:in-a-url@db/placement\n[keystone]\npassword = in a file\n";
        let registry =
            json!({"auths": {"r": {"password": "of-a-registry", "auth": "dTpvZi1hLXJlZ2lzdHJ5"}}})
                .to_string();
        let key =
            "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49AgEG\n-----END PRIVATE KEY-----\n";
        let redaction = redaction(&[file, &registry, key]);
        for secret in [
            "in-a-url",
            "in a file",
            "of-a-registry",
            "dTpvZi1hLXJlZ2lzdHJ5",
            "MIGHAgEAMBMGByqGSM49AgEG",
        ] {
            let plain = redaction.text(&format!("saw {secret} there"));
            assert_eq!(plain, format!("saw {REMOVED} there"));
        }
    }

    #[test]
    fn forms_of_texts_hide_what_no_secret_has() {
        let redaction = redaction(&[]);
        for (text, plain) in [
            ("password = two words", "password = <removed>"),
            ("  mka-cak: 0123", "  mka-cak: <removed>"),
            (
                "~ interfaces[eth1].802.1x.password: one word -> two words",
                "~ interfaces[eth1].802.1x.password: <removed>",
            ),
            (
                "login user=a password=b, c=d",
                "login user=a password=<removed>, c=d",
            ),
            (
                r#"{"a":1,"api_key":"x y","b":2"#,
                r#"{"a":1,"api_key":<removed>,"b":2"#,
            ),
            ("DB_PASSWORD=x", "DB_PASSWORD=<removed>"),
            ("mysql://u:p@ss/w@db/x", "mysql://u:<removed>@db/x"),
            (
                "Authorization: Bearer abcdefgh.ij",
                "Authorization: Bearer <removed>",
            ),
            (
                "id eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln end",
                "id <removed> end",
            ),
            (
                "a\n-----BEGIN RSA PRIVATE KEY-----\nMIG\n-----END RSA PRIVATE KEY-----\nb",
                "a\n<removed>\nb",
            ),
            ("-----BEGIN PRIVATE KEY-----\nMIG", "<removed>"),
            (
                "http://10.0.0.1:6443/api and a@b",
                "http://10.0.0.1:6443/api and a@b",
            ),
            ("secretName: osp-secret", "secretName: osp-secret"),
        ] {
            assert_eq!(redaction.text(text), plain);
        }
    }

    /// A secret of its own in each place where one was ever found, or could be.
    #[test]
    fn fifty_planted_secrets_are_in_no_place_of_the_report() {
        let mut planted = Vec::new();
        let mut secret = || {
            planted.push(format!("pl4nted-{:02}-zz", planted.len()));
            planted[planted.len() - 1].clone()
        };
        let mut texts = Vec::new();
        let names = [
            "password",
            "passwd",
            "passphrase",
            "pwd",
            "psk",
            "secret",
            "token",
            "ssl_key",
            "api-key",
            "privateKey",
            "mka-cak",
            "credentials",
            "private-key-password",
        ];
        for name in ["private key", "Pre-shared key", "WPA key", "pass phrase"] {
            let (one, other) = (secret(), secret());
            texts.push(format!("{name}: {one}\nfailed, {name} = {other} and more"));
        }
        let mut object = json!({"kind": "Pod", "metadata": {"name": "p", "annotations": {}}});
        for name in names {
            object["spec"][name] = secret().into();
            texts.push(format!("{name}: {}", secret()));
            texts.push(format!("failed, {name}={} and more", secret()));
            texts.push(format!(
                "called [\"nmcli\", \"--{name}\", \"{}\"]",
                secret()
            ));
            texts.push(format!("run --wifi-{name} {} now", secret()));
            texts.push(format!("set 802-1x.{name} {}", secret()));
        }
        object["spec"]["args"] = json!(["--psk", secret(), "--token", secret(), "-v"]);
        object["spec"]["env"] = json!([{"name": "SSL_KEY", "value": secret()}]);
        object["spec"]["ovs-db"]["external_ids"]["ssl_key"] = secret().into();
        object["spec"]["config"] = json!({"plugins": [{"psk": secret()}]}).to_string().into();
        object["metadata"]["annotations"]["note"] = format!("--psk {}", secret()).into();
        texts.push(format!("passphrase {}", secret()));
        texts.push(format!("https://user:{}@host/x", secret()));
        assert!(planted.len() >= 50);

        let redaction = redaction(&[]);
        let mut shown = redaction.object(object).to_string();
        // All places of a state, as an object and as lines.
        let lines = include_str!("../../../plan/tests/planted.yaml");
        let state: Value = serde_saphyr::from_str(lines).unwrap();
        let (_, lines) = lines.split_once("interfaces:").unwrap();
        let harmless = lines.matches("h4rmless").count();
        let policy =
            json!({"kind": "NodeNetworkConfigurationPolicy", "spec": {"desiredState": state}});
        for text in [redaction.object(policy).to_string(), redaction.text(lines)] {
            assert_eq!(text.matches("h4rmless").count(), harmless, "{text}");
            assert!(!text.contains("pl4nted"), "{text}");
            shown += &text;
        }
        for text in &texts {
            shown += &format!("{}\n", redaction.text(text));
        }
        let seen: Vec<_> = planted
            .iter()
            .filter(|text| shown.contains(*text))
            .collect();
        assert!(seen.is_empty(), "{seen:?} in {shown}");
    }

    #[test]
    fn a_text_that_only_looks_like_a_secret_stays() {
        let mut known = Values::default();
        known.add(&json!({"metadata": {"name": "osp-secret"}}));
        let redaction = Redaction::new(&known, &BTreeSet::new()).unwrap();
        let object = json!({"kind": "PlacementAPI", "spec": {
            "secret": "osp-secret",
            "tolerations": [{"key": "node-role.kubernetes.io/master", "operator": "Exists"}],
            "topologyKey": "kubernetes.io/hostname",
            "args": ["--tls-key", "--verbose", "text"],
        }});
        assert_eq!(redaction.object(object.clone()), object);
        for text in [
            "the password is wrong, the token expired",
            "the private key does not match the certificate",
            "~ interfaces[ib0].infiniband.pkey: 0x8001 -> 0x8002",
            "~ interfaces[gre1].gre.key: 7 -> 8",
            "private-key: /etc/pki/client.key",
            "--tls-key /etc/pki/client.key",
            "token: ::12:34",
            "the Secret osp-secret has no key PlacementPassword",
            "topologyKey: kubernetes.io/hostname",
            "ssh_public_key=abc",
            "reconciled key=default/p",
        ] {
            assert_eq!(redaction.text(text), text);
        }
    }

    #[test]
    fn fields_and_variables_with_secret_names_lose_their_values() {
        let applied = json!({"spec": {"802.1x": {"identity": "node", "password": "p1", "private-key-password": "p2"}}});
        let object = json!({
            "kind": "Pod",
            "metadata": {
                "name": "p", "managedFields": [{}],
                "annotations": {LAST_APPLIED: applied.to_string(), "other": "kept"},
            },
            "spec": {
                "automountServiceAccountToken": false,
                "passwordSelectors": {"service": "PlacementPassword"},
                "env": [
                    {"name": "DB_PASSWORD", "value": "p3"},
                    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    {"name": "MODE", "value": "fast"},
                ],
                "config": "{\"psk\": \"p4\"}",
                "reference": {"kind": "Secret", "name": "s"},
            },
        });
        let plain = redaction(&[]).object(object);
        let hidden = json!({"spec": {"802.1x": {"identity": "node", "password": REMOVED, "private-key-password": REMOVED}}});
        assert_eq!(
            plain,
            json!({
                "kind": "Pod",
                "metadata": {"name": "p", "annotations": {LAST_APPLIED: hidden.to_string(), "other": "kept"}},
                "spec": {
                    "automountServiceAccountToken": false,
                    "passwordSelectors": {"service": "PlacementPassword"},
                    "env": [
                        {"name": "DB_PASSWORD", "value": REMOVED},
                        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                        {"name": "MODE", "value": "fast"},
                    ],
                    "config": "{\"psk\":\"<removed>\"}",
                    "reference": {"kind": "Secret", "name": "s"},
                },
            })
        );
    }

    #[test]
    fn a_value_that_is_no_object_of_the_cluster_keeps_its_form() {
        let redaction = redaction(&["a-secret-value"]);
        let events = json!([{"note": "saw a-secret-value"}]);
        assert_eq!(redaction.object(events), json!([{"note": "saw <removed>"}]));
        let status = json!({"domains": []});
        assert_eq!(redaction.object(status.clone()), status);
    }

    #[test]
    fn of_a_secret_only_name_type_and_keys_remain() {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"namespace": "n", "name": "s", "annotations": {LAST_APPLIED: "{\"stringData\":{\"a\":\"x\"}}"}},
            "data": {"b": "eA=="}, "stringData": {"a": "x"},
        });
        let plain = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"namespace": "n", "name": "s"}, "keys": ["a", "b"],
        });
        let redaction = redaction(&[]);
        assert_eq!(redaction.object(secret.clone()), plain);
        let nested = json!({"metadata": {"annotations": {LAST_APPLIED: json!({"kind": "List", "items": [secret]}).to_string()}}});
        let inner = redaction.object(nested)["metadata"]["annotations"][LAST_APPLIED].clone();
        assert_eq!(
            serde_json::from_str::<Value>(inner.as_str().unwrap()).unwrap()["items"][0],
            plain
        );
    }
}
