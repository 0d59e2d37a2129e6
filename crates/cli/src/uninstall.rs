//! Removing an installation: what there is, and the order in which it goes.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use serde_json::Value;
use weft_node_network::addresses::ledger;
use weft_operator::Served;
use weft_plan::{
    Dependents, Live, ObjectKey, Owner, Stage, deletion, health, kinds, report::FailureClass,
};
use weft_runtime::{
    inspect::{
        presence,
        removal::{self, Staying},
    },
    reconcile::{finalizer::FINALIZER, stored},
};

use crate::{
    account::{Account, Action, Step},
    domains::Entry,
    held, installed,
    online::{Lead, Online, Site},
    output::{self, Style},
    reinstall::Reinstall,
    reports::Reports,
};

/// The pause between two looks at an object that goes.
const PAUSE: Duration = Duration::from_millis(200);

/// The extent of the removal.
pub struct Scope {
    /// The domains to remove.
    pub domains: Vec<&'static Entry>,
    /// True if the definitions of their resources go too.
    pub crds: bool,
    /// How long to wait for something to be gone.
    pub timeout: Duration,
}

/// An installation that is to be removed.
pub struct Uninstall<'a> {
    online: &'a Online,
    scope: Scope,
    sites: Vec<Site>,
    /// Resources, with the index of their site.
    resources: Vec<(usize, Value)>,
    /// Inventories of resources that are gone.
    orphans: Vec<(usize, Owner)>,
    /// Objects of `weft manifests` and Leases, in the order of removal.
    objects: Vec<ObjectKey>,
    namespaces: Vec<ObjectKey>,
    definitions: Vec<ObjectKey>,
    reports: Reports,
    /// Objects that stay, with the reason.
    stays: BTreeMap<ObjectKey, String>,
    /// Objects that outlive their resource, by its kind and name.
    outliving: BTreeMap<String, Staying>,
}

/// The ledger of addresses of nodes.
fn ledger_key(namespace: &str) -> ObjectKey {
    ObjectKey::new(kinds::CONFIG_MAP, namespace, ledger::NAME)
}

/// Returns the first object of other users that keeps a unit of this resource from going, with the
/// reason and the ways out.
async fn needing(
    online: &Online,
    dependents: &Dependents,
    owner: &Owner,
    resource: &Value,
) -> Result<Option<(ObjectKey, String)>> {
    if dependents.are_given_up(resource) {
        return Ok(None);
    }
    let listed = match online.cluster.list(dependents.kind, None, "").await {
        // The removal does not wait for objects that it may not list.
        Err(error) if error.is_not_found() || error.class() == FailureClass::Forbidden => {
            return Ok(None);
        }
        listed => listed.map_err(|error| online.explain(error))?,
    };
    let obstacle = dependents.obstacle(owner, &listed);
    Ok(obstacle.map(|needing| {
        let why = needing.blocker.unwrap_or_default();
        (needing.object, format!("it {why}"))
    }))
}

impl<'a> Uninstall<'a> {
    /// Finds out what there is.
    ///
    /// # Errors
    /// The API server refuses a request, or another operator than Weft is installed.
    pub async fn find(online: &'a Online, scope: Scope) -> Result<Self> {
        let sites = online.sites(scope.domains.iter().copied()).await?;
        let mut found = Self {
            online,
            scope,
            sites,
            resources: Vec::new(),
            orphans: Vec::new(),
            objects: Vec::new(),
            namespaces: Vec::new(),
            definitions: Vec::new(),
            reports: Reports::default(),
            stays: BTreeMap::new(),
            outliving: BTreeMap::new(),
        };
        for index in 0..found.sites.len() {
            found.find_domain(index).await?;
        }
        found.find_installation().await?;
        found.reports = Reports::find(online, &found.sites).await?;
        if !found.scope.crds {
            found.stays.extend(
                found
                    .reports
                    .users
                    .iter()
                    .map(|key| (key.clone(), "its spec is a user's configuration".to_owned())),
            );
        }
        if found.is_empty() {
            // A run that was interrupted at the very end.
            for key in std::mem::take(&mut found.namespaces) {
                if found.may_go(&key).await? {
                    found.namespaces.push(key);
                }
            }
        }
        Ok(found)
    }

    async fn find_domain(&mut self, index: usize) -> Result<()> {
        let (online, site) = (self.online, &self.sites[index]);
        let blocked = presence::blocked_in(&online.cluster, &*site.domain, &site.namespace).await;
        if let Some(blocked) = blocked.map_err(|error| online.explain(error))? {
            bail!(
                "nothing is removed, since what is installed for {} has the names of Weft's and may not be Weft's: {}",
                site.entry.name,
                blocked.message
            );
        }
        let resources = online.resources(site).await?.unwrap_or_default();
        let mut orphans = removal::inventories(&online.cluster, &*site.domain, &site.namespace)
            .await
            .map_err(|error| online.explain(error))?;
        orphans.retain(|owner| {
            !resources
                .iter()
                .any(|resource| Live::of(resource).name() == owner.name)
        });
        let resource = |owner: &Owner| {
            resources
                .iter()
                .find(|resource| Live::of(resource).name() == owner.name)
        };
        let owners: Vec<_> = resources
            .iter()
            .map(|resource| Owner::of(&*site.domain, resource))
            .chain(orphans.iter().cloned())
            .collect();
        let mut finished = Vec::new();
        // Only sets of objects have an inventory.
        let sets = owners.into_iter().filter_map(|owner| match &site.served {
            Served::Set(set) => Some((owner, set)),
            Served::Placement(_) => None,
        });
        for (owner, set) in sets {
            let objects = online.set_objects(site, set, owner.clone());
            let stored = stored::read(&objects, &site.namespace)
                .await
                .map_err(|error| online.explain_stored(error))?;
            if let Some(resource) = resource(&owner) {
                let units: BTreeSet<&String> = stored.inventory.objects.values().collect();
                for dependents in set.dependents() {
                    if units.iter().any(|unit| *unit == dependents.unit) {
                        self.stays
                            .extend(needing(online, dependents, &owner, resource).await?);
                    }
                }
            }
            for key in stored
                .inventory
                .objects
                .into_keys()
                .filter(|key| key.kind == kinds::CUSTOM_RESOURCE_DEFINITION)
            {
                self.stays
                    .insert(key, "other users' objects may be in it".to_owned());
            }
            let staying = removal::staying(&objects, &site.namespace, resource(&owner))
                .await
                .map_err(|error| online.explain_stored(error))?;
            if let Some(staying) = staying {
                finished.extend(staying.nothing_goes.then(|| owner.name.clone()));
                let what = format!("{} {}", owner.kind.kind, owner.name);
                self.outliving.insert(what, staying);
            }
        }
        // Of these nothing is left but what stays.
        orphans.retain(|owner| !finished.contains(&owner.name));
        self.resources
            .extend(resources.into_iter().map(|resource| (index, resource)));
        self.orphans
            .extend(orphans.into_iter().map(|owner| (index, owner)));
        Ok(())
    }

    /// Finds the existing ones among the objects that `weft manifests` installs.
    async fn find_installation(&mut self) -> Result<()> {
        let (mut objects, mut namespaces, mut definitions) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for site in &self.sites {
            objects.insert(site.lease());
            if site.entry.name == "node-network" {
                objects.insert(ledger_key(&site.namespace));
            }
            for installation in installed::installations(site)? {
                objects.extend(
                    installation
                        .operator
                        .iter()
                        .map(|manifest| manifest.key().clone()),
                );
                namespaces.extend(
                    installation
                        .namespaces
                        .iter()
                        .map(|manifest| manifest.key().clone()),
                );
                definitions.extend(
                    installation
                        .definitions
                        .iter()
                        .map(|(_, manifest)| manifest.key().clone()),
                );
            }
            if let Some(operator) = &site.operator {
                let others: Vec<_> = operator
                    .domains
                    .iter()
                    .filter(|name| !self.sites.iter().any(|site| site.entry.name == *name))
                    .cloned()
                    .collect();
                if !others.is_empty() {
                    let mut rest = Reinstall::of(operator);
                    rest.serve_only(&others);
                    let why = format!("it serves {} too: {}", others.join(", "), rest.command());
                    let (namespace, name) = (
                        operator.workload.namespace.clone().unwrap_or_default(),
                        operator.workload.name.clone(),
                    );
                    objects.remove(&operator.workload);
                    objects.remove(&ObjectKey::new(kinds::SERVICE_ACCOUNT, &namespace, &name));
                    namespaces.remove(&ObjectKey::new(kinds::NAMESPACE, "", &namespace));
                    self.stays.insert(operator.workload.clone(), why);
                }
            }
        }
        self.objects = installed::present(self.online, objects).await?;
        // The leases and the ledger of addresses go when no operator may write them any more: an
        // operator that is just ending would recreate them.
        let is_note = |key: &ObjectKey| key.kind == kinds::LEASE || key.name == ledger::NAME;
        self.objects
            .sort_by_key(|key| (is_note(key), Reverse(Stage::of(key.kind))));
        self.namespaces = installed::present(self.online, namespaces).await?;
        self.definitions = installed::present(self.online, definitions).await?;
        if !self.scope.crds {
            for key in &self.definitions {
                self.stays.insert(
                    key.clone(),
                    "it holds users' configurations; --crds removes it".to_owned(),
                );
            }
        }
        Ok(())
    }

    /// Reports whether nothing is there that would be removed.
    pub fn is_nothing(&self) -> bool {
        self.is_empty() && self.namespaces.is_empty()
    }

    /// The same but for namespaces.
    fn is_empty(&self) -> bool {
        self.resources.is_empty()
            && self.orphans.is_empty()
            && self.objects.is_empty()
            && self.reports.is_empty()
            && (self.definitions.is_empty() || !self.scope.crds)
    }

    /// Returns the domains of which something is there.
    pub fn domains(&self) -> Vec<&'static Entry> {
        let is_there = |index: usize, site: &Site| {
            let has_resource = self.resources.iter().any(|(of, _)| *of == index);
            let has_orphan = self.orphans.iter().any(|(of, _)| *of == index);
            has_resource || has_orphan || site.operator.is_some() || self.has_objects_of(site)
        };
        let sites = self.sites.iter().enumerate();
        let there: Vec<_> = sites
            .filter(|(index, site)| is_there(*index, site))
            .map(|(_, site)| site.entry)
            .collect();
        if there.is_empty() {
            // Reports, definitions or namespaces of domains whose other parts are gone.
            return self.sites.iter().map(|site| site.entry).collect();
        }
        there
    }

    /// Reports whether an object of the operator of a domain is there.
    fn has_objects_of(&self, site: &Site) -> bool {
        let lease = site.lease();
        self.objects
            .iter()
            .any(|key| *key == lease || key.name == site.entry.install.operator)
    }

    /// Returns the objects to remove, for people, below a list of the domains.
    pub fn preview(&self, style: Style) -> String {
        let domains = self.domains().into_iter().map(|entry| {
            let (name, kind) = (entry.name, entry.resource.kind);
            format!("{} ({kind})", style.bold(name))
        });
        let mut text = format!("Weft serves {}:\n", domains.collect::<Vec<_>>().join(", "));
        let mut line = |what: String| text.push_str(&format!("{} {what}\n", style.bad("-")));
        for (index, resource) in &self.resources {
            let title = self.title(*index, resource);
            let what = if self.outliving.contains_key(&title) {
                "what does not outlive it"
            } else {
                "all of its components"
            };
            line(format!("{title} and {what}"));
        }
        for (_, owner) in &self.orphans {
            line(format!(
                "what {} {}, which is gone, has left",
                owner.kind.kind, owner.name
            ));
        }
        self.objects.iter().for_each(|key| line(key.human()));
        self.reports.lines().for_each(&mut line);
        if self.scope.crds {
            self.definitions.iter().for_each(|key| line(key.human()));
        }
        self.namespaces
            .iter()
            .for_each(|key| line(format!("{}, if nothing else is in it then", key.human())));
        text + &self.kept(style)
    }

    /// Returns the objects that stay, for people.
    pub fn kept(&self, style: Style) -> String {
        let outliving = self.outliving.iter().map(|(what, staying)| {
            format!(
                "{} {} objects of {what}: {}\n",
                style.dim("="),
                staying.objects.len(),
                staying.why
            )
        });
        let stays = self
            .stays
            .iter()
            .map(|(key, why)| format!("{} {}: stays, {why}\n", style.dim("="), key.human()));
        outliving.chain(stays).collect()
    }

    /// Returns all steps of the removal, in order, and the objects that stay.
    pub fn steps(&self) -> Vec<Step> {
        let delete = |key: &ObjectKey| Step::new(Action::Delete, key);
        let resources = self
            .resources
            .iter()
            .map(|(index, resource)| delete(&self.key(*index, resource)));
        let orphans = self.orphans.iter().map(|(_, owner)| left_by(owner));
        let definitions = self.definitions.iter().filter(|_| self.scope.crds);
        let namespaces = self
            .namespaces
            .iter()
            .map(|key| delete(key).because("if nothing else is in it then"));
        resources
            .chain(orphans)
            .chain(self.objects.iter().map(delete))
            .chain(self.reports.keys().map(delete))
            .chain(namespaces)
            .chain(definitions.map(delete))
            .chain(self.staying())
            .collect()
    }

    /// Returns the objects that stay.
    fn staying(&self) -> Vec<Step> {
        let stay = |key: &ObjectKey, why: &str| Step::new(Action::Stay, key).because(why);
        let outliving = self.outliving.values();
        outliving
            .flat_map(|staying| staying.objects.iter().map(|key| stay(key, &staying.why)))
            .chain(self.stays.iter().map(|(key, why)| stay(key, why)))
            .collect()
    }

    fn key(&self, site: usize, resource: &Value) -> ObjectKey {
        let resource = Live::of(resource);
        ObjectKey::new(
            self.sites[site].entry.resource,
            resource.namespace(),
            resource.name(),
        )
    }

    fn title(&self, site: usize, resource: &Value) -> String {
        self.key(site, resource).human()
    }

    /// Removes it all, in order, and reports each step.
    ///
    /// # Errors
    /// Something could not be removed, or is not gone in time. Finished work stays. Another run
    /// continues from there.
    pub async fn run(mut self, account: &Account) -> Result<()> {
        let removed = |key: &ObjectKey, words: &str| {
            account.did(Step::new(Action::Delete, key), "removed", words)
        };
        for (index, resource) in &self.resources {
            self.remove_resource(&self.sites[*index], resource, account)
                .await?;
            let key = self.key(*index, resource);
            removed(&key, &format!("{} and its components", key.human()))?;
        }
        for (index, owner) in &self.orphans {
            let site = &self.sites[*index];
            let what = format!("what {} {} has left", owner.kind.kind, owner.name);
            self.wait(&what, account, async || {
                self.tear_down(site, owner.clone(), None).await
            })
            .await?;
            account.did(left_by(owner), "removed", &what)?;
        }
        for key in &self.objects {
            self.delete(key, account).await?;
            removed(key, &key.human())?;
        }
        self.release_held(account).await?;
        // Those of now: until here an operator or an agent may have written others.
        let reports = Reports::find(self.online, &self.sites).await?;
        reports.remove(self.online).await?;
        reports
            .keys()
            .for_each(|key| account.done(Step::new(Action::Delete, key)));
        reports
            .lines()
            .try_for_each(|line| account.wrote("removed", &line))?;
        for key in std::mem::take(&mut self.namespaces) {
            if self.may_go(&key).await? {
                self.delete(&key, account).await?;
                removed(&key, &key.human())?;
            }
        }
        if self.scope.crds {
            for key in &self.definitions {
                self.delete(key, account).await?;
                removed(key, &key.human())?;
            }
        }
        account.stay(self.staying());
        if account.is_json() {
            return Ok(());
        }
        output::print(&self.kept(Style::stdout()))
    }

    /// Takes off users' objects what only the operator would remove.
    async fn release_held(&self, account: &Account) -> Result<()> {
        for site in &self.sites {
            for held in held::find(self.online, site).await? {
                held::release(self.online, site, &held).await?;
                let step = Step::new(Action::Release, &held.key);
                account.did(step, "released", &held.key.human())?;
            }
        }
        Ok(())
    }

    /// Deletes a resource and waits until it is gone. While an operator leads, it takes the
    /// components down. Else we do.
    async fn remove_resource(
        &self,
        site: &Site,
        resource: &Value,
        account: &Account,
    ) -> Result<()> {
        let online = self.online;
        let owner = Owner::of(&*site.domain, resource);
        let namespace = Live::of(resource).namespace();
        let key = ObjectKey::new(site.entry.resource, namespace, &owner.name);
        let uid = owner.uid.clone().unwrap_or_default();
        if !Live::of(resource).is_being_deleted() {
            online
                .cluster
                .delete(&key, &uid)
                .await
                .map_err(|error| online.explain(error))?;
            account.wrote("deleting", &key.human())?;
        }
        let mut by_us = false;
        self.wait(&key.human(), account, async || {
            let live = online
                .cluster
                .get(&key)
                .await
                .map_err(|error| online.explain(error))?;
            let Some(live) = live.filter(|live| Live::of(live).uid() == uid.as_str()) else {
                return Ok(None);
            };
            let lead = online.lead(site).await?;
            if matches!(lead, Lead::By(_)) {
                return Ok(Some(progress(&live)));
            }
            if !by_us {
                by_us = true;
                if let Some(note) = lead.passed_over() {
                    account.note(&note)?;
                }
                if matches!(site.served, Served::Set(_)) {
                    account
                        .note("no operator is at work; its components are taken down from here")?;
                }
            }
            let left = self.tear_down(site, owner.clone(), Some(&live)).await?;
            // It goes now, unless another user holds it.
            Ok(left.or_else(|| Some(deletion::waits_for(&live, Some(FINALIZER)))))
        })
        .await
    }

    /// One step of a teardown. Returns the remaining objects, for people.
    async fn tear_down(
        &self,
        site: &Site,
        owner: Owner,
        resource: Option<&Value>,
    ) -> Result<Option<String>> {
        let set = match &site.served {
            Served::Set(set) => set,
            // The garbage collector deletes the objects of a PlacementAPI.
            Served::Placement(_) => return Ok(None),
        };
        let objects = self.online.set_objects(site, set, owner);
        let left = removal::tear_down(&objects, &site.namespace, resource)
            .await
            .map_err(|error| self.online.explain_stored(error))?;
        let left: Vec<_> = left
            .into_iter()
            .map(|removal| match &removal.blocker {
                Some(blocker) => format!("{} ({blocker})", removal.object.human()),
                None => removal.object.human(),
            })
            .collect();
        let more = if left.len() > 3 {
            format!(" and {} more", left.len() - 3)
        } else {
            String::new()
        };
        Ok((!left.is_empty()).then(|| format!("{}{more}", left[..left.len().min(3)].join(", "))))
    }

    /// Deletes an object and waits until it is gone. Of the operator's workload, its pods too: one
    /// might still be at work.
    async fn delete(&self, key: &ObjectKey, account: &Account) -> Result<()> {
        let online = self.online;
        let pods = match key.kind {
            kinds::DEPLOYMENT | kinds::DAEMON_SET => online
                .cluster
                .get(key)
                .await
                .map_err(|error| online.explain(error))?
                .and_then(|deployment| selector(&deployment)),
            _ => None,
        };
        self.wait(&key.human(), account, async || {
            if let Some(live) = online
                .cluster
                .get(key)
                .await
                .map_err(|error| online.explain(error))?
            {
                let left = online
                    .cluster
                    .delete(key, Live::of(&live).uid())
                    .await
                    .map_err(|error| online.explain(error))?;
                return Ok(left.map(|left| deletion::waits_for(&left, None)));
            }
            let Some(pods) = &pods else { return Ok(None) };
            let left = online
                .cluster
                .list(
                    kinds::POD,
                    key.namespace.as_deref(),
                    &format!("labelSelector={pods}"),
                )
                .await
                .map_err(|error| online.explain(error))?;
            Ok(left.first().and_then(ObjectKey::of).map(|pod| pod.human()))
        })
        .await
    }

    /// Returns true if a namespace was made for Weft and nothing is in it any more. Otherwise notes
    /// the reason why it stays.
    async fn may_go(&mut self, key: &ObjectKey) -> Result<bool> {
        let own =
            self.sites.iter().any(|site| {
                site.domain.namespace() == Some(&*key.name) || site.namespace == key.name
            }) || key.name.starts_with("weft-");
        if !own || key.name == "default" || key.name.starts_with("kube-") {
            self.stays
                .insert(key.clone(), "it was not made for Weft".to_owned());
            return Ok(false);
        }
        let mut contents = removal::contents(&self.online.cluster, &key.name)
            .await
            .map_err(|error| self.online.explain(error))?;
        // An operator that ends may have taken its Lease again. It goes with the namespace.
        let leases: Vec<_> = self
            .sites
            .iter()
            .map(|site| presence::lease_key(&key.name, &*site.domain))
            .collect();
        contents.retain(|content| {
            !leases
                .iter()
                .any(|lease| *content == format!("{} {}", lease.kind.kind, lease.name))
        });
        if !contents.is_empty() {
            let more = if contents.len() > 5 {
                format!(" and {} more", contents.len() - 5)
            } else {
                String::new()
            };
            self.stays.insert(
                key.clone(),
                format!(
                    "other things are in it: {}{more}",
                    contents[..contents.len().min(5)].join(", ")
                ),
            );
        }
        Ok(contents.is_empty())
    }

    /// Looks until nothing is left, and reports each new cause of the wait.
    async fn wait(
        &self,
        what: &str,
        account: &Account,
        mut left: impl AsyncFnMut() -> Result<Option<String>>,
    ) -> Result<()> {
        let end = Instant::now() + self.scope.timeout;
        let mut said_last = String::new();
        while let Some(left) = left().await? {
            account.wait_for(Some(&left));
            if Instant::now() > end {
                bail!(
                    "{what} is not gone within {:?}: it waits for {left}. Resolve that and run the command again: it continues from there",
                    self.scope.timeout
                );
            }
            if left != said_last {
                output::say(&Style::stderr().dim(&format!("  waiting for {left}")));
                said_last = left;
            }
            tokio::time::sleep(PAUSE).await;
        }
        account.wait_for(None);
        Ok(())
    }
}

/// The objects that a resource has left which is gone itself.
fn left_by(owner: &Owner) -> Step {
    Step::new(Action::Delete, &ObjectKey::new(owner.kind, "", &owner.name))
        .because("it is gone itself, and has left objects")
}

/// Returns the operator's report about a teardown. Stalled and Reconciling repeat the worst cause
/// of each kind. Before the operator has seen the deletion, which is a new generation, they are
/// about something else.
fn progress(resource: &Value) -> String {
    let [_, reconciling, stalled] = health::TYPES;
    let has_seen =
        resource["status"]["observedGeneration"].as_i64() >= Some(Live::of(resource).generation());
    let message = |name: &str| {
        let found = weft_plan::condition(&resource["status"], name);
        found
            .filter(|found| found["status"] == "True")
            .and_then(|found| found["message"].as_str())
    };
    message(stalled)
        .or_else(|| message(reconciling))
        .filter(|_| has_seen)
        .map_or("the operator to begin", |message| {
            message.trim_start_matches("waiting for ")
        })
        .to_owned()
}

fn selector(deployment: &Value) -> Option<String> {
    let labels = deployment
        .pointer("/spec/selector/matchLabels")?
        .as_object()?;
    let labels: Vec<_> = labels
        .iter()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    (!labels.is_empty()).then(|| labels.join(","))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use weft_placement::conditions::{State, Step as Aspect, Steps};

    use super::*;

    /// A PlacementAPI whose deletion is its second generation, with this state of its last step.
    fn placement_api(observed: i64, state: State) -> Value {
        let mut steps = Steps::default();
        steps.set(Aspect::KeystoneEndpoint, state);
        json!({
            "metadata": {"generation": 2},
            "status": {
                "observedGeneration": observed,
                "conditions": steps.conditions(&[], Timestamp::UNIX_EPOCH)
            }
        })
    }

    #[test]
    fn a_placement_api_waits_for_its_open_step_once_that_is_reported() {
        let why = "cannot reach https://keystone.example.com:5000: connection refused";
        assert_eq!(progress(&placement_api(2, State::error(why))), why);
        let begun = "being removed from Keystone at https://keystone.example.com:5000";
        assert_eq!(progress(&placement_api(2, State::requested(begun))), begun);
        for unseen in [
            placement_api(1, State::error("of the generation before")),
            json!({"metadata": {"generation": 2}}),
        ] {
            assert_eq!(progress(&unseen), "the operator to begin");
        }
    }
}
