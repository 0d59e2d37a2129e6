//! The domains that this program knows: the one table that everything else here goes by.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use weft_addons::Image;
use weft_plan::{Domain, Kind, kinds};

/// A domain, its API, and how its operator is installed.
pub struct Entry {
    /// As on the command line, for example `addons`.
    pub name: &'static str,
    /// The kind of its custom resource.
    pub resource: Kind,
    /// The definition of its custom resource.
    pub definition: fn() -> CustomResourceDefinition,
    /// Admission policies that belong to its API.
    pub admission: fn() -> Vec<Value>,
    /// What there is to install.
    pub install: Install,
}

/// The parts of an installation.
pub struct Install {
    /// The name of Deployment, ServiceAccount and RBAC, and of the container.
    pub operator: &'static str,
    /// The namespace of the operator and its operands.
    pub namespace: &'static str,
    /// The files below `deploy/`.
    pub namespace_yaml: &'static str,
    pub operator_yaml: &'static str,
    pub rbac_yaml: &'static str,
    pub example_yaml: &'static str,
    /// Names of the files that `weft manifests -o` writes for the definition and the example.
    pub definition_file: &'static str,
    pub example_file: &'static str,
    /// Values in the example that lead to other objects than the ones it has: where it has the field, its owner may be asked for them.
    pub alternatives: &'static [Alternative],
    /// What can be chosen by `--components`.
    pub components: &'static [Component],
    /// Environment variables that name an image, each with its default.
    pub images: fn() -> Vec<(&'static str, &'static str)>,
}

/// Another value of a field.
pub struct Alternative {
    /// The object that has the field, as a JSON pointer.
    pub inside: &'static str,
    pub field: &'static str,
    pub value: &'static str,
}

/// A part of a domain that can be chosen by itself.
pub struct Component {
    /// As on the command line, for example `linux-bridge`.
    pub name: &'static str,
    /// The field of `spec` that turns it on.
    pub field: &'static str,
}

impl Entry {
    /// Its pure half, set up by environment variables as the operator is, and the namespace of its operator.
    ///
    /// # Errors
    /// A variable has a value that it cannot have.
    pub fn open(&self, environment: &Environment) -> Result<(Arc<dyn Domain>, String)> {
        weft_operator::domain(self.name, |variable| environment.get(variable))
    }
}

/// All domains.
pub const ALL: &[Entry] = &[Entry {
    name: "addons",
    resource: kinds::NETWORK_ADDONS_CONFIG,
    definition: weft_api::addons::crd,
    admission: weft_api::addons::admission,
    install: Install {
        operator: "cluster-network-addons-operator",
        namespace: "cluster-network-addons",
        namespace_yaml: include_str!("../../../deploy/addons/namespace.yaml"),
        operator_yaml: include_str!("../../../deploy/addons/operator.yaml"),
        rbac_yaml: include_str!("../../../deploy/addons/rbac.yaml"),
        example_yaml: include_str!("../../../deploy/addons/example.yaml"),
        definition_file: "network-addons-config.crd.yaml",
        example_file: "network-addons-config-example.cr.yaml",
        alternatives: &[Alternative { inside: "/spec/kubevirtIpamController", field: "certificateProvider", value: "CertManager" }],
        components: &[
            Component { name: "multus", field: "multus" },
            Component { name: "multus-dynamic-networks", field: "multusDynamicNetworks" },
            Component { name: "linux-bridge", field: "linuxBridge" },
            Component { name: "kubemacpool", field: "kubeMacPool" },
            Component { name: "ovs", field: "ovs" },
            Component { name: "macvtap", field: "macvtap" },
            Component { name: "secondary-dns", field: "kubeSecondaryDNS" },
            Component { name: "kubevirt-ipam-controller", field: "kubevirtIpamController" },
        ],
        images: || Image::ALL.iter().map(|image| (image.env(), image.default_reference())).collect(),
    },
}];

/// The domains of these names, all if there are none.
pub fn chosen(names: &[String]) -> Vec<&'static Entry> {
    ALL.iter().filter(|entry| names.is_empty() || names.iter().any(|name| name == entry.name)).collect()
}

/// Versions of the API that the API server serves, the one that is stored first.
pub fn served_versions(definition: &CustomResourceDefinition) -> Vec<&str> {
    let mut versions: Vec<_> = definition.spec.versions.iter().filter(|version| version.served).collect();
    versions.sort_by_key(|version| !version.storage);
    versions.into_iter().map(|version| version.name.as_str()).collect()
}

/// Environment variables, some of them set by flags.
#[derive(Default)]
pub struct Environment {
    of_process: bool,
    set: BTreeMap<String, String>,
}

impl Environment {
    /// Those of this process.
    pub fn of_process() -> Self {
        Self { of_process: true, ..Self::default() }
    }

    /// Those of an installed operator, and nothing else.
    pub fn of_operator(set: BTreeMap<String, String>) -> Self {
        Self { of_process: false, set }
    }

    /// With these namespaces, whatever the variables say.
    #[must_use]
    pub fn with_namespaces(mut self, operator: &str, operands: &str) -> Self {
        self.set.insert("OPERATOR_NAMESPACE".to_owned(), operator.to_owned());
        self.set.insert("OPERAND_NAMESPACE".to_owned(), operands.to_owned());
        self
    }

    /// The value of a variable.
    fn get(&self, name: &str) -> Option<String> {
        self.set.get(name).cloned().or_else(|| std::env::var(name).ok().filter(|_| self.of_process))
    }
}
