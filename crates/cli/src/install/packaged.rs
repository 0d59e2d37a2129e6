//! An installation in the forms of the packages: values for the Helm chart, and a patch for the bases
//! of kustomize.

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use weft_node_network::deployment::settings as agent;
use weft_operands::{
    image::{Parts, parts},
    pull_policy::PullPolicy,
};
use weft_plan::Manifest;

use super::{ApiServer, Options, install};
use crate::domains::{self, OPERATOR_IMAGE};

/// Returns the values with which the Helm chart installs the same. They name each domain, and nothing
/// else that is as usual.
///
/// # Errors
/// The chart does not have a choice among these options.
pub fn helm_values(options: &Options) -> Result<Value> {
    if !options.single {
        bail!("the Helm chart installs one operator for all domains: leave --split out");
    }
    if options.namespace.is_some() {
        bail!(
            "the Helm chart is installed in the namespace of its release: give --namespace to helm"
        );
    }
    let mut values = Map::new();
    for entry in domains::ALL {
        let is_chosen = options.domains.iter().any(|other| other.name == entry.name);
        let components = entry.install.components.iter();
        let components: Vec<&str> = components
            .map(|component| component.name)
            .filter(|name| options.components.iter().any(|chosen| chosen == name))
            .collect();
        let mut section = json!({"enabled": is_chosen});
        if is_chosen && !components.is_empty() {
            section["components"] = json!(components);
        }
        values.insert(in_camel_case(entry.name), section);
    }
    let mut values = Value::Object(values);
    match options.api_server {
        Some(ApiServer::At(host, port)) => {
            values["clusterNetwork"]["apiServer"] = json!({"host": host, "port": port});
        }
        Some(ApiServer::InKubeconfig(file)) => {
            values["clusterNetwork"]["nodeKubeconfig"] = json!(file);
        }
        None => {}
    }
    if let Some(namespaces) = options.placement_namespaces {
        values["placement"]["namespaces"] = list(&namespaces.to_string());
    }
    if let Some(keystones) = options.keystone_urls {
        values["placement"]["keystoneUrls"] = list(&keystones.to_string());
    }
    if let Some(reader) = options.monitoring.map(ToString::to_string) {
        let (namespace, account) = reader.split_once('/').unwrap_or_default();
        values["monitoring"] = json!({
            "enabled": true,
            "prometheus": {"namespace": namespace, "serviceAccount": account}
        });
    }
    for (name, reference, usual) in [
        ("image", options.image, OPERATOR_IMAGE),
        ("agentImage", options.agent_image, agent::IMAGE),
    ] {
        if reference != usual {
            values[name] = image(reference);
        }
    }
    if options.image_pull_policy != PullPolicy::default().to_string() {
        values["image"]["pullPolicy"] = json!(options.image_pull_policy);
    }
    if !options.images.is_empty() {
        values["env"] = variables(options);
    }
    Ok(values)
}

/// Returns a patch with which a base of kustomize deploys the same images of operands.
///
/// # Errors
/// There is no such image, or the operators are several.
pub fn kustomize_patch(options: &Options) -> Result<Value> {
    if options.images.is_empty() {
        bail!(
            "no image differs from those of the base: give --running-images or --operand-images, or apply the base as it is"
        );
    }
    let installation = install(options)?;
    let bodies = installation.operator.iter();
    let mut workloads = bodies
        .map(Manifest::body)
        .filter(|body| body.pointer("/spec/template/spec").is_some());
    let workload = workloads.next().context("no operator")?;
    if workloads.next().is_some() {
        bail!("a patch is for one operator: leave --split out, or name one domain");
    }
    let container = &workload["spec"]["template"]["spec"]["containers"][0]["name"];
    Ok(json!({
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "metadata": {
            "name": workload["metadata"]["name"],
            "namespace": workload["metadata"]["namespace"],
        },
        "spec": {"template": {"spec": {"containers": [
            {"name": container, "env": variables(options)},
        ]}}},
    }))
}

/// The variables of the images of operands.
fn variables(options: &Options) -> Value {
    let variables = options.images.iter();
    variables
        .map(|(name, image)| json!({"name": name, "value": image}))
        .collect()
}

fn image(reference: &str) -> Value {
    let Parts {
        repository,
        tag,
        digest,
    } = parts(reference);
    match (tag, digest) {
        // Without a tag, Kubernetes takes this one, and the chart that of its version.
        ("", "") => json!({"repository": repository, "tag": "latest"}),
        (tag, "") => json!({"repository": repository, "tag": tag}),
        (_, digest) => json!({"repository": repository, "digest": digest}),
    }
}

fn list(text: &str) -> Value {
    text.split(',').collect()
}

/// The name of a domain in the chart's values.
fn in_camel_case(name: &str) -> String {
    let mut words = name.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at(word.len().min(1));
        name + &initial.to_uppercase() + rest
    })
}
