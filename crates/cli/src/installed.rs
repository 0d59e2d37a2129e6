//! The objects of an installation of Weft that are in a cluster: those that `weft manifests`
//! prints.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use weft_placement::domain::{NAMESPACES_VARIABLE, Namespaces};
use weft_plan::ObjectKey;

use crate::{
    install::{Installation, Options, install},
    online::{Online, Site},
};

/// Returns the objects that `weft manifests` prints for a domain, in the layout of its operator.
/// Without an operator, returns them once for each layout.
///
/// # Errors
/// The operator's list of served namespaces cannot be read.
pub fn installations(site: &Site) -> Result<Vec<Installation>> {
    let deployment = site.operator.as_ref().map(|operator| &operator.workload);
    let served = site
        .operator
        .as_ref()
        .and_then(|operator| operator.environment.get(NAMESPACES_VARIABLE));
    let served = served
        .map(|namespaces| Namespaces::read(namespaces))
        .transpose()?;
    let single = deployment.map(|deployment| deployment.name != site.entry.install.operator);
    let mut installations = Vec::new();
    for layout in single.map_or(vec![false, true], |single| vec![single]) {
        // Each layout is looked for in its usual namespace then.
        let is_unknown = deployment.is_none() && site.namespace == site.entry.install.namespace;
        let namespace = if layout && is_unknown {
            None
        } else {
            Some(site.namespace.as_str())
        };
        installations.push(install(&Options {
            domains: vec![site.entry],
            components: &[],
            single: layout,
            namespace,
            image: "",
            agent_image: "",
            image_pull_policy: "",
            images: &BTreeMap::new(),
            api_server: None,
            placement_namespaces: served.as_ref(),
            keystone_urls: None,
            monitoring: None,
        })?);
    }
    Ok(installations)
}

/// Returns those of these objects that are in the cluster.
///
/// # Errors
/// The API server refuses a request.
pub async fn present(online: &Online, keys: BTreeSet<ObjectKey>) -> Result<Vec<ObjectKey>> {
    let mut present = Vec::new();
    for key in keys {
        if online
            .cluster
            .get_metadata(&key)
            .await
            .map_err(|error| online.explain(error))?
            .is_some()
        {
            present.push(key);
        }
    }
    Ok(present)
}
