//! Domains of the installed operator that new manifests would leave out, although they are used.

use std::{sync::mpsc, thread, time::Duration};

use anyhow::Result;
use weft_plan::ObjectKey;
use weft_runtime::inspect::{
    presence::{self, Operator},
    reader::{Listed, Reader},
};

use crate::{
    domains,
    online::{ClusterChoice, block_on},
};

/// How long `weft manifests` waits for a cluster. It needs none, and must not seem to hang.
const LIMIT: Duration = Duration::from_secs(2);

/// An operator that serves more than new manifests for it do.
pub struct LeftOut {
    /// The operator, as it is.
    pub operator: Operator,
    /// The names of the domains that would not be served any more.
    pub domains: Vec<&'static str>,
    /// Their resources.
    pub resources: Vec<ObjectKey>,
}

/// A look at the cluster that is under way.
pub struct Look(mpsc::Receiver<Option<LeftOut>>);

impl Look {
    /// Begins to look. `workload` is the operator that the manifests install, and `served` are the
    /// names of its domains.
    pub fn begin(choice: &ClusterChoice, workload: ObjectKey, served: Vec<&'static str>) -> Self {
        let (sender, receiver) = mpsc::channel();
        let choice = choice.clone();
        // A program that gets credentials would block the runtime, so no limit inside it counts.
        let work = move || {
            let found = block_on(look(&choice, &workload, &served));
            let _ = sender.send(found.ok().flatten());
        };
        // Without a thread there is no answer.
        let _ = thread::Builder::new().name("look".to_owned()).spawn(work);
        Self(receiver)
    }

    /// Waits for the answer, for a short time. Without a cluster, or without the right to look,
    /// there is none.
    pub fn end(self) -> Option<LeftOut> {
        self.0.recv_timeout(LIMIT).ok().flatten()
    }
}

async fn look(
    choice: &ClusterChoice,
    workload: &ObjectKey,
    served: &[&'static str],
) -> Result<Option<LeftOut>> {
    let online = choice.connect_silently().await?;
    let reader = Reader::tolerant(&online.cluster);
    let operators = presence::operators(&reader).await?;
    let operator = operators
        .into_iter()
        .find(|operator| operator.workload == *workload);
    let Some(operator) = operator else {
        return Ok(None);
    };
    let (mut domains, mut resources) = (Vec::new(), Vec::new());
    for entry in domains::ALL {
        let is_served = operator.domains.iter().any(|name| name == entry.name);
        if !is_served || served.contains(&entry.name) {
            continue;
        }
        if let Listed::Objects(found) = reader.list_if_served(entry.resource, None).await?
            && !found.is_empty()
        {
            domains.push(entry.name);
            resources.extend(found.iter().filter_map(ObjectKey::of));
        }
    }
    Ok((!domains.is_empty()).then_some(LeftOut {
        operator,
        domains,
        resources,
    }))
}
