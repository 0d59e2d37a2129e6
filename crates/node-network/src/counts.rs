//! Counts of a node's network for metrics.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Interfaces and routes of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Interfaces by type.
    pub interfaces: BTreeMap<String, i64>,
    /// Routes by family (`ipv4`, `ipv6`) and origin: `static` if the destination is configured,
    /// too, else `dynamic`. The four are always there.
    pub routes: BTreeMap<(&'static str, &'static str), i64>,
}

impl Counts {
    /// Those of a NodeNetworkState.
    pub fn of(object: &Value) -> Self {
        let state = &object["status"]["currentState"];
        let mut interfaces = BTreeMap::new();
        for kind in state["interfaces"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|interface| interface["type"].as_str())
        {
            *interfaces.entry(kind.to_owned()).or_default() += 1;
        }
        let destinations = |of: &str| {
            state["routes"][of]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|route| route["destination"].as_str())
                .collect::<Vec<_>>()
        };
        let configured: BTreeSet<_> = destinations("config").into_iter().collect();
        let mut routes: BTreeMap<_, _> = ["ipv4", "ipv6"]
            .into_iter()
            .flat_map(|family| [((family, "static"), 0), ((family, "dynamic"), 0)])
            .collect();
        for destination in destinations("running") {
            let family = if destination.contains(':') {
                "ipv6"
            } else {
                "ipv4"
            };
            let origin = if configured.contains(destination) {
                "static"
            } else {
                "dynamic"
            };
            *routes.entry((family, origin)).or_default() += 1;
        }
        Self { interfaces, routes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_route_is_static_if_its_destination_is_configured() {
        let route = |destination: &str| json!({"destination": destination});
        let state = json!({"interfaces": [
            {"type": "ethernet"}, {"type": "ethernet"}, {"type": "linux-bridge"}, {}
        ],
            "routes": {
                "config": [route("0.0.0.0/0")],
                "running": [route("0.0.0.0/0"), route("10.0.0.0/8"), route("fe80::/64")]
            }});
        let counts = Counts::of(&json!({"status": {"currentState": state}}));
        assert_eq!(
            counts.interfaces,
            BTreeMap::from([("ethernet".to_owned(), 2), ("linux-bridge".to_owned(), 1)])
        );
        let all = [
            (("ipv4", "dynamic"), 1),
            (("ipv4", "static"), 1),
            (("ipv6", "dynamic"), 1),
            (("ipv6", "static"), 0),
        ];
        assert_eq!(counts.routes, BTreeMap::from(all));
        assert_eq!(Counts::of(&json!({})).routes.len(), 4);
    }
}
