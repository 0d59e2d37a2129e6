//! Lists the mistakes in a specification: the rules of the schema again, for objects that are older
//! than it or come from a file, and rules that a schema cannot hold.

use std::{collections::BTreeSet, net::IpAddr};

use regex::Regex;
use weft_api::placement::{
    CredentialsSecret, Database, ENDPOINTS, Keystone, POLICY_FILE, PlacementApiSpec, ProbeOverride,
    RoutedOverride, SecretKey, patterns,
};
use weft_operands::{
    problems::{Problems, given},
    scheduling,
    text::is_object_name,
};
use weft_plan::Problem;

use crate::{ini, registration::Address};

const OBJECT: &str = "must be the name of an object: lower-case letters, digits, '-' and '.', a letter or digit at both ends";
const SECRET: &str = "must be the name of a Secret: lower-case letters, digits, '-' and '.', a letter or digit at both ends";
const KEY: &str = "must be a key of a Secret: letters, digits, '-', '_' and '.'";
const URL: &str = "must be a web address, for example https://placement.example:8778";

const KEYSTONE_URL: &str = "must be a web address, for example https://keystone.example:5000";

/// How long the name of a PlacementAPI is at most: a Job has it in its name, and Jobs have 63
/// characters.
pub const NAME_LENGTH: usize = 55;

/// The owner of the registration, and its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    /// keystone-operator registers the service.
    Operator,
    /// This operator does.
    Direct,
    /// No registration.
    None,
}

/// Returns the owner of the registration.
pub fn registration(keystone: Option<&Keystone>) -> Registration {
    let Some(keystone) = keystone else {
        return Registration::Operator;
    };
    match (given(&keystone.registration), &keystone.external) {
        (Some("Direct"), _) => Registration::Direct,
        (Some("None"), _) | (None, Some(_)) => Registration::None,
        _ => Registration::Operator,
    }
}

/// Everything that is wrong.
pub fn validate(name: &str, namespace: &str, spec: &PlacementApiSpec) -> Vec<Problem> {
    let mut problems = Problems::default();
    // No `..`: a field that is new has to be dealt with here.
    let PlacementApiSpec {
        container_image,
        api_timeout,
        service_user,
        database_instance,
        database_account,
        database,
        replicas,
        secret,
        password_selectors,
        node_selector,
        preserve_jobs: _,
        custom_service_config,
        default_config_overwrite,
        resources: _,
        network_attachments,
        misspelt_network_attachments,
        override_,
        tls,
        auth,
        keystone: keystone_,
        topology_ref,
    } = spec;

    scheduling::node_selector("spec.nodeSelector", node_selector.as_ref(), &mut problems);
    if name.len() > NAME_LENGTH {
        problems.push(
            "metadata.name",
            format!("{name:?} has more than {NAME_LENGTH} characters: the Job that prepares the database carries it in its name"),
        );
    }
    if misspelt_network_attachments.is_some() {
        problems.push(
            "spec.networkAttachents",
            "networkAttachents is misspelt: the field is networkAttachments",
        );
    }
    text(
        &mut problems,
        "spec.containerImage",
        container_image,
        patterns::IMAGE,
        "must be the reference of an image, for example quay.io/example/placement-api:v1, without blanks",
    );
    if let Some(seconds) =
        api_timeout.filter(|seconds| *seconds != 0 && !(10..=86400).contains(seconds))
    {
        let limit = if seconds > 86400 {
            "should be less than or equal to 86400, a day"
        } else {
            "must be 10 or more, or 0 for 60"
        };
        problems.push("spec.apiTimeout", format!("{seconds} {limit}"));
    }
    if let Some(replicas) = replicas.filter(|replicas| !(0..=32).contains(replicas)) {
        problems.push(
            "spec.replicas",
            format!("{replicas} should be less than or equal to 32, and not negative"),
        );
    }
    text(
        &mut problems,
        "spec.serviceUser",
        service_user,
        patterns::ONE_LINE,
        "must be one line without control characters",
    );
    for (field, value) in [
        ("spec.databaseInstance", database_instance),
        ("spec.databaseAccount", database_account),
        ("spec.secret", secret),
    ] {
        problems.text(field, value, is_object_name, OBJECT);
    }
    if let Some(selectors) = password_selectors {
        text(
            &mut problems,
            "spec.passwordSelectors.service",
            &selectors.service,
            patterns::SECRET_KEY,
            KEY,
        );
    }

    let strategy = auth.as_ref().and_then(|auth| given(&auth.strategy));
    let noauth2 = strategy == Some("noauth2");
    let credential = auth
        .as_ref()
        .and_then(|auth| given(&auth.application_credential_secret));
    match (given(database_instance), database) {
        (None, None) => problems.push(
            "spec.databaseInstance",
            "is missing: name the Galera or MariaDB that mariadb-operator runs, or give a database of your own in database",
        ),
        (Some(instance), Some(_)) => problems.push(
            "spec.database",
            format!("databaseInstance {instance:?} names a database that mariadb-operator runs, database another one: keep one of the two"),
        ),
        _ => {}
    }
    let nobody_registers = registration(keystone_.as_ref()) == Registration::None;
    if given(secret).is_none() && !noauth2 && !(nobody_registers && credential.is_some()) {
        problems.push(
            "spec.secret",
            "is missing: name the Secret that holds the password of the service's user in Keystone",
        );
    }
    if noauth2 && keystone_.is_some() {
        problems.push(
            "spec.keystone",
            "with auth.strategy noauth2 there is no Keystone: remove keystone, or auth.strategy",
        );
    }
    if let Some(auth) = auth {
        problems.text(
            "spec.auth.applicationCredentialSecret",
            &auth.application_credential_secret,
            is_object_name,
            OBJECT,
        );
        if noauth2 && credential.is_some() {
            problems.push(
                "spec.auth.applicationCredentialSecret",
                "with auth.strategy noauth2 there are no credentials: remove applicationCredentialSecret, or auth.strategy",
            );
        }
        one_of(
            &mut problems,
            "spec.auth.strategy",
            strategy,
            &["keystone", "noauth2"],
        );
    }
    let bundle = tls
        .as_ref()
        .and_then(|tls| given(&tls.ca_bundle_secret_name));
    if database
        .as_ref()
        .is_some_and(|database| database.tls == Some(true))
        && bundle.is_none()
    {
        problems.push(
            "spec.database.tls",
            "the certificate of the database is verified by a bundle: name its Secret in tls.caBundleSecretName",
        );
    }
    if let Some(complaint) = custom_service_config.as_deref().and_then(ini::complaint) {
        problems.push(
            "spec.customServiceConfig",
            format!("Placement cannot read this: {complaint}"),
        );
    }
    for file in default_config_overwrite
        .iter()
        .flatten()
        .map(|(file, _)| file)
        .filter(|file| *file != POLICY_FILE)
    {
        problems.push(
            "spec.defaultConfigOverwrite",
            format!("Invalid value: {file:?}: Only the following keys are valid: policy.yaml"),
        );
    }
    attachments(
        &mut problems,
        network_attachments.as_deref().unwrap_or_default(),
    );
    if let Some(tls) = tls {
        problems.text(
            "spec.tls.caBundleSecretName",
            &tls.ca_bundle_secret_name,
            is_object_name,
            OBJECT,
        );
        let certificates = tls
            .api
            .iter()
            .flat_map(|api| [("internal", &api.internal), ("public", &api.public)]);
        let mut count = 0;
        for (endpoint, certificate) in certificates {
            let secret = certificate
                .as_ref()
                .map(|certificate| &certificate.secret_name);
            count += usize::from(secret.and_then(given).is_some());
            if let Some(secret) = secret {
                problems.text(
                    &format!("spec.tls.api.{endpoint}.secretName"),
                    secret,
                    is_object_name,
                    OBJECT,
                );
            }
        }
        if count == 1 {
            problems.push(
                "spec.tls.api",
                "needs both certificates or none, since both Services lead to one port: set internal.secretName and public.secretName",
            );
        }
    }
    if let Some(topology) = topology_ref {
        if problems
            .text(
                "spec.topologyRef.name",
                &topology.name,
                is_object_name,
                OBJECT,
            )
            .is_none()
            && given(&topology.name).is_none()
        {
            problems.push("spec.topologyRef.name", "is missing: name the Topology");
        }
        if given(&topology.namespace).is_some_and(|other| other != namespace) {
            problems.push(
                "spec.topologyRef.namespace",
                "Invalid value: \"namespace\": Customizing namespace field is not supported: remove it, the Topology is looked for in the namespace of the PlacementAPI",
            );
        }
    }
    if let Some(changes) = override_ {
        for (endpoint, service) in changes.service.iter().flatten() {
            routed(&mut problems, endpoint, service);
        }
        let probes = changes.probes.iter().flat_map(|probes| {
            [
                ("livenessProbes", &probes.liveness_probes),
                ("readinessProbes", &probes.readiness_probes),
                ("startupProbes", &probes.startup_probes),
            ]
        });
        for (name, changed) in probes {
            changed.iter().for_each(|changed| {
                probe(
                    &mut problems,
                    &format!("spec.override.probes.{name}"),
                    changed,
                )
            });
        }
    }
    database
        .iter()
        .for_each(|database| own_database(&mut problems, database));
    keystone_
        .iter()
        .for_each(|asked| keystone(&mut problems, asked));
    problems.into_vec()
}

fn fits(pattern: &str, text: &str) -> bool {
    // The patterns are constants, all of them read by a test.
    Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
}

fn text(
    problems: &mut Problems,
    field: &str,
    text: &Option<String>,
    pattern: &str,
    complaint: &str,
) {
    if let Some(text) = given(text).filter(|text| !fits(pattern, text)) {
        problems.push(field, format!("{text:?} {complaint}"));
    }
}

fn one_of(problems: &mut Problems, field: &str, value: Option<&str>, allowed: &[&str]) {
    if let Some(value) = value.filter(|value| !allowed.contains(value)) {
        let allowed: Vec<_> = allowed.iter().map(|word| format!("{word:?}")).collect();
        problems.push(
            field,
            format!(
                "{value:?} is not one of the supported values: {}",
                allowed.join(", ")
            ),
        );
    }
}

fn attachments(problems: &mut Problems, names: &[String]) {
    let mut seen = BTreeSet::new();
    for (index, name) in names.iter().enumerate() {
        if !is_object_name(name) {
            problems.push(
                &format!("spec.networkAttachments[{index}]"),
                format!("{name:?} must be the name of a NetworkAttachmentDefinition in the same namespace: lower-case letters, digits, '-' and '.', a letter or digit at both ends"),
            );
        }
        if !seen.insert(name) {
            problems.push(
                "spec.networkAttachments",
                format!("{name:?}: names a network twice: a pod is attached to a network once"),
            );
        }
    }
}

fn routed(problems: &mut Problems, endpoint: &str, service: &RoutedOverride) {
    if !ENDPOINTS.contains(&endpoint) {
        problems.push(
            "spec.override.service",
            format!("Invalid value: {endpoint:?}: invalid endpoint type: {endpoint}: the keys are public and internal"),
        );
    }
    let path = format!("spec.override.service.{endpoint}");
    text(
        problems,
        &format!("{path}.endpointURL"),
        &service.endpoint_url,
        patterns::WEB_ADDRESS,
        URL,
    );
    let Some(changed) = &service.spec else { return };
    let types = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"];
    one_of(
        problems,
        &format!("{path}.spec.type"),
        given(&changed.type_),
        &types,
    );
    for (index, range) in changed
        .load_balancer_source_ranges
        .iter()
        .flatten()
        .enumerate()
    {
        let block = range.split_once('/').and_then(|(address, length)| {
            Some((address.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?))
        });
        if block.is_none_or(|(address, length)| length > if address.is_ipv4() { 32 } else { 128 }) {
            problems.push(
                &format!("{path}.spec.loadBalancerSourceRanges[{index}]"),
                format!("{range:?} must be a block of addresses in CIDR notation, for example 192.0.2.0/24"),
            );
        }
    }
}

fn probe(problems: &mut Problems, path: &str, probe: &ProbeOverride) {
    if let Some(wrong) = given(&probe.path).filter(|path| !path.starts_with('/')) {
        problems.push(
            &format!("{path}.path"),
            format!("{wrong:?}: path must start with '/' if specified"),
        );
    }
    let exec = given(&probe.type_) == Some("Exec");
    let command = probe
        .command
        .as_ref()
        .is_some_and(|command| !command.is_empty());
    if exec != command {
        let message = if exec {
            "command is required for exec probe type"
        } else {
            "a command is run by a probe of the type Exec: set type to Exec, or remove command"
        };
        problems.push(&format!("{path}.command"), message);
    }
    for (field, value, least) in [
        ("initialDelaySeconds", probe.initial_delay_seconds, 0),
        ("timeoutSeconds", probe.timeout_seconds, 1),
        ("periodSeconds", probe.period_seconds, 1),
        ("failureThreshold", probe.failure_threshold, 1),
    ] {
        if let Some(value) = value.filter(|value| *value < least) {
            problems.push(
                &format!("{path}.{field}"),
                format!("{value} should be greater than or equal to {least}"),
            );
        }
    }
}

fn own_database(problems: &mut Problems, database: &Database) {
    let Database {
        url_secret,
        host,
        port,
        name,
        credentials_secret,
        tls,
    } = database;
    let host_given = given(host);
    if url_secret.is_none() && host_given.is_none() {
        problems.push(
            "spec.database",
            "needs urlSecret, or host and credentialsSecret",
        );
    }
    if host_given.is_some() && url_secret.is_none() && credentials_secret.is_none() {
        problems.push(
            "spec.database.credentialsSecret",
            "is missing: name the Secret with user and password of the database",
        );
    }
    let more = host_given.is_some()
        || port.is_some()
        || given(name).is_some()
        || credentials_secret.is_some()
        || *tls == Some(true);
    if url_secret.is_some() && more {
        problems.push(
            "spec.database.urlSecret",
            "the address in urlSecret says everything: remove host, port, name, credentialsSecret and tls, or urlSecret",
        );
    }
    if let Some(SecretKey { name, key }) = url_secret {
        secret_name(problems, "spec.database.urlSecret.name", name);
        text(
            problems,
            "spec.database.urlSecret.key",
            key,
            patterns::SECRET_KEY,
            KEY,
        );
    }
    if let Some(host) =
        host_given.filter(|host| host.parse::<IpAddr>().is_err() && !fits(patterns::DNS_NAME, host))
    {
        problems.push(
            "spec.database.host",
            format!("{host:?} must be an IP address or a DNS name, for example db.example.com"),
        );
    }
    text(
        problems,
        "spec.database.name",
        name,
        patterns::DATABASE_NAME,
        "must be the name of a database: letters, digits and '_'",
    );
    credentials(
        problems,
        "spec.database.credentialsSecret",
        credentials_secret.as_ref(),
    );
}

fn keystone(problems: &mut Problems, keystone: &Keystone) {
    let Keystone {
        external,
        registration,
        admin_secret,
    } = keystone;
    let registration = given(registration);
    one_of(
        problems,
        "spec.keystone.registration",
        registration,
        &["Operator", "Direct", "None"],
    );
    if registration == Some("Operator") && external.is_some() {
        problems.push(
            "spec.keystone.registration",
            "keystone-operator registers only with the KeystoneAPI in the namespace: set Direct or None, or remove external",
        );
    }
    if registration == Some("Direct") && admin_secret.is_none() {
        problems.push(
            "spec.keystone.adminSecret",
            "is missing: Direct needs a user who may register the service: name the Secret with its name and password",
        );
    }
    credentials(problems, "spec.keystone.adminSecret", admin_secret.as_ref());
    let Some(external) = external else { return };
    let path = "spec.keystone.external";
    if let Err(error) = external.auth_url.parse::<Address>() {
        problems.push(&format!("{path}.authURL"), error.to_string());
    }
    text(
        problems,
        &format!("{path}.wwwAuthenticateURI"),
        &external.www_authenticate_uri,
        patterns::WEB_ADDRESS,
        KEYSTONE_URL,
    );
    text(
        problems,
        &format!("{path}.region"),
        &external.region,
        patterns::ONE_LINE,
        "must be one line without control characters",
    );
    problems.text(
        &format!("{path}.caBundleSecretName"),
        &external.ca_bundle_secret_name,
        is_object_name,
        OBJECT,
    );
}

fn credentials(problems: &mut Problems, path: &str, secret: Option<&CredentialsSecret>) {
    let Some(CredentialsSecret {
        name,
        user_key,
        password_key,
    }) = secret
    else {
        return;
    };
    secret_name(problems, &format!("{path}.name"), name);
    text(
        problems,
        &format!("{path}.userKey"),
        user_key,
        patterns::SECRET_KEY,
        KEY,
    );
    text(
        problems,
        &format!("{path}.passwordKey"),
        password_key,
        patterns::SECRET_KEY,
        KEY,
    );
}

fn secret_name(problems: &mut Problems, field: &str, name: &str) {
    if !is_object_name(name) {
        problems.push(field, format!("{name:?} {SECRET}"));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    /// The table that the rules of the schema and a real API server are asked, too.
    #[derive(Deserialize)]
    struct Cases {
        accepted: Vec<Case>,
        refused: Vec<Case>,
    }

    #[derive(Deserialize)]
    struct Case {
        #[serde(default)]
        name: String,
        #[serde(default)]
        field: String,
        #[serde(default)]
        message: String,
        spec: Value,
    }

    fn cases() -> Cases {
        serde_saphyr::from_str(include_str!("../../api/src/tests/placement/cases.yaml")).unwrap()
    }

    fn found(spec: &Value) -> Vec<Problem> {
        validate(
            "placement",
            "default",
            &serde_json::from_value(spec.clone()).unwrap(),
        )
    }

    #[test]
    fn objects_that_the_api_accepts_are_valid() {
        for case in cases().accepted {
            assert_eq!(found(&case.spec), vec![], "{}", case.name);
        }
    }

    #[test]
    fn objects_that_the_api_refuses_are_invalid_with_the_same_words() {
        for case in cases().refused {
            let problems = found(&case.spec);
            // A key of a map stands in brackets where the API server names it.
            let field = case.field.replace("[public]", ".public");
            assert!(
                problems.iter().any(
                    |problem| problem.field == field && problem.message.contains(&case.message)
                ),
                "{field} {}: {problems:#?}",
                case.spec
            );
        }
    }

    #[test]
    fn a_long_name_is_refused() {
        let spec = serde_json::from_value(cases().accepted[0].spec.clone()).unwrap();
        assert_eq!(validate(&"a".repeat(NAME_LENGTH), "default", &spec), vec![]);
        assert_eq!(
            validate(&"a".repeat(NAME_LENGTH + 1), "default", &spec)[0].field,
            "metadata.name"
        );
    }

    #[test]
    fn every_pattern_is_one() {
        for pattern in [
            patterns::OBJECT_NAME,
            patterns::SECRET_KEY,
            patterns::WEB_ADDRESS,
            patterns::KEYSTONE_ADDRESS,
            patterns::USER_IN_ADDRESS,
            patterns::DNS_NAME,
            patterns::DATABASE_NAME,
            patterns::ONE_LINE,
            patterns::IMAGE,
            patterns::OSLO_CONFIG,
        ] {
            Regex::new(pattern).unwrap();
        }
    }
}
