//! The known ways from one account to the rights of another.

use serde_json::{Value, json};
use weft_plan::kinds;
use weft_testenv::ControlPlane;

use super::{PEER, POWERFUL, VICTIMS, accounts::Account};

/// Open to whoever keeps certificates in Secrets of a namespace.
pub const LIST_OWN_SECRETS: &str = "list the Secrets of its own namespace";
/// Open to the controller of OpenShift SDN, whose credentials are there.
pub const READ_SECRET_OF_OPENSHIFT: &str = "read a Secret of openshift-infra";
/// Open to whoever installs a webhook.
pub const MUTATING_WEBHOOK: &str = "create a mutating webhook";

const MERGE: &str = "application/merge-patch+json";

/// An attempt: a request that must be refused. It changes nothing even where it is let through.
pub struct Way {
    pub name: String,
    method: &'static str,
    path: String,
    body: Option<Value>,
    content_type: &'static str,
    impersonates: bool,
}

impl Way {
    /// Sends it, and returns the code of the answer.
    pub async fn attempt(&self, client: &kube::Client) -> u16 {
        let body = self
            .body
            .as_ref()
            .map(|body| body.to_string().into_bytes())
            .unwrap_or_default();
        let mut request = http::Request::builder()
            .method(self.method)
            .uri(&self.path)
            .header("Content-Type", self.content_type);
        if self.impersonates {
            request = request
                .header("Impersonate-User", "admin")
                .header("Impersonate-Group", "system:masters");
        }
        match client.request_text(request.body(body).unwrap()).await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{}: {error}", self.name),
        }
    }
}

fn way(name: &str, method: &'static str, path: &str, body: Option<Value>) -> Way {
    let is_write = method != "GET";
    let path = if is_write {
        format!("{path}?dryRun=All")
    } else {
        path.to_owned()
    };
    let content_type = if method == "PATCH" {
        MERGE
    } else {
        "application/json"
    };
    Way {
        name: name.to_owned(),
        method,
        path,
        body,
        content_type,
        impersonates: false,
    }
}

fn get(name: &str, path: &str) -> Way {
    way(name, "GET", path, None)
}

fn post(name: &str, path: &str, body: Value) -> Way {
    way(name, "POST", path, Some(body))
}

fn patch(name: &str, path: &str, body: Value) -> Way {
    way(name, "PATCH", path, Some(body))
}

/// A patch of this type.
pub fn patch_as(name: &str, path: &str, content_type: &'static str, body: Value) -> Way {
    Way {
        content_type,
        ..patch(name, path, body)
    }
}

/// Replaces an object.
pub fn put(name: &str, path: &str, body: Value) -> Way {
    way(name, "PUT", path, Some(body))
}

/// Creates an object.
pub fn create(name: &str, path: &str, body: Value) -> Way {
    post(name, path, body)
}

/// A pod template with this account.
pub fn template(account: &str) -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"serviceAccountName": account, "restartPolicy": "Always",
        "containers": [{"name": "a", "image": "registry.example/a:1"}]}})
}

/// A Secret that Kubernetes fills with the token of an account.
pub fn token_secret(namespace: &str, account: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
    "metadata": {
        "namespace": namespace, "name": "stolen",
        "annotations": {"kubernetes.io/service-account.name": account}
    }})
}

/// A workload whose pods have the token of an account.
pub fn workload(kind: &str, namespace: &str, account: &str) -> Value {
    let mut template = template(account);
    let mut spec = json!({"selector": {"matchLabels": {"a": "b"}}});
    if kind == "Job" {
        template["spec"]["restartPolicy"] = "Never".into();
        spec = json!({});
    }
    spec["template"] = template;
    let group = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    json!({
        "apiVersion": group, "kind": kind, "metadata": {"namespace": namespace, "name": "stolen"},
        "spec": spec
    })
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

fn binding(kind: &str, namespace: Option<&str>, role: &str, account: &Account) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {
        "name": "stolen", "namespace": namespace
    },
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [
            {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
        ]})
}

fn role(kind: &str, namespace: Option<&str>, rules: Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": {"name": "stolen", "namespace": namespace}, "rules": rules
    })
}

/// All of them, for this account.
pub async fn of(cluster: &ControlPlane, account: &Account) -> Vec<Way> {
    let own = account.works_in;
    let mut ways = vec![
        // Secrets.
        post(
            "create a token Secret in kube-system",
            "/api/v1/namespaces/kube-system/secrets",
            token_secret("kube-system", POWERFUL),
        ),
        post(
            "create a token Secret in its own namespace",
            &format!("/api/v1/namespaces/{own}/secrets"),
            token_secret(own, PEER),
        ),
        get(
            "list the Secrets of kube-system",
            "/api/v1/namespaces/kube-system/secrets",
        ),
        get(
            "watch the Secrets of kube-system",
            "/api/v1/namespaces/kube-system/secrets?watch=true&timeoutSeconds=1",
        ),
        get("list all Secrets", "/api/v1/secrets"),
        get(
            "read a Secret of kube-system",
            "/api/v1/namespaces/kube-system/secrets/any",
        ),
        get(
            READ_SECRET_OF_OPENSHIFT,
            "/api/v1/namespaces/openshift-infra/secrets/any",
        ),
        get(
            LIST_OWN_SECRETS,
            &format!("/api/v1/namespaces/{own}/secrets"),
        ),
        // Tokens.
        token_request("kube-system", POWERFUL),
        token_request(own, PEER),
        // Roles and bindings.
        post(
            "bind cluster-admin",
            &format!("{RBAC}/clusterrolebindings"),
            binding("ClusterRoleBinding", None, "cluster-admin", account),
        ),
        post(
            "bind admin in kube-system",
            &format!("{RBAC}/namespaces/kube-system/rolebindings"),
            binding("RoleBinding", Some("kube-system"), "admin", account),
        ),
        post(
            "bind admin in its own namespace",
            &format!("{RBAC}/namespaces/{own}/rolebindings"),
            binding("RoleBinding", Some(own), "admin", account),
        ),
        post(
            "create a ClusterRole that permits everything",
            &format!("{RBAC}/clusterroles"),
            role(
                "ClusterRole",
                None,
                json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]),
            ),
        ),
        post(
            "create a ClusterRole that escalates",
            &format!("{RBAC}/clusterroles"),
            role(
                "ClusterRole",
                None,
                json!([
                    {
                        "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
                        "verbs": ["escalate", "bind"]
                    }
                ]),
            ),
        ),
        post(
            "create a Role that reads the Secrets of kube-system",
            &format!("{RBAC}/namespaces/kube-system/roles"),
            role(
                "Role",
                Some("kube-system"),
                json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]),
            ),
        ),
        post(
            "create a Role with pods/exec in its own namespace",
            &format!("{RBAC}/namespaces/{own}/roles"),
            role(
                "Role",
                Some(own),
                json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}]),
            ),
        ),
        patch(
            "extend the role view",
            &format!("{RBAC}/clusterroles/view"),
            json!({"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}),
        ),
        patch(
            "join the group of cluster admins",
            &format!("{RBAC}/clusterrolebindings/cluster-admin"),
            json!({
                "subjects": [
                    {"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}
                ]
            }),
        ),
        Way {
            impersonates: true,
            ..get("impersonate an administrator", "/api/v1/nodes")
        },
        // Into pods and nodes.
        get(
            "reach the kubelet through nodes/proxy",
            "/api/v1/nodes/node-2/proxy/pods",
        ),
        exec("exec"),
        exec("attach"),
        exec("portforward"),
        patch(
            "add a debugging container to a pod of others",
            &format!("/api/v1/namespaces/{VICTIMS}/pods/{VICTIMS}-node-2/ephemeralcontainers"),
            json!({
                "spec": {"ephemeralContainers": [{"name": "b", "image": "registry.example/b:1"}]}
            }),
        ),
        patch(
            "label a node",
            "/api/v1/nodes/node-2",
            json!({"metadata": {"labels": {"stolen": "true"}}}),
        ),
        patch(
            "label its own node",
            "/api/v1/nodes/node-1",
            json!({"metadata": {"labels": {"stolen": "true"}}}),
        ),
        patch(
            "taint a node",
            "/api/v1/nodes/node-2",
            json!({"spec": {"unschedulable": true}}),
        ),
        patch(
            "change the status of another node",
            "/api/v1/nodes/node-2/status",
            json!({"status": {"capacity": {"cpu": "1"}}}),
        ),
        patch(
            "change the capacity of its own node",
            "/api/v1/nodes/node-1/status",
            json!({"status": {"capacity": {"cpu": "1"}}}),
        ),
        patch(
            "label its own node by its status",
            "/api/v1/nodes/node-1/status",
            json!({"metadata": {"labels": {"stolen": "true"}}}),
        ),
        way("delete a node", "DELETE", "/api/v1/nodes/node-2", None),
        // Certificates.
        put(
            "approve a certificate",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests/any/approval",
            json!({
                "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
                "metadata": {"name": "any"}
            }),
        ),
        // Admission.
        post(
            MUTATING_WEBHOOK,
            &format!("{ADMISSION}/mutatingwebhookconfigurations"),
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "MutatingWebhookConfiguration", "metadata": {"name": "stolen"}
            }),
        ),
        post(
            "create a validating webhook",
            &format!("{ADMISSION}/validatingwebhookconfigurations"),
            json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "stolen"}
            }),
        ),
        patch(
            "change the webhook of others",
            &format!("{ADMISSION}/mutatingwebhookconfigurations/{VICTIMS}"),
            json!({"metadata": {"labels": {"stolen": "true"}}}),
        ),
        way(
            "delete the webhook of others",
            "DELETE",
            &format!("{ADMISSION}/mutatingwebhookconfigurations/{VICTIMS}"),
            None,
        ),
        // The namespace of others.
        patch(
            "change a workload of others",
            &format!("/apis/apps/v1/namespaces/{VICTIMS}/deployments/{VICTIMS}"),
            json!({"metadata": {"labels": {"stolen": "true"}}}),
        ),
        patch(
            "change the image of a pod of others",
            &format!("/api/v1/namespaces/{VICTIMS}/pods/{VICTIMS}-node-2"),
            json!({"metadata": {"labels": {"stolen": "true"}}}),
        ),
        way(
            "delete a pod of others",
            "DELETE",
            &format!("/api/v1/namespaces/{VICTIMS}/pods/{VICTIMS}-node-2"),
            None,
        ),
        patch(
            "relabel kube-system",
            "/api/v1/namespaces/kube-system",
            json!({"metadata": {"labels": {"stolen": "true"}}}),
        ),
        post(
            "create an account in kube-system",
            "/api/v1/namespaces/kube-system/serviceaccounts",
            json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"namespace": "kube-system", "name": "stolen"}
            }),
        ),
        post(
            "create a ConfigMap in kube-system",
            "/api/v1/namespaces/kube-system/configmaps",
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"namespace": "kube-system", "name": "stolen"}
            }),
        ),
        post(
            "serve an API",
            "/apis/apiregistration.k8s.io/v1/apiservices",
            json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.stolen.example"},
            "spec": {
                "group": "stolen.example", "version": "v1", "groupPriorityMinimum": 1,
                "versionPriority": 1, "service": {"namespace": own, "name": "a"}
            }}),
        ),
        post(
            "create a volume of a node's folder",
            "/api/v1/persistentvolumes",
            json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "stolen"},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/"}
            }}),
        ),
    ];
    // Pods with the accounts of others.
    for (kind, path) in [
        (
            "Deployment",
            "apis/apps/v1/namespaces/NAMESPACE/deployments",
        ),
        ("DaemonSet", "apis/apps/v1/namespaces/NAMESPACE/daemonsets"),
        (
            "StatefulSet",
            "apis/apps/v1/namespaces/NAMESPACE/statefulsets",
        ),
        (
            "ReplicaSet",
            "apis/apps/v1/namespaces/NAMESPACE/replicasets",
        ),
        ("Job", "apis/batch/v1/namespaces/NAMESPACE/jobs"),
    ] {
        for (namespace, victim) in [("kube-system", POWERFUL), (VICTIMS, PEER)] {
            let path = format!("/{}", path.replace("NAMESPACE", namespace));
            ways.push(post(
                &format!("create a {kind} in {namespace}"),
                &path,
                workload(kind, namespace, victim),
            ));
        }
    }
    for (namespace, victim) in [("kube-system", POWERFUL), (VICTIMS, PEER), (own, PEER)] {
        ways.push(post(
            &format!("create a pod in {namespace}"),
            &format!("/api/v1/namespaces/{namespace}/pods"),
            super::pod(namespace, "node-1", victim),
        ));
    }
    // The policies that keep accounts within their limits.
    for kind in [
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ] {
        for policy in [
            weft_api::addons::SECRETS_POLICY,
            weft_api::cluster_network::OPERATOR_POLICY,
            weft_api::node_network::AGENTS_POLICY,
            weft_api::node_network::NODES_POLICY,
        ] {
            ways.push(way(
                &format!("delete {policy} ({kind})"),
                "DELETE",
                &format!("{ADMISSION}/{kind}/{policy}"),
                None,
            ));
        }
    }
    // With the whole object, as programs of Go send it.
    let path = format!("/api/v1/namespaces/{VICTIMS}/pods/{VICTIMS}-node-2");
    let mut victim = live(cluster, &path).await;
    victim["spec"]["containers"][0]["image"] = "registry.example/b:1".into();
    ways.push(put(
        "replace the image of a pod of others",
        &path,
        victim.clone(),
    ));
    victim["metadata"]["labels"] = json!({"stolen": "true"});
    ways.push(put(
        "replace the status of a pod of others",
        &format!("{path}/status"),
        victim,
    ));
    let mut hook = live(
        cluster,
        &format!(
            "{ADMISSION}/{}/{VICTIMS}",
            kinds::MUTATING_WEBHOOK_CONFIGURATION.plural
        ),
    )
    .await;
    hook["metadata"]["labels"] = json!({"stolen": "true"});
    ways.push(put(
        "replace the webhook of others",
        &format!("{ADMISSION}/mutatingwebhookconfigurations/{VICTIMS}"),
        hook,
    ));
    ways
}

/// An object as it is, as admin. Its version is left out: it may be a newer one when it is sent.
pub async fn live(cluster: &ControlPlane, path: &str) -> Value {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let mut object: Value = cluster.client().request(request).await.unwrap();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("resourceVersion");
    }
    object
}

fn token_request(namespace: &str, account: &str) -> Way {
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    post(
        &format!("ask for a token of {namespace}:{account}"),
        &path,
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": []}
        }),
    )
}

fn exec(how: &str) -> Way {
    let path = format!(
        "/api/v1/namespaces/{VICTIMS}/pods/{VICTIMS}-node-2/{how}?command=sh&stdout=true&ports=80"
    );
    Way {
        path,
        ..way(&format!("{how} into a pod of others"), "POST", "", None)
    }
}
