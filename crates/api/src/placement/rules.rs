//! The CEL rules of the schema: what can never work is refused by `kubectl apply` itself, and no
//! webhook is needed.
//!
//! [`crate::rules`] describes common properties of all rules. Where placement-operator refused the
//! same, by its webhook, its words are part of the message.

use kube_core::{Rule, cel::Reason};
use serde_json::{Value, json};

use super::patterns::{
    DATABASE_NAME, DNS_NAME, IMAGE, KEYSTONE_ADDRESS, OBJECT_NAME, ONE_LINE, OSLO_CONFIG,
    SECRET_KEY, USER_IN_ADDRESS, WEB_ADDRESS,
};
use crate::rules::{empty_or, matches, rule, rule_for};

/// Such a field is needed.
fn needed(field: &str, expression: impl Into<String>, message: impl AsRef<str>) -> Rule {
    rule_for(field, expression, message).reason(Reason::FieldValueRequired)
}

/// The field, perhaps of a field, holds a text. `given("a.b")` is true only if both are there.
fn given(path: &str) -> String {
    let mut conditions = Vec::new();
    let mut reached = String::from("self");
    for part in path.split('.') {
        reached = format!("{reached}.{part}");
        conditions.push(format!("has({reached})"));
    }
    format!("({} && {reached} != '')", conditions.join(" && "))
}

/// Nobody has to prove anything.
fn noauth2() -> String {
    format!(
        "({} && self.auth.strategy == 'noauth2')",
        given("auth.strategy")
    )
}

/// For the specification as a whole.
pub(super) fn spec() -> [Rule; 7] {
    let nobody_registers = "(has(self.keystone) && (has(self.keystone.registration) ? self.keystone.registration == 'None' : has(self.keystone.external)))";
    let (noauth2, credential) = (noauth2(), given("auth.applicationCredentialSecret"));
    [
        rule_for(
            ".networkAttachents",
            "!has(self.networkAttachents)",
            "networkAttachents is misspelt: the field is networkAttachments",
        ),
        needed(
            ".databaseInstance",
            format!("has(self.database) || {}", given("databaseInstance")),
            "name the Galera or MariaDB that mariadb-operator runs, or give a database of your own in database",
        ),
        rule_for(
            ".database",
            format!("!has(self.database) || !{}", given("databaseInstance")),
            "databaseInstance names a database that mariadb-operator runs, database another one: keep one of the two",
        ),
        needed(
            ".secret",
            format!(
                "{} || {noauth2} || {nobody_registers} && {credential}",
                given("secret")
            ),
            "name the Secret that holds the password of the service's user in Keystone",
        ),
        rule_for(
            ".keystone",
            format!("!has(self.keystone) || !{noauth2}"),
            "with auth.strategy noauth2 there is no Keystone: remove keystone, or auth.strategy",
        ),
        rule_for(
            ".auth.applicationCredentialSecret",
            format!("!{credential} || !{noauth2}"),
            "with auth.strategy noauth2 there are no credentials: remove applicationCredentialSecret, or auth.strategy",
        ),
        rule_for(
            ".database.tls",
            format!(
                "!has(self.database) || !has(self.database.tls) || !self.database.tls || {}",
                given("tls.caBundleSecretName")
            ),
            "the certificate of the database is verified by a bundle: name its Secret in tls.caBundleSecretName",
        ),
    ]
}

/// For the seconds of a request.
pub(super) fn api_timeout() -> [Rule; 1] {
    [rule(
        "self == 0 || self >= 10",
        "must be 10 or more, or 0 for 60",
    )]
}

/// For an image.
pub(super) fn image() -> [Rule; 1] {
    [rule(
        matches("self", IMAGE),
        "must be the reference of an image, for example quay.io/example/placement-api:v1, without blanks",
    )]
}

/// For a text that goes into one line.
pub(super) fn one_line() -> [Rule; 1] {
    [rule(
        matches("self", ONE_LINE),
        "must be one line without control characters",
    )]
}

/// For the name of an object that may be left out.
pub(super) fn object_name() -> [Rule; 1] {
    [rule(
        empty_or(OBJECT_NAME),
        "must be the name of an object: lower-case letters, digits, '-' and '.', a letter or digit at both ends",
    )]
}

/// For the name of an object that is needed.
pub(super) fn needed_name() -> [Rule; 1] {
    [rule(
        matches("self", OBJECT_NAME),
        "must be the name of a Secret: lower-case letters, digits, '-' and '.', a letter or digit at both ends",
    )]
}

/// For a key of a Secret.
pub(super) fn secret_key() -> [Rule; 1] {
    [rule(
        empty_or(SECRET_KEY),
        "must be a key of a Secret: letters, digits, '-', '_' and '.'",
    )]
}

/// For the settings that are added.
pub(super) fn oslo_config() -> [Rule; 1] {
    [rule(
        matches("self", OSLO_CONFIG),
        "Placement cannot read this: write sections such as [DEFAULT], lines such as 'debug = true', comments with #, and begin a line with a blank only to continue the value before it",
    )]
}

/// For files that are replaced: no other than the policy.
pub(super) fn config_overwrite() -> Value {
    let message = |key: &str| {
        format!(
            "'invalid: spec.defaultConfigOverwrite: Invalid value: \"' + {key} + '\": Only the following keys are valid: policy.yaml'"
        )
    };
    keys(
        "['policy.yaml']",
        "Only the following keys are valid: policy.yaml",
        message,
    )
}

/// For the Services that are changed: the two that there are.
pub(super) fn endpoints() -> Value {
    let message = |key: &str| {
        format!(
            "'invalid: spec.override.service[' + {key} + ']: Invalid value: \"' + {key} + '\": invalid endpoint type: ' + {key} + ': the keys are public and internal'"
        )
    };
    keys(
        "['public', 'internal']",
        "invalid endpoint type: the keys are public and internal",
        message,
    )
}

/// The keys of a map are some of these. The message about the first other one is, from `invalid:`
/// on, that of the original's webhook: tests of other projects look for it.
fn keys(known: &str, plain: &str, message: impl Fn(&str) -> String) -> Value {
    let other = format!("self.filter(key, !(key in {known}))[0]");
    json!([
        {
            "rule": format!("self.all(key, key in {known})"), "message": plain,
            "messageExpression": message(&other)
        }
    ])
}

/// For networks.
pub(super) fn attachments() -> [Rule; 1] {
    [rule(
        "self.all(one, self.exists_one(other, other == one))",
        "names a network twice: a pod is attached to a network once",
    )]
}

/// For a network.
pub(super) fn attachment() -> [Rule; 1] {
    [rule(
        matches("self", OBJECT_NAME),
        "must be the name of a NetworkAttachmentDefinition in the same namespace: lower-case letters, digits, '-' and '.', a letter or digit at both ends",
    )]
}

/// For the clients of a load balancer.
pub(super) fn source_range() -> [Rule; 1] {
    [rule(
        "isCIDR(self)",
        "must be a block of addresses in CIDR notation, for example 192.0.2.0/24",
    )]
}

/// For a web address that may be left out.
pub(super) fn url() -> [Rule; 1] {
    [rule(
        empty_or(WEB_ADDRESS),
        "must be a web address, for example https://placement.example:8778",
    )]
}

/// For the address of a Keystone. Each rule leaves to the others what they refuse.
pub(super) fn keystone_url() -> [Rule; 3] {
    let (user, query) = (
        matches("self", USER_IN_ADDRESS),
        "(self.contains('?') || self.contains('#'))",
    );
    [
        rule(
            format!("!{user}"),
            "must have no user and no password: remove everything from // up to the @, the Secret of keystone.adminSecret holds both",
        ),
        rule(
            format!("{user} || !{query}"),
            "must have no query and no fragment: remove the ? or # and everything after it",
        ),
        rule(
            format!("{user} || {query} || {}", matches("self", KEYSTONE_ADDRESS)),
            "must be a web address, for example https://keystone.example:5000, with a port from 1 to 65535 and a path of plain segments: letters, digits, '-', '.', '_' and '~' between single slashes, and no segment . or ..",
        ),
    ]
}

/// For the path of a probe.
pub(super) fn path() -> [Rule; 1] {
    [rule(
        "self == '' || self.startsWith('/')",
        "path must start with '/' if specified",
    )]
}

/// For a probe.
pub(super) fn probe() -> [Rule; 2] {
    let exec = format!("({} && self.type == 'Exec')", given("type"));
    [
        needed(
            ".command",
            format!("!{exec} || has(self.command) && self.command.size() > 0"),
            "command is required for exec probe type",
        ),
        rule_for(
            ".command",
            format!("{exec} || !has(self.command) || self.command.size() == 0"),
            "a command is run by a probe of the type Exec: set type to Exec, or remove command",
        ),
    ]
}

/// For the certificates of the service. With one of the two, no client gets an answer on the one
/// port that both share.
pub(super) fn tls_api() -> [Rule; 1] {
    [rule(
        format!(
            "{} == {}",
            given("internal.secretName"),
            given("public.secretName")
        ),
        "needs both certificates or none, since both Services lead to one port: set internal.secretName and public.secretName",
    )]
}

/// For a Topology.
pub(super) fn topology_ref() -> [Rule; 1] {
    [needed(".name", given("name"), "name the Topology")]
}

/// For a database of one's own.
pub(super) fn database() -> [Rule; 3] {
    let host = given("host");
    [
        rule(
            format!("has(self.urlSecret) || {host}"),
            "needs urlSecret, or host and credentialsSecret",
        ),
        needed(
            ".credentialsSecret",
            format!("!{host} || has(self.urlSecret) || has(self.credentialsSecret)"),
            "name the Secret with user and password of the database",
        ),
        rule_for(
            ".urlSecret",
            format!(
                "!has(self.urlSecret) || !{host} && !has(self.port) && !{} && !has(self.credentialsSecret) && !(has(self.tls) && self.tls)",
                given("name")
            ),
            "the address in urlSecret says everything: remove host, port, name, credentialsSecret and tls, or urlSecret",
        ),
    ]
}

/// For the host of a database.
pub(super) fn host() -> [Rule; 1] {
    [rule(
        format!("self == '' || isIP(self) || {}", matches("self", DNS_NAME)),
        "must be an IP address or a DNS name, for example db.example.com",
    )]
}

/// For the name of a database.
pub(super) fn database_name() -> [Rule; 1] {
    [rule(
        empty_or(DATABASE_NAME),
        "must be the name of a database: letters, digits and '_'",
    )]
}

/// For Keystone.
pub(super) fn keystone() -> [Rule; 2] {
    [
        rule_for(
            ".registration",
            "!has(self.external) || !has(self.registration) || self.registration != 'Operator'",
            "keystone-operator registers only with the KeystoneAPI in the namespace: set Direct or None, or remove external",
        ),
        needed(
            ".adminSecret",
            "!has(self.registration) || self.registration != 'Direct' || has(self.adminSecret)",
            "Direct needs a user who may register the service: name the Secret with its name and password",
        ),
    ]
}
