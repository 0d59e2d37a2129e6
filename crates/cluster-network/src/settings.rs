//! What the operator's environment says.

/// The namespace of the operator and its notes.
pub const NAMESPACE: &str = "openshift-cluster-network-operator";

/// How the domain is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the operator runs and keeps its notes.
    pub operator_namespace: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { operator_namespace: NAMESPACE.to_owned() }
    }
}

impl Settings {
    /// Reads `OPERATOR_NAMESPACE`.
    pub fn from_env(env: impl Fn(&str) -> Option<String>) -> Self {
        let namespace = env("OPERATOR_NAMESPACE").map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        Self { operator_namespace: namespace.unwrap_or_else(|| NAMESPACE.to_owned()) }
    }
}
