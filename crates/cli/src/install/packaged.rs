//! An installation in the forms of the packages: values for the Helm chart, and a patch for the bases
//! of kustomize.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use weft_node_network::deployment::settings as agent;
use weft_operands::{
    image::{Parts, parts},
    pull_policy::PullPolicy,
};
use weft_plan::text;

use super::{ApiServer, Installation, Options, install};
use crate::domains::{self, Entry, OPERATOR_IMAGE};

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

/// The domains of the base with one operator.
const OF_BASE: [&str; 2] = ["addons", "node-network"];

/// Returns a patch with which a base of kustomize deploys the same images, and its operator has the
/// same variables. The images of operands that are given are in it, the usual ones, too: a base can
/// be written with others.
///
/// # Errors
/// The base does not serve a domain, or there are several operators. An option changes more than the
/// operator's container, or nothing in this base. No option changes anything.
pub fn kustomize_patch(options: &Options) -> Result<Value> {
    let (policy, no_images) = (PullPolicy::default().to_string(), BTreeMap::new());
    let base = Options {
        domains: domains_of_base(options)?,
        components: &[],
        single: options.single,
        namespace: options.namespace,
        image: OPERATOR_IMAGE,
        agent_image: agent::IMAGE,
        image_pull_policy: &policy,
        images: &no_images,
        api_server: None,
        placement_namespaces: None,
        keystone_urls: None,
        monitoring: None,
    };
    let plain = Divided::of(&base)?;
    let mut wanted = base.clone();
    wanted.images = options.images;
    for (option, set) in given(options) {
        let mut alone = base.clone();
        set(&mut alone, options);
        set(&mut wanted, options);
        let changed = Divided::of(&alone)?;
        if changed == plain {
            bail!("{option} changes nothing in this base of kustomize: leave it out");
        }
        if changed.rest != plain.rest {
            bail!(
                "a patch for a base of kustomize cannot hold {option}, which changes more than the image and the variables of the operator. Leave it out, or make a base of your own: write the output of `weft manifests` with this option and without -o into a file, and name it in the resources of your kustomization"
            );
        }
    }
    let wanted = Divided::of(&wanted)?;
    let is_read = |name: &str| wanted.environment.contains_key(name);
    if let Some(name) = options.images.keys().find(|name| !is_read(name)) {
        bail!(
            "--operand-images {name}: this base of kustomize deploys no such image: leave it out"
        );
    }
    let mut container = Map::new();
    for (field, value, usual) in [
        ("image", &wanted.image, &plain.image),
        ("imagePullPolicy", &wanted.pull_policy, &plain.pull_policy),
    ] {
        if value != usual {
            container.insert(field.to_owned(), value.clone());
        }
    }
    let is_set = |(name, variable): &(&String, &Value)| {
        options.images.contains_key(name.as_str()) || plain.environment.get(*name) != Some(variable)
    };
    let variables = wanted.environment.iter().filter(is_set);
    let variables: Vec<&Value> = variables.map(|(_, variable)| variable).collect();
    if !variables.is_empty() {
        container.insert("env".to_owned(), json!(variables));
    }
    if container.is_empty() {
        bail!(
            "nothing differs from the base of kustomize: give --running-images, --operand-images, --image or --agent-image, or apply the base as it is"
        );
    }
    container.insert("name".to_owned(), wanted.name);
    let mut patch = wanted.identity;
    patch["spec"] = json!({"template": {"spec": {"containers": [container]}}});
    Ok(patch)
}

/// The domains of the base that a patch is for. An operator for one domain has a base of its own.
fn domains_of_base(options: &Options) -> Result<Vec<&'static Entry>> {
    if !options.single {
        if options.domains.len() != 1 {
            bail!("a patch is for one operator: leave --split out, or name one domain");
        }
        return Ok(options.domains.clone());
    }
    let mut domains = options.domains.iter();
    if let Some(other) = domains.find(|entry| !OF_BASE.contains(&entry.name)) {
        bail!(
            "--domains {}: the base of kustomize serves {}, and a patch cannot add a domain. Leave it out, add --split for its own base, or make a base of your own: write the output of `weft manifests` without -o into a file, and name it in the resources of your kustomization",
            other.name,
            OF_BASE.join(" and ")
        );
    }
    Ok(domains::chosen(&OF_BASE.map(str::to_owned)))
}

/// Sets an option to its value in other options.
type Set<'a> = fn(&mut Options<'a>, &Options<'a>);

/// Returns the options with a value of their own, but for the images of operands.
fn given<'a>(options: &Options<'a>) -> Vec<(&'static str, Set<'a>)> {
    let Options {
        // They choose the base.
        domains: _,
        single: _,
        namespace: _,
        images: _,
        components,
        image,
        agent_image,
        image_pull_policy,
        api_server,
        placement_namespaces,
        keystone_urls,
        monitoring,
    } = options;
    let all: [(bool, &str, Set); 8] = [
        (!components.is_empty(), "--components", |to, from| {
            to.components = from.components;
        }),
        (*image != OPERATOR_IMAGE, "--image", |to, from| {
            to.image = from.image;
        }),
        (*agent_image != agent::IMAGE, "--agent-image", |to, from| {
            to.agent_image = from.agent_image;
        }),
        (
            *image_pull_policy != PullPolicy::default().to_string(),
            "--image-pull-policy",
            |to, from| to.image_pull_policy = from.image_pull_policy,
        ),
        (
            api_server.is_some(),
            match api_server {
                Some(ApiServer::InKubeconfig(_)) => "--node-kubeconfig",
                _ => "--api-server",
            },
            |to, from| to.api_server = from.api_server,
        ),
        (
            placement_namespaces.is_some(),
            "--placement-namespaces",
            |to, from| to.placement_namespaces = from.placement_namespaces,
        ),
        (keystone_urls.is_some(), "--keystone-urls", |to, from| {
            to.keystone_urls = from.keystone_urls;
        }),
        (monitoring.is_some(), "--monitoring", |to, from| {
            to.monitoring = from.monitoring;
        }),
    ];
    let given = all.into_iter().filter(|(is_given, ..)| *is_given);
    given.map(|(_, option, set)| (option, set)).collect()
}

/// An installation with one operator: the part that a patch can set, and the rest.
#[derive(PartialEq)]
struct Divided {
    /// Version, kind, name and namespace of the operator's workload.
    identity: Value,
    /// The name of the operator's container.
    name: Value,
    /// Its image.
    image: Value,
    /// Its `imagePullPolicy`.
    pull_policy: Value,
    /// Its environment variables, by their names.
    environment: BTreeMap<String, Value>,
    /// All objects, without that.
    rest: Vec<Value>,
}

impl Divided {
    fn of(options: &Options) -> Result<Self> {
        let Installation {
            namespaces,
            needed: _,
            definitions,
            operator,
            examples: _,
        } = install(options)?;
        let definitions = definitions.iter().map(|(_, definition)| definition);
        let all = namespaces.iter().chain(definitions).chain(&operator);
        let mut rest: Vec<Value> = all.map(|manifest| manifest.body().clone()).collect();
        let has_pod = |object: &&mut Value| object.pointer("/spec/template/spec").is_some();
        let workload = rest.iter_mut().find(has_pod).context("no operator")?;
        let metadata = &workload["metadata"];
        let identity = json!({
            "apiVersion": workload["apiVersion"],
            "kind": workload["kind"],
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
        });
        let container = &mut workload["spec"]["template"]["spec"]["containers"][0];
        let environment = match container["env"].take() {
            Value::Array(variables) => variables,
            _ => Vec::new(),
        };
        let named = |variable: Value| (text(&variable, "name").to_owned(), variable);
        Ok(Self {
            identity,
            name: container["name"].clone(),
            image: container["image"].take(),
            pull_policy: container["imagePullPolicy"].take(),
            environment: environment.into_iter().map(named).collect(),
            rest,
        })
    }
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
