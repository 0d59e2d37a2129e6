//! From the resource as it is stored to a configuration in which nothing is invalid or open. The
//! rules are those of [`crate::validate`].

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Affinity, Toleration},
    apimachinery::pkg::util::intstr::IntOrString,
};
use serde_json::{Value, json};
use weft_api::node_network::{
    DnsProbeConfiguration, InterfaceFilter, NMState, NMStateSpec, ProbeConfiguration,
    WithoutNetworkManager,
};
use weft_plan::{Live, Problem};

use crate::validate;

/// The default name that the probe for DNS looks up.
const PROBED_NAME: &str = "root-servers.net";
/// How much the agent logs unless something else is said.
const LOG_LEVEL: &str = "info";

/// The complete configuration.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Effective {
    /// Of the agent's pods.
    pub(super) affinity: Option<Affinity>,
    /// Of the agent's pods.
    pub(super) node_selector: BTreeMap<String, String>,
    /// Of the agent's pods.
    pub(super) tolerations: Vec<Toleration>,
    /// The name that the probe for DNS looks up.
    pub(super) dns_probe: String,
    /// How much the agent logs.
    pub(super) log_level: String,
    /// Names of interfaces to report, as patterns. None means all.
    pub(super) include: Vec<String>,
    /// Names of interfaces not to report, as patterns.
    pub(super) exclude: Vec<String>,
    /// How many nodes may be changed at a time.
    pub(super) max_unavailable: Option<IntOrString>,
    /// The agent's choice on a node without NetworkManager.
    pub(super) without_network_manager: WithoutNetworkManager,
    /// Fields that are kept without effect. The others are empty.
    kept: Box<NMStateSpec>,
}

impl Effective {
    /// Fields that are kept without effect.
    pub(super) fn kept(&self) -> &NMStateSpec {
        &self.kept
    }

    /// In the form of the resource's specification, every default written out.
    pub(super) fn spec(&self) -> NMStateSpec {
        let given =
            |patterns: &[String]| Some(patterns.to_vec()).filter(|patterns| !patterns.is_empty());
        let filter = InterfaceFilter {
            include: given(&self.include),
            exclude: given(&self.exclude),
        };
        NMStateSpec {
            affinity: self.affinity.clone(),
            node_selector: Some(self.node_selector.clone()),
            tolerations: Some(self.tolerations.clone()),
            probe_configuration: Some(ProbeConfiguration {
                dns: Some(DnsProbeConfiguration {
                    host: Some(self.dns_probe.clone()),
                }),
            }),
            log_level: Some(self.log_level.clone()),
            max_unavailable: self.max_unavailable.clone(),
            without_network_manager: Some(self.without_network_manager)
                .filter(|choice| *choice != WithoutNetworkManager::default()),
            interface_filter: Some(filter).filter(|filter| *filter != InterfaceFilter::default()),
            ..(*self.kept).clone()
        }
    }
}

/// Checks the resource, all rules at once, and fills in what is left out.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn read(resource: &Value) -> Result<Effective, Vec<Problem>> {
    let spec = parse(resource)?.spec;
    let problems = validate::installation(Live::of(resource).name(), &spec);
    if problems.is_empty() {
        Ok(fill(spec))
    } else {
        Err(problems)
    }
}

fn fill(spec: NMStateSpec) -> Effective {
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
        without_network_manager,
    } = spec;
    let host = probe_configuration
        .and_then(|probes| probes.dns)
        .and_then(|dns| dns.host);
    let InterfaceFilter { include, exclude } = interface_filter.unwrap_or_default();
    // An empty text counts as left out.
    let given = |text: Option<String>, default: &str| {
        text.filter(|text| !text.is_empty())
            .unwrap_or_else(|| default.to_owned())
    };
    let kept = NMStateSpec {
        infra_affinity,
        infra_node_selector,
        infra_tolerations,
        self_sign_configuration,
        metrics_configuration,
        ..NMStateSpec::default()
    };
    Effective {
        affinity,
        node_selector: node_selector.unwrap_or_else(|| {
            BTreeMap::from([("kubernetes.io/os".to_owned(), "linux".to_owned())])
        }),
        tolerations: tolerations.unwrap_or_else(|| {
            vec![Toleration {
                operator: Some("Exists".to_owned()),
                ..Toleration::default()
            }]
        }),
        dns_probe: given(host, PROBED_NAME),
        log_level: given(log_level, LOG_LEVEL),
        include: patterns(include),
        exclude: patterns(exclude),
        max_unavailable,
        without_network_manager: without_network_manager.unwrap_or_default(),
        kept: Box::new(kept),
    }
}

/// Without empty ones, which match nothing.
fn patterns(list: Option<Vec<String>>) -> Vec<String> {
    list.unwrap_or_default()
        .into_iter()
        .filter(|pattern| !pattern.is_empty())
        .collect()
}

fn parse(resource: &Value) -> Result<NMState, Vec<Problem>> {
    let problem = |field: &str, message: String| Problem {
        field: field.to_owned(),
        message,
    };
    let whole = match serde_json::from_value(resource.clone()) {
        Ok(resource) => return Ok(resource),
        Err(error) => problem("metadata", format!("not readable: {error}")),
    };
    let by_field = resource
        .get("spec")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(field, value)| {
            let error = serde_json::from_value::<NMStateSpec>(json!({field: value})).err()?;
            let message = format!(
                "has a value of the wrong type: {error}; see `kubectl explain nmstate.spec.{field}`"
            );
            Some(problem(&format!("spec.{field}"), message))
        });
    let problems: Vec<_> = by_field.collect();
    Err(if problems.is_empty() {
        vec![whole]
    } else {
        problems
    })
}
