//! Tools that put an object back when another one changes or deletes it: package managers,
//! platforms and GitOps tools.
//!
//! Each is recognized by the labels, annotations and owners that it writes. The switch to Weft
//! lasts only if these tools know of it.

use std::fmt;

use serde_json::Value;
use weft_plan::{Live, ObjectKey};

/// A tool that keeps an object as it made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// Operator Lifecycle Manager, through a ClusterServiceVersion (labels `olm.owner`, or the
    /// owner reference).
    Olm {
        /// The namespace of the ClusterServiceVersion.
        namespace: String,
        /// The name of the ClusterServiceVersion.
        version: String,
    },
    /// OpenShift's cluster-version-operator (annotation `include.release.openshift.io/...`, or the
    /// owner reference).
    ClusterVersion,
    /// hyperconverged-cluster-operator (label `app.kubernetes.io/managed-by: hco-operator`).
    HyperConverged,
    /// openstack-operator, through its resource OpenStack.
    OpenStack {
        /// Its namespace: that of the object.
        namespace: String,
        /// The name of the OpenStack resource.
        name: String,
    },
    /// A release of Helm (annotations `meta.helm.sh/release-name` and `-namespace`).
    Helm {
        /// The namespace of the release.
        namespace: String,
        /// The name of the release.
        release: String,
    },
    /// An Application of Argo CD (annotation `argocd.argoproj.io/tracking-id`, label
    /// `argocd.argoproj.io/instance`).
    ArgoCd {
        /// The name of the Application.
        application: String,
    },
    /// A Kustomization or HelmRelease of Flux (labels `kustomize.toolkit.fluxcd.io/name` and
    /// `helm.toolkit.fluxcd.io/name`).
    Flux {
        /// Kind of the object.
        kind: &'static str,
        /// The namespace of the object.
        namespace: String,
        /// The name of the object.
        name: String,
    },
}

impl Keeper {
    /// The tools that keep this object, in no other order than that of the enumeration.
    pub fn of(object: &Value) -> Vec<Self> {
        let live = Live::of(object);
        let filled = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
        let label = |name: &str| filled(live.label(name));
        let annotation = |name: &str| filled(live.annotation(name));
        let own_namespace = || live.namespace().to_owned();
        let owner = |kind: &str, group: &str| {
            live.owner_of(group, kind)
                .and_then(|owner| owner["name"].as_str())
                .map(str::to_owned)
        };

        let labelled = label("olm.owner")
            .filter(|_| live.label("olm.owner.kind") == Some("ClusterServiceVersion"));
        let olm = labelled
            .or_else(|| owner("ClusterServiceVersion", "operators.coreos.com"))
            .map(|version| Self::Olm {
                namespace: label("olm.owner.namespace").unwrap_or_else(own_namespace),
                version,
            });
        let is_released = live
            .annotations()
            .any(|(name, _)| name.starts_with("include.release.openshift.io/"));
        let cluster_version = (is_released
            || owner("ClusterVersion", "config.openshift.io").is_some())
        .then_some(Self::ClusterVersion);
        let hyper_converged = (live.label("app.kubernetes.io/managed-by") == Some("hco-operator"))
            .then_some(Self::HyperConverged);
        let open_stack = owner("OpenStack", "operator.openstack.org").map(|name| Self::OpenStack {
            namespace: own_namespace(),
            name,
        });
        let helm = annotation("meta.helm.sh/release-name").map(|release| Self::Helm {
            namespace: annotation("meta.helm.sh/release-namespace").unwrap_or_else(own_namespace),
            release,
        });
        // The identifier begins with the application's name.
        let tracked = annotation("argocd.argoproj.io/tracking-id")
            .and_then(|id| Some(id.split_once(':')?.0.to_owned()));
        let argo = tracked
            .or_else(|| label("argocd.argoproj.io/instance"))
            .map(|application| Self::ArgoCd { application });
        let flux = [("Kustomization", "kustomize"), ("HelmRelease", "helm")]
            .into_iter()
            .filter_map(|(kind, tool)| {
                let label = |field: &str| label(&format!("{tool}.toolkit.fluxcd.io/{field}"));
                Some(Self::Flux {
                    kind,
                    namespace: label("namespace").unwrap_or_else(own_namespace),
                    name: label("name")?,
                })
            });
        [
            olm,
            cluster_version,
            hyper_converged,
            open_stack,
            helm,
            argo,
        ]
        .into_iter()
        .flatten()
        .chain(flux)
        .collect()
    }

    /// How to make it leave this workload to Weft. Commands where one is enough.
    pub fn how_to_stop(&self, object: &ObjectKey) -> String {
        let ObjectKey { kind, name: of, .. } = object;
        let at = object.namespace.as_deref().unwrap_or_default();
        match self {
            Self::Olm { namespace, version } => format!(
                "delete its Subscription, then the ClusterServiceVersion: kubectl -n {namespace} delete clusterserviceversion {version}"
            ),
            Self::ClusterVersion => format!(
                "add {{group: {}, kind: {}, namespace: {at}, name: {of}, unmanaged: true}} to spec.overrides: kubectl edit clusterversion version",
                kind.group, kind.kind
            ),
            Self::HyperConverged => "it writes the specification again after each change: change the HyperConverged instead".to_owned(),
            Self::OpenStack { namespace, name } => {
                format!("set replicas to 0 for this operator in spec.operatorOverrides: kubectl -n {namespace} edit openstack {name}")
            }
            Self::Helm { namespace, release } => format!(
                "keep the release from deleting what Weft serves: annotate the CustomResourceDefinition and the resource with helm.sh/resource-policy=keep, then: helm -n {namespace} uninstall {release}"
            ),
            Self::ArgoCd { application } => {
                format!("take {} {at}/{of} out of the sources of the Application {application}", kind.kind)
            }
            Self::Flux { kind: applied_by, namespace, name } => {
                format!("take {} {at}/{of} out of the sources of the {applied_by} {namespace}/{name}", kind.kind)
            }
        }
    }
}

/// The tool and its object, for example `OLM (ClusterServiceVersion operators/cnao.v1)`.
impl fmt::Display for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Olm { namespace, version } => {
                write!(f, "OLM (ClusterServiceVersion {namespace}/{version})")
            }
            Self::ClusterVersion => {
                f.write_str("cluster-version-operator (ClusterVersion version)")
            }
            Self::HyperConverged => f.write_str("hyperconverged-cluster-operator"),
            Self::OpenStack { namespace, name } => {
                write!(f, "openstack-operator (OpenStack {namespace}/{name})")
            }
            Self::Helm { namespace, release } => write!(f, "Helm (release {namespace}/{release})"),
            Self::ArgoCd { application } => write!(f, "Argo CD (Application {application})"),
            Self::Flux {
                kind,
                namespace,
                name,
            } => write!(f, "Flux ({kind} {namespace}/{name})"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use weft_plan::kinds;

    fn shown(metadata: Value) -> Vec<String> {
        Keeper::of(&json!({"metadata": metadata}))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_tool_is_known_by_what_it_writes() {
        for (metadata, expected) in [
            (
                json!({
                    "namespace": "n",
                    "labels": {
                        "olm.owner": "cnao.v1", "olm.owner.kind": "ClusterServiceVersion",
                        "olm.owner.namespace": "operators"
                    }
                }),
                "OLM (ClusterServiceVersion operators/cnao.v1)",
            ),
            (
                json!({
                    "namespace": "n",
                    "ownerReferences": [
                        {
                            "apiVersion": "operators.coreos.com/v1alpha1",
                            "kind": "ClusterServiceVersion", "name": "cnao.v1"
                        }
                    ]
                }),
                "OLM (ClusterServiceVersion n/cnao.v1)",
            ),
            (
                json!({
                    "annotations": {
                        "include.release.openshift.io/self-managed-high-availability": "true"
                    }
                }),
                "cluster-version-operator (ClusterVersion version)",
            ),
            (
                json!({
                    "ownerReferences": [
                        {
                            "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
                            "name": "version"
                        }
                    ]
                }),
                "cluster-version-operator (ClusterVersion version)",
            ),
            (
                json!({"labels": {"app.kubernetes.io/managed-by": "hco-operator"}}),
                "hyperconverged-cluster-operator",
            ),
            (
                json!({
                    "namespace": "n",
                    "ownerReferences": [
                        {
                            "apiVersion": "operator.openstack.org/v1beta1", "kind": "OpenStack",
                            "name": "openstack"
                        }
                    ]
                }),
                "openstack-operator (OpenStack n/openstack)",
            ),
            (
                json!({
                    "annotations": {
                        "meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "s"
                    }
                }),
                "Helm (release s/r)",
            ),
            (
                json!({
                    "annotations": {"argocd.argoproj.io/tracking-id": "net:apps/Deployment:n/o"}
                }),
                "Argo CD (Application net)",
            ),
            (
                json!({"labels": {"argocd.argoproj.io/instance": "net"}}),
                "Argo CD (Application net)",
            ),
            (
                json!({
                    "labels": {
                        "kustomize.toolkit.fluxcd.io/name": "net",
                        "kustomize.toolkit.fluxcd.io/namespace": "flux-system"
                    }
                }),
                "Flux (Kustomization flux-system/net)",
            ),
            (
                json!({
                    "labels": {
                        "helm.toolkit.fluxcd.io/name": "net",
                        "helm.toolkit.fluxcd.io/namespace": "flux-system"
                    }
                }),
                "Flux (HelmRelease flux-system/net)",
            ),
        ] {
            assert_eq!(shown(metadata.clone()), [expected], "{metadata}");
        }
    }

    #[test]
    fn an_object_of_nobody_else_has_no_keeper() {
        for metadata in [
            json!({}),
            json!({"labels": {"app.kubernetes.io/managed-by": "cnao-operator", "olm.owner": "x"}}),
            json!({
                "ownerReferences": [
                    {"apiVersion": "example.com/v1", "kind": "OpenStack", "name": "openstack"}
                ]
            }),
        ] {
            assert_eq!(shown(metadata.clone()), [""; 0], "{metadata}");
        }
    }

    #[test]
    fn the_way_out_names_the_workload() {
        let workload = ObjectKey::new(kinds::DAEMON_SET, "n", "o");
        let how = Keeper::ClusterVersion.how_to_stop(&workload);
        assert!(
            how.contains("{group: apps, kind: DaemonSet, namespace: n, name: o, unmanaged: true}"),
            "{how}"
        );
        let how = Keeper::ArgoCd {
            application: "net".into(),
        }
        .how_to_stop(&workload);
        assert_eq!(
            how,
            "take DaemonSet n/o out of the sources of the Application net"
        );
    }
}
