//! The cluster that a node belongs to: does its API server answer, and is the node Ready.

use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client, Config};

/// How to reach it.
#[derive(Clone)]
pub struct Cluster {
    /// Where the API server is, and who asks.
    pub config: Config,
    /// The node's name.
    pub node: String,
}

impl Cluster {
    /// Over a connection of its own: one that was open before the change may live on while new ones
    /// cannot be made.
    pub(super) async fn answers(&self) -> Result<(), String> {
        self.node().await.map(|_| ())
    }

    pub(super) async fn node_is_ready(&self) -> Result<(), String> {
        let node = self.node().await?;
        let conditions = node
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        match conditions
            .into_iter()
            .find(|condition| condition.type_ == "Ready")
        {
            Some(ready) if ready.status == "True" => Ok(()),
            Some(ready) => Err(format!(
                "node {}: Ready is {}: {}",
                self.node,
                ready.status,
                ready.message.unwrap_or_default()
            )),
            None => Err(format!("node {} has no condition Ready", self.node)),
        }
    }

    async fn node(&self) -> Result<Node, String> {
        // One request is one try.
        let mut config = self.config.clone();
        config.default_retry = false;
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        Api::<Node>::all(client)
            .get(&self.node)
            .await
            .map_err(|error| crate::host::peer::causes(&error))
    }
}
