//! Before the host is changed for a policy, the API server says whether the policy is still granted.
//! The watch of an agent whose node was cut off may be late.

use kube::{
    Api,
    api::{ListParams, PartialObjectMeta},
};
use weft_api::node_network::{NODE_LABEL, NodeNetworkConfigurationEnactment, node_label};
use weft_node_network::state;
use weft_runtime::api_server::{answer::is_list, cluster::Error};

use super::{
    super::{
        WRITE_AGAIN,
        wish::{Standing, Wish},
    },
    Pass,
};

type Metadata = PartialObjectMeta<NodeNetworkConfigurationEnactment>;

impl Pass<'_> {
    /// Takes those out of this reconcile that are not granted any more as this agent knows them, and
    /// all that are open if the API server does not say. A watch brings what is new. Returns whether
    /// there were any. Drift is corrected without this question: the host may have lost its way to
    /// the API server by that drift.
    pub(super) async fn keep_granted(&mut self) -> bool {
        let open: Vec<usize> = (0..self.items.len())
            .filter(|index| self.items[*index].is_open())
            .collect();
        if open.is_empty() {
            return false;
        }
        let live = match self.live().await {
            Ok(live) => live,
            Err(error) => {
                tracing::warn!(%error, "the API server does not say whether the policies are still granted; trying again");
                self.again_in(WRITE_AGAIN);
                Vec::new()
            }
        };
        let mut any = false;
        for index in open {
            let item = &self.items[index];
            if is_granted(&item.wish, item.uid.as_deref(), &live) {
                continue;
            }
            tracing::info!(
                policy = item.wish.policy,
                "not granted any more, as far as is known here: it is not applied"
            );
            let item = &mut self.items[index];
            let kept = self.enactor.store.get(&item.wish.policy);
            item.rendered.desired =
                kept.map_or_else(state::empty, |applied| applied.desired.clone());
            item.standing = Standing::Failed;
            any = true;
        }
        any
    }

    /// The node's enactments, by a request of now.
    async fn live(&self) -> Result<Vec<Metadata>, Error> {
        let api =
            Api::<NodeNetworkConfigurationEnactment>::all(self.enactor.settings.client.clone());
        let node = node_label(&self.enactor.settings.node);
        let params = ListParams::default().labels(&format!("{NODE_LABEL}={node}"));
        let list = api.list_metadata(&params).await?;
        let version = list.metadata.resource_version.unwrap_or_default();
        if is_list(&list.types.kind, &version) {
            Ok(list.items)
        } else {
            Err(Error::Unreadable(
                "it is not a list with a resourceVersion".to_owned(),
            ))
        }
    }
}

/// Reports whether the enactment is there as the wish was read from it, and is not being deleted.
fn is_granted(wish: &Wish, uid: Option<&str>, live: &[Metadata]) -> bool {
    live.iter().any(|live| {
        let metadata = &live.metadata;
        metadata.name.as_deref() == Some(&wish.name)
            && metadata.uid.as_deref() == uid
            && metadata.generation.unwrap_or_default() == wish.observed
            && metadata.deletion_timestamp.is_none()
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
    use kube::core::ObjectMeta;
    use weft_api::node_network::{Decision, NodeNetworkConfigurationEnactmentStatus as Status};

    use super::*;

    fn carried_out() -> Wish {
        Wish {
            name: "node-1.p".into(),
            policy: "p".into(),
            observed: 3,
            generation: 7,
            decision: Decision::Granted,
            retry: None,
            granted: None,
            waits: None,
            status: Status::default(),
        }
    }

    #[test]
    fn only_the_enactment_that_was_read_is_carried_out() {
        let same = ObjectMeta {
            name: Some("node-1.p".into()),
            uid: Some("u".into()),
            generation: Some(3),
            ..ObjectMeta::default()
        };
        let is_granted = |live: &[ObjectMeta]| {
            let live: Vec<Metadata> = live
                .iter()
                .map(|metadata| Metadata {
                    metadata: metadata.clone(),
                    ..Metadata::default()
                })
                .collect();
            is_granted(&carried_out(), Some("u"), &live)
        };
        let other = ObjectMeta {
            name: Some("node-1.q".into()),
            ..same.clone()
        };
        assert!(is_granted(&[other.clone(), same.clone()]));
        assert!(!is_granted(&[]), "it is gone");
        assert!(!is_granted(&[other]), "another one is there");
        for changed in [
            ObjectMeta {
                uid: Some("v".into()),
                ..same.clone()
            },
            ObjectMeta {
                generation: Some(4),
                ..same.clone()
            },
            ObjectMeta {
                deletion_timestamp: Some(Time(Timestamp::UNIX_EPOCH)),
                ..same
            },
        ] {
            assert!(!is_granted(std::slice::from_ref(&changed)), "{changed:?}");
        }
    }
}
