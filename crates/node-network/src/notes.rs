//! Hints about a desired state that is valid where no host is known, and that most hosts refuse.

use serde_json::Value;
use weft_plan::Notice;

use crate::{
    check::in_document,
    index::Index,
    listed_ports::ports,
    path::{Path, interfaces},
    ranges::LONGEST_NAME,
};

/// Returns the hints about a desired state. `field` is where it stands: `spec.desiredState`.
///
/// nmstate takes a port of Open vSwitch with a long name only on a host where another program has
/// made the port: NetworkManager's name of an interface has at most 15 characters.
pub fn desired_state(field: &str, desired: &Value) -> Vec<Notice> {
    let all_wanted = Index::of(desired);
    let mut notices = Vec::new();
    for wanted in interfaces(desired) {
        let is_up = !matches!(wanted["state"].as_str(), Some("absent" | "down" | "ignore"));
        let leaves_others = wanted["bridge"]["allow-extra-patch-ports"] == true;
        if wanted["type"] != "ovs-bridge" || !is_up || leaves_others {
            continue;
        }
        let path = Path::of_interface(wanted);
        for (place, port) in ports(&path, wanted) {
            let is_wanted = all_wanted
                .any_name(&port)
                .is_some_and(|interface| interface["state"] != "absent");
            // Only a node knows the name behind a reference.
            let is_known = !port.contains("{{");
            if is_known && !is_wanted && port.chars().count() > LONGEST_NAME {
                notices.push(Notice {
                    about: format!("{field}.{}", in_document(desired, &place)),
                    message: format!(
                        "{port:?} has more than {LONGEST_NAME} characters, so NetworkManager cannot make it, and a host on which no other program has made this port refuses the state: give the port a shorter name, or, if another program makes it, leave it out and write allow-extra-patch-ports: true"
                    ),
                });
            }
        }
    }
    notices
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LONG: &str = "patch-of-another-program";

    fn about(interfaces: Value) -> Vec<String> {
        desired_state("spec.desiredState", &json!({ "interfaces": interfaces }))
            .into_iter()
            .map(|notice| notice.about)
            .collect()
    }

    fn bridge(kind: &str, port: &str) -> Value {
        json!({
            "name": "br-x", "type": kind, "state": "up",
            "bridge": {"port": [{"name": "eth1"}, {"name": port}]}
        })
    }

    #[test]
    fn a_port_that_only_another_program_can_make_has_a_note() {
        let desired = json!([
            {"name": "br-x", "type": "ovs-interface", "state": "up"}, bridge("ovs-bridge", LONG)
        ]);
        let place = "spec.desiredState.interfaces[1].bridge.port[1]";
        assert_eq!(about(desired.clone()), [place]);
        let notices = desired_state("spec.desiredState", &json!({ "interfaces": desired }));
        assert_eq!(
            notices[0].message,
            "\"patch-of-another-program\" has more than 15 characters, so NetworkManager cannot make it, and a host on which no other program has made this port refuses the state: give the port a shorter name, or, if another program makes it, leave it out and write allow-extra-patch-ports: true"
        );
        let ports = json!([{
            "name": "br-x", "type": "ovs-bridge", "bridge": {"ports": [{"name": LONG}]}
        }]);
        assert_eq!(
            about(ports),
            ["spec.desiredState.interfaces[0].bridge.ports[0]"]
        );
        let mut bond = bridge("ovs-bridge", "bond0");
        bond["bridge"]["port"][1]["link-aggregation"] =
            json!({"mode": "balance-slb", "port": [{"name": "eth2"}, {"name": LONG}]});
        assert_eq!(
            about(json!([bond])),
            ["spec.desiredState.interfaces[0].bridge.port[1].link-aggregation.port[1]"]
        );
    }

    #[test]
    fn a_port_that_a_host_has_or_nmstate_makes_has_none() {
        let mut leaves_others = bridge("ovs-bridge", LONG);
        leaves_others["bridge"]["allow-extra-patch-ports"] = true.into();
        let mut absent = bridge("ovs-bridge", LONG);
        absent["state"] = "absent".into();
        for desired in [
            json!([bridge("ovs-bridge", "exactly-fifteen")]),
            json!([bridge("ovs-bridge", "{{ capture.port.interfaces.0.name }}")]),
            json!([bridge("linux-bridge", LONG)]),
            json!([leaves_others]),
            json!([absent]),
            json!([
                bridge("ovs-bridge", LONG),
                {"name": "eth2", "type": "ethernet", "alt-names": [{"name": LONG}]}
            ]),
        ] {
            assert_eq!(about(desired.clone()), [""; 0], "{desired}");
        }
        assert!(desired_state("spec.desiredState", &Value::Null).is_empty());
    }
}
