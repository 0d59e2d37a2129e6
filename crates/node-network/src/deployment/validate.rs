//! From the resource as it is stored to a configuration in which nothing is invalid or open.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Affinity, Toleration},
    apimachinery::pkg::util::intstr::IntOrString,
};
use serde_json::{Value, json};
use weft_api::node_network::{DnsProbeConfiguration, InterfaceFilter, NMState, NMStateSpec, ProbeConfiguration};
use weft_operands::{problems::Problems, text::is_dns_domain};
use weft_plan::Problem;

/// The longest name: it becomes part of the value of a label, after `nmstate.`, and Kubernetes allows that 63 characters.
pub const LONGEST_NAME: usize = 55;
/// What the probe for DNS looks up unless something else is said.
const PROBED_NAME: &str = "root-servers.net";

/// How much the agent may log.
const LOG_LEVELS: [&str; 2] = ["info", "debug"];

/// The complete configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Effective {
    /// Of the agent's pods.
    pub affinity: Option<Affinity>,
    /// Of the agent's pods.
    pub node_selector: BTreeMap<String, String>,
    /// Of the agent's pods.
    pub tolerations: Vec<Toleration>,
    /// What the probe for DNS looks up.
    pub dns_probe: String,
    /// How much the agent logs.
    pub log_level: String,
    /// Names of interfaces to report, as patterns; none means all.
    pub include: Vec<String>,
    /// Names of interfaces not to report, as patterns.
    pub exclude: Vec<String>,
    /// How many nodes may be changed at a time.
    pub max_unavailable: Option<IntOrString>,
    /// Fields that are kept without effect; the others are empty.
    kept: Box<NMStateSpec>,
}

impl Effective {
    /// Fields that are kept without effect.
    pub fn kept(&self) -> &NMStateSpec {
        &self.kept
    }

    /// In the form of the resource's specification, every default written out.
    pub fn spec(&self) -> NMStateSpec {
        let patterns = |patterns: &[String]| Some(patterns.to_vec()).filter(|patterns| !patterns.is_empty());
        let filter = InterfaceFilter { include: patterns(&self.include), exclude: patterns(&self.exclude) };
        NMStateSpec {
            affinity: self.affinity.clone(),
            node_selector: Some(self.node_selector.clone()),
            tolerations: Some(self.tolerations.clone()),
            probe_configuration: Some(ProbeConfiguration { dns: Some(DnsProbeConfiguration { host: Some(self.dns_probe.clone()) }) }),
            log_level: Some(self.log_level.clone()),
            max_unavailable: self.max_unavailable.clone(),
            interface_filter: Some(filter).filter(|filter| *filter != InterfaceFilter::default()),
            ..(*self.kept).clone()
        }
    }
}

/// Checks the resource, all rules at once, and fills in what is left out.
///
/// # Errors
/// Everything that is wrong with it.
pub fn validate(resource: &Value) -> Result<Effective, Vec<Problem>> {
    let mut problems = Problems::default();
    let name = resource["metadata"]["name"].as_str().unwrap_or_default();
    if name.len() > LONGEST_NAME {
        problems.push(
            "metadata.name",
            format!(
                "{name:?} has {} characters; at most {LONGEST_NAME} are possible, since a label holds it: make one with a shorter name",
                name.len()
            ),
        );
    }
    // No `..`: a field that is new has to be dealt with here.
    let NMStateSpec {
        affinity,
        node_selector,
        tolerations,
        infra_affinity,
        infra_node_selector,
        infra_tolerations,
        self_sign_configuration,
        probe_configuration,
        metrics_configuration,
        log_level,
        max_unavailable,
        interface_filter,
    } = read(resource)?.spec;
    let host = probe_configuration.and_then(|probes| probes.dns).and_then(|dns| dns.host);
    let complaint = "is not a name that DNS can look up: labels of letters, digits and hyphens with dots between, such as example.com";
    let dns_probe = problems.text("spec.probeConfiguration.dns.host", &host, is_dns_domain, complaint);
    let complaint = "is no log level of the agent: write info or debug";
    let log_level = problems.text("spec.logLevel", &log_level, |level| LOG_LEVELS.contains(&level), complaint);
    let InterfaceFilter { include, exclude } = interface_filter.unwrap_or_default();
    let include = patterns(&mut problems, "spec.interfaceFilter.include", include);
    let exclude = patterns(&mut problems, "spec.interfaceFilter.exclude", exclude);
    if let Some(value) = max_unavailable.as_ref().filter(|value| !is_share(value)) {
        let value = serde_json::to_string(value).unwrap_or_default();
        problems.push(
            "spec.maxUnavailable",
            format!("{value} is neither a number of nodes from 0 on nor a share from 0% to 100%: write 2 or \"50%\""),
        );
    }
    let kept = NMStateSpec {
        infra_affinity,
        infra_node_selector,
        infra_tolerations,
        self_sign_configuration,
        metrics_configuration,
        ..NMStateSpec::default()
    };
    problems.or(Effective {
        affinity,
        node_selector: node_selector.unwrap_or_else(|| BTreeMap::from([("kubernetes.io/os".to_owned(), "linux".to_owned())])),
        tolerations: tolerations.unwrap_or_else(|| vec![Toleration { operator: Some("Exists".to_owned()), ..Toleration::default() }]),
        dns_probe: dns_probe.unwrap_or_else(|| PROBED_NAME.to_owned()),
        log_level: log_level.unwrap_or_else(|| LOG_LEVELS[0].to_owned()),
        include,
        exclude,
        max_unavailable,
        kept: Box::new(kept),
    })
}

/// Patterns of interface names. The agent gets them separated by blanks, which no name of an interface holds.
fn patterns(problems: &mut Problems, field: &str, patterns: Option<Vec<String>>) -> Vec<String> {
    let patterns = patterns.unwrap_or_default();
    for (index, pattern) in patterns.iter().enumerate() {
        if pattern.is_empty() || pattern.contains(char::is_whitespace) {
            problems.push(
                &format!("{field}[{index}]"),
                format!("{pattern:?} matches no interface: write a name without blanks, * for any characters"),
            );
        }
    }
    patterns
}

fn is_share(value: &IntOrString) -> bool {
    match value {
        IntOrString::Int(count) => *count >= 0,
        IntOrString::String(text) => text
            .strip_suffix('%')
            .is_some_and(|share| share.bytes().all(|b| b.is_ascii_digit()) && share.parse::<u8>().is_ok_and(|share| share <= 100)),
    }
}

fn read(resource: &Value) -> Result<NMState, Vec<Problem>> {
    let problem = |field: &str, message: String| Problem { field: field.to_owned(), message };
    let whole = match serde_json::from_value(resource.clone()) {
        Ok(resource) => return Ok(resource),
        Err(error) => problem("metadata", format!("not readable: {error}")),
    };
    let by_field = resource.get("spec").and_then(Value::as_object).into_iter().flatten().filter_map(|(field, value)| {
        let error = serde_json::from_value::<NMStateSpec>(json!({field: value})).err()?;
        let message = format!("has a value of the wrong type: {error}; see `kubectl explain nmstate.spec.{field}`");
        Some(problem(&format!("spec.{field}"), message))
    });
    let problems: Vec<_> = by_field.collect();
    Err(if problems.is_empty() { vec![whole] } else { problems })
}
