//! The VLANs of a Linux bridge's ports where a policy says nothing of them: all, tagged, so that
//! virtual machines behind the bridge can use any. kubernetes-nmstate has done so since its
//! beginning, and people rely on it.

use serde_json::{Value, json};

/// Options of a Linux bridge that run down by themselves.
pub(crate) const TIMERS: [&str; 2] = ["gc-timer", "hello-timer"];

/// Gives each port of a Linux bridge without `vlan` a trunk of the VLANs 2 to 4094. VLAN 1 stays
/// the untagged one. Only bridges with `state: up` written out get it, and `vlan: {}` keeps a port
/// without VLAN filtering, as in kubernetes-nmstate.
#[must_use]
pub(crate) fn default_vlans(mut desired: Value) -> Value {
    for interface in desired
        .get_mut("interfaces")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if interface["type"] != "linux-bridge" || interface["state"] != "up" {
            continue;
        }
        let ports = interface
            .get_mut("bridge")
            .and_then(|bridge| bridge.get_mut("port"));
        for port in ports.and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(port) = port.as_object_mut() {
                port.entry("vlan").or_insert_with(|| {
                    json!({
                        "mode": "trunk", "trunk-tags": [{"id-range": {"min": 2, "max": 4094}}]
                    })
                });
            }
        }
    }
    desired
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_without_vlan_get_the_trunk() {
        let trunk = json!({"mode": "trunk", "trunk-tags": [{"id-range": {"min": 2, "max": 4094}}]});
        let bridge = |state: &str, bridge: Value| {
            json!({
                "interfaces": [
                    {"name": "br1", "type": "linux-bridge", "state": state, "bridge": bridge}
                ]
            })
        };
        let own = json!({"mode": "access", "tag": 102});
        let unchanged = [
            ("no interfaces", json!({})),
            ("empty list", json!({"interfaces": []})),
            (
                "another type",
                json!({
                    "interfaces": [
                        {
                            "name": "br1", "type": "ovs-bridge", "state": "up",
                            "bridge": {"port": [{"name": "eth1"}]}
                        }
                    ]
                }),
            ),
            (
                "a bridge that goes",
                bridge("absent", json!({"port": [{"name": "eth1"}]})),
            ),
            (
                "state left out",
                json!({
                    "interfaces": [
                        {
                            "name": "br1", "type": "linux-bridge",
                            "bridge": {"port": [{"name": "eth1"}]}
                        }
                    ]
                }),
            ),
            (
                "no ports",
                bridge("up", json!({"options": {"stp": {"enabled": false}}})),
            ),
            ("empty ports", bridge("up", json!({"port": []}))),
            (
                "own VLAN",
                bridge("up", json!({"port": [{"name": "eth1", "vlan": own}]})),
            ),
            (
                "none wanted",
                bridge("up", json!({"port": [{"name": "eth1", "vlan": {}}]})),
            ),
        ];
        for (case, state) in unchanged {
            assert_eq!(default_vlans(state.clone()), state, "{case}");
        }
        assert_eq!(
            default_vlans(bridge(
                "up",
                json!({
                    "port": [{"name": "eth1", "stp-path-cost": 100}, {"name": "eth2", "vlan": own}]
                })
            )),
            bridge(
                "up",
                json!({
                    "port": [
                        {"name": "eth1", "stp-path-cost": 100, "vlan": trunk},
                        {"name": "eth2", "vlan": own}
                    ]
                })
            )
        );
    }
}
