//! The parts of the archive, one after the other.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::LogParams};
use serde_json::{Value, json};
use weft_plan::{Inventory, Kind, Live, OWNER_LABEL, ObjectKey, kinds};

use super::{
    archive::{Archive, part},
    pages::{Error, Pages, answered, api},
    redaction::{Redaction, Values, secret},
};
use crate::{
    online::{Online, Site},
    output,
};

/// How many objects a page has. A NodeNetworkState may have a megabyte.
const PAGE: u32 = 20;
/// How many events of a namespace the archive has at most.
const EVENTS: usize = 5000;
/// How many pods of a domain the archive has at most, those in trouble first.
const PODS: usize = 100;
/// How many bytes of a log the archive has at most.
const LOG_BYTES: i64 = 4 << 20;
/// How many logs are read at the same time.
const LOGS_AT_ONCE: usize = 4;
/// Begins the name of each Lease of Weft.
const LEASE_PREFIX: &str = "weft-";

/// Collects everything for an archive.
pub struct Collector<'a> {
    client: Client,
    sites: &'a [Site],
    archive: Archive,
    redaction: Redaction,
    /// The namespaces of operators, operands and resources.
    namespaces: BTreeSet<String>,
    /// The namespaces of resources, by the name of the domain.
    namespaces_of_resources: BTreeMap<&'static str, BTreeSet<String>>,
    log_lines: i64,
}

impl<'a> Collector<'a> {
    /// Reads first of all the Secrets, so that their values are known. `namespace` is searched where
    /// the user may not list resources everywhere.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub async fn new(
        online: &Online,
        sites: &'a [Site],
        namespace: Option<&str>,
        archive: Archive,
        log_lines: u32,
    ) -> Result<Self> {
        let mut collector = Self {
            client: online.cluster.client().clone(),
            sites,
            archive,
            redaction: Redaction::new(&Values::default(), &BTreeSet::new())?,
            namespaces: BTreeSet::new(),
            namespaces_of_resources: BTreeMap::new(),
            log_lines: log_lines.into(),
        };
        let mut public = collector.find_namespaces(namespace).await;
        public.extend(collector.namespaces.iter().cloned());
        public.extend(sites.iter().map(|site| site.entry.name.to_owned()));
        collector.read_secrets(&public).await?;
        Ok(collector)
    }

    /// Adds a value as JSON, without secret values.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub fn add_json(&mut self, name: &str, value: Value) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.redaction.object(value))?;
        self.archive.add(name, &format!("{text}\n"))
    }

    /// Notes that a part is missing, and why.
    pub fn lacks(&mut self, part: &str, why: &impl std::fmt::Display) {
        let why = self.redaction.text(&why.to_string());
        self.archive.lacks(part, &why.replace('\n', " "));
    }

    /// Adds everything but the status, and returns the archive.
    ///
    /// # Errors
    /// The archive cannot be written.
    pub async fn collect(mut self) -> Result<Archive> {
        self.versions().await?;
        self.definitions().await?;
        self.resources().await?;
        self.inventories().await?;
        self.operators().await?;
        self.leases().await?;
        self.events().await?;
        self.pods().await?;
        Ok(self.archive)
    }

    /// Finds the namespaces of Weft, and returns the names of resources.
    async fn find_namespaces(&mut self, chosen: Option<&str>) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.namespaces.extend(chosen.map(str::to_owned));
        for site in self.sites {
            self.namespaces.insert(site.namespace.clone());
            self.namespaces
                .extend(site.domain.namespace().map(str::to_owned));
            let kind = site.entry.resource;
            let mut places = BTreeSet::new();
            let mut pages = self.pages(kind, None, "");
            loop {
                match pages.next().await {
                    Ok(Some(page)) => {
                        for resource in &page {
                            let resource = Live::of(resource);
                            names.insert(resource.name().to_owned());
                            if kind.namespaced {
                                places.insert(resource.namespace().to_owned());
                            }
                        }
                    }
                    Err(error) if error.is_forbidden() && kind.namespaced => {
                        places.extend(chosen.map(str::to_owned));
                        break;
                    }
                    Ok(None) | Err(_) => break,
                }
            }
            self.namespaces.extend(places.iter().cloned());
            self.namespaces_of_resources.insert(site.entry.name, places);
        }
        names
    }

    async fn read_secrets(&mut self, public: &BTreeSet<String>) -> Result<()> {
        let mut values = Values::default();
        let mut found = Vec::new();
        for namespace in self.namespaces.clone() {
            let mut pages = self.pages(kinds::SECRET, Some(&namespace), "");
            loop {
                match pages.next().await {
                    Ok(Some(page)) => {
                        for one in &page {
                            values.add(one);
                            found.push(secret(one));
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        let part = format!(
                            "Secrets of the namespace {namespace}, whose values are removed only where the names of fields and the forms of texts show them"
                        );
                        self.lacks(&part, &error);
                        break;
                    }
                }
            }
        }
        self.redaction = Redaction::new(&values, public)?;
        self.archive
            .add("secrets.yaml", &output::yaml_stream(&found)?)
    }

    fn pages(&self, kind: Kind, namespace: Option<&str>, selector: &str) -> Pages {
        Pages::of(&self.client, kind, namespace, selector, PAGE)
    }

    /// Adds an object under this folder, and returns its name in the archive.
    fn add_object(&mut self, folder: &str, object: Value) -> Result<()> {
        let key = Live::of(&object);
        let place = match key.namespace() {
            "" => String::new(),
            namespace => format!("{}/", part(namespace)),
        };
        let kind = object["kind"].as_str().unwrap_or_default();
        let name = format!("{folder}/{place}{}-{}.yaml", part(kind), part(key.name()));
        self.redaction.learn(&object);
        let text = output::yaml(&self.redaction.object(object))?;
        self.archive.add(&name, &text)
    }

    /// Adds all objects of a kind that match a label selector.
    async fn add_all(
        &mut self,
        folder: &str,
        kind: Kind,
        namespace: Option<&str>,
        selector: &str,
    ) -> Result<()> {
        self.add_matching(folder, kind, namespace, selector, |_| true)
            .await
    }

    async fn add_matching(
        &mut self,
        folder: &str,
        kind: Kind,
        namespace: Option<&str>,
        selector: &str,
        matches: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let mut pages = self.pages(kind, namespace, selector);
        loop {
            match pages.next().await {
                Ok(Some(page)) => {
                    for object in page.into_iter().filter(&matches) {
                        self.add_object(folder, object)?;
                    }
                }
                Ok(None) => return Ok(()),
                // A kind that the cluster does not serve.
                Err(error) if error.is_not_found() => return Ok(()),
                Err(error) => {
                    self.lacks(&plural(kind, namespace), &error);
                    return Ok(());
                }
            }
        }
    }

    /// The versions of Weft, of Kubernetes and of the nodes.
    async fn versions(&mut self) -> Result<()> {
        let mut versions = json!({"weft": env!("CARGO_PKG_VERSION"), "operators": {}, "nodes": []});
        match answered(self.client.apiserver_version()).await {
            Ok(info) => versions["kubernetes"] = serde_json::to_value(info)?,
            Err(error) => self.lacks("version of Kubernetes", &error),
        }
        for site in self.sites {
            if let Some(operator) = &site.operator {
                versions["operators"][site.entry.name] =
                    json!({"workload": operator.workload.human(), "image": operator.image});
            }
        }
        let mut nodes = Vec::new();
        let mut pages = self.pages(kinds::NODE, None, "");
        loop {
            match pages.next().await {
                Ok(Some(page)) => nodes.extend(page.iter().map(|node| {
                    json!({
                        "name": node["metadata"]["name"],
                        "ready": weft_plan::condition(&node["status"], "Ready")
                            .map(|ready| ready["status"].clone()),
                        "unschedulable": node["spec"]["unschedulable"],
                        "info": node["status"]["nodeInfo"],
                    })
                })),
                Ok(None) => break,
                Err(error) => {
                    self.lacks("Nodes", &error);
                    break;
                }
            }
        }
        versions["nodes"] = nodes.into();
        let versions = self.redaction.object(versions);
        self.archive.add("versions.yaml", &output::yaml(&versions)?)
    }

    /// The definitions of Weft's kinds, without schemas.
    async fn definitions(&mut self) -> Result<()> {
        let mut found = Vec::new();
        for site in self.sites {
            for (_, definition) in site.entry.definitions() {
                let name = definition.metadata.name.clone().unwrap_or_default();
                let key = ObjectKey::new(kinds::CUSTOM_RESOURCE_DEFINITION, "", &name);
                match self.get(&key).await {
                    Ok(Some(live)) => {
                        let versions: Vec<_> = live["spec"]["versions"]
                            .as_array()
                            .into_iter()
                            .flatten()
                            .map(|version| json!({"name": version["name"], "served": version["served"], "storage": version["storage"]}))
                            .collect();
                        found.push(json!({
                            "name": name, "versions": versions, "generation": live["metadata"]["generation"],
                            "storedVersions": live["status"]["storedVersions"], "conditions": live["status"]["conditions"],
                        }));
                    }
                    Ok(None) => {}
                    Err(error) => self.lacks(&format!("CustomResourceDefinition {name}"), &error),
                }
            }
        }
        self.archive
            .add("definitions.yaml", &output::yaml_stream(&found)?)
    }

    async fn get(&self, key: &ObjectKey) -> Result<Option<Value>, Error> {
        let api = api(&self.client, key.kind, key.namespace.as_deref());
        match answered(api.get(&key.name)).await {
            Ok(object) => Ok(Some(serde_json::to_value(object).unwrap_or_default())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The resources of all domains.
    async fn resources(&mut self) -> Result<()> {
        for site in self.sites {
            for (_, definition) in site.entry.definitions() {
                let Some(kind) = kinds::ALL.iter().copied().find(|kind| {
                    kind.group == definition.spec.group
                        && kind.plural == definition.spec.names.plural
                }) else {
                    continue;
                };
                let places = self.namespaces_of_resources.get(site.entry.name).cloned();
                let folder = format!("resources/{}", site.entry.name);
                match places.filter(|_| kind.namespaced) {
                    None => self.add_all(&folder, kind, None, "").await?,
                    Some(places) => {
                        for place in places {
                            self.add_all(&folder, kind, Some(&place), "").await?;
                        }
                        // An error says that the user may not look in all namespaces.
                        if let Err(error) = self.pages(kind, None, "").next().await
                            && !error.is_not_found()
                        {
                            self.lacks(&plural(kind, None), &error);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// The inventories, and the objects that they list. Objects of a PlacementAPI have its label.
    async fn inventories(&mut self) -> Result<()> {
        let mut keys = BTreeSet::new();
        for namespace in self.namespaces.clone() {
            let mut pages = self.pages(kinds::CONFIG_MAP, Some(&namespace), OWNER_LABEL);
            loop {
                match pages.next().await {
                    Ok(Some(page)) => {
                        for map in page {
                            if !Live::of(&map).name().starts_with(Inventory::PREFIX) {
                                continue;
                            }
                            match Inventory::from_data(&map["data"]) {
                                Ok(inventory) => {
                                    keys.extend(inventory.objects.into_keys());
                                    keys.extend(inventory.made_by_operands);
                                }
                                Err(error) => {
                                    let name = Live::of(&map).name().to_owned();
                                    self.lacks(&format!("objects of the inventory {name}"), &error);
                                }
                            }
                            self.add_object("inventories", map)?;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        self.lacks(&plural(kinds::CONFIG_MAP, Some(&namespace)), &error);
                        break;
                    }
                }
            }
        }
        for key in keys {
            match self.get(&key).await {
                Ok(Some(object)) => self.add_object("objects", object)?,
                Ok(None) => self.lacks(&key.human(), &"it is in an inventory and does not exist"),
                Err(error) => self.lacks(&key.human(), &error),
            }
        }
        for site in self.sites {
            if !site.entry.resource.namespaced {
                continue;
            }
            let places = self.namespaces_of_resources[site.entry.name].clone();
            for place in places {
                for kind in site.domain.kinds() {
                    if kind.namespaced {
                        self.add_all("objects", kind, Some(&place), OWNER_LABEL)
                            .await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The workloads of Weft's operators.
    async fn operators(&mut self) -> Result<()> {
        for site in self.sites {
            let Some(operator) = &site.operator else {
                continue;
            };
            match self.get(&operator.workload).await {
                Ok(Some(workload)) => self.add_object("operators", workload)?,
                Ok(None) => {}
                Err(error) => self.lacks(&operator.workload.human(), &error),
            }
        }
        Ok(())
    }

    async fn leases(&mut self) -> Result<()> {
        let namespaces: BTreeSet<_> = self
            .sites
            .iter()
            .map(|site| site.namespace.clone())
            .collect();
        for namespace in namespaces {
            self.add_matching("leases", kinds::LEASE, Some(&namespace), "", |lease| {
                Live::of(lease).name().starts_with(LEASE_PREFIX)
            })
            .await?;
        }
        Ok(())
    }

    /// The events of Weft's namespaces, and those about resources, which are in `default` for kinds
    /// without namespaces.
    async fn events(&mut self) -> Result<()> {
        let groups: BTreeSet<&str> = self
            .sites
            .iter()
            .map(|site| site.entry.resource.group)
            .collect();
        let is_weft = |event: &Value| {
            let version = event["regarding"]["apiVersion"]
                .as_str()
                .unwrap_or_default();
            groups.contains(version.split('/').next().unwrap_or_default())
        };
        let mut namespaces = self.namespaces.clone();
        namespaces.insert("default".to_owned());
        for namespace in namespaces {
            let in_default = namespace == "default" && !self.namespaces.contains("default");
            let (mut found, mut pages) =
                (Vec::new(), self.pages(kinds::EVENT, Some(&namespace), ""));
            let part_name = plural(kinds::EVENT, Some(&namespace));
            loop {
                match pages.next().await {
                    Ok(Some(page)) => found.extend(
                        page.iter()
                            .filter(|event| !in_default || is_weft(event))
                            .map(short),
                    ),
                    Ok(None) => break,
                    Err(error) => {
                        self.lacks(&part_name, &error);
                        break;
                    }
                }
                if found.len() > EVENTS {
                    found.truncate(EVENTS);
                    self.lacks(&part_name, &format!("there are more than {EVENTS}"));
                    break;
                }
            }
            found.sort_by(|one, other| text(&one["last"]).cmp(text(&other["last"])));
            if !found.is_empty() {
                let events = self.redaction.object(found.into());
                let name = format!("events/{}.yaml", part(&namespace));
                self.archive.add(&name, &output::yaml(&events)?)?;
            }
        }
        Ok(())
    }

    /// The pods of operators, agents and operands, and their logs.
    async fn pods(&mut self) -> Result<()> {
        let mut seen = BTreeSet::new();
        for site in self.sites {
            let mut found: Vec<Value> = Vec::new();
            if let Some(operator) = &site.operator
                && let Ok(Some(workload)) = self.get(&operator.workload).await
            {
                let labels = &workload["spec"]["selector"]["matchLabels"];
                let selector = labels.as_object().into_iter().flatten();
                let selector: Vec<_> = selector
                    .map(|(key, value)| format!("{key}={}", text(value)))
                    .collect();
                let place = operator.workload.namespace.as_deref();
                let left_out = self.list_pods(place, &selector.join(","), &mut found).await;
                self.left_out(site, left_out);
            }
            let places: Vec<Option<String>> = match site.domain.namespace() {
                Some(namespace) => vec![Some(namespace.to_owned())],
                None if site.entry.resource.namespaced => {
                    let places = &self.namespaces_of_resources[site.entry.name];
                    places.iter().cloned().map(Some).collect()
                }
                None => vec![None],
            };
            for place in places {
                let selector = site.domain.pod_selector();
                let left_out = self.list_pods(place.as_deref(), selector, &mut found).await;
                self.left_out(site, left_out);
            }
            let mut logs = Vec::new();
            for pod in found {
                let key = (
                    Live::of(&pod).namespace().to_owned(),
                    Live::of(&pod).name().to_owned(),
                );
                if seen.insert(key) {
                    logs.extend(containers(&pod));
                    self.add_object("pods", pod)?;
                }
            }
            self.logs(logs).await?;
        }
        Ok(())
    }

    fn left_out(&mut self, site: &Site, count: usize) {
        if count > 0 {
            self.lacks(
                &format!("{count} pods of {}", site.entry.name),
                &format!("the report has {PODS} pods of each domain, those in trouble first"),
            );
        }
    }

    /// Adds pods to those that are found already, and returns how many it leaves out.
    async fn list_pods(
        &mut self,
        namespace: Option<&str>,
        selector: &str,
        found: &mut Vec<Value>,
    ) -> usize {
        let (mut pages, mut left_out) = (self.pages(kinds::POD, namespace, selector), 0);
        loop {
            match pages.next().await {
                Ok(Some(page)) => {
                    found.extend(page);
                    found.sort_by_key(is_ready);
                    left_out += found.len().saturating_sub(PODS);
                    found.truncate(PODS);
                }
                Ok(None) => return left_out,
                Err(error) => {
                    self.lacks(&plural(kinds::POD, namespace), &error);
                    return left_out;
                }
            }
        }
    }

    async fn logs(&mut self, logs: Vec<Log>) -> Result<()> {
        let (client, lines) = (self.client.clone(), self.log_lines);
        let mut read = stream::iter(logs)
            .map(|log| {
                let client = client.clone();
                async move {
                    let result = log.read(&client, lines).await;
                    (log, result)
                }
            })
            .buffered(LOGS_AT_ONCE);
        while let Some((log, result)) = read.next().await {
            match result {
                Ok(text) => {
                    let text = self.redaction.text(whole_lines(&text));
                    self.archive.add(&log.file(), &text)?;
                }
                Err(error) => self.lacks(&log.file(), &error),
            }
        }
        Ok(())
    }
}

/// A log of a container.
struct Log {
    namespace: String,
    pod: String,
    container: String,
    is_previous: bool,
}

impl Log {
    fn file(&self) -> String {
        let previous = if self.is_previous { ".previous" } else { "" };
        format!(
            "logs/{}/{}/{}{previous}.log",
            part(&self.namespace),
            part(&self.pod),
            part(&self.container)
        )
    }

    async fn read(&self, client: &Client, lines: i64) -> Result<String, Error> {
        let params = LogParams {
            container: Some(self.container.clone()),
            previous: self.is_previous,
            tail_lines: Some(lines),
            limit_bytes: Some(LOG_BYTES),
            ..LogParams::default()
        };
        let pods: Api<Pod> = Api::namespaced(client.clone(), &self.namespace);
        answered(pods.logs(&self.pod, &params)).await
    }
}

/// The logs of a pod: of each container, and of the one before a restart.
fn containers(pod: &Value) -> Vec<Log> {
    let statuses = ["initContainerStatuses", "containerStatuses"];
    let statuses = statuses
        .iter()
        .flat_map(|field| pod["status"][*field].as_array().into_iter().flatten());
    let log = |status: &Value, is_previous| Log {
        namespace: Live::of(pod).namespace().to_owned(),
        pod: Live::of(pod).name().to_owned(),
        container: text(&status["name"]).to_owned(),
        is_previous,
    };
    statuses
        .flat_map(|status| {
            let restarted = status["restartCount"].as_i64().unwrap_or_default() > 0;
            let previous = restarted.then(|| log(status, true));
            std::iter::once(log(status, false)).chain(previous)
        })
        .collect()
}

fn is_ready(pod: &Value) -> bool {
    weft_plan::condition(&pod["status"], "Ready").is_some_and(|ready| ready["status"] == "True")
}

/// A log that the limit of bytes has cut ends in the middle of a line, maybe in a secret value.
fn whole_lines(log: &str) -> &str {
    match log.rfind('\n') {
        Some(end) if log.len() as i64 >= LOG_BYTES => &log[..=end],
        _ => log,
    }
}

/// The parts of an event that people read.
fn short(event: &Value) -> Value {
    let about = &event["regarding"];
    let last = [
        &event["series"]["lastObservedTime"],
        &event["deprecatedLastTimestamp"],
        &event["eventTime"],
    ];
    let last = last.into_iter().find(|time| time.is_string());
    json!({
        "last": last, "type": event["type"], "reason": event["reason"], "note": event["note"],
        "about": format!("{} {}", text(&about["kind"]), text(&about["name"])),
        "count": event["series"]["count"].as_i64().or(event["deprecatedCount"].as_i64()),
        "reporter": event["reportingController"],
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn plural(kind: Kind, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("{} of the namespace {namespace}", kind.plural),
        None => kind.plural.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_cut_ends_with_a_whole_line() {
        assert_eq!(whole_lines("a\nb"), "a\nb");
        let mut long = "x".repeat(LOG_BYTES as usize - 3) + "\n";
        let whole = long.len();
        long += "cut";
        assert_eq!(whole_lines(&long).len(), whole);
    }

    #[test]
    fn the_logs_of_a_pod_are_those_of_its_containers_and_of_restarts() {
        let pod = json!({"metadata": {"namespace": "n", "name": "p"}, "status": {
            "initContainerStatuses": [{"name": "i"}],
            "containerStatuses": [{"name": "c", "restartCount": 2}],
        }});
        let files: Vec<_> = containers(&pod).iter().map(Log::file).collect();
        assert_eq!(
            files,
            [
                "logs/n/p/i.log",
                "logs/n/p/c.log",
                "logs/n/p/c.previous.log"
            ]
        );
    }
}
