//! The domains that this program knows: the one table that everything else here goes by.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use weft_addons::Image;
use weft_api::{addons, cluster_network, node_network, placement};
use weft_node_network::{deployment, rollout};
use weft_operator::Opened;
use weft_plan::{Domain, Kind, dropped::Shipped, kinds};

use crate::definitions::{self, Definition};

/// The image of Weft itself, unless the user names another.
pub const OPERATOR_IMAGE: &str = concat!("localhost/weft:", env!("CARGO_PKG_VERSION"));

/// A domain, its API, and how its operator is installed.
pub struct Entry {
    /// As on the command line, for example `addons`.
    pub name: &'static str,
    /// The kind of its custom resource.
    pub resource: Kind,
    /// The definition of its custom resource.
    pub definition: Definition,
    /// The definitions of the other kinds of its API, each with the name of its file.
    pub further_definitions: &'static [(&'static str, Definition)],
    /// Finalizers of the operator on users' objects of other kinds. No controller removes them once
    /// it is gone.
    pub finalizers: &'static [(Kind, &'static str)],
    /// Kinds whose objects operator and agents make, without an inventory.
    pub reports: &'static [Report],
    /// True if policies of the domain change the networks of nodes, and agents report them.
    pub has_policies: bool,
    /// Admission policies that belong to its API.
    pub admission: fn() -> Vec<Value>,
    /// Checks of a cluster before the switch to Weft, besides those of every domain.
    pub switch_checks: &'static [SwitchCheck],
    /// Workloads whose pods restart at the switch, each with the reason, as the page about
    /// compatibility lists them.
    pub restarts: &'static [(&'static str, &'static str)],
    /// True if its objects follow from Secrets and from objects of other operators as well.
    pub needs_secrets: bool,
    /// The parts to install.
    pub install: Install,
}

/// A check of a cluster before the switch to Weft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchCheck {
    /// Objects of old releases that Weft may not delete.
    OldObjects,
    /// Objects of the original itself, which an operator of another name does not replace.
    /// `weft status` names them as well.
    Leftovers,
    /// Nodes that policies would change.
    Nodes,
}

/// A kind whose objects report the state of the cluster. `weft uninstall` removes them with their
/// writers.
pub struct Report {
    /// The kind.
    pub kind: Kind,
    /// True if users may ask for something in these objects, too, in `spec`.
    pub has_users_spec: bool,
}

impl Report {
    /// Returns true if a user has written something into the `spec` of this object.
    pub fn is_users(&self, object: &Value) -> bool {
        self.has_users_spec
            && object["spec"]
                .as_object()
                .is_some_and(|spec| !spec.is_empty())
    }
}

/// The parts of an installation.
pub struct Install {
    /// The name of Deployment or DaemonSet, ServiceAccount and RBAC, and of the container.
    pub operator: &'static str,
    /// The namespace of the operator and, where they have one in common, of its operands.
    pub namespace: &'static str,
    /// True if all operands are in that namespace. Else the roles reach every one.
    pub one_namespace: bool,
    /// The environment variable of the operator with that namespace, which it needs where it is
    /// itself in another one, or with the namespaces that it serves.
    pub namespace_variable: &'static str,
    /// The namespace that is served unless others are chosen, where the resource has one: then the
    /// roles are in each namespace that is served.
    pub served_namespace: Option<&'static str>,
    /// The environment variable that lists the Keystones that the operator may send the usual keys
    /// of all Secrets to.
    pub keystones_variable: Option<&'static str>,
    /// True if it works before there is any pod network: then it is on the nodes' network.
    pub before_the_network: bool,
    /// The files below `deploy/`.
    pub namespace_yaml: &'static str,
    pub operator_yaml: &'static str,
    pub rbac_yaml: &'static str,
    pub example_yaml: &'static str,
    /// Names of the files that `weft manifests -o` writes for the definition and the example.
    pub definition_file: &'static str,
    pub example_file: &'static str,
    /// Values in the example that lead to other objects than the ones it has: where it has the
    /// field, its owner may be asked for them.
    pub alternatives: &'static [Alternative],
    /// Choices for `--components`.
    pub components: &'static [Component],
    /// The environment variable of the operator with the chosen components, where it watches less
    /// without the others.
    pub components_variable: Option<&'static str>,
    /// Environment variables that name an image, each with what `weft manifests` sets.
    pub images: fn() -> Vec<(&'static str, &'static str)>,
    /// The first release of the replaced operator whose images run as Weft deploys them. `None`
    /// means that those of every release do.
    pub first_images: Option<&'static str>,
    /// Signs for images whose release alone does not show that.
    pub proofs: &'static [Proof],
}

/// A sign in the cluster that an image of the replaced operator runs as Weft deploys it.
pub struct Proof {
    /// The environment variable that names the image.
    pub variable: &'static str,
    /// Kind and name of a workload that the replaced operator makes with the image.
    pub workload: (Kind, &'static str),
    /// The beginning of an argument that Weft gives the image. The workload gives it this argument,
    /// too.
    pub argument: &'static str,
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
    /// How a configuration asks for it.
    pub asked: Asked,
}

/// How a configuration asks for a component.
pub enum Asked {
    /// By a field of `spec`, next to others.
    Field(&'static str),
    /// The same, where the example does not ask for it.
    FieldNotInExample(&'static str),
    /// By this value, instead of others.
    Value(Alternative),
}

impl Component {
    const fn field(name: &'static str, field: &'static str) -> Self {
        Self {
            name,
            asked: Asked::Field(field),
        }
    }

    const fn field_not_in_example(name: &'static str, field: &'static str) -> Self {
        Self {
            name,
            asked: Asked::FieldNotInExample(field),
        }
    }

    const fn network(name: &'static str, value: &'static str) -> Self {
        Self {
            name,
            asked: Asked::Value(Alternative {
                inside: "/spec/defaultNetwork",
                field: "type",
                value,
            }),
        }
    }
}

impl Entry {
    /// The definitions of all kinds of its API, that of its resource first, each with the name of
    /// its file.
    pub fn definitions(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'static CustomResourceDefinition)> {
        let own = (self.install.definition_file, self.definition);
        let further = self.further_definitions.iter().copied();
        std::iter::once(own)
            .chain(further)
            .map(|(file, definition)| (file, definition.read()))
    }

    /// The definition of another kind of its API.
    pub fn further_definition(&self, kind: &str) -> Option<Definition> {
        let all = self.further_definitions.iter();
        all.map(|(_, definition)| *definition)
            .find(|definition| definition.read().spec.names.kind == kind)
    }

    /// The same definitions, as the text of this program.
    pub fn shipped(&self) -> Vec<Shipped> {
        let further = self.further_definitions.iter();
        std::iter::once(self.definition)
            .chain(further.map(|(_, definition)| *definition))
            .map(Definition::shipped)
            .collect()
    }

    /// Sets up the domain by environment variables, as its operator does. Returns it with the
    /// namespace of its operator.
    ///
    /// # Errors
    /// A variable has an invalid value.
    pub fn open(&self, environment: &Environment) -> Result<(Arc<dyn Domain>, String)> {
        let Opened {
            served, namespace, ..
        } = self.serve(environment)?;
        Ok((served.domain(), namespace))
    }

    /// Sets up the domain by environment variables, with the controller that serves its resource.
    ///
    /// # Errors
    /// A variable has an invalid value.
    pub fn serve(&self, environment: &Environment) -> Result<Opened> {
        weft_operator::open(self.name, &|variable| environment.get(variable))
    }
}

/// All domains, in the order in which commands show them.
pub const ALL: &[Entry] = &[ADDONS, CLUSTER_NETWORK, NODE_NETWORK, PLACEMENT];

/// The domain of NetworkAddonsConfig.
const ADDONS: Entry = Entry {
    name: "addons",
    resource: kinds::NETWORK_ADDONS_CONFIG,
    definition: definitions::NETWORK_ADDONS_CONFIG,
    further_definitions: &[],
    finalizers: &[],
    reports: &[],
    has_policies: false,
    admission: addons::admission,
    switch_checks: &[SwitchCheck::OldObjects, SwitchCheck::Leftovers],
    restarts: &[
        (
            "dynamic-networks-controller-ds",
            "mounts the folders of its sockets, and so finds a socket that its server recreates. Follows the whole placement",
        ),
        (
            "kube-cni-linux-bridge-plugin",
            "replaces CNI plugins by rename, and reports a folder that the container runtime does not read",
        ),
        (
            "ovs-cni-amd64",
            "replaces CNI plugins by rename, and reports that Open vSwitch or the folder is missing. Its marker has a readiness probe",
        ),
        (
            "macvtap-cni",
            "replaces its CNI plugin by rename, and reports a folder that the container runtime does not read",
        ),
        (
            "kubemacpool-mac-controller-manager",
            "reads its TLS settings from arguments",
        ),
        (
            "multus",
            "has probes that look for its socket, and reads its ConfigMap only at its start",
        ),
        (
            "secondary-dns",
            "has another name for each port, and reads its ConfigMap only at its start",
        ),
        (
            "kubevirt-ipam-controller-manager",
            "prefers another node for each of its pods",
        ),
    ],
    needs_secrets: false,
    install: Install {
        operator: "cluster-network-addons-operator",
        namespace: "cluster-network-addons",
        one_namespace: true,
        namespace_variable: "OPERAND_NAMESPACE",
        served_namespace: None,
        keystones_variable: None,
        before_the_network: false,
        namespace_yaml: include_str!("../../../deploy/addons/namespace.yaml"),
        operator_yaml: include_str!("../../../deploy/addons/operator.yaml"),
        rbac_yaml: include_str!("../../../deploy/addons/rbac.yaml"),
        example_yaml: include_str!("../../../deploy/addons/example.yaml"),
        definition_file: "network-addons-config.crd.yaml",
        example_file: "network-addons-config-example.cr.yaml",
        alternatives: &[Alternative {
            inside: "/spec/kubevirtIpamController",
            field: "certificateProvider",
            value: "CertManager",
        }],
        components: &[
            Component::field("multus", "multus"),
            Component::field("multus-dynamic-networks", "multusDynamicNetworks"),
            Component::field("linux-bridge", "linuxBridge"),
            Component::field("kubemacpool", "kubeMacPool"),
            Component::field("ovs", "ovs"),
            Component::field("macvtap", "macvtap"),
            Component::field("secondary-dns", "kubeSecondaryDNS"),
            Component::field("kubevirt-ipam-controller", "kubevirtIpamController"),
            Component::field_not_in_example("nmstate", "nmstate"),
        ],
        components_variable: Some(weft_addons::settings::COMPONENTS_VARIABLE),
        images: || {
            Image::ALL
                .iter()
                .map(|image| (image.env(), image.default_reference()))
                .collect()
        },
        first_images: Some("0.102.0"),
        proofs: &[Proof {
            variable: "KUBEMACPOOL_IMAGE",
            workload: (kinds::DEPLOYMENT, "kubemacpool-mac-controller-manager"),
            // The image of 0.102.0 reads variables instead, and ends where it meets this argument.
            argument: "--tls-min-version=",
        }],
    },
};

/// The domain of NetworkConfig.
const CLUSTER_NETWORK: Entry = Entry {
    name: "cluster-network",
    resource: kinds::NETWORK_CONFIG,
    definition: definitions::NETWORK_CONFIG,
    further_definitions: &[],
    finalizers: &[],
    reports: &[],
    has_policies: false,
    admission: cluster_network::admission,
    switch_checks: &[],
    restarts: &[],
    needs_secrets: false,
    install: Install {
        operator: "cluster-network-operator",
        namespace: "openshift-cluster-network-operator",
        one_namespace: false,
        namespace_variable: "CLUSTER_NETWORK_NAMESPACE",
        served_namespace: None,
        keystones_variable: None,
        before_the_network: true,
        namespace_yaml: include_str!("../../../deploy/cluster-network/namespace.yaml"),
        operator_yaml: include_str!("../../../deploy/cluster-network/operator.yaml"),
        rbac_yaml: include_str!("../../../deploy/cluster-network/rbac.yaml"),
        example_yaml: include_str!("../../../deploy/cluster-network/example.yaml"),
        definition_file: "network-config.crd.yaml",
        example_file: "network-config-example.cr.yaml",
        alternatives: &[],
        components: &[
            Component::network("openshift-sdn", "OpenShiftSDN"),
            Component::network("flannel", "Flannel"),
            // Next to a network of another user: that is when there is one of Weft's by default.
            Component::network("kube-proxy", "None"),
        ],
        components_variable: None,
        images: || {
            vec![
                ("NODE_IMAGE", "docker.io/openshift/origin-node:v4.0.0"),
                (
                    "HYPERSHIFT_IMAGE",
                    "docker.io/openshift/origin-hypershift:v4.0.0",
                ),
                ("KUBE_PROXY_IMAGE", "registry.k8s.io/kube-proxy:v1.36.3"),
                ("FLANNEL_IMAGE", "ghcr.io/flannel-io/flannel:v0.28.4"),
                (
                    "FLANNEL_CNI_PLUGIN_IMAGE",
                    "ghcr.io/flannel-io/flannel-cni-plugin:v1.9.1-flannel1",
                ),
            ]
        },
        first_images: None,
        proofs: &[],
    },
};

/// NMState, and next to it the kinds that the operator and the agents work with.
const NODE_NETWORK: Entry = Entry {
    name: "node-network",
    resource: kinds::NMSTATE,
    definition: definitions::NMSTATE,
    further_definitions: &[
        (
            "node-network-state.crd.yaml",
            definitions::NODE_NETWORK_STATE,
        ),
        (
            "node-network-configuration-policy.crd.yaml",
            definitions::NODE_NETWORK_CONFIGURATION_POLICY,
        ),
        (
            "node-network-configuration-enactment.crd.yaml",
            definitions::NODE_NETWORK_CONFIGURATION_ENACTMENT,
        ),
    ],
    finalizers: &[(
        kinds::NODE_NETWORK_CONFIGURATION_POLICY,
        rollout::view::FINALIZER,
    )],
    reports: &[
        Report {
            kind: kinds::NODE_NETWORK_CONFIGURATION_ENACTMENT,
            has_users_spec: false,
        },
        Report {
            kind: kinds::NODE_NETWORK_STATE,
            has_users_spec: true,
        },
    ],
    has_policies: true,
    admission: node_network::admission,
    switch_checks: &[SwitchCheck::Nodes],
    restarts: &[],
    needs_secrets: false,
    install: Install {
        operator: "nmstate-operator",
        namespace: "nmstate",
        one_namespace: true,
        namespace_variable: "HANDLER_NAMESPACE",
        served_namespace: None,
        keystones_variable: None,
        before_the_network: false,
        namespace_yaml: include_str!("../../../deploy/node-network/namespace.yaml"),
        operator_yaml: include_str!("../../../deploy/node-network/operator.yaml"),
        rbac_yaml: include_str!("../../../deploy/node-network/rbac.yaml"),
        example_yaml: include_str!("../../../deploy/node-network/example.yaml"),
        definition_file: "nmstate.crd.yaml",
        example_file: "nmstate-example.cr.yaml",
        alternatives: &[],
        components: &[],
        components_variable: None,
        images: || {
            vec![(
                deployment::settings::IMAGE_VARIABLE,
                deployment::settings::IMAGE,
            )]
        },
        first_images: None,
        proofs: &[],
    },
};

/// The domain of PlacementAPI.
const PLACEMENT: Entry = Entry {
    name: "placement",
    resource: kinds::PLACEMENT_API,
    definition: definitions::PLACEMENT_API,
    further_definitions: &[],
    finalizers: &[],
    reports: &[],
    has_policies: false,
    admission: placement::admission,
    switch_checks: &[],
    restarts: &[],
    needs_secrets: true,
    install: Install {
        operator: weft_placement::domain::OPERATOR,
        namespace: weft_placement::domain::NAMESPACE,
        one_namespace: false,
        namespace_variable: weft_placement::domain::NAMESPACES_VARIABLE,
        served_namespace: Some("openstack"),
        keystones_variable: Some(weft_placement::domain::KEYSTONES_VARIABLE),
        before_the_network: false,
        namespace_yaml: include_str!("../../../deploy/placement/namespace.yaml"),
        operator_yaml: include_str!("../../../deploy/placement/operator.yaml"),
        rbac_yaml: include_str!("../../../deploy/placement/rbac.yaml"),
        example_yaml: include_str!("../../../deploy/placement/example.yaml"),
        definition_file: "placement-api.crd.yaml",
        example_file: "placement-api-example.cr.yaml",
        alternatives: &[],
        components: &[],
        components_variable: None,
        images: || {
            vec![(
                weft_placement::domain::IMAGE_VARIABLE,
                weft_placement::domain::IMAGE,
            )]
        },
        first_images: None,
        proofs: &[],
    },
};

/// The domains of these names, all if there are none.
pub fn chosen(names: &[String]) -> Vec<&'static Entry> {
    ALL.iter()
        .filter(|entry| names.is_empty() || names.iter().any(|name| name == entry.name))
        .collect()
}

/// The definitions of the domain of this name, as the text of this program.
pub fn shipped(name: &str) -> Vec<Shipped> {
    let named = ALL.iter().filter(|entry| entry.name == name);
    named.flat_map(Entry::shipped).collect()
}

/// Versions of the API that the API server serves, the one that is stored first.
pub fn served_versions(definition: &CustomResourceDefinition) -> Vec<&str> {
    let mut versions: Vec<_> = definition
        .spec
        .versions
        .iter()
        .filter(|version| version.served)
        .collect();
    versions.sort_by_key(|version| !version.storage);
    versions
        .into_iter()
        .map(|version| version.name.as_str())
        .collect()
}

/// Environment variables, some of them set by flags.
#[derive(Clone, Default)]
pub struct Environment {
    of_process: bool,
    set: BTreeMap<String, String>,
}

impl Environment {
    /// Those of this process.
    pub fn of_process() -> Self {
        Self {
            of_process: true,
            ..Self::default()
        }
    }

    /// The same, with the images that `weft manifests` names where there are none: for checks,
    /// which images do not matter to.
    pub fn for_checks() -> Self {
        ALL.iter()
            .fold(Self::of_process(), Self::with_shipped_images)
    }

    /// Those of an installed operator, and nothing else.
    pub fn of_operator(set: BTreeMap<String, String>) -> Self {
        Self {
            of_process: false,
            set,
        }
    }

    /// With these namespaces, whatever the variables say.
    #[must_use]
    pub fn with_namespaces(mut self, operator: &str, operands: &str) -> Self {
        self.set
            .insert("OPERATOR_NAMESPACE".to_owned(), operator.to_owned());
        self.set
            .insert("OPERAND_NAMESPACE".to_owned(), operands.to_owned());
        self
    }

    /// With the images that `weft manifests` names, where no variable names another.
    #[must_use]
    pub fn with_shipped_images(mut self, entry: &Entry) -> Self {
        for (variable, image) in (entry.install.images)() {
            if self
                .get(variable)
                .is_none_or(|image| image.trim().is_empty())
            {
                self.set.insert(variable.to_owned(), image.to_owned());
            }
        }
        if self.get("OPERATOR_IMAGE").is_none() {
            self.set
                .insert("OPERATOR_IMAGE".to_owned(), OPERATOR_IMAGE.to_owned());
        }
        self
    }

    /// With this variable, whatever it is in the process.
    #[must_use]
    pub fn with(mut self, variable: &str, value: &str) -> Self {
        self.set.insert(variable.to_owned(), value.to_owned());
        self
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<String> {
        self.set
            .get(name)
            .cloned()
            .or_else(|| std::env::var(name).ok().filter(|_| self.of_process))
    }
}
