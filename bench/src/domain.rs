//! The differences between the domains as far as the benchmark measures them.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::part::Part;

/// A domain as it is installed, and which parts of the table it has.
pub struct Domain {
    /// As on the command line.
    pub name: &'static str,
    /// The kind of its configuration.
    pub kind: &'static str,
    /// API group and version.
    pub api_version: &'static str,
    /// The resource in paths and in the audit log.
    pub resource: &'static str,
    /// The namespace of its configurations, if they have one.
    pub served: Option<&'static str>,
    /// The conditions that say that all is well.
    pub well: &'static [(&'static str, &'static str)],
    /// The namespace of the operator.
    pub namespace: &'static str,
    /// The operator's workload and ServiceAccount.
    pub operator: &'static str,
    /// The resource of that workload.
    pub workload: &'static str,
    /// An example that has everything.
    pub example: &'static str,
    /// Images without which nothing is rendered.
    pub images: &'static [&'static str],
    /// The measurements of this domain.
    pub parts: &'static [Part],
}

/// Of a configuration all of whose objects are there and work.
const SETTLED: &[(&str, &str)] = &[
    ("Available", "True"),
    ("Progressing", "False"),
    ("Degraded", "False"),
];

/// All that are measured.
pub const ALL: [Domain; 4] = [
    Domain {
        name: "addons",
        kind: "NetworkAddonsConfig",
        api_version: "networkaddonsoperator.network.kubevirt.io/v1",
        resource: "networkaddonsconfigs",
        served: None,
        well: SETTLED,
        namespace: "cluster-network-addons",
        operator: "cluster-network-addons-operator",
        workload: "deployments",
        example: "network-addons-config.yaml",
        images: &[],
        parts: &[
            Part::Idle,
            Part::Restart,
            Part::Install,
            Part::Answer,
            Part::Memory,
            Part::Drift,
            Part::Removal,
            Part::Size,
        ],
    },
    Domain {
        name: "cluster-network",
        kind: "NetworkConfig",
        api_version: "networkoperator.openshift.io/v1",
        resource: "networkconfigs",
        served: None,
        well: SETTLED,
        namespace: "openshift-cluster-network-operator",
        operator: "cluster-network-operator",
        workload: "daemonsets",
        example: "network-config-openshift-sdn.yaml",
        images: &["NODE_IMAGE", "HYPERSHIFT_IMAGE"],
        // Its objects stay when the configuration is deleted.
        parts: &[
            Part::Render,
            Part::Idle,
            Part::Restart,
            Part::Install,
            Part::Memory,
            Part::Drift,
        ],
    },
    Domain {
        name: "node-network",
        kind: "NodeNetworkConfigurationPolicy",
        api_version: "nmstate.io/v1",
        resource: "nodenetworkconfigurationpolicies",
        served: None,
        well: SETTLED,
        namespace: "nmstate",
        operator: "nmstate-operator",
        workload: "deployments",
        example: "node-network/linux-bridge-without-vlans.yaml",
        images: &[],
        parts: &[
            Part::Validate,
            Part::Plan,
            Part::LargeHosts,
            Part::Freshness,
            Part::Reboot,
            Part::Apply,
            Part::Traffic,
            Part::HostsIdle,
            Part::AgentMemory,
            Part::Fleet,
        ],
    },
    Domain {
        name: "placement",
        kind: "PlacementAPI",
        api_version: "placement.openstack.org/v1beta1",
        resource: "placementapis",
        served: Some("openstack"),
        well: &[("Ready", "True")],
        namespace: "weft-placement",
        operator: "weft-placement-operator",
        workload: "deployments",
        example: "placement/standalone.yaml",
        images: &[],
        parts: &[Part::Service, Part::Idle, Part::Restart, Part::Memory],
    },
];

impl Domain {
    /// The domain that a configuration belongs to.
    ///
    /// # Errors
    /// There is none.
    pub fn of(config: &Value) -> Result<&'static Self> {
        let kind = config["kind"].as_str().unwrap_or_default();
        ALL.iter()
            .find(|domain| domain.kind == kind)
            .with_context(|| {
                format!("kind {kind:?} is not the configuration of a domain that is measured")
            })
    }

    /// Where its configurations are.
    pub fn configs(&self) -> String {
        let namespace = self
            .served
            .map(|namespace| format!("namespaces/{namespace}/"))
            .unwrap_or_default();
        format!("/apis/{}/{namespace}{}", self.api_version, self.resource)
    }

    /// The lease of its leader.
    pub fn lease(&self) -> String {
        format!(
            "/apis/coordination.k8s.io/v1/namespaces/{}/leases/weft-{}",
            self.namespace, self.name
        )
    }

    /// User name of the operator, as the API server sees it.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.operator)
    }
}

/// Returns the path of the example of each domain.
pub fn examples() -> impl Iterator<Item = PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples"));
    ALL.iter().map(move |domain| folder.join(domain.example))
}
