//! A network state as JSON: what nmstate does not know or cannot take is named by its path.

use crate::{
    contradictions,
    path::{Path, interfaces},
    ranges, schema,
    state_error::StateError,
    vlan,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// Looks whether nmstate can take a state, as far as that can be said without the host. It must be
/// in today's spelling, without captures and secret references.
pub(crate) fn check(state: &Value) -> Result<(), StateError> {
    schema::mistakes(state)
        .into_iter()
        .chain(ranges::mistakes(state))
        .chain(contradictions::mistakes(state))
        .next()
        .map_or(Ok(()), Err)
}

/// Reads a state as nmstate's type.
pub fn parse<T: DeserializeOwned>(state: &Value) -> Result<T, StateError> {
    schema::mistakes(state)
        .into_iter()
        .next()
        .map_or(Ok(()), Err)?;
    let mut joined = state.clone();
    vlan::join_tags(&mut joined);
    serde_json::from_value(joined).map_err(|error| {
        // nmstate does not say where.
        let alone = |interface: &&Value| {
            serde_json::from_value::<T>(json!({ "interfaces": [interface] })).is_err()
        };
        let path = interfaces(state).iter().find(alone).map(Path::of_interface);
        let message = error.to_string();
        StateError::Invalid {
            path: path.unwrap_or_default(),
            message: message
                .split(" at line ")
                .next()
                .unwrap_or(&message)
                .to_owned(),
        }
    })
}

/// A state of nmstate's as JSON.
pub fn value(state: &impl Serialize) -> Value {
    // A structure of texts, numbers and lists can always be written.
    serde_json::to_value(state).unwrap_or_default()
}

/// Removes the fields that [`crate::normalise`] added for people, so that nmstate can read the
/// state.
#[must_use]
pub fn without_additions(state: &Value) -> Value {
    let mut state = state.clone();
    remove_additions(&mut state);
    state
}

/// Removes these fields from the state itself.
pub fn remove_additions(state: &mut Value) {
    if let Some(map) = state.as_object_mut() {
        map.remove("capabilities");
    }
    for interface in state
        .get_mut("interfaces")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if let Some(map) = interface.as_object_mut() {
            map.remove("ifIndex");
        }
    }
}

/// An empty state.
pub fn empty() -> Value {
    Value::Object(Map::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(state: Value) -> String {
        check(&state).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_is_named_by_path_with_a_suggestion() {
        let eth = |extra: Value| {
            let mut eth = json!({"name": "eth1", "type": "ethernet", "state": "up"});
            eth.as_object_mut()
                .unwrap()
                .extend(extra.as_object().unwrap().clone());
            json!({"interfaces": [eth]})
        };
        assert_eq!(
            refusal(json!({"interface": []})),
            "interface is not known to nmstate; did you mean `interfaces`?"
        );
        assert_eq!(
            refusal(eth(json!({"mut": 1500}))),
            "interfaces[eth1].mut is not known to nmstate; did you mean `mtu`?"
        );
        assert_eq!(
            refusal(eth(json!({"ipv4": {"dchp": true}}))),
            "interfaces[eth1].ipv4.dchp is not known to nmstate; did you mean `dhcp`?"
        );
        assert_eq!(
            refusal(eth(json!({"wibble": 1}))),
            "interfaces[eth1].wibble is not known to nmstate"
        );
        assert!(
            refusal(eth(json!({"state": "upp"})))
                .starts_with("interfaces[eth1].state: \"upp\" is none of up, down, "),
            "{}",
            refusal(eth(json!({"state": "upp"})))
        );
        let bridge = json!({
            "interfaces": [
                {
                    "name": "br0", "type": "linux-bridge",
                    "bridge": {"port": [{"name": "eth1", "vlan": {"mod": "trunk"}}]}
                }
            ]
        });
        assert_eq!(
            refusal(bridge),
            "interfaces[br0].bridge.port[eth1].vlan.mod is not known to nmstate; did you mean `mode`?"
        );
        assert_eq!(
            refusal(json!({
                "routes": {"config": [{"destination": "0.0.0.0/0", "next-hop-iface": "eth1"}]}
            })),
            "routes.config[0].next-hop-iface is not known to nmstate; did you mean `next-hop-interface`?"
        );
        assert!(
            refusal(json!({"interfaces": [{"type": "ethernet"}]}))
                .contains("spec.match.interfaces")
        );
        assert!(
            refusal(json!({"interfaces": [{"name": "x", "type": "etherent"}]}))
                .contains("interfaces[x].type: etherent is no type")
        );
        assert!(
            refusal(
                json!({"interfaces": [{"name": "x", "ipv4": {"dchp": true}, "vlan": {"id": 1}}]})
            )
            .starts_with("interfaces[x].ipv4.dchp")
        );
        assert!(refusal(eth(json!({"mtu": "many"}))).starts_with("interfaces[eth1]"));
    }

    #[test]
    fn a_state_that_can_never_work_is_refused_without_the_host() {
        let address = |prefix: u8| {
            json!({"interfaces": [{"name": "eth1", "type": "ethernet", "state": "up",
            "ipv4": {
                "enabled": true, "address": [{"ip": "10.0.0.1", "prefix-length": prefix}]
            }}]})
        };
        assert!(check(&address(24)).is_ok());
        assert_eq!(
            refusal(address(33)),
            "interfaces[eth1].ipv4.address[0].prefix-length: must be 0 to 32 for IPv4, not 33"
        );
        let autoconf = |ipv6: Value| {
            json!({
                "interfaces": [{"name": "eth1", "type": "ethernet", "state": "up", "ipv6": ipv6}]
            })
        };
        assert!(
            check(&autoconf(
                json!({"enabled": true, "autoconf": true, "dhcp": true})
            ))
            .is_ok()
        );
        assert!(check(&autoconf(json!({"enabled": true, "autoconf": true}))).is_ok());
        let alone = refusal(autoconf(
            json!({"enabled": true, "autoconf": true, "dhcp": false}),
        ));
        assert!(
            alone.starts_with(
                "interfaces[eth1].ipv6.autoconf: is nothing that nmstate can do without dhcp"
            ),
            "{alone}"
        );
        let refused = |interface: Value| refusal(json!({ "interfaces": [interface] }));
        assert_eq!(
            refused(json!({
                "name": "v1", "type": "vlan", "state": "up",
                "vlan": {"base-iface": "eth1", "id": 5000}
            })),
            "interfaces[v1].vlan.id: must be 0 to 4094, not 5000"
        );
        assert_eq!(
            refused(json!({"name": "abcdefghijklmnopqrstuv", "type": "dummy", "state": "up"})),
            "interfaces[abcdefghijklmnopqrstuv].name: \"abcdefghijklmnopqrstuv\" has 22 characters, and Linux takes at most 15"
        );
        assert!(
            check(&json!({
                "interfaces": [
                    {
                        "name": "a long name of a profile", "identifier": "mac-address",
                        "mac-address": "02:00:00:00:00:01"
                    }
                ]
            }))
            .is_ok()
        );
        for name in ["enp3s0f0np0-of-the-left-card", "sriov:eth1:0"] {
            assert!(
                check(&json!({"interfaces": [{"name": name, "type": "ethernet", "state": "up"}]}))
                    .is_ok(),
                "{name}"
            );
        }
        // OVN's names. Only a link that is made has to be one of the kernel's.
        for rest in [
            json!({"state": "ignore"}),
            json!({"state": "absent"}),
            json!({"state": "up", "patch": {"peer": "patch-br-int"}}),
        ] {
            let mut port = rest.clone();
            port["name"] = "patch-br-ex_worker-0-to-br-int".into();
            port["type"] = "ovs-interface".into();
            assert!(check(&json!({ "interfaces": [port] })).is_ok(), "{rest}");
        }
        let to = |destination: &str| {
            refusal(json!({
                "routes": {
                    "config": [{"destination": destination, "next-hop-interface": "eth1"}]
                }
            }))
        };
        assert_eq!(
            to("1.2.3.4/33"),
            "routes.config[0].destination: \"1.2.3.4/33\" has a prefix that is not 0 to 32"
        );
        assert!(to("nowhere").contains("is no network"));
        // The next hop may be on the host.
        let route = json!({
            "routes": {
                "config": [
                    {
                        "destination": "10.0.0.0/8", "next-hop-interface": "eth9",
                        "next-hop-address": "10.0.0.1"
                    }
                ]
            }
        });
        assert!(check(&route).is_ok(), "{:?}", check(&route));
        assert!(check(&json!({"dns-resolver": {"config": {"server": ["192.0.2.53"]}}})).is_ok());
        let nowhere = json!({
            "routes": {"config": [{"destination": "10.0.0.0/8", "next-hop-address": "10.0.0.1"}]}
        });
        assert!(refusal(nowhere).starts_with("routes.config[0]: next-hop-interface is missing"));
    }

    #[test]
    fn additions_for_people_are_removed() {
        let reported = json!({
            "capabilities": ["ovs"],
            "interfaces": [{"name": "eth1", "type": "ethernet", "state": "up", "ifIndex": 2}]
        });
        assert!(check(&reported).is_err());
        assert!(check(&without_additions(&reported)).is_ok());
    }
}
