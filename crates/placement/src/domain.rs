//! The domain as the rest of Weft knows it: its names, its kinds, and the operator that it
//! replaces.

use serde_json::Value;
use weft_api::placement::{GROUP, KIND, PlacementApi};
use weft_operands::text::is_dns_label;
use weft_plan::{
    COMPONENT_LABEL, Decision, Domain, Fact, Input, Kind, Live, Problem, Refusal, Unit, kinds,
};

use crate::{
    Config, objects,
    registration::{AddressError, Addresses},
};

/// The finalizer of a PlacementAPI that must not go before something else was released. It is
/// placement-operator's, so that either can release what the other has bound.
pub const FINALIZER: &str = "openstack.org/placementapi";
/// The name of Weft's own operator: not placement-operator's, which openstack-operator deletes.
pub const OPERATOR: &str = "weft-placement-operator";
/// The namespace of the operator unless something else is said.
pub const NAMESPACE: &str = "weft-placement";
/// The environment variable that names the image of Placement, as placement-operator has it.
pub const IMAGE_VARIABLE: &str = "RELATED_IMAGE_PLACEMENT_API_IMAGE_URL_DEFAULT";
/// The image of Placement unless something else is said.
pub const IMAGE: &str =
    "quay.io/podified-antelope-centos9/openstack-placement-api:current-podified";
/// The environment variable that names the namespaces of PlacementAPIs.
pub const NAMESPACES_VARIABLE: &str = "WEFT_PLACEMENT_NAMESPACES";
/// The environment variable that lists the Keystones to which the usual keys of all Secrets may be
/// sent.
pub const KEYSTONES_VARIABLE: &str = "WEFT_KEYSTONE_URLS";
/// On all pods of Placement.
pub const POD_LABEL: &str = "service=placement";
/// placement-operator, and nova-operator, which has taken over its API, and their webhooks, which
/// may be left where they are gone: then nobody can change a PlacementAPI.
const OPERATORS: &[(Kind, &str); 6] = &[
    (kinds::DEPLOYMENT, "placement-operator-controller-manager"),
    (kinds::DEPLOYMENT, "nova-operator-controller-manager"),
    (
        kinds::VALIDATING_WEBHOOK_CONFIGURATION,
        "placement-operator-validating-webhook-configuration",
    ),
    (
        kinds::MUTATING_WEBHOOK_CONFIGURATION,
        "placement-operator-mutating-webhook-configuration",
    ),
    (
        kinds::VALIDATING_WEBHOOK_CONFIGURATION,
        "nova-operator-validating-webhook-configuration",
    ),
    (
        kinds::MUTATING_WEBHOOK_CONFIGURATION,
        "nova-operator-mutating-webhook-configuration",
    ),
];
/// Kinds of objects that Weft makes for a PlacementAPI.
const KINDS: &[Kind] = &[
    kinds::SERVICE_ACCOUNT,
    kinds::ROLE,
    kinds::ROLE_BINDING,
    kinds::SECRET,
    kinds::SERVICE,
    kinds::JOB,
    kinds::DEPLOYMENT,
    kinds::MARIADB_ACCOUNT,
    kinds::MARIADB_DATABASE,
    kinds::KEYSTONE_SERVICE,
    kinds::KEYSTONE_ENDPOINT,
];

/// How the domain is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the operator runs.
    pub operator_namespace: String,
    /// The image of Placement where a PlacementAPI names none.
    pub default_image: String,
    /// Where PlacementAPIs are served.
    pub namespaces: Namespaces,
    /// Keystones to which the usual keys of all Secrets may be sent.
    pub keystones: Addresses,
}

/// Where PlacementAPIs are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// In these, by a Role in each.
    These(Vec<String>),
    /// Everywhere, by a ClusterRole: the operator then may read every Secret of the cluster.
    All,
}

/// The mistake in the environment.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SettingsError {
    /// Something that cannot be a namespace.
    #[error(
        "{variable}: {value:?} cannot be the name of a namespace: lower-case letters, digits and hyphens, at most 63"
    )]
    Namespace {
        /// Its name.
        variable: &'static str,
        /// The value of the variable.
        value: String,
    },
    /// A list of namespaces that is empty.
    #[error(
        "{NAMESPACES_VARIABLE}: {0:?} names no namespace: write some, separated by commas, or * for all"
    )]
    NoNamespace(String),
    /// Something that cannot be the address of a Keystone.
    #[error("{KEYSTONES_VARIABLE}: {0}")]
    Keystone(#[from] AddressError),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            operator_namespace: NAMESPACE.to_owned(),
            default_image: IMAGE.to_owned(),
            namespaces: Namespaces::These(vec!["openstack".to_owned()]),
            keystones: Addresses::default(),
        }
    }
}

impl std::fmt::Display for Namespaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::These(names) => f.write_str(&names.join(",")),
            Self::All => f.write_str("*"),
        }
    }
}

impl std::str::FromStr for Namespaces {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        Self::read(text)
    }
}

impl Namespaces {
    /// Reads a list that is separated by commas. `*` means everywhere.
    ///
    /// # Errors
    /// One of them cannot be a namespace, or there is none.
    pub fn read(text: &str) -> Result<Self, SettingsError> {
        let names = text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        if names.clone().any(|name| name == "*") {
            return Ok(Self::All);
        }
        let mut read = Vec::new();
        for name in names {
            if !is_dns_label(name) {
                return Err(SettingsError::Namespace {
                    variable: NAMESPACES_VARIABLE,
                    value: name.to_owned(),
                });
            }
            read.push(name.to_owned());
        }
        if read.is_empty() {
            return Err(SettingsError::NoNamespace(text.to_owned()));
        }
        read.sort();
        read.dedup();
        Ok(Self::These(read))
    }
}

impl Settings {
    /// Reads `OPERATOR_NAMESPACE`, `RELATED_IMAGE_PLACEMENT_API_IMAGE_URL_DEFAULT`,
    /// `WEFT_PLACEMENT_NAMESPACES` and `WEFT_KEYSTONE_URLS`. An empty variable counts as unset.
    ///
    /// # Errors
    /// A variable has a value that it cannot have.
    pub fn from_env(env: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let get = |variable: &str| {
            env(variable)
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let default = Self::default();
        let operator_namespace = get("OPERATOR_NAMESPACE").unwrap_or(default.operator_namespace);
        if !is_dns_label(&operator_namespace) {
            return Err(SettingsError::Namespace {
                variable: "OPERATOR_NAMESPACE",
                value: operator_namespace,
            });
        }
        Ok(Self {
            operator_namespace,
            default_image: get(IMAGE_VARIABLE).unwrap_or(default.default_image),
            namespaces: get(NAMESPACES_VARIABLE)
                .map_or(Ok(default.namespaces), |text| Namespaces::read(&text))?,
            keystones: get(KEYSTONES_VARIABLE)
                .map_or(Ok(default.keystones), |text| text.parse())?,
        })
    }
}

/// Placement.
#[derive(Clone, Debug)]
pub struct Placement {
    settings: Settings,
}

impl Placement {
    /// The domain under these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl Domain for Placement {
    fn name(&self) -> &'static str {
        "placement"
    }

    fn resource(&self) -> Kind {
        kinds::PLACEMENT_API
    }

    fn resource_name(&self) -> Option<&'static str> {
        None
    }

    fn only_the_oldest(&self) -> bool {
        true
    }

    fn kinds(&self) -> Vec<Kind> {
        KINDS.to_vec()
    }

    fn namespace(&self) -> Option<&str> {
        None
    }

    fn pod_selector(&self) -> &'static str {
        POD_LABEL
    }

    fn facts(&self) -> Vec<Fact> {
        // Which of the other operators' kinds are served, and whether OpenShift's constraints are.
        vec![Fact::Definitions]
    }

    /// Objects that depend on the resource only: the service account, its rights, and the Services.
    /// For everything else Secrets must be known, see [`assess`](crate::assess()).
    fn decide(&self, input: Input<'_>) -> Result<Decision, Refusal> {
        let refusal = |reason, problems| Refusal {
            reason,
            problems,
            changes: Vec::new(),
        };
        let refused = |problems| refusal("FailedToValidate", problems);
        let problem = |message: String| {
            vec![Problem {
                field: "spec".into(),
                message,
            }]
        };
        let resource: PlacementApi = serde_json::from_value(input.resource.clone())
            .map_err(|error| refused(problem(error.to_string())))?;
        let config = Config::of(&resource).map_err(refused)?;
        let defect = |error: objects::BuildError| {
            refusal(
                "InternalError",
                problem(format!(
                    "{error}; this is a defect of Weft, please report it"
                )),
            )
        };
        let mut objects = objects::access(
            &config,
            input.facts.serves(kinds::SECURITY_CONTEXT_CONSTRAINTS),
        )
        .map_err(defect)?;
        objects.extend(objects::services(&config).map_err(defect)?);
        let unit = Unit {
            name: "placement".to_owned(),
            objects,
        };
        Ok(Decision::of(vec![unit], input.resource["spec"].clone()))
    }

    /// By the owner: placement-operator and nova-operator set one on all that they make.
    fn made_by_original(&self, live: &Value) -> bool {
        Live::of(live).owner_of(GROUP, KIND).is_some()
    }

    /// nova-operator is one only in the releases that serve PlacementAPI: installed by itself, they
    /// name Placement's image, too. A webhook is in the way if it is asked about PlacementAPIs.
    fn is_original_operator(&self, workload: &Value) -> bool {
        let live = Live::of(workload);
        if live.label(COMPONENT_LABEL).is_some() {
            return false;
        }
        if let Some(webhooks) = workload["webhooks"].as_array() {
            let groups = webhooks
                .iter()
                .flat_map(|webhook| webhook["rules"].as_array().into_iter().flatten());
            return groups
                .flat_map(|rule| rule["apiGroups"].as_array().into_iter().flatten())
                .any(|group| group == GROUP);
        }
        let containers = workload
            .pointer("/spec/template/spec/containers")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let mut variables =
            containers.flat_map(|container| container["env"].as_array().into_iter().flatten());
        let [(_, own), (_, merged), ..] = OPERATORS;
        live.name() == *own
            || live.name() == *merged
                && variables.any(|variable| variable["name"] == IMAGE_VARIABLE)
    }

    /// openstack-operator installs nova-operator without that image. As long as placement-operator
    /// serves PlacementAPI, it installs that one, too, be it with zero replicas.
    fn originals<'a>(&self, found: &[&'a Value]) -> Vec<&'a Value> {
        let [(_, own), (_, merged), ..] = OPERATORS;
        let is_named =
            |one: &Value, name: &str| Live::of(one).name() == name && is_of_openstack_operator(one);
        let has_taken_over = |nova: &Value| {
            let namespace = Live::of(nova).namespace();
            is_named(nova, merged)
                && !found
                    .iter()
                    .any(|one| is_named(one, own) && Live::of(one).namespace() == namespace)
        };
        found
            .iter()
            .copied()
            .filter(|one| self.is_original_operator(one) || has_taken_over(one))
            .collect()
    }

    fn operators(&self) -> &'static [(Kind, &'static str)] {
        OPERATORS
    }
}

/// Reports whether openstack-operator has installed it: the resource OpenStack owns it then.
fn is_of_openstack_operator(workload: &Value) -> bool {
    let owner = Live::of(workload).owner_of("operator.openstack.org", "OpenStack");
    owner.is_some()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn another_operator_is_one_that_serves_placement_apis() {
        let domain = Placement::new(Settings::default());
        let deployment = |name: &str, variable: &str| {
            let container =
                serde_json::json!({"name": "manager", "env": [{"name": variable, "value": "x"}]});
            serde_json::json!({
                "kind": "Deployment", "metadata": {"name": name},
                "spec": {"template": {"spec": {"containers": [container]}}}
            })
        };
        assert!(
            domain.is_original_operator(&deployment("placement-operator-controller-manager", "X"))
        );
        assert!(domain.is_original_operator(&deployment(
            "nova-operator-controller-manager",
            IMAGE_VARIABLE
        )));
        assert!(
            !domain.is_original_operator(&deployment("nova-operator-controller-manager", "X")),
            "before they were merged"
        );
        let webhooks = |group: &str| {
            serde_json::json!({"kind": "ValidatingWebhookConfiguration", "metadata": {
                "name": "nova-operator-validating-webhook-configuration"
            },
                "webhooks": [
                    {"rules": [{"apiGroups": ["nova.openstack.org"]}]},
                    {"rules": [{"apiGroups": [group]}]}
                ]})
        };
        assert!(domain.is_original_operator(&webhooks("placement.openstack.org")));
        assert!(
            !domain.is_original_operator(&webhooks("nova.openstack.org")),
            "they are nobody's business here"
        );
        let mut ours = deployment("placement-operator-controller-manager", "X");
        ours["metadata"]["labels"] = serde_json::json!({COMPONENT_LABEL: "operator"});
        assert!(!domain.is_original_operator(&ours));
    }

    #[test]
    fn the_nova_operator_of_openstack_operator_serves_where_no_other_does() {
        let domain = Placement::new(Settings::default());
        let installed = |namespace: &str, name: &str, by: &str| {
            serde_json::json!({"kind": "Deployment", "metadata": {"namespace": namespace, "name": format!("{name}-operator-controller-manager"),
                "ownerReferences": [
                    {"apiVersion": "operator.openstack.org/v1beta1", "kind": by}
                ]}, "spec": {"replicas": 0}})
        };
        let (nova, placement) = (
            installed("a", "nova", "OpenStack"),
            installed("a", "placement", "OpenStack"),
        );
        assert_eq!(domain.originals(&[&nova]), [&nova]);
        assert_eq!(
            domain.originals(&[&nova, &placement]),
            [&placement],
            "the release before, scaled to zero"
        );
        let elsewhere = installed("b", "placement", "OpenStack");
        assert_eq!(domain.originals(&[&nova, &elsewhere]), [&nova, &elsewhere]);
        let other = installed("a", "nova", "Other");
        assert!(
            domain.originals(&[&other]).is_empty(),
            "it names no image of Placement"
        );
    }

    /// openstack-operator deletes what has the names of placement-operator in the namespace of all
    /// its operators.
    #[test]
    fn wefts_own_operator_has_neither_name_nor_namespace_of_the_original() {
        let domain = Placement::new(Settings::default());
        let shipped: Vec<Value> =
            serde_saphyr::from_multiple(include_str!("../../../deploy/placement/operator.yaml"))
                .unwrap();
        for object in &shipped {
            let metadata = &object["metadata"];
            assert!(
                metadata["name"] == OPERATOR && metadata["namespace"] == NAMESPACE,
                "{metadata}"
            );
            assert!(!domain.is_original_operator(object), "{object:#}");
        }
        assert!(
            domain.operators().iter().all(|(_, name)| *name != OPERATOR)
                && NAMESPACE != "openstack-operators"
        );
    }

    #[test]
    fn a_keystone_that_cannot_be_one_is_refused_with_its_variable() {
        let read = |text: &'static str| {
            Settings::from_env(move |name| (name == KEYSTONES_VARIABLE).then(|| text.to_owned()))
        };
        assert_eq!(read(" ").unwrap(), Settings::default());
        assert_eq!(
            read("https://a/v3,https://b")
                .unwrap()
                .keystones
                .to_string(),
            "https://a,https://b"
        );
        let error = read("https://a,keystone:5000").unwrap_err().to_string();
        assert!(
            error.starts_with("WEFT_KEYSTONE_URLS: \"keystone:5000\" must be a web address"),
            "{error}"
        );
    }

    #[test]
    fn everywhere_is_only_served_where_that_is_said() {
        let read = |text: &'static str| {
            Settings::from_env(move |name| (name == NAMESPACES_VARIABLE).then(|| text.to_owned()))
                .unwrap()
                .namespaces
        };
        assert_eq!(read(""), Namespaces::These(vec!["openstack".into()]));
        assert_eq!(
            read(" b, a,b,"),
            Namespaces::These(vec!["a".into(), "b".into()])
        );
        assert_eq!(read("*"), Namespaces::All);
        let error = Namespaces::read("a,B").unwrap_err().to_string();
        assert!(
            error.contains("WEFT_PLACEMENT_NAMESPACES: \"B\""),
            "{error}"
        );
        let error = Namespaces::read(" , ").unwrap_err().to_string();
        assert!(error.contains("names no namespace"), "{error}");
    }
}
