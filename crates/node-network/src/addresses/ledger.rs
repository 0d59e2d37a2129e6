//! The ledger of addresses: the ConfigMap that says which node has which address of a pool.
//!
//! It is one object for all policies, and an address is a key in it. So an address cannot have two
//! nodes, whatever pools overlap.

use std::{collections::BTreeMap, net::IpAddr};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weft_plan::{Live, canonical};

/// The name of the ConfigMap, in the namespace of the operator.
pub const NAME: &str = "weft-node-addresses";
/// The key of its data.
const KEY: &str = "addresses";

/// The holder of an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    /// The name of the policy.
    pub(crate) policy: String,
    /// The `metadata.uid` of the policy.
    pub(crate) policy_uid: String,
    /// The pool of the policy.
    pub(crate) pool: String,
    /// The name of the node.
    pub(crate) node: String,
    /// The `metadata.uid` of the Node.
    pub(crate) node_uid: String,
    /// The node is to lose the address. It is set once, and says if the node has reported the
    /// address then or since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) leaves: Option<Leaves>,
}

/// Reports of a node about an address that it is to lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Leaves {
    /// The node has not reported the address: its report may be older than the address.
    Unseen,
    /// The node has reported the address. When it no longer does, the address is free.
    Seen,
}

/// The holders by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger(pub(crate) BTreeMap<IpAddr, Entry>);

/// The ledger as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// `metadata.uid`
    pub uid: String,
    /// `metadata.resourceVersion`
    pub version: String,
    /// Its content, or why it cannot be read.
    pub ledger: Result<Ledger, String>,
}

impl Stored {
    /// Reads the ConfigMap.
    pub fn of(object: &Value) -> Self {
        let live = Live::of(object);
        let text = object["data"][KEY].as_str().unwrap_or("{}");
        Self {
            uid: live.uid().to_owned(),
            version: live.resource_version_text().to_owned(),
            ledger: serde_json::from_str(text)
                .map(Ledger)
                .map_err(|error| error.to_string()),
        }
    }

    /// A JSON patch (RFC 6902) that makes it this ledger. It fails if another writer was first: a
    /// late write of an earlier leader changes nothing.
    pub fn patch(&self, ledger: &Ledger) -> Value {
        json!([
            {"op": "test", "path": "/metadata/uid", "value": self.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": self.version},
            {"op": "add", "path": "/data", "value": data(ledger)},
        ])
    }
}

/// The ConfigMap of a ledger that is not there yet.
pub fn config_map(namespace: &str, ledger: &Ledger) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": NAME, "namespace": namespace},
        "data": data(ledger),
    })
}

fn data(ledger: &Ledger) -> Value {
    json!({KEY: canonical(&json!(ledger.0))})
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_ledger_is_read_as_it_was_written() {
        let entry = Entry {
            policy: "p".into(),
            policy_uid: "u".into(),
            pool: "storage".into(),
            node: "node-1".into(),
            node_uid: "n".into(),
            leaves: Some(Leaves::Seen),
        };
        let ledger = Ledger(BTreeMap::from([
            ("192.0.2.1".parse().unwrap(), entry.clone()),
            (
                "2001:db8::1".parse().unwrap(),
                Entry {
                    leaves: None,
                    ..entry
                },
            ),
        ]));
        let mut object = config_map("nmstate", &ledger);
        object["metadata"]["uid"] = "m".into();
        object["metadata"]["resourceVersion"] = "7".into();
        let stored = Stored::of(&object);
        assert_eq!(stored.ledger, Ok(ledger.clone()));
        let patch = stored.patch(&ledger);
        assert_eq!(
            (&patch[0]["value"], &patch[1]["value"], &patch[2]["value"]),
            (&json!("m"), &json!("7"), &object["data"])
        );
        object["data"]["addresses"] = "{".into();
        assert!(Stored::of(&object).ledger.is_err());
        object["data"] = Value::Null;
        assert_eq!(Stored::of(&object).ledger, Ok(Ledger::default()));
    }
}
