//! A control plane that returns to the state of its start, so that the next test can use it.
//!
//! The reset works in etcd, past all finalizers and rules. The API server and the controllers see
//! its deletions by their watches, like those of any client.

use std::{collections::BTreeSet, ffi::OsString, fs, path::Path, time::Duration};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service, ServiceAccount};
use kube::ResourceExt;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::{
    client::client_from,
    control_plane::{ControlPlane, PAUSE},
    process::foreign_connections,
    stored::{Content, Gateway},
    wait::{START_TIMEOUT, within},
};

/// How long a reset may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Keys that the programs of the control plane write by themselves, again and again.
const VOLATILE: [&str; 3] = [
    "/registry/leases/kube-system/",
    "/registry/masterleases/",
    "/registry/ranges/",
];

/// The order of deletions: first the rules that could refuse requests of controllers, then the
/// objects that others are made from, then the namespaces. All others come last.
const FIRST: [&[&str]; 3] = [
    &[
        "/registry/validatingadmissionpolic",
        "/registry/mutatingadmissionpolic",
        "/registry/validatingwebhookconfigurations/",
        "/registry/mutatingwebhookconfigurations/",
    ],
    &[
        "/registry/apiextensions.k8s.io/customresourcedefinitions/",
        "/registry/apiregistration.k8s.io/apiservices/",
        "/registry/cronjobs/",
        "/registry/daemonsets/",
        "/registry/deployments/",
        "/registry/jobs/",
        "/registry/replicasets/",
        "/registry/statefulsets/",
        "/registry/services/specs/",
    ],
    &[NAMESPACES],
];

const NAMESPACES: &str = "/registry/namespaces/";

/// A namespace and a ConfigMap by which the reset finds out that others have seen its deletions.
const CANARY: &str = "weft-testenv-canary";

/// The state of a control plane that no test has used yet.
#[derive(Clone, Debug)]
pub(crate) struct Pristine {
    content: Content,
    groups: BTreeSet<String>,
    files: BTreeSet<OsString>,
}

impl Pristine {
    /// Reports whether both are the same, but for what programs write again and again.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.groups == other.groups && differences(&self.content, &other.content).is_empty()
    }
}

impl ControlPlane {
    /// Reads the state that [`reset`](Self::reset) returns to.
    pub(crate) async fn pristine(&self) -> Result<Pristine> {
        Ok(Pristine {
            content: Gateway::new(self.reachable_etcd()?.port).content().await?,
            groups: self.groups().await?,
            files: files(self.dir())?,
        })
    }

    /// Waits until etcd's content stays as it is: the API server and the controllers have written
    /// all objects that they write at their start.
    pub(crate) async fn settled(&self) -> Result<Pristine> {
        let mut before = self.pristine().await?;
        within(START_TIMEOUT, PAUSE, async || {
            let now = self.pristine().await?;
            let is_same = now.is_same(&before);
            before = now;
            Ok(is_same.then_some(()).ok_or("etcd changes still".to_owned()))
        })
        .await?;
        Ok(before)
    }

    /// Brings back that state, and returns once etcd, the API server and the controllers have it.
    ///
    /// # Errors
    /// A program does not run, a client of the last test is still connected, or the state is
    /// another one after a minute.
    pub(crate) async fn reset(&mut self, pristine: &Pristine) -> Result<()> {
        self.check_running()?;
        // The last test's client died with its runtime.
        self.client = client_from(&self.kubeconfig).await?;
        self.wait_until_nobody_is_connected().await?;
        let gateway = Gateway::new(self.reachable_etcd()?.port);
        self.release_node_ports(&gateway, pristine).await?;
        within(LIMIT, Duration::ZERO, async || {
            self.check_running()?;
            self.bring_back(&gateway, &pristine.content).await?;
            self.wait_until_seen(pristine).await?;
            // This also removes the canary, and what controllers wrote meanwhile.
            self.bring_back(&gateway, &pristine.content).await?;
            let left = differences(&gateway.content().await?, &pristine.content);
            Ok(match left.first() {
                None => Ok(()),
                Some(key) => Err(format!("{key} differs")),
            })
        })
        .await
        .context("the reset of a control plane")?;
        for file in files(self.dir())?.difference(&pristine.files) {
            let path = self.dir().join(file);
            if path.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            }
            .with_context(|| format!("cannot remove {}", path.display()))?;
        }
        self.forget_audit();
        Ok(())
    }

    /// Deletes and writes the keys that differ from this content.
    async fn bring_back(&self, gateway: &Gateway, pristine: &Content) -> Result<()> {
        let change = async |keys: Vec<String>| {
            let with_value = |key: String| {
                let value = pristine.get(&key).cloned();
                (key, value)
            };
            gateway
                .change(keys.into_iter().map(with_value).collect())
                .await
        };
        let mut stages = in_stages(differences(&gateway.content().await?, pristine));
        let mut last = stages.pop().unwrap_or_default();
        let mut namespaces = stages.last().cloned().unwrap_or_default();
        namespaces.retain(|key| !pristine.contains_key(key));
        for keys in stages {
            change(keys).await?;
        }
        if !namespaces.is_empty() {
            let names = namespaces.iter().map(|key| &key[NAMESPACES.len()..]);
            try_join_all(names.map(|name| self.wait_until_closed(name))).await?;
            last = differences(&gateway.content().await?, pristine);
        }
        change(last).await
    }

    /// Waits until the API server lets nobody create an object in a namespace whose key is gone.
    /// Until then a controller replaces the objects that the reset deletes in it.
    async fn wait_until_closed(&self, namespace: &str) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let mut map = ConfigMap::default();
        map.metadata.name = Some(CANARY.to_owned());
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        within(LIMIT, PAUSE, async || {
            Ok(match maps.create(&dry_run, &map).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                Err(error) => Err(format!("the namespace {namespace}: {error}")),
                Ok(_) => Err(format!(
                    "the API server knows the namespace {namespace} still"
                )),
            })
        })
        .await
    }

    /// Deletes the Services with node ports by the API: the API server keeps its own list of the
    /// ports, and takes a port out of it only when it deletes the Service itself.
    async fn release_node_ports(&self, gateway: &Gateway, pristine: &Pristine) -> Result<()> {
        // A rule could refuse the deletion.
        let mut rules = differences(&gateway.content().await?, &pristine.content);
        rules.retain(|key| is_in(key, FIRST[0]));
        let delete = |key| (key, None);
        gateway
            .change(rules.into_iter().map(delete).collect())
            .await?;
        let all: Api<Service> = Api::all(self.client.clone());
        within(LIMIT, PAUSE, async || {
            let mut services = all.list(&ListParams::default()).await?.items;
            services.retain(has_node_port);
            for service in &services {
                let (namespace, name) =
                    (service.namespace().unwrap_or_default(), service.name_any());
                let api: Api<Service> = Api::namespaced(self.client.clone(), &namespace);
                let unhold = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                // The next look shows whether both were done.
                let _ = api.patch(&name, &PatchParams::default(), &unhold).await;
                let _ = api.delete(&name, &DeleteParams::default()).await;
            }
            Ok(match services.first() {
                None => Ok(()),
                Some(service) => Err(format!("the Service {} has node ports", service.name_any())),
            })
        })
        .await
    }

    async fn wait_until_nobody_is_connected(&self) -> Result<()> {
        let port = self.reachable_etcd()?.api_server_port;
        let own: Vec<_> = self
            .lock_processes()
            .iter()
            .chain(self.lock_kwok().iter())
            .map(crate::process::Process::pid)
            .collect();
        within(LIMIT, PAUSE, async || {
            let foreign = foreign_connections(port, &own);
            Ok(match foreign {
                0 => Ok(()),
                count => Err(format!("{count} connections of other programs")),
            })
        })
        .await
    }

    /// Waits until the API server serves no kind that is gone, the controller manager has seen a
    /// namespace, and the API server's admission has seen a policy, which come after the deletions.
    async fn wait_until_seen(&self, pristine: &Pristine) -> Result<()> {
        within(LIMIT, PAUSE, async || {
            let groups = self.groups().await?;
            let more: Vec<_> = groups.difference(&pristine.groups).collect();
            Ok(if more.is_empty() {
                Ok(())
            } else {
                Err(format!("the API server still serves {more:?}"))
            })
        })
        .await?;
        self.create(
            "v1",
            "Namespace",
            "namespaces",
            json!({"metadata": {"name": CANARY}}),
        )
        .await?;
        self.create(
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            json!({
                "metadata": {"name": CANARY},
                "spec": {
                    "failurePolicy": "Fail",
                    "matchConstraints": {"resourceRules": [{
                        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                        "resources": ["namespaces"], "resourceNames": [format!("{CANARY}-2")],
                    }]},
                    "validations": [{"expression": "false"}],
                },
            }),
        )
        .await?;
        self.create(
            "admissionregistration.k8s.io/v1",
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            json!({
                "metadata": {"name": CANARY},
                "spec": {"policyName": CANARY, "validationActions": ["Deny"]},
            }),
        )
        .await?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let mut refused: Namespace = Namespace::default();
        refused.metadata.name = Some(format!("{CANARY}-2"));
        let dry_run = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        within(LIMIT, PAUSE, async || {
            Ok(match namespaces.create(&dry_run, &refused).await {
                Err(kube::Error::Api(status))
                    if status.message.contains(CANARY) && status.code == 422 =>
                {
                    Ok(())
                }
                Ok(_) => Err("admission does not know the canary yet".to_owned()),
                Err(error) => Err(error.to_string()),
            })
        })
        .await?;
        if self.has_controllers() {
            let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), CANARY);
            let certificates: Api<ConfigMap> = Api::namespaced(self.client.clone(), CANARY);
            within(LIMIT, PAUSE, async || {
                let account = accounts.get_opt("default").await?;
                let certificate = certificates.get_opt("kube-root-ca.crt").await?;
                Ok(if account.is_none() {
                    Err("the canary has no ServiceAccount".to_owned())
                } else if certificate.is_none() {
                    Err("the canary has no ConfigMap with the certificate".to_owned())
                } else {
                    Ok(())
                })
            })
            .await?;
        }
        Ok(())
    }

    async fn create(&self, version: &str, kind: &str, plural: &str, object: Value) -> Result<()> {
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let object: DynamicObject = serde_json::from_value(object)?;
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        match api.create(&PostParams::default(), &object).await {
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
            other => other
                .map(drop)
                .with_context(|| format!("create {kind} {CANARY}")),
        }
    }

    async fn groups(&self) -> Result<BTreeSet<String>> {
        let groups = self.client.list_api_groups().await?;
        Ok(groups.groups.into_iter().map(|group| group.name).collect())
    }
}

fn has_node_port(service: &Service) -> bool {
    let ports = service
        .spec
        .iter()
        .flat_map(|spec| spec.ports.iter().flatten());
    ports.into_iter().any(|port| port.node_port.is_some())
}

fn is_in(key: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| key.starts_with(prefix))
}

fn is_volatile(key: &str) -> bool {
    is_in(key, &VOLATILE)
}

/// The keys that one has and the other has not, or has otherwise. Of volatile ones, only those
/// that are new count.
fn differences(now: &Content, pristine: &Content) -> Vec<String> {
    let changed = now
        .iter()
        .filter(|(key, value)| match pristine.get(*key) {
            Some(before) => !is_volatile(key) && before != *value,
            None => true,
        })
        .map(|(key, _)| key);
    let gone = pristine
        .keys()
        .filter(|key| !is_volatile(key) && !now.contains_key(*key));
    changed.chain(gone).cloned().collect()
}

/// The keys by their place in the order of deletions, those that come last at the end.
fn in_stages(keys: Vec<String>) -> Vec<Vec<String>> {
    let mut stages = vec![Vec::new(); FIRST.len() + 1];
    for key in keys {
        let first = FIRST.iter().position(|prefixes| is_in(&key, prefixes));
        stages[first.unwrap_or(FIRST.len())].push(key);
    }
    stages
}

/// The names of the files in the folder of a control plane.
fn files(folder: &Path) -> Result<BTreeSet<OsString>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.file_name()).collect())
}
