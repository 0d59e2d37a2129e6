//! Ports of bridges that can be the connection of a pod, and those that cannot.

use serde_json::Value;

use crate::{index::Index, path::text};

/// Reports whether a veth with this name is the card of a host that is itself a container.
///
/// LXC, Docker and kind call the cards of a container `eth0`, `eth1` and so on. No CNI plugin gives
/// such a name to the host's end of a pod's pair. NetworkManager's udev rules
/// (`85-nm-unmanaged.rules`) distinguish them nearly so: they leave alone each veth whose name is not `eth` and a digit.
pub fn is_card_name(name: &str) -> bool {
    name.strip_prefix("eth").is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Reports whether a port can be the connection of a pod or a virtual machine. Those come and go
/// with their pods, and are no drift.
pub(crate) fn may_be_a_pods(name: Option<&str>, host: &Index) -> bool {
    let port = name.and_then(|name| host.name(name));
    port.is_none_or(|port| {
        port["state"] == "ignore"
            || match port["type"].as_str() {
                Some("veth") => !is_of_the_host(port),
                Some("tun" | "unknown") | None => true,
                Some(_) => false,
            }
    })
}

/// Reports whether a veth has no pod behind it. nmstate reports the other end of a pair only if it
/// is on the host, and LLDP only of an interface that is configured: by a profile of
/// NetworkManager, or without NetworkManager by a change of the agent.
fn is_of_the_host(veth: &Value) -> bool {
    veth["veth"]["peer"].is_string()
        || veth["lldp"].is_object()
        || is_card_name(&text(&veth["name"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::drift::differences;

    fn bridge(ports: &[&str]) -> Value {
        let ports: Vec<_> = ports.iter().map(|port| json!({ "name": port })).collect();
        json!({"name": "br5", "type": "linux-bridge", "state": "up", "bridge": {"port": ports}})
    }

    #[test]
    fn a_port_without_a_pod_behind_it_leaves_and_any_other_stays() {
        let veth = |name: &str, rest: Value| {
            let mut veth = json!({"name": name, "type": "veth", "state": "up"});
            veth.as_object_mut()
                .unwrap()
                .extend(rest.as_object().unwrap().clone());
            veth
        };
        // The ports that an apply of the bridge without ports detaches.
        let said = |port: &Value| {
            let current = json!({"interfaces": [port, bridge(&[&text(&port["name"])])]});
            let desired = json!({"interfaces": [bridge(&[])]});
            let found = differences(&desired, &current);
            found.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for leaving in [
            // Both ends are on the host.
            veth("va", json!({"veth": {"peer": "vb"}})),
            // The cards of a container.
            veth("eth1", json!({})),
            veth("eth12", json!({})),
            // Somebody has configured it.
            veth("net1", json!({"lldp": {"enabled": false}})),
            json!({"name": "enp1s0", "type": "ethernet", "state": "up"}),
        ] {
            let name = text(&leaving["name"]);
            assert_eq!(
                said(&leaving),
                [format!(
                    "interfaces[br5].bridge.port[{name}]: \"a port\" should not be there"
                )]
            );
        }
        for staying in [
            veth("veth12ab", json!({})),
            veth("ethernet", json!({})),
            veth("eth0-too-abc123", json!({})),
            veth("net1", json!({})),
            veth("eth1", json!({"state": "ignore"})),
            json!({"name": "tap0", "type": "tun", "state": "up"}),
        ] {
            assert_eq!(said(&staying), [""; 0], "{staying}");
        }
    }
}
