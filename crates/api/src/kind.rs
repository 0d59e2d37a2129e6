//! A kind of Kubernetes object. [`kinds`] has the table of all.

use std::fmt;

use crate::kinds;

/// A kind of Kubernetes object in the one API version that Weft uses.
///
/// The version is how we talk about an object, not what it is: there is one `Kind` for a group and
/// a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// API version, for example `v1`.
    pub version: &'static str,
    /// Kind in CamelCase, for example `DaemonSet`.
    pub kind: &'static str,
    /// Resource name in URLs and RBAC rules, for example `daemonsets`.
    pub plural: &'static str,
    /// True if its objects live in a namespace.
    pub namespaced: bool,
}

impl Kind {
    /// `group/version`, or just the version for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Reports whether a cluster may lack it: then it comes and goes with its definition, see
    /// [`Kind::definition`].
    pub fn is_optional(&self) -> bool {
        kinds::OPTIONAL_GROUPS.contains(&self.group)
    }

    /// The name of its CustomResourceDefinition, for example `certificates.cert-manager.io`.
    pub fn definition(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// The kind that an object's `apiVersion` and `kind` name, in any version of it.
    pub fn find(api_version: &str, kind: &str) -> Option<Kind> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        Self::find_in_group(group, kind)
    }

    /// The kind of this group and name.
    pub fn find_in_group(group: &str, kind: &str) -> Option<Kind> {
        kinds::ALL
            .iter()
            .copied()
            .find(|k| k.kind == kind && k.group == group)
    }
}

/// As kubectl names it: `DaemonSet.apps`, `ConfigMap`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            "" => f.write_str(self.kind),
            group => write!(f, "{}.{group}", self.kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cluster_serves_the_kinds_of_kubernetes_itself() {
        let of_kubernetes =
            |kind: &Kind| !kind.group.contains('.') || kind.group.ends_with(".k8s.io");
        let served = [
            kinds::NETWORK_ADDONS_CONFIG,
            kinds::NETWORK_CONFIG,
            kinds::PLACEMENT_API,
        ];
        for kind in kinds::ALL.iter().filter(|kind| !served.contains(kind)) {
            assert_eq!(kind.is_optional(), !of_kubernetes(kind), "{kind}");
        }
        assert_eq!(
            kinds::CERTIFICATE.definition(),
            "certificates.cert-manager.io"
        );
    }

    #[test]
    fn a_kind_is_found_in_any_version_of_its_group() {
        assert_eq!(
            Kind::find("apps/v1beta2", "DaemonSet"),
            Some(kinds::DAEMON_SET)
        );
        assert_eq!(Kind::find("v1", "ConfigMap"), Some(kinds::CONFIG_MAP));
        assert_eq!(Kind::find("extensions/v1beta1", "DaemonSet"), None);
    }
}
