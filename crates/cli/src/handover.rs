//! Objects of a PlacementAPI to give back: its own are in its namespace and have its label, and
//! Weft holds some objects of others.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use weft_api::placement::PlacementApi;
use weft_placement::{
    Settings,
    handover::{credentials, missing, obstacles},
    peers::{Disclaim, credential},
};
use weft_plan::{Kind, Live, ObjectKey, kinds, manager};
use weft_runtime::{
    inspect::release::{Entry, labelled_list},
    reconcile::objects::Objects,
};

use crate::{
    account::{Account, Action, Step},
    online::{Online, Site},
    output,
};

/// Further work besides giving objects back, in this order.
#[derive(Default)]
pub struct Handover {
    /// Fields that the specification must have, as a merge patch and for people.
    missing: Option<(Value, String)>,
    /// Which finalizers of Weft's alone go.
    disclaims: Vec<Disclaim>,
}

/// Finds out what there is to give back. The result is empty for a PlacementAPI of which nothing is
/// Weft's.
///
/// # Errors
/// The API server refuses a request, or the other operator could not continue from here.
pub async fn find(
    online: &Online,
    site: &Site,
    objects: &Objects,
    resource: &Value,
) -> Result<(Vec<Entry>, Handover)> {
    let title = output::title(site.entry.resource, resource);
    let namespace = Live::of(resource).namespace();
    let read: PlacementApi = serde_json::from_value(resource.clone())
        .with_context(|| format!("{title} cannot be read"))?;
    let list = labelled_list(objects, namespace)
        .await
        .map_err(|error| online.explain(error))?;
    let disclaims = credentials(namespace, &held(online, &read, namespace).await?);
    if list.is_empty() && disclaims.is_empty() {
        return Ok(Default::default());
    }
    let obstacles = obstacles(&read.spec);
    if !obstacles.is_empty() {
        let obstacles: Vec<_> = obstacles
            .iter()
            .map(|problem| format!("  {problem}"))
            .collect();
        bail!(
            "{title}: the other operator could not continue with it, so nothing was changed:\n{}",
            obstacles.join("\n")
        );
    }
    for entry in list.iter().filter(|entry| entry.object.kind == kinds::JOB) {
        let live = objects
            .live(&entry.object)
            .await
            .map_err(|error| online.explain(error))?;
        if live.is_some_and(|live| live["status"]["active"].as_i64() > Some(0)) {
            let (job, name) = (entry.object.human(), &entry.object.name);
            bail!(
                "{job} prepares the database; the other operator would do so at the same time. Wait until it has ended: kubectl -n {namespace} wait job {name} --for condition=Complete"
            );
        }
    }
    let name = read.metadata.name.clone().unwrap_or_default();
    let deployment = get(online, kinds::DEPLOYMENT, namespace, &name).await?;
    let settings = Settings::from_env(|variable| site.environment.get(variable))?;
    Ok((
        list,
        Handover {
            missing: missing(&read, deployment.as_ref(), &settings.default_image),
            disclaims,
        },
    ))
}

/// Secrets that may be held: with our label, and those that the PlacementAPI names.
async fn held(online: &Online, read: &PlacementApi, namespace: &str) -> Result<Vec<Value>> {
    let labelled = online
        .cluster
        .list_metadata(kinds::SECRET, Some(namespace), &credential::held())
        .await;
    let (mut secrets, _) = labelled.map_err(|error| online.explain(error))?;
    let named = read
        .spec
        .auth
        .as_ref()
        .and_then(|auth| auth.application_credential_secret.as_deref());
    let used = read
        .status
        .as_ref()
        .and_then(|status| status.application_credential_secret.as_deref());
    for name in [named, used]
        .into_iter()
        .flatten()
        .filter(|name| !name.is_empty())
    {
        if secrets.iter().all(|secret| Live::of(secret).name() != name) {
            secrets.extend(get(online, kinds::SECRET, namespace, name).await?);
        }
    }
    Ok(secrets)
}

async fn get(online: &Online, kind: Kind, namespace: &str, name: &str) -> Result<Option<Value>> {
    online
        .cluster
        .get(&ObjectKey::new(kind, namespace, name))
        .await
        .map_err(|error| online.explain(error))
}

impl Handover {
    /// Reports whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.missing.is_none() && self.disclaims.is_empty()
    }

    /// Returns the steps of the work, in order.
    pub fn steps(&self, site: &Site, resource: &Value) -> Vec<Step> {
        let missing = self
            .missing
            .iter()
            .map(|(_, words)| set(site, resource, words));
        missing.chain(self.disclaims.iter().map(released)).collect()
    }

    /// Returns the work to do, a line each.
    pub fn preview(&self, site: &Site, resource: &Value) -> Vec<String> {
        let title = output::title(site.entry.resource, resource);
        let missing = self
            .missing
            .iter()
            .map(|(_, words)| format!("would set in {title}: {words}\n"));
        missing
            .chain(self.disclaims.iter().map(|release| {
                format!(
                    "would release {}: {}\n",
                    release.key.human(),
                    release.takes()
                )
            }))
            .collect()
    }

    /// Carries out the handover. You can repeat the call, because it skips finished work.
    ///
    /// # Errors
    /// The API server refuses a request.
    pub async fn carry_out(
        &self,
        online: &Online,
        site: &Site,
        resource: &Value,
        account: &Account,
    ) -> Result<()> {
        let manager = manager(&*site.domain);
        if let Some((patch, words)) = &self.missing {
            let Some(key) = ObjectKey::of(resource) else {
                return Ok(());
            };
            let mut patch = patch.clone();
            patch["metadata"]["resourceVersion"] = resource["metadata"]["resourceVersion"].clone();
            online
                .cluster
                .merge_patch(&key, "", &patch, &manager)
                .await
                .map_err(|error| online.explain(error))?;
            let line = format!("in {}: {words}", key.human());
            account.did(set(site, resource, words), "set", &line)?;
        }
        for release in &self.disclaims {
            match online
                .cluster
                .json_patch(&release.key, &release.patch, &manager)
                .await
            {
                Err(error) if error.is_not_found() => {}
                released => released.map(drop).map_err(|error| online.explain(error))?,
            }
            let line = format!("{}: {}", release.key.human(), release.takes());
            account.did(released(release), "released", &line)?;
        }
        Ok(())
    }
}

fn set(site: &Site, resource: &Value, words: &str) -> Step {
    let resource = Live::of(resource);
    let key = ObjectKey::new(site.entry.resource, resource.namespace(), resource.name());
    Step::new(Action::Change, &key).because(words)
}

fn released(disclaim: &Disclaim) -> Step {
    Step::new(Action::Release, &disclaim.key).because(disclaim.takes())
}
