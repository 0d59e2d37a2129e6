//! Everything that is needed to install the operator, made from the files below `deploy/`.

mod monitoring;
mod overlay;
mod packaged;
mod rbac;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use weft_node_network::deployment::settings as agent;
use weft_operands::pull_policy::PullPolicy;
use weft_placement::{domain::Namespaces, registration::Addresses};
use weft_plan::{Decision, Facts, Manifest, ObjectKey, kinds};

use crate::{
    check,
    domains::{Alternative, Asked, Entry, Environment},
};
pub use monitoring::Reader;
use overlay::Names;
pub use packaged::{helm_values, kustomize_patch};

const SINGLE_NAMESPACE_YAML: &str = include_str!("../../../../deploy/single/namespace.yaml");
const SINGLE_OPERATOR_YAML: &str = include_str!("../../../../deploy/single/operator.yaml");
/// The operator's name when one Deployment runs all domains.
pub const SINGLE_OPERATOR: &str = "weft-operator";
/// Its usual namespace.
pub const SINGLE_NAMESPACE: &str = "weft-system";

/// The choices of an installation.
#[derive(Clone)]
pub struct Options<'a> {
    /// The domains to install.
    pub domains: Vec<&'static Entry>,
    /// Names of components. A domain of which none is named has all of its components.
    pub components: &'a [String],
    /// One Deployment for all domains.
    pub single: bool,
    /// The operator's namespace, if it is not the usual one.
    pub namespace: Option<&'a str>,
    /// The image of the operator.
    pub image: &'a str,
    /// The image of the agents on the nodes.
    pub agent_image: &'a str,
    /// The pull policy of the images of the operator and of the agents.
    pub image_pull_policy: &'a str,
    /// Images of operands instead of the usual ones, by the variables that name them.
    pub images: &'a BTreeMap<&'static str, String>,
    /// The way to the API server for what works before there is a network.
    pub api_server: Option<&'a ApiServer>,
    /// The namespaces whose PlacementAPIs are served, if they are not the usual one.
    pub placement_namespaces: Option<&'a Namespaces>,
    /// Keystones to which the usual keys of all Secrets may be sent.
    pub keystone_urls: Option<&'a Addresses>,
    /// The Prometheus that reads the metrics. `None` leaves out the objects for Prometheus Operator.
    pub monitoring: Option<&'a Reader>,
}

/// The way to the API server where the Service `kubernetes` does not lead there yet.
pub enum ApiServer {
    /// Its host and port.
    At(String, u16),
    /// A kubeconfig on the nodes that names it.
    InKubeconfig(String),
}

/// The objects of an installation, in the order in which they are to be applied.
#[derive(Default)]
pub struct Installation {
    /// Namespaces that are Weft's: those with its own names, and those that only an operator that
    /// it replaces has. Any other can exist already, with labels and objects of other users, which
    /// `kubectl apply` would change and `kubectl delete` would delete.
    pub namespaces: Vec<Manifest>,
    /// The other namespaces that objects of the installation are in, and that must be there before:
    /// one that the user chose, and those that are served.
    pub needed: BTreeSet<String>,
    /// Definitions of custom resources, each with the name of its file.
    pub definitions: Vec<(&'static str, Manifest)>,
    /// ServiceAccounts, RBAC, Deployments, admission policies.
    pub operator: Vec<Manifest>,
    /// Custom resources to begin with, each with the name of its file. Not part of the
    /// installation.
    pub examples: Vec<(&'static str, Manifest)>,
}

/// Puts an installation together.
///
/// # Errors
/// A file below `deploy/` or a manifest of a component cannot be used: a defect of Weft, or a
/// namespace that cannot be one.
pub fn install(options: &Options) -> Result<Installation> {
    let mut installation = Installation::default();
    let mut shared = None;
    if options.single {
        let name = options.namespace.unwrap_or(SINGLE_NAMESPACE);
        let names = Names::new(SINGLE_OPERATOR, SINGLE_NAMESPACE, SINGLE_OPERATOR, name);
        let mut namespace = read(SINGLE_NAMESPACE_YAML)?;
        let mut operator = overlay::renamed(read(SINGLE_OPERATOR_YAML)?, &names);
        if let Some(early) = options
            .domains
            .iter()
            .find(|entry| entry.install.before_the_network)
        {
            overlay::on_the_nodes_network(
                &mut namespace,
                &mut operator,
                &read(early.install.operator_yaml)?,
            );
            options
                .api_server
                .iter()
                .for_each(|server| overlay::reach(&mut operator, server));
        }
        installation.add_namespace(name, SINGLE_NAMESPACE, namespace)?;
        shared = Some(operator);
    }
    for entry in &options.domains {
        let domain = Domain::of(entry, options)?;
        if let Some(namespace) = domain.namespace(options.single) {
            installation.add_namespace(
                namespace,
                entry.install.namespace,
                read(entry.install.namespace_yaml)?,
            )?;
        }
        for (file, definition) in entry.definitions() {
            installation
                .definitions
                .push((file, Manifest::new(serde_json::to_value(definition)?)?));
        }
        installation.examples.push((
            entry.install.example_file,
            Manifest::new(domain.example.clone())?,
        ));
        installation.needed.extend(domain.served().iter().cloned());
        installation.operator.extend(manifests(domain.rbac()?)?);
        match &mut shared {
            Some(operator) => overlay::add_environment(operator, &domain.shared_environment()),
            None => {
                let mut operator =
                    overlay::renamed(read(entry.install.operator_yaml)?, &domain.names);
                overlay::add_environment(&mut operator, &domain.own_environment());
                overlay::set_image(&mut operator, options.image, options.image_pull_policy);
                if let Some(server) = options
                    .api_server
                    .filter(|_| entry.install.before_the_network)
                {
                    overlay::reach(&mut operator, server);
                }
                if let Some(reader) = options.monitoring.filter(|_| !domain.makes_alerts()) {
                    installation.monitor(&operator, &[entry.name], reader)?;
                }
                installation.operator.extend(manifests(operator)?);
            }
        }
        let mut admission = (entry.admission)();
        if options.single {
            overlay::also_writes_for_others(&mut admission);
        }
        installation.operator.extend(manifests(admission)?);
    }
    if let Some(mut operator) = shared {
        let domains: Vec<&str> = options.domains.iter().map(|entry| entry.name).collect();
        overlay::set_domains(&mut operator, &domains.join(","));
        overlay::set_image(&mut operator, options.image, options.image_pull_policy);
        if let Some(reader) = options.monitoring {
            installation.monitor(&operator, &domains, reader)?;
        }
        installation.operator.extend(manifests(operator)?);
    }
    let Installation {
        namespaces, needed, ..
    } = &mut installation;
    needed.retain(|name| {
        namespaces
            .iter()
            .all(|namespace| namespace.key().name != *name)
    });
    Ok(installation)
}

impl Installation {
    /// Adds the objects for Prometheus Operator of the operator among these objects.
    fn monitor(&mut self, operator: &[Value], domains: &[&str], reader: &Reader) -> Result<()> {
        for workload in operator
            .iter()
            .filter(|object| object.pointer("/spec/template").is_some())
        {
            self.operator
                .extend(manifests(monitoring::objects(workload, domains, reader)?)?);
        }
        Ok(())
    }

    /// Adds the namespace `name`, written in these objects, if it has the one name by which it is
    /// Weft's. Any other one is needed.
    fn add_namespace(&mut self, name: &str, of_weft: &str, objects: Vec<Value>) -> Result<()> {
        if name == of_weft {
            self.namespaces.extend(manifests(objects)?);
        } else {
            self.needed.insert(name.to_owned());
        }
        Ok(())
    }
}

/// Facts about a domain for its installation.
struct Domain {
    entry: &'static Entry,
    /// New names for those in its files.
    names: Names,
    /// The namespace of its operands.
    operands: String,
    /// The namespaces that are served, where the resource has one.
    namespaces: Option<Namespaces>,
    /// The variable that lists Keystones, with its value, where there are some.
    keystones: Option<(&'static str, String)>,
    example: Value,
    /// Everything that the chosen components may have, on whatever cluster and by whatever choice.
    decisions: Vec<Decision>,
    /// The names of its chosen components. Empty if all are.
    chosen: Vec<&'static str>,
    /// Objects that the replaced operator may have left.
    obsolete: Vec<ObjectKey>,
    /// The variables with the images of its operands.
    images: Vec<(&'static str, String)>,
}

impl Domain {
    fn of(entry: &'static Entry, options: &Options) -> Result<Self> {
        let install = &entry.install;
        // With one operator for all, `--namespace` is that operator's. The operands stay where they
        // are.
        let (names, operands) = if options.single {
            let namespace = options.namespace.unwrap_or(SINGLE_NAMESPACE);
            let operator = format!("{SINGLE_OPERATOR}-{}", entry.name);
            (
                Names::new(install.operator, install.namespace, &operator, namespace)
                    .with_account(SINGLE_OPERATOR),
                install.namespace,
            )
        } else {
            let namespace = options.namespace.unwrap_or(install.namespace);
            (
                Names::new(
                    install.operator,
                    install.namespace,
                    install.operator,
                    namespace,
                ),
                namespace,
            )
        };
        let usual = install
            .served_namespace
            .map(|namespace| Namespaces::These(vec![namespace.to_owned()]));
        let namespaces = usual.map(|usual| options.placement_namespaces.cloned().unwrap_or(usual));
        let operands = namespaces
            .as_ref()
            .map_or_else(|| operands.to_owned(), ToString::to_string);
        let all = install.components.iter().map(|component| component.name);
        let chosen: Vec<_> = all
            .filter(|name| options.components.iter().any(|chosen| chosen == name))
            .collect();
        let (example, others) = examples(entry, &chosen)?;
        let environment = Environment::default()
            .with_namespaces(&names.namespace, &operands)
            .with(install.namespace_variable, &operands)
            .with_shipped_images(entry);
        let domain = entry.open(&environment)?.0;
        let mut decisions = Vec::new();
        for facts in Facts::of_every_sort_of_cluster() {
            for resource in std::iter::once(example.clone()).chain(others.clone()) {
                let (decision, _) = check::decide_knowing(&facts, &*domain, &resource);
                decisions.push(decision.map_err(|refusal| {
                    let problems: Vec<String> =
                        refusal.problems.iter().map(ToString::to_string).collect();
                    anyhow::anyhow!(
                        "the components {} do not go together: {}",
                        chosen.join(", "),
                        problems.join("; ")
                    )
                })?);
            }
        }
        let narrowed = match install.components_variable.filter(|_| !chosen.is_empty()) {
            Some(variable) => {
                entry
                    .open(&environment.with(variable, &chosen.join(",")))?
                    .0
            }
            None => domain,
        };
        let obsolete = narrowed
            .obsolete()
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        let keystones = install
            .keystones_variable
            .zip(options.keystone_urls.map(ToString::to_string));
        Ok(Self {
            entry,
            names,
            operands,
            namespaces,
            keystones,
            example,
            decisions,
            chosen,
            obsolete,
            images: images(entry, options),
        })
    }

    /// The namespace that is its alone: of operator and operands. Of the operator, where the
    /// operands are in namespaces of their users. Of the operands, where one operator is for
    /// several domains.
    fn namespace(&self, single: bool) -> Option<&str> {
        match (single, &self.namespaces) {
            (true, Some(_)) => None,
            (true, None) => Some(&self.operands),
            (false, _) => Some(&self.names.namespace),
        }
    }

    /// The namespaces of users that are served, where they are listed.
    fn served(&self) -> &[String] {
        match &self.namespaces {
            Some(Namespaces::These(names)) => names,
            Some(Namespaces::All) | None => &[],
        }
    }

    /// Reports whether its operator makes alerts by itself, where the cluster serves their kind.
    fn makes_alerts(&self) -> bool {
        self.decisions
            .iter()
            .flat_map(|decision| &decision.units)
            .flat_map(|unit| &unit.objects)
            .any(|object| object.key().kind == kinds::PROMETHEUS_RULE)
    }

    fn rbac(&self) -> Result<Vec<Value>> {
        let objects: Vec<&Manifest> = self
            .decisions
            .iter()
            .flat_map(|decision| &decision.units)
            .flat_map(|unit| &unit.objects)
            .collect();
        let made_by_operands = self
            .decisions
            .iter()
            .flat_map(|decision| &decision.made_by_operands)
            .cloned();
        // Both are removed, and never written.
        let removed: Vec<ObjectKey> = made_by_operands
            .chain(self.obsolete.iter().cloned())
            .collect();
        let base = read(self.entry.install.rbac_yaml)?;
        let placed = match &self.namespaces {
            None => overlay::placed(base, &self.names, &self.operands),
            Some(namespaces) => overlay::in_each(
                overlay::placed(base, &self.names, overlay::OF_EACH),
                namespaces,
            ),
        };
        let operands = self
            .entry
            .install
            .one_namespace
            .then_some(self.operands.as_str());
        rbac::complete(placed, &objects, &removed, operands)
            .with_context(|| format!("the roles of {}", self.entry.name))
    }

    /// Which components were chosen: the roles let the operator watch nothing that only the others
    /// need.
    fn components(&self) -> Option<(&'static str, String)> {
        let variable = self
            .entry
            .install
            .components_variable
            .filter(|_| !self.chosen.is_empty())?;
        Some((variable, self.chosen.join(",")))
    }

    /// Returns further variables for its own Deployment.
    fn own_environment(&self) -> Vec<(&'static str, String)> {
        let namespaces = self.namespaces.iter().map(|namespaces| {
            (
                self.entry.install.namespace_variable,
                namespaces.to_string(),
            )
        });
        namespaces
            .chain(self.keystones.clone())
            .chain(self.components())
            .chain(self.images.clone())
            .collect()
    }

    /// Next to the images: the operands' namespace, which is another one than the operator's.
    fn shared_environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![(self.entry.install.namespace_variable, self.operands.clone())];
        variables.extend(self.keystones.clone());
        variables.extend(self.components().into_iter().chain(self.images.clone()));
        variables
    }
}

/// Returns the variables of an operator with the images of its operands, and with the pull policy
/// of those that are Weft's own.
fn images(entry: &Entry, options: &Options) -> Vec<(&'static str, String)> {
    let mut variables = Vec::new();
    for (name, image) in (entry.install.images)() {
        if name == agent::IMAGE_VARIABLE {
            variables.push((name, options.agent_image.to_owned()));
            let policy = options.image_pull_policy;
            variables.extend(
                (policy != PullPolicy::default().to_string())
                    .then(|| (agent::PULL_POLICY_VARIABLE, policy.to_owned())),
            );
        } else {
            let image = options.images.get(name).map_or(image, String::as_str);
            variables.push((name, image.to_owned()));
        }
    }
    variables
}

/// The example of a domain with the chosen components only, and the same with the other values that
/// lead to what may be deployed.
fn examples(entry: &Entry, components: &[&str]) -> Result<(Value, Vec<Value>)> {
    let mut example: Value =
        serde_saphyr::from_str(entry.install.example_yaml).context("the example cannot be read")?;
    let is_chosen = |name: &str| components.is_empty() || components.contains(&name);
    let (mut values, mut fields): (Vec<&Alternative>, Vec<&str>) = Default::default();
    for component in entry.install.components {
        match (&component.asked, is_chosen(component.name)) {
            (Asked::Value(value), true) => values.push(value),
            (Asked::Field(field), false) => {
                if let Some(spec) = example["spec"].as_object_mut() {
                    spec.remove(*field);
                }
            }
            (Asked::FieldNotInExample(field), true) => fields.push(field),
            (Asked::Field(_), true) | (Asked::FieldNotInExample(_) | Asked::Value(_), false) => {}
        }
    }
    // Of values that exclude each other the example has one that is chosen.
    let has = |value: &&Alternative| {
        example
            .pointer(value.inside)
            .is_some_and(|object| object[value.field] == value.value)
    };
    if let Some(first) = values.first().filter(|_| !values.iter().any(has)) {
        example = with(&example, first).unwrap_or(example);
    }
    let others = entry
        .install
        .alternatives
        .iter()
        .chain(values)
        .filter_map(|other| with(&example, other));
    let more = fields.into_iter().map(|field| {
        let mut more = example.clone();
        more["spec"][field] = json!({});
        more
    });
    let others = others.chain(more).collect();
    Ok((example, others))
}

/// The resource with another value, where it has the field.
fn with(resource: &Value, other: &Alternative) -> Option<Value> {
    let mut changed = resource.clone();
    changed.pointer_mut(other.inside)?[other.field] = other.value.into();
    Some(changed)
}

fn read(yaml: &str) -> Result<Vec<Value>> {
    serde_saphyr::from_multiple(yaml).context("a file of deploy/ cannot be read")
}

fn manifests(objects: Vec<Value>) -> Result<Vec<Manifest>> {
    objects
        .into_iter()
        .map(|object| Manifest::new(object).context("a file of deploy/ cannot be used"))
        .collect()
}
