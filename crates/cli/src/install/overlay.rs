//! Changes of an installation to the files below `deploy/`: names, namespaces, images, environment
//! variables.

use serde_json::{Value, json};
use weft_api::cluster_network;
use weft_placement::domain::Namespaces;
use weft_plan::Live;

use super::ApiServer;

/// New names for those in a file.
#[derive(Clone)]
pub struct Names {
    written_operator: String,
    written_namespace: String,
    /// The operator, and the beginning of the names of its roles.
    operator: String,
    /// The operator's ServiceAccount.
    account: String,
    /// The operator's namespace.
    pub namespace: String,
}

impl Names {
    /// From what is written to what is wanted.
    pub fn new(
        written_operator: &str,
        written_namespace: &str,
        operator: &str,
        namespace: &str,
    ) -> Self {
        Self {
            written_operator: written_operator.to_owned(),
            written_namespace: written_namespace.to_owned(),
            operator: operator.to_owned(),
            account: operator.to_owned(),
            namespace: namespace.to_owned(),
        }
    }

    /// Replaces the operator's ServiceAccount.
    pub fn with_account(self, account: &str) -> Self {
        Self {
            account: account.to_owned(),
            ..self
        }
    }

    fn name(&self, written: &str) -> String {
        written.strip_prefix(&self.written_operator).map_or_else(
            || written.to_owned(),
            |rest| format!("{}{rest}", self.operator),
        )
    }
}

/// The objects in the operator's namespace.
pub fn renamed(mut objects: Vec<Value>, names: &Names) -> Vec<Value> {
    for object in &mut objects {
        if Live::of(object).stated_namespace() == Some(&names.written_namespace) {
            object["metadata"]["namespace"] = names.namespace.clone().into();
        }
    }
    objects
}

/// Roles and bindings under their names, where they belong: a role that is called as the operator
/// is rules in the operator's own namespace, any other one in that of the operands, unless it says
/// another.
pub fn placed(mut objects: Vec<Value>, names: &Names, operands: &str) -> Vec<Value> {
    for object in &mut objects {
        let written = Live::of(object).name().to_owned();
        object["metadata"]["name"] = names.name(&written).into();
        if Live::of(object).stated_namespace() == Some(&names.written_namespace) {
            let namespace = if written == names.written_operator {
                &names.namespace
            } else {
                operands
            };
            object["metadata"]["namespace"] = namespace.into();
        }
        if let Some(role) = object.pointer_mut("/roleRef/name") {
            *role = names.name(role.as_str().unwrap_or_default()).into();
        }
        if let Some(subject) = object.pointer_mut("/subjects/0") {
            subject["name"] = names.account.clone().into();
            subject["namespace"] = names.namespace.clone().into();
        }
    }
    objects
}

/// Stands for each of several namespaces.
pub const OF_EACH: &str = "of-each";

/// The objects in the namespace [`OF_EACH`] once for each of these, where all are meant, once for
/// the cluster.
pub fn in_each(objects: Vec<Value>, namespaces: &Namespaces) -> Vec<Value> {
    let spread = |object: Value| -> Vec<Value> {
        if Live::of(&object).namespace() != OF_EACH {
            return vec![object];
        }
        match namespaces {
            Namespaces::These(names) => {
                let placed = names.iter().map(|name| {
                    let mut object = object.clone();
                    object["metadata"]["namespace"] = name.clone().into();
                    object
                });
                placed.collect()
            }
            Namespaces::All => vec![cluster_wide(object)],
        }
    };
    objects.into_iter().flat_map(spread).collect()
}

/// A role or a binding of the whole cluster instead of one in a namespace.
fn cluster_wide(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("namespace");
    }
    for pointer in ["/kind", "/roleRef/kind"] {
        if let Some(kind) = object.pointer_mut(pointer) {
            *kind = format!("Cluster{}", kind.as_str().unwrap_or_default()).into();
        }
    }
    object
}

/// Adds environment variables to the operator's container.
pub fn add_environment(objects: &mut [Value], variables: &[(&str, String)]) {
    for container in containers(objects) {
        if let Some(environment) = container["env"].as_array_mut() {
            environment.extend(
                variables
                    .iter()
                    .map(|(name, value)| json!({"name": name, "value": value})),
            );
        }
    }
}

/// Sets image and pull policy, and the environment variables with the operator's own image and
/// version.
pub fn set_image(objects: &mut [Value], image: &str, pull_policy: &str) {
    for container in containers(objects) {
        container["image"] = image.into();
        container["imagePullPolicy"] = pull_policy.into();
        for variable in container["env"].as_array_mut().into_iter().flatten() {
            match variable["name"].as_str() {
                Some("OPERATOR_IMAGE") => variable["value"] = image.into(),
                Some("OPERATOR_VERSION") => variable["value"] = env!("CARGO_PKG_VERSION").into(),
                _ => {}
            }
        }
    }
}

/// Sets the domains that the operator runs.
pub fn set_domains(objects: &mut [Value], domains: &str) {
    for container in containers(objects) {
        let arguments = container["args"].as_array_mut().into_iter().flatten();
        if let Some(value) = arguments
            .skip_while(|argument| **argument != "--domains")
            .nth(1)
        {
            *value = domains.into();
        }
    }
}

/// Makes an operator work before there is any pod network, as the workload among `like` does.
pub fn on_the_nodes_network(namespace: &mut [Value], operator: &mut [Value], like: &[Value]) {
    const POD: &str = "/spec/template/spec";
    for namespace in namespace {
        for mode in ["enforce", "audit", "warn"] {
            namespace["metadata"]["labels"][format!("pod-security.kubernetes.io/{mode}")] =
                "privileged".into();
        }
    }
    let Some(like) = like.iter().find_map(|object| object.pointer(POD)) else {
        return;
    };
    for pod in operator
        .iter_mut()
        .filter_map(|object| object.pointer_mut(POD))
    {
        for field in [
            "hostNetwork",
            "dnsPolicy",
            "affinity",
            "tolerations",
            "securityContext",
        ] {
            pod[field] = like[field].clone();
        }
        for field in [
            "args",
            "ports",
            "livenessProbe",
            "readinessProbe",
            "terminationMessagePolicy",
            "resources",
        ] {
            pod["containers"][0][field] = like["containers"][0][field].clone();
        }
    }
}

/// Sets how an operator and, through it, its operands reach the API server.
pub fn reach(objects: &mut [Value], server: &ApiServer) {
    match server {
        ApiServer::At(host, port) => {
            add_environment(
                objects,
                &[
                    ("KUBERNETES_SERVICE_HOST", host.clone()),
                    ("KUBERNETES_SERVICE_PORT", port.to_string()),
                ],
            );
        }
        ApiServer::InKubeconfig(path) => {
            for pod in objects
                .iter_mut()
                .filter_map(|object| object.pointer_mut("/spec/template/spec"))
            {
                // Only root may read a kubelet's kubeconfig. Of it just the address is used.
                let user = json!({"runAsNonRoot": false, "runAsUser": 0, "runAsGroup": 0});
                merge(&mut pod["securityContext"], &user);
                push(
                    &mut pod["volumes"],
                    json!({"name": "node-kubeconfig", "hostPath": {"path": path, "type": "File"}}),
                );
                let container = &mut pod["containers"][0];
                push(
                    &mut container["args"],
                    format!("--url-only-kubeconfig={path}").into(),
                );
                push(
                    &mut container["volumeMounts"],
                    json!({"name": "node-kubeconfig", "mountPath": path, "readOnly": true}),
                );
            }
        }
    }
}

/// Lets the account of several domains write in the namespaces of the others, where an admission
/// policy limits where it writes.
pub fn also_writes_for_others(admission: &mut [Value]) {
    for variable in admission
        .iter_mut()
        .filter_map(|policy| policy.pointer_mut("/spec/variables"))
        .filter_map(Value::as_array_mut)
        .flatten()
        .filter(|variable| variable["name"] == cluster_network::OTHER_DOMAINS)
    {
        variable["expression"] = cluster_network::NAMESPACES_OF_OTHER_DOMAINS.into();
    }
}

fn push(list: &mut Value, item: Value) {
    if list.is_null() {
        *list = json!([]);
    }
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

fn merge(object: &mut Value, fields: &Value) {
    for (field, value) in fields.as_object().into_iter().flatten() {
        object[field] = value.clone();
    }
}

fn containers(objects: &mut [Value]) -> impl Iterator<Item = &mut Value> {
    objects
        .iter_mut()
        .filter_map(|object| object.pointer_mut("/spec/template/spec/containers/0"))
}
