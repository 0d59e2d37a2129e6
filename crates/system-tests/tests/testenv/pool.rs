//! A control plane that tests borrow one after the other.

use std::fs;

use kube::api::{Api, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use weft_testenv::{ControlPlane, Pods, Stage, StoredKind, Stuck, wait::wait_until};

/// Traces of each sort: a kind with an object that a finalizer holds, rules that refuse requests of
/// everybody, workloads with pods, and a namespace that a finalizer holds.
const TRACES: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: traces.example.com}
spec:
  group: example.com
  names: {kind: Trace, plural: traces}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: traces, finalizers: [example.com/held]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: trace, namespace: traces, finalizers: [example.com/held]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: trace, namespace: traces}
spec:
  selector: {matchLabels: {app: trace}}
  template:
    metadata: {labels: {app: trace}}
    spec: {containers: [{name: trace, image: trace}]}
---
apiVersion: v1
kind: Service
metadata: {name: trace, namespace: traces}
spec: {type: NodePort, clusterIP: 10.96.7.7, selector: {app: trace}, ports: [{port: 80, nodePort: 30777}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: trace}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
"#;

const RULES: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: trace}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "false"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: trace}
spec: {policyName: trace, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: trace}
webhooks:
- name: trace.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}]
"#;

/// All objects but those that controllers renew by themselves.
async fn lasting(control_plane: &ControlPlane) -> Vec<StoredKind> {
    let mut kinds = control_plane.stored().await.unwrap();
    kinds.retain(|kind| kind.plural != "leases");
    kinds
}

#[tokio::test]
async fn a_borrower_sees_nothing_of_the_test_before() {
    let lent = ControlPlane::builder().nodes(0).lend().await.unwrap();
    let (url, before) = (lent.url().to_owned(), lasting(&lent).await);
    let files = || {
        let names = fs::read_dir(lent.dir()).unwrap().flatten();
        names.map(|entry| entry.file_name()).collect::<Vec<_>>()
    };
    let mut files_before = files();
    files_before.sort();

    let stage = Stage::stuck(Pods::named("^trace-"), Stuck::ImagePullBackOff);
    lent.set_stages(&[stage]).await.unwrap();
    lent.add_node("node-1", &[]).await.unwrap();
    lent.kubectl_with_input(&["apply", "-f", "-"], TRACES)
        .await
        .unwrap();
    let kubeconfig = lent
        .service_account_kubeconfig("default", "default")
        .await
        .unwrap();
    let made = r#"{"apiVersion": "example.com/v1", "kind": "Trace", "metadata": {"name": "trace", "namespace": "default", "finalizers": ["example.com/held"]}}"#;
    wait_until("the kind is served", async || {
        lent.kubectl_with_input(&["apply", "-f", "-"], made)
            .await
            .map_err(|error| error.to_string())
    })
    .await;
    wait_until("a pod runs", async || {
        let pods = lent
            .kubectl(&["get", "pods", "-n", "traces", "-o", "name"])
            .await
            .unwrap();
        if pods.contains("pod/trace-") {
            Ok(())
        } else {
            Err(pods)
        }
    })
    .await;
    lent.kubectl_with_input(&["apply", "-f", "-"], RULES)
        .await
        .unwrap();
    wait_until("the rules count", async || {
        match lent
            .kubectl(&["create", "configmap", "refused", "--dry-run=server"])
            .await
        {
            Err(error) if error.to_string().contains("trace") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    lent.kubectl(&["delete", "namespace", "traces", "--wait=false"])
        .await
        .unwrap();

    let lent = lent.reset().await.unwrap();
    assert_eq!(lent.url(), url, "it is the same one");
    let after = lasting(&lent).await;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after, "{}", before.title());
    }
    assert_eq!(before.len(), after.len());
    let mut files_after: Vec<_> = fs::read_dir(lent.dir())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    files_after.retain(|name| name != "kubectl-cache");
    files_before.retain(|name| name != "kubectl-cache");
    files_after.sort();
    assert_eq!(files_after, files_before);
    assert!(!kubeconfig.exists());

    // No kind, rule, address or right is left, and a pod becomes Ready.
    let traces = kube::api::ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("example.com", "v1", "Trace"),
        "traces",
    );
    let traces: Api<DynamicObject> = Api::all_with(lent.client(), &traces);
    let served = traces.list(&ListParams::default()).await;
    assert!(matches!(served, Err(kube::Error::Api(status)) if status.code == 404));
    lent.kubectl(&["create", "configmap", "allowed"])
        .await
        .unwrap();
    lent.kubectl(&["create", "secret", "generic", "allowed"])
        .await
        .unwrap();
    let may = [
        "auth",
        "can-i",
        "delete",
        "nodes",
        "--as",
        "system:serviceaccount:default:default",
    ];
    let may = lent.kubectl(&may).await.unwrap_err().to_string();
    assert!(may.contains("no"), "{may}");
    lent.add_node("node-1", &[]).await.unwrap();
    lent.kubectl_with_input(
        &["apply", "-f", "-"],
        &TRACES.replace(", finalizers: [example.com/held]", ""),
    )
    .await
    .unwrap();
    lent.kubectl(&[
        "rollout",
        "status",
        "-n",
        "traces",
        "daemonset/trace",
        "--timeout=60s",
    ])
    .await
    .unwrap();
    let events = lent.audit_events().unwrap();
    assert!(
        !events.iter().any(|event| event.name == "refused"),
        "the log begins with the loan"
    );
    assert!(events.iter().any(|event| event.name == "allowed"));
}
