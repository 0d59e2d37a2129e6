//! Before the switch: which operators Weft would replace in a cluster, what keeps them, what the
//! switch changes, and what is in its way.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde_json::{Value, json};
use weft_plan::{LAST_APPLIED, Live, ObjectKey, is_at_rest, kinds};
use weft_runtime::inspect::presence;

use crate::{
    commands::plan::plan,
    domains::{Environment, OPERATOR_IMAGE, SwitchCheck},
    install::{self, Options},
    keepers::Keeper,
    leftovers::{self, Leftovers},
    nodes::Nodes,
    online::{Online, Site},
    output::{self, Style},
    planned::Planned,
    review::Resource,
    running_images::{RunningImages, release},
};

/// The state of a domain in a cluster, before the switch.
pub struct Inspection {
    site: Site,
    /// Where Weft's operator would be, unless that is its usual place.
    namespace: Option<String>,
    /// The images that the switch takes over.
    running: RunningImages,
    originals: Vec<Original>,
    resources: Vec<Found>,
    in_the_way: Vec<String>,
    notes: Vec<String>,
}

/// An operator that Weft replaces, or what it has left.
struct Original {
    key: ObjectKey,
    image: Option<String>,
    version: Option<String>,
    is_at_rest: bool,
    /// True if `kubectl apply` of Weft's manifests replaces it.
    is_replaced: bool,
    keepers: Vec<Keeper>,
}

/// A resource that Weft would serve.
struct Found {
    /// Its namespace, if its kind has namespaces.
    namespace: Option<String>,
    planned: Planned,
    keepers: Vec<Keeper>,
}

impl Inspection {
    /// Inspects a domain.
    ///
    /// # Errors
    /// The cluster cannot be reached, or refuses a request.
    pub async fn of(online: &Online, site: Site) -> Result<Self> {
        let found = presence::originals(&online.cluster, &*site.domain)
            .await
            .map_err(|error| online.explain(error))?;
        // Where Weft is installed, its Deployment says which images there are.
        let running = match site.operator {
            None => RunningImages::among(online, &site, &found).await?,
            Some(_) => RunningImages::default(),
        };
        let mut inspection = Self {
            site,
            namespace: None,
            originals: Vec::new(),
            resources: Vec::new(),
            in_the_way: Vec::new(),
            notes: running.notes.clone(),
            running,
        };
        inspection.choose_namespace(&found)?;
        inspection.look_at_originals(&found)?;
        inspection.look_at_definitions(online).await?;
        inspection.look_at_resources(online).await?;
        for check in inspection.site.entry.switch_checks {
            match check {
                SwitchCheck::OldObjects => inspection.look_at_old_objects(online).await?,
                SwitchCheck::Leftovers => inspection.look_at_leftovers(online).await?,
                SwitchCheck::Nodes => inspection.look_at_nodes(online).await?,
            }
        }
        Ok(inspection)
    }

    /// Where the original's Deployment or DaemonSet has the name of Weft's, Weft takes its place,
    /// in whatever namespace.
    fn choose_namespace(&mut self, found: &[Value]) -> Result<()> {
        let entry = self.site.entry;
        if self.site.operator.is_some() {
            return Ok(());
        }
        let predecessor = found.iter().find(|original| {
            Live::of(original).name() == entry.install.operator && !is_at_rest(original)
        });
        let namespace = predecessor
            .and_then(|original| Live::of(original).stated_namespace())
            .unwrap_or(&self.site.namespace);
        self.namespace = (namespace != entry.install.namespace).then(|| namespace.to_owned());
        // As `weft manifests` sets its operator up.
        let mut environment = Environment::of_process().with_shipped_images(entry);
        if entry.install.one_namespace {
            environment = environment.with_namespaces(namespace, namespace);
        }
        for (variable, image) in &self.running.images {
            environment = environment.with(variable, image);
        }
        let opened = entry.serve(&environment)?;
        self.site.domain = opened.served.domain();
        self.site.served = opened.served;
        self.site.namespace = opened.namespace;
        self.site.environment = environment;
        Ok(())
    }

    fn look_at_originals(&mut self, found: &[Value]) -> Result<()> {
        let ours = install::install(&Options {
            domains: vec![self.site.entry],
            components: &[],
            single: false,
            namespace: self.namespace.as_deref(),
            image: OPERATOR_IMAGE,
            agent_image: "",
            image_pull_policy: "IfNotPresent",
            images: &BTreeMap::new(),
            api_server: None,
            placement_namespaces: None,
            keystone_urls: None,
            monitoring: None,
        })?;
        for original in found {
            let Some(key) = ObjectKey::of(original) else {
                continue;
            };
            let successor = ours.operator.iter().find(|manifest| *manifest.key() == key);
            let is_replaced = successor.is_some();
            let has_to_go_first =
                successor.and_then(|successor| why_to_delete_first(original, successor.body()));
            if let Some(why) = has_to_go_first.filter(|_| self.site.operator.is_none()) {
                let (namespace, kind) = (
                    key.namespace.as_deref().unwrap_or_default(),
                    key.kind.kind.to_lowercase(),
                );
                self.in_the_way.push(format!(
                    "{} {why}. Delete it first, what it deployed continues to run: kubectl -n {namespace} delete {kind} {}",
                    key.human(),
                    key.name
                ));
            }
            let keepers = Keeper::of(original);
            // openstack-operator keeps an operator at rest that `spec.operatorOverrides` has scaled
            // to zero.
            let brings_it_back = |keeper: &&Keeper| {
                !(is_at_rest(original) && matches!(keeper, Keeper::OpenStack { .. }))
            };
            for keeper in keepers.iter().filter(brings_it_back) {
                self.in_the_way.push(format!(
                    "{keeper} keeps {} and brings it back: {}",
                    key.human(),
                    keeper.how_to_stop(&key)
                ));
            }
            if let Some(obstacle) = presence::obstacle(original).filter(|_| !is_replaced) {
                self.in_the_way.push(obstacle.message);
            }
            self.originals.push(Original {
                image: original
                    .pointer("/spec/template/spec/containers/0/image")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
                version: release(original),
                is_at_rest: is_at_rest(original),
                is_replaced,
                keepers,
                key,
            });
        }
        Ok(())
    }

    /// `kubectl apply` replaces a definition in place, unless its scope or a stored version forbids
    /// that, or another tool puts its own back.
    async fn look_at_definitions(&mut self, online: &Online) -> Result<()> {
        for (_, wanted) in self.site.entry.definitions() {
            let name = wanted.metadata.name.clone().unwrap_or_default();
            let key = ObjectKey::new(kinds::CUSTOM_RESOURCE_DEFINITION, "", &name);
            let Some(live) = online
                .cluster
                .get(&key)
                .await
                .map_err(|error| online.explain(error))?
            else {
                continue;
            };
            let scope = live["spec"]["scope"].as_str().unwrap_or_default();
            if scope != wanted.spec.scope {
                self.in_the_way.push(format!(
                    "{} has scope {scope}, and Weft's has scope {}, which the API server does not change: save its objects, then: kubectl delete customresourcedefinition {name}",
                    key.human(),
                    wanted.spec.scope
                ));
            }
            let stored = live["status"]["storedVersions"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            let is_missing = |version: &&str| {
                wanted
                    .spec
                    .versions
                    .iter()
                    .all(|of_ours| of_ours.name != **version)
            };
            for version in stored.filter(is_missing) {
                self.in_the_way.push(format!(
                    "{} lists {version} in status.storedVersions, which Weft's does not have: write all of its objects again, then take the version off that list",
                    key.human()
                ));
            }
            for keeper in Keeper::of(&live) {
                self.in_the_way.push(format!(
                    "{keeper} keeps {} and brings its own back: {}",
                    key.human(),
                    keeper.how_to_stop(&key)
                ));
            }
        }
        Ok(())
    }

    async fn look_at_resources(&mut self, online: &Online) -> Result<()> {
        for value in online.resources(&self.site).await?.unwrap_or_default() {
            let title = output::title(self.site.entry.resource, &value);
            let keepers = Keeper::of(&value);
            if Live::of(&value).is_being_deleted() {
                self.in_the_way
                    .push(format!("{title} is being deleted: wait until it is gone"));
            }
            let resource = Resource {
                source: String::new(),
                title,
                outcome: None,
                entry: self.site.entry,
                value,
            };
            let namespace = Live::of(&resource.value)
                .stated_namespace()
                .map(str::to_owned);
            let planned = plan(online, &self.site, &resource, false).await?;
            self.in_the_way.extend(planned.refusal());
            self.in_the_way.extend(planned.conflicts());
            for keeper in keepers.iter() {
                self.notes.push(format!(
                    "{} is kept by {keeper}: change its specification there",
                    resource.title
                ));
            }
            self.resources.push(Found {
                namespace,
                planned,
                keepers,
            });
        }
        Ok(())
    }

    /// Objects of old releases that the operator of the add-ons has no right to delete.
    async fn look_at_old_objects(&mut self, online: &Online) -> Result<()> {
        let budget = ObjectKey::new(
            kinds::POD_DISRUPTION_BUDGET,
            &self.site.namespace,
            "nmstate-webhook",
        );
        let network = ObjectKey::new(
            kinds::NETWORK_ATTACHMENT_DEFINITION,
            "default",
            "primary-udn-kubevirt-binding",
        );
        let secret = ObjectKey::new(kinds::SECRET, &self.site.namespace, "nmstate-webhook");
        for key in [budget, network, secret] {
            let live = online
                .cluster
                .get(&key)
                .await
                .map_err(|error| online.explain(error))?;
            if live.is_some_and(|live| self.site.domain.made_by_original(&live)) {
                let (namespace, kind, name) = (
                    key.namespace.as_deref().unwrap_or_default(),
                    key.kind.kind.to_lowercase(),
                    &key.name,
                );
                self.notes.push(format!(
                    "{} is of an old release, and Weft does not delete it: kubectl -n {namespace} delete {kind} {name}",
                    key.human()
                ));
            }
        }
        Ok(())
    }

    /// Objects of the original itself that nothing uses any more.
    async fn look_at_leftovers(&mut self, online: &Online) -> Result<()> {
        let left = leftovers::read(&online.cluster, &self.site)
            .await
            .map_err(|error| online.explain(error))?;
        self.notes.extend(left.as_ref().map(Leftovers::message));
        Ok(())
    }

    /// The policies that are there, as if they were applied once more: Weft corrects drift, which
    /// the original did not.
    async fn look_at_nodes(&mut self, online: &Online) -> Result<()> {
        let policies = online
            .cluster
            .list(kinds::NODE_NETWORK_CONFIGURATION_POLICY, None, "")
            .await;
        let policies = match policies {
            Err(error) if error.is_not_found() => return Ok(()),
            listed => listed.map_err(|error| online.explain(error))?,
        };
        if policies.is_empty() {
            return Ok(());
        }
        let states = match online
            .cluster
            .list(kinds::NODE_NETWORK_STATE, None, "")
            .await
        {
            Err(error) if error.is_not_found() => Vec::new(),
            listed => listed.map_err(|error| online.explain(error))?,
        };
        if states.is_empty() {
            self.notes.push("no node reports its network, so the effect of the policies on the nodes is unknown".to_owned());
            return Ok(());
        }
        let mut nodes = Nodes::of_cluster(online).await?;
        nodes.change(&policies.iter().collect::<Vec<_>>(), false)?;
        for plan in nodes.plans().filter(|plan| plan.says_something()) {
            self.notes.push(plan.text().trim_end().to_owned());
        }
        self.notes.append(&mut nodes.notes);
        Ok(())
    }

    /// Reports whether something is in the way of the switch.
    pub fn is_obstructed(&self) -> bool {
        !self.in_the_way.is_empty()
    }

    fn is_nothing(&self) -> bool {
        self.originals.is_empty() && self.resources.is_empty() && self.site.operator.is_none()
    }

    /// The command that makes the switch, to an operator in the place of the other one.
    fn command(&self) -> String {
        let namespace = self
            .namespace
            .as_ref()
            .map(|namespace| format!(" --namespace {namespace}"))
            .unwrap_or_default();
        let served: BTreeSet<&str> = self
            .resources
            .iter()
            .filter_map(|found| found.namespace.as_deref())
            .collect();
        let served = match served.is_empty() {
            true => String::new(),
            false => format!(
                " --placement-namespaces {}",
                served.into_iter().collect::<Vec<_>>().join(",")
            ),
        };
        let images = match self.running.images.is_empty() {
            true => "",
            false => " --running-images",
        };
        format!(
            "weft manifests --split --domains {}{namespace}{served}{images} | kubectl apply -f -",
            self.site.entry.name
        )
    }

    /// The commands that make the switch to one operator for several APIs, next to the domains that
    /// this operator serves already. Empty if only the other layout can have what the original has
    /// deployed.
    fn commands_of_one_operator(&self) -> Vec<String> {
        let entry = self.site.entry;
        // The operands stay in their usual namespace.
        if !entry.switch_checks.contains(&SwitchCheck::Leftovers) || self.namespace.is_some() {
            return Vec::new();
        }
        let mut install = self.site.install.clone();
        install.has_running_images = !self.running.images.is_empty();
        let other = |original: &&Original| {
            original.key.name == entry.install.operator && !original.is_at_rest
        };
        let delete = self.originals.iter().find(other).map(|original| {
            let namespace = original.key.namespace.as_deref().unwrap_or_default();
            let kind = original.key.kind.kind.to_lowercase();
            format!("kubectl -n {namespace} delete {kind} {}", original.key.name)
        });
        std::iter::once(install.command()).chain(delete).collect()
    }

    /// The reason why the pods of a workload restart, whose template changes in these fields.
    fn reason(&self, workload: &ObjectKey, fields: &[String]) -> Option<String> {
        let is_image = |field: &String| field.ends_with(".image");
        let mut known = self.site.entry.restarts.iter();
        let known = known
            .find(|(name, _)| *name == workload.name && !fields.iter().all(is_image))
            .map(|(_, why)| *why);
        let image = fields.iter().any(is_image).then_some("another image");
        let reasons: Vec<_> = known.into_iter().chain(image).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// The workloads whose pods restart, for programs.
    fn restarts(&self, planned: &Planned) -> Vec<Value> {
        let restarts = planned.restarts().into_iter();
        let restarts = restarts.map(|(workload, fields)| {
            json!({
                "kind": workload.kind.kind, "namespace": workload.namespace, "name": workload.name,
                "fields": fields, "reason": self.reason(workload, &fields),
            })
        });
        restarts.collect()
    }

    /// Returns the text of the report, for people.
    pub fn text(&self, style: Style) -> String {
        let mut lines = vec![format!(
            "{} ({})",
            style.bold(self.site.entry.name),
            self.site.entry.resource.kind
        )];
        if self.is_nothing() && self.in_the_way.is_empty() && self.notes.is_empty() {
            lines.push("  no operator and no resource: nothing to switch".to_owned());
            return lines.join("\n") + "\n";
        }
        if let Some(operator) = &self.site.operator {
            lines.push(format!(
                "  weft      {}, image {}",
                operator.workload.human(),
                operator.image
            ));
        }
        for original in &self.originals {
            lines.push(format!("  operator  {}", original.text()));
        }
        if self.originals.is_empty() && self.site.operator.is_none() {
            lines.push("  operator  none found".to_owned());
        }
        for (variable, image) in &self.running.images {
            lines.push(format!("  image     {variable}={image}"));
        }
        for found in &self.resources {
            lines.push(format!(
                "  resource  {}{}",
                found.planned.title,
                kept_by(&found.keepers)
            ));
            lines.push(format!("            {}", found.planned.totals()));
            for (workload, fields) in found.planned.restarts() {
                lines.push(format!(
                    "  restarts  {}: {}",
                    workload.human(),
                    fields.join(", ")
                ));
                lines.extend(
                    self.reason(workload, &fields)
                        .map(|why| format!("            why: {why}")),
                );
            }
        }
        if self.resources.is_empty() {
            lines.push("  resource  none".to_owned());
        }
        for note in &self.notes {
            lines.push(format!(
                "  {}: {}",
                style.pending("note"),
                note.replace('\n', "\n    ")
            ));
        }
        for obstacle in &self.in_the_way {
            lines.push(format!(
                "  {}: {}",
                style.bad("in the way"),
                obstacle.replace('\n', "\n    ")
            ));
        }
        if self.site.operator.is_none() {
            let others = self.commands_of_one_operator();
            match others.is_empty() {
                true => lines.push(format!("  switch    {}", self.command())),
                false => {
                    lines.push("  switch    in the place of that operator:".to_owned());
                    lines.push(format!("            {}", self.command()));
                    lines.push("  or        to one operator for several APIs:".to_owned());
                    lines.extend(
                        others
                            .iter()
                            .map(|command| format!("            {command}")),
                    );
                }
            }
        }
        lines.join("\n") + "\n"
    }

    /// Returns the report as JSON, for programs.
    pub fn json(&self) -> Value {
        json!({
            "domain": self.site.entry.name,
            "weft": self.site.operator.as_ref().map(|operator| operator.workload.human()),
            "operators": self.originals.iter().map(Original::json).collect::<Vec<_>>(),
            "images": self.running.images,
            "resources": self.resources.iter().map(|found| json!({
                "keptBy": found.keepers.iter().map(ToString::to_string).collect::<Vec<_>>(),
                "restarts": self.restarts(&found.planned),
                "plan": found.planned.json(),
            })).collect::<Vec<_>>(),
            "inTheWay": self.in_the_way,
            "notes": self.notes,
            "switch": self.site.operator.is_none().then(|| self.command()),
            "switchToOneOperator": match self.site.operator {
                None => self.commands_of_one_operator(),
                Some(_) => Vec::new(),
            },
        })
    }
}

impl Original {
    fn text(&self) -> String {
        let version = self
            .version
            .as_ref()
            .map(|version| format!(", release {version}"))
            .unwrap_or_default();
        let image = self
            .image
            .as_ref()
            .map(|image| format!(", image {image}"))
            .unwrap_or_default();
        let fate = match (self.is_at_rest, self.is_replaced) {
            (true, _) => ", at rest",
            (false, true) => ", replaced by the switch",
            (false, false) => "",
        };
        format!(
            "{}{version}{image}{fate}{}",
            self.key.human(),
            kept_by(&self.keepers)
        )
    }

    fn json(&self) -> Value {
        json!({
            "apiVersion": self.key.kind.api_version(),
            "kind": self.key.kind.kind,
            "namespace": self.key.namespace,
            "name": self.key.name,
            "release": self.version,
            "image": self.image,
            "atRest": self.is_at_rest,
            "replaced": self.is_replaced,
            "keptBy": self.keepers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })
    }
}

/// Why `kubectl apply` cannot make Weft's workload of this one.
fn why_to_delete_first(original: &Value, successor: &Value) -> Option<&'static str> {
    let selector = |workload: &Value| workload["spec"]["selector"].clone();
    if selector(original) != selector(successor) {
        Some("has another selector than Weft's, which the API server does not change")
    } else if Live::of(original).annotation(LAST_APPLIED).is_none() {
        Some(
            "was not made by kubectl apply, which would leave fields of it in Weft's, such as the command",
        )
    } else {
        None
    }
}

fn kept_by(keepers: &[Keeper]) -> String {
    match keepers {
        [] => String::new(),
        keepers => format!(
            ", kept by {}",
            keepers
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" and ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectl_apply_replaces_what_it_applied_with_the_same_selector() {
        let workload = |name: &str, annotations: Value| {
            json!({
                "metadata": {"annotations": annotations},
                "spec": {"selector": {"matchLabels": {"name": name}}}
            })
        };
        let ours = workload("operator", Value::Null);
        let why = |original: Value| why_to_delete_first(&original, &ours).unwrap_or_default();
        assert_eq!(why(workload("operator", json!({LAST_APPLIED: "{}"}))), "");
        assert!(why(workload("other", json!({LAST_APPLIED: "{}"}))).contains("another selector"));
        assert!(why(workload("operator", json!({}))).contains("not made by kubectl apply"));
    }
}
