//! The CEL rules of the schema: what can never work is refused by `kubectl apply` itself.
//! [`crate::rules`] describes common properties of all rules.

use kube_core::Rule;

use super::{CONTAINERS, NAME};
use crate::{
    patterns::{DNS_LABEL, DURATION, OBJECT_NAME},
    rules::rule,
};

/// Six octets, in one of the notations of Go's `net.ParseMAC`: `02:00:00:00:00:01`,
/// `02-00-00-00-00-01` or `0200.0000.0001`.
const MAC: &str = "^([0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}|[0-9A-Fa-f]{2}(-[0-9A-Fa-f]{2}){5}|[0-9A-Fa-f]{4}([.][0-9A-Fa-f]{4}){2})$";

/// A DNS name in lower case (RFC 1123).
const DNS_NAME: &str =
    "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$";

/// The host of a registry, in the grammar of <https://github.com/distribution/reference>.
const HOST: &str = "([0-9A-Za-z]([0-9A-Za-z-]*[0-9A-Za-z])?([.][0-9A-Za-z]([0-9A-Za-z-]*[0-9A-Za-z])?)*|\\\\[[0-9A-Fa-f:]+\\\\])(:[0-9]+)?";

/// The path of an image in its registry, in the same grammar.
const IMAGE_PATH: &str = "[0-9a-z]+(([.]|_|__|-+)[0-9a-z]+)*(/[0-9a-z]+(([.]|_|__|-+)[0-9a-z]+)*)*";

/// An absolute path without empty parts. No colon: Kubernetes refuses it in the path of a mount.
const PATH: &str = "^(/[^/:[:cntrl:]]+)+$";

/// The text is empty or matches the pattern.
fn matches(pattern: &str, message: &str) -> Rule {
    rule(format!("self == '' || self.matches('{pattern}')"), message)
}

/// The field is there and not empty.
fn given(field: &str) -> String {
    format!("(has(self.{field}) && self.{field} != '')")
}

/// For `metadata.name`.
pub(super) fn object_name() -> [Rule; 1] {
    [rule(
        format!("self == '{NAME}'"),
        "only the NetworkAddonsConfig named cluster is acted on: set metadata.name to cluster",
    )]
}

/// For the specification.
pub(super) fn spec() -> [Rule; 1] {
    [rule(
        "!has(self.multusDynamicNetworks) || has(self.multus)",
        "multusDynamicNetworks needs multus: add `multus: {}` to the spec",
    )]
}

/// For `kubeMacPool`.
pub(super) fn mac_range() -> [Rule; 2] {
    // Lower-case hex of equal length sorts as the numbers do, so this compares all octets.
    let octets = |field: &str| {
        format!("self.{field}.lowerAscii().replace(':', '').replace('-', '').replace('.', '')")
    };
    let is_mac = |field: &str| format!("!(has(self.{field}) && self.{field}.matches('{MAC}'))");
    [
        rule(
            format!("{} == {}", given("rangeStart"), given("rangeEnd")),
            "rangeStart and rangeEnd belong together: set both, or none to get a random range",
        ),
        rule(
            format!(
                "{} || {} || {} < {}",
                is_mac("rangeStart"),
                is_mac("rangeEnd"),
                octets("rangeStart"),
                octets("rangeEnd")
            ),
            "rangeEnd must be greater than rangeStart",
        ),
    ]
}

/// For one end of the MAC range.
pub(super) fn mac_address() -> [Rule; 2] {
    [
        matches(
            MAC,
            "must be a MAC address of six octets, for example 02:00:00:00:00:00",
        ),
        rule(
            "!self.matches('^.[13579bBdDfF]')",
            "must be a unicast address: the second hexadecimal digit must be even, for example 02:00:00:00:00:00",
        ),
    ]
}

/// For `hostCRISocketPath`.
pub(super) fn socket_path() -> [Rule; 1] {
    [rule(
        format!("self == '' || (self.matches('{PATH}') && !self.matches('/[.][.]?(/|$)'))"),
        "must be an absolute path without '.', '..', '//', ':' or a slash at the end, for example /run/containerd/containerd.sock",
    )]
}

/// For an image.
pub(super) fn image() -> [Rule; 1] {
    [matches(
        &format!(
            "^(({HOST})/)?{IMAGE_PATH}(:[0-9A-Za-z_][0-9A-Za-z_.-]{{0,127}})?(@(sha256:[0-9a-f]{{64}}|sha384:[0-9a-f]{{96}}|sha512:[0-9a-f]{{128}}))?$"
        ),
        "must be the reference of a container image, for example registry.example/team/image:v1 or registry.example/team/image@sha256:...",
    )]
}

/// For `imageRegistry`. Container runtimes take what has neither a dot nor a port for a folder of
/// docker.io.
pub(super) fn registry() -> [Rule; 1] {
    let (registry, host) = (
        format!("^({HOST})(/{IMAGE_PATH})?$"),
        "^(localhost|[^/]*[.:A-Z][^/]*)(/|$)",
    );
    [rule(
        format!("self == '' || (self.matches('{registry}') && self.matches('{host}'))"),
        "must be a registry, for example registry.example, registry.example:5000 or registry.example/mirror, without https:// and without a slash at the end",
    )]
}

/// For an entry of `imagePullSecrets`.
pub(super) fn secret_name() -> [Rule; 1] {
    [rule(
        format!("self.matches('{OBJECT_NAME}')"),
        "must be the name of a Secret: lower-case letters, digits, '-' and '.', a letter or digit at both ends",
    )]
}

/// For a folder of the nodes.
pub(super) fn folder() -> [Rule; 1] {
    [rule(
        format!("self == '' || (self.matches('{PATH}') && !self.matches('/[.][.]?(/|$)'))"),
        "must be the absolute path of a folder without '.', '..', '//', ':' or a slash at the end, for example /opt/cni/bin",
    )]
}

/// For an entry of `resources`.
pub(super) fn resources() -> [Rule; 2] {
    let known = |name: fn(&(&'static str, &'static str, &'static str)) -> &'static str| {
        let mut of_component = std::collections::BTreeMap::<_, Vec<_>>::new();
        for container in &CONTAINERS {
            of_component
                .entry(container.0)
                .or_default()
                .push(format!("'{}'", name(container)));
        }
        let lists = of_component.into_iter().map(|(component, mut names)| {
            names.dedup();
            format!("'{component}': [{}]", names.join(", "))
        });
        format!("{{{}}}", lists.collect::<Vec<_>>().join(", "))
    };
    let one_of = |field: &str, known: String| {
        format!(
            "!has(self.{field}) || self.{field} == '' || !(self.component in {known}) || self.{field} in {known}[self.component]"
        )
    };
    [
        rule(
            one_of("workload", known(|(_, workload, _)| workload)),
            "workload must be a DaemonSet or Deployment of the component: status.containers has their names in parentName",
        ),
        rule(
            one_of("container", known(|(_, _, container)| container)),
            "container must be a container of the component: status.containers has their names in name",
        ),
    ]
}

/// For `devicePluginConfig`.
pub(super) fn config_map_name() -> [Rule; 1] {
    [matches(
        OBJECT_NAME,
        "must be the name of a ConfigMap: lower-case letters, digits, '-' and '.', a letter or digit at both ends",
    )]
}

/// For `defaultNetworkNADNamespace`.
pub(super) fn namespace_name() -> [Rule; 1] {
    [matches(
        DNS_LABEL,
        "must be the name of a namespace: lower-case letters, digits and '-', a letter or digit at both ends",
    )]
}

/// For `kubeSecondaryDNS`: each setting under one of its two spellings.
pub(super) fn one_spelling() -> [Rule; 2] {
    [
        rule(
            "!(has(self.domain) && has(self.DOMAIN))",
            "domain and DOMAIN are one setting: keep domain, remove DOMAIN",
        ),
        rule(
            "!(has(self.nameServerIP) && has(self.NAME_SERVER_IP))",
            "nameServerIP and NAME_SERVER_IP are one setting: keep nameServerIP, remove NAME_SERVER_IP",
        ),
    ]
}

/// For the domain of the secondary DNS.
pub(super) fn dns_domain() -> [Rule; 1] {
    [matches(
        DNS_NAME,
        "must be a DNS domain in lower case without a dot at the end, for example secondary.example.com",
    )]
}

/// For the address of the secondary DNS.
pub(super) fn ip_address() -> [Rule; 1] {
    [rule(
        "self == '' || isIP(self)",
        "must be an IPv4 or IPv6 address, for example 192.0.2.53",
    )]
}

/// For `selfSignConfiguration`.
pub(super) fn rotation() -> [Rule; 4] {
    let [ca_rotate, ca_overlap, cert_rotate, cert_overlap] = [
        "caRotateInterval",
        "caOverlapInterval",
        "certRotateInterval",
        "certOverlapInterval",
    ];
    [
        rule(
            format!(
                "{0} == {1} && {0} == {2} && {0} == {3}",
                given(ca_rotate),
                given(ca_overlap),
                given(cert_rotate),
                given(cert_overlap)
            ),
            "the four intervals belong together: set all of caRotateInterval, caOverlapInterval, certRotateInterval and certOverlapInterval, or none",
        ),
        not_longer(
            ca_overlap,
            ca_rotate,
            "caOverlapInterval must not be longer than caRotateInterval",
        ),
        not_longer(
            cert_rotate,
            ca_rotate,
            "certRotateInterval must not be longer than caRotateInterval",
        ),
        not_longer(
            cert_overlap,
            cert_rotate,
            "certOverlapInterval must not be longer than certRotateInterval",
        ),
    ]
}

/// One interval of the object is at most as long as another one, if both are durations.
fn not_longer(short: &str, long: &str, message: &str) -> Rule {
    let is_duration =
        |field: &str| format!("!(has(self.{field}) && self.{field}.matches('{DURATION}'))");
    rule(
        format!(
            "{} || {} || duration(self.{short}) <= duration(self.{long})",
            is_duration(short),
            is_duration(long)
        ),
        message,
    )
}

/// For one interval.
pub(super) fn interval() -> [Rule; 2] {
    [
        matches(
            DURATION,
            "must be a duration of at most 999999h such as 48h or 1h30m (units: h, m, s, ms, us, ns), without a minus sign",
        ),
        rule(
            format!("!self.matches('{DURATION}') || duration(self) > duration('0s')"),
            "must be longer than zero, for example 24h",
        ),
    ]
}

/// For `tlsSecurityProfile`. A `custom` counts without a `type` too, as it always did.
///
/// The API server asks no rule about a profile that is null. Kube-cel does, hence the first part of
/// each.
pub(super) fn tls_profile() -> [Rule; 2] {
    let custom = "(has(self.custom) && self.custom != null)";
    [
        rule(
            format!("self == null || has(self.type) || {custom}"),
            "set type to Old, Intermediate, Modern or Custom, or remove tlsSecurityProfile to get Modern",
        ),
        rule(
            format!("self == null || !(has(self.type) && self.type == 'Custom') || {custom}"),
            "type Custom needs custom: add custom with ciphers and minTLSVersion, or choose Old, Intermediate or Modern",
        ),
    ]
}
