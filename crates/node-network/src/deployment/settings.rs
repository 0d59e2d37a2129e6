//! Settings from the operator's environment.

use std::{collections::BTreeMap, ops::RangeInclusive};

use weft_operands::{
    image::{ImageReference, ImageReferenceError},
    pull_policy::PullPolicy,
    text::{is_dns_label, is_object_name},
};

/// The namespace of operator and agents unless something else is said.
pub(super) const NAMESPACE: &str = "nmstate";
/// The environment variable that names the agent's image.
pub const IMAGE_VARIABLE: &str = "RELATED_IMAGE_HANDLER_IMAGE";
/// The environment variable that says when the agent's image is pulled.
pub const PULL_POLICY_VARIABLE: &str = "HANDLER_IMAGE_PULL_POLICY";
/// The agent's image unless something else is said.
pub const IMAGE: &str = concat!("localhost/weft-agent:", env!("CARGO_PKG_VERSION"));

/// How the domain is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The namespace of the agents, and of the Secrets that policies name.
    pub(super) namespace: String,
    /// Where the operator runs and keeps its notes.
    pub operator_namespace: String,
    /// The agent's image.
    pub(super) image: String,
    /// When that is pulled.
    pub(super) image_pull_policy: PullPolicy,
    /// Namespace and ServiceAccount of the Prometheus that may find the operator's metrics.
    pub(super) prometheus: (String, String),
    /// Variables of the agents that the operator's environment sets, by name.
    pub(super) of_agents: BTreeMap<&'static str, u32>,
}

/// Variables that the operator hands on to the agents, with the range of each.
const OF_AGENTS: [(&str, RangeInclusive<u32>); 4] = [
    ("NNCP_MAX_RETRIES", 1..=1000),
    ("NNCP_INITIAL_BACKOFF_SECONDS", 0..=86_400),
    ("NNCP_MAX_BACKOFF_SECONDS", 0..=86_400),
    ("WEFT_AGENT_PROBE_SECONDS", 1..=600),
];

/// The mistake in the environment.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SettingsError {
    /// A variable that names a namespace holds something else.
    #[error(
        "{variable}: {value:?} cannot be the name of a namespace: lower-case letters, digits and hyphens, at most 63"
    )]
    Namespace {
        /// Its name.
        variable: &'static str,
        /// The value of the variable.
        value: String,
    },
    /// The image is none.
    #[error("{IMAGE_VARIABLE}: {0}")]
    Image(#[from] ImageReferenceError),
    /// The pull policy is none.
    #[error("{PULL_POLICY_VARIABLE}: {0}")]
    PullPolicy(String),
    /// The name of an account is none.
    #[error(
        "MONITORING_SERVICE_ACCOUNT: {0:?} cannot be the name of a ServiceAccount: lower-case letters, digits, '-' and '.'"
    )]
    ServiceAccount(String),
    /// A variable that is handed on to the agents is out of range.
    #[error("{variable}: {value:?} must be a whole number from {} to {}", range.start(), range.end())]
    OfAgents {
        /// Its name.
        variable: &'static str,
        /// The value of the variable.
        value: String,
        /// The allowed range.
        range: RangeInclusive<u32>,
    },
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: NAMESPACE.to_owned(),
            operator_namespace: NAMESPACE.to_owned(),
            image: IMAGE.to_owned(),
            image_pull_policy: PullPolicy::default(),
            prometheus: ("monitoring".to_owned(), "prometheus-k8s".to_owned()),
            of_agents: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// Reads `OPERATOR_NAMESPACE`, `HANDLER_NAMESPACE` (else `OPERAND_NAMESPACE`, else that of the
    /// operator), `RELATED_IMAGE_HANDLER_IMAGE`, `HANDLER_IMAGE_PULL_POLICY`,
    /// `MONITORING_NAMESPACE` and `MONITORING_SERVICE_ACCOUNT`, and for the agents
    /// `NNCP_MAX_RETRIES`, `NNCP_INITIAL_BACKOFF_SECONDS`, `NNCP_MAX_BACKOFF_SECONDS` and
    /// `WEFT_AGENT_PROBE_SECONDS`. An empty variable counts as unset.
    ///
    /// # Errors
    /// A variable has a value that it cannot have.
    pub fn from_env(env: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let get = |variable: &str| {
            env(variable)
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let namespace = |variable: &'static str| match get(variable) {
            Some(value) if !is_dns_label(&value) => {
                Err(SettingsError::Namespace { variable, value })
            }
            value => Ok(value),
        };
        let operator_namespace =
            namespace("OPERATOR_NAMESPACE")?.unwrap_or_else(|| NAMESPACE.to_owned());
        let of_agents = namespace("HANDLER_NAMESPACE")?.or(namespace("OPERAND_NAMESPACE")?);
        let image: Option<ImageReference> =
            get(IMAGE_VARIABLE).map(|image| image.parse()).transpose()?;
        let image_pull_policy = get(PULL_POLICY_VARIABLE).map(|policy| policy.parse());
        let default = Self::default();
        let account = get("MONITORING_SERVICE_ACCOUNT").unwrap_or(default.prometheus.1);
        if !is_object_name(&account) {
            return Err(SettingsError::ServiceAccount(account));
        }
        let mut set_for_agents = BTreeMap::new();
        for (variable, range) in OF_AGENTS {
            let Some(value) = get(variable) else { continue };
            let number = value.parse().ok().filter(|number| range.contains(number));
            set_for_agents.insert(
                variable,
                number.ok_or(SettingsError::OfAgents {
                    variable,
                    value,
                    range,
                })?,
            );
        }
        Ok(Self {
            namespace: of_agents.unwrap_or_else(|| operator_namespace.clone()),
            operator_namespace,
            image: image.map_or_else(|| IMAGE.to_owned(), |image| image.to_string()),
            image_pull_policy: image_pull_policy
                .transpose()
                .map_err(|error: <PullPolicy as std::str::FromStr>::Err| {
                    SettingsError::PullPolicy(error.to_string())
                })?
                .unwrap_or_default(),
            prometheus: (
                namespace("MONITORING_NAMESPACE")?.unwrap_or(default.prometheus.0),
                account,
            ),
            of_agents: set_for_agents,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::from_env(|name| {
            variables
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_set_gives_the_defaults_and_an_empty_variable_is_not_set() {
        assert_eq!(read(&[]).unwrap(), Settings::default());
        assert_eq!(
            read(&[
                ("HANDLER_NAMESPACE", " "),
                (IMAGE_VARIABLE, ""),
                ("HANDLER_IMAGE_PULL_POLICY", "")
            ])
            .unwrap(),
            Settings::default()
        );
    }

    #[test]
    fn the_agents_are_beside_the_operator_unless_another_namespace_is_said() {
        let namespaces = |variables: &[(&str, &str)]| {
            let settings = read(variables).unwrap();
            (settings.operator_namespace, settings.namespace)
        };
        assert_eq!(
            namespaces(&[("OPERATOR_NAMESPACE", "a")]),
            ("a".to_owned(), "a".to_owned())
        );
        assert_eq!(
            namespaces(&[("OPERATOR_NAMESPACE", "a"), ("HANDLER_NAMESPACE", "b")]),
            ("a".to_owned(), "b".to_owned())
        );
        assert_eq!(
            namespaces(&[("OPERATOR_NAMESPACE", "a"), ("OPERAND_NAMESPACE", "b")]),
            ("a".to_owned(), "b".to_owned())
        );
    }

    #[test]
    fn an_invalid_setting_is_refused_by_the_name_of_its_variable() {
        for (variable, value) in [
            ("OPERATOR_NAMESPACE", "No_Namespace"),
            ("HANDLER_NAMESPACE", "a.b"),
            (IMAGE_VARIABLE, "not an image"),
            ("HANDLER_IMAGE_PULL_POLICY", "Sometimes"),
            ("MONITORING_NAMESPACE", "a.b"),
            ("MONITORING_SERVICE_ACCOUNT", "A"),
            ("NNCP_MAX_RETRIES", "0"),
            ("NNCP_MAX_BACKOFF_SECONDS", "-1"),
            ("NNCP_INITIAL_BACKOFF_SECONDS", "1s"),
            ("WEFT_AGENT_PROBE_SECONDS", "601"),
        ] {
            let error = read(&[(variable, value)]).unwrap_err().to_string();
            assert!(
                error.starts_with(variable) && error.contains(value),
                "{error}"
            );
        }
    }
}
