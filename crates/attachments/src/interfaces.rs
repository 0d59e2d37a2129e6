//! The rules of plugins that make interfaces: those of containernetworking, bond-cni and ovs-cni.

use serde_json::Value;

use crate::{
    Plugin, Verdict, chain,
    go::{Shape, field, text},
};

/// The number of bytes that the name of an interface has at most, in Linux.
const INTERFACE_LENGTH: usize = 15;

/// The modes of bond-cni, which reads them by `StringToBondModeMap` of vishvananda/netlink.
const BOND_MODES: [&str; 7] = [
    "balance-rr",
    "active-backup",
    "balance-xor",
    "broadcast",
    "802.3ad",
    "balance-tlb",
    "balance-alb",
];

/// Judges the fields of a plugin by the rules of its program. An unknown program has none here.
pub(crate) fn judge(plugin: &Plugin<'_>, verdicts: &mut Vec<Verdict>) {
    let mut judge = Judge { plugin, verdicts };
    match plugin.kind() {
        "macvlan" => {
            judge.shapes(&[
                ("master", Shape::String),
                ("mode", Shape::String),
                ("mtu", Shape::Integer),
                ("mac", Shape::String),
                ("linkInContainer", Shape::Boolean),
            ]);
            judge.mode(&["bridge", "private", "vepa", "passthru"]);
            judge.interface("master");
        }
        "ipvlan" => {
            judge.shapes(&[
                ("master", Shape::String),
                ("mode", Shape::String),
                ("mtu", Shape::Integer),
                ("linkInContainer", Shape::Boolean),
            ]);
            judge.mode(&["l2", "l3", "l3s"]);
            judge.interface("master");
        }
        "vlan" => {
            judge.shapes(&[
                ("master", Shape::String),
                ("vlanId", Shape::Integer),
                ("mtu", Shape::Integer),
                ("linkInContainer", Shape::Boolean),
            ]);
            judge.vlan("vlanId", 4094);
            if chain::is_blank(field(plugin.fields, "master")) {
                let message =
                    "is missing: name the interface of the node that gets the VLAN, such as eth1";
                judge.refuse("master", message);
            }
            judge.interface("master");
        }
        // KubeVirt gives its copy of the plugin the second name.
        "bridge" | "cnv-bridge" => {
            judge.shapes(&[
                ("bridge", Shape::String),
                ("vlan", Shape::Integer),
                ("vlanTrunk", Shape::Objects),
                ("mtu", Shape::Integer),
                ("isGateway", Shape::Boolean),
                ("isDefaultGateway", Shape::Boolean),
                ("ipMasq", Shape::Boolean),
                ("hairpinMode", Shape::Boolean),
                ("promiscMode", Shape::Boolean),
                ("macspoofchk", Shape::Boolean),
                ("preserveDefaultVlan", Shape::Boolean),
                ("disableContainerInterface", Shape::Boolean),
            ]);
            judge.bridge();
            judge.vlan("vlan", 4094);
            judge.trunk();
        }
        "host-device" => {
            judge.shapes(&[
                ("device", Shape::String),
                ("hwaddr", Shape::String),
                ("kernelpath", Shape::String),
                ("pciBusID", Shape::String),
            ]);
            judge.interface("device");
        }
        "bond" => {
            judge.shapes(&[("mode", Shape::String)]);
            judge.mode(&BOND_MODES);
        }
        "ovs" => {
            judge.shapes(&[("bridge", Shape::String), ("vlan", Shape::Integer)]);
            // The column `tag` of the table Port of Open vSwitch takes one more.
            judge.vlan("vlan", 4095);
        }
        _ => {}
    }
}

struct Judge<'p, 'v> {
    plugin: &'p Plugin<'p>,
    verdicts: &'v mut Vec<Verdict>,
}

impl<'p> Judge<'p, '_> {
    fn refuse(&mut self, name: &str, message: impl Into<String>) {
        let verdict = Verdict::refused(self.plugin.path(name), message);
        self.verdicts.push(verdict);
    }

    fn text(&self, name: &str) -> &'p str {
        text(self.plugin.fields, name)
    }

    /// Refuses each field of another shape, which the program cannot read.
    fn shapes(&mut self, fields: &[(&str, Shape)]) {
        for (name, shape) in fields {
            let value = field(self.plugin.fields, name);
            if !shape.fits(value) {
                self.refuse(name, shape.mistake(value));
            }
        }
    }

    fn mode(&mut self, known: &[&str]) {
        let mode = self.text("mode");
        if !mode.is_empty() && !known.contains(&mode) {
            let message = format!(
                "{mode:?} is not known to the plugin {}: write {}",
                self.plugin.kind(),
                known.join(" or ")
            );
            self.refuse("mode", message);
        }
    }

    /// Doubts the name of an interface that exists. A long one can only be an alternative name,
    /// which the library of these plugins looks for, too (`LinkByName` of vishvananda/netlink).
    fn interface(&mut self, name: &str) {
        let interface = self.text(name);
        if interface.len() > INTERFACE_LENGTH {
            let message = format!(
                "{interface:?} has more than {INTERFACE_LENGTH} characters, so only an alternative name of an interface can be meant: write the name that ip link shows first"
            );
            let verdict = Verdict::doubtful(self.plugin.path(name), message);
            self.verdicts.push(verdict);
        }
    }

    /// Refuses the name of a bridge that the kernel cannot make (`dev_valid_name`).
    fn bridge(&mut self) {
        let bridge = self.text("bridge");
        // Without a text the plugin takes `cni0`, and an empty text is no name.
        let is_given = self
            .plugin
            .fields
            .get("bridge")
            .is_some_and(Value::is_string);
        let is_valid = (1..=INTERFACE_LENGTH).contains(&bridge.len())
            && !matches!(bridge, "." | "..")
            && !bridge.contains(|c: char| c == '/' || c == ':' || c.is_ascii_whitespace());
        if is_given && !is_valid {
            let message = format!(
                "{bridge:?} is not the name of an interface: write 1 to {INTERFACE_LENGTH} characters without blanks, '/' and ':'"
            );
            self.refuse("bridge", message);
        }
    }

    fn vlan(&mut self, name: &str, last: i64) {
        let vlan = field(self.plugin.fields, name).as_i64();
        if let Some(vlan) = vlan.filter(|vlan| !(0..=last).contains(vlan)) {
            self.refuse(name, format!("{vlan} is out of range: choose 0 to {last}"));
        }
    }

    /// Checks the VLANs of a trunk (`collectVlanTrunk` of the plugin `bridge`).
    fn trunk(&mut self) {
        let entries = field(self.plugin.fields, "vlanTrunk").as_array();
        for (index, entry) in entries.into_iter().flatten().enumerate() {
            let path = |name: &str| format!("vlanTrunk[{index}].{name}");
            let numbers = ["minID", "maxID", "id"].map(|name| (name, field(entry, name)));
            for (name, value) in numbers {
                if !Shape::Integer.fits(value) {
                    self.refuse(&path(name), Shape::Integer.mistake(value));
                } else if let Some(vlan) = value.as_i64()
                    && !(1..=4094).contains(&vlan)
                {
                    let message = format!("{vlan} is out of range: choose 1 to 4094");
                    self.refuse(&path(name), message);
                }
            }
            match [numbers[0].1, numbers[1].1] {
                [Value::Null, Value::Null] => {}
                [Value::Null, _] => self.refuse(&path("minID"), "is missing next to maxID"),
                [_, Value::Null] => self.refuse(&path("maxID"), "is missing next to minID"),
                [first, last] => {
                    if let (Some(first), Some(last)) = (first.as_i64(), last.as_i64())
                        && first > last
                    {
                        let message = format!("{last} must not be less than minID, {first}");
                        self.refuse(&path("maxID"), message);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{Config, Level};

    /// Judges a configuration: `R` before what is refused, `D` before doubts.
    fn verdicts(config: &str) -> Vec<String> {
        let config = Config::read(config).unwrap();
        let letter = |level| match level {
            Level::Refused => "R",
            Level::Unsupported => "U",
            Level::Doubtful => "D",
        };
        config
            .verdicts()
            .iter()
            .map(|verdict| format!("{} {verdict}", letter(verdict.level)))
            .collect()
    }

    #[test]
    fn a_plugin_with_values_of_its_program_has_no_verdicts() {
        for config in [
            r#"{"type": "macvlan"}"#,
            r#"{"type": "macvlan", "master": "eth1", "mode": "", "mtu": 0}"#,
            r#"{"type": "macvlan", "Master": "enp7s0.21", "mode": "passthru", "unknown": [1]}"#,
            r#"{"type": "ipvlan", "master": "eth1", "mode": "l3s"}"#,
            r#"{"type": "vlan", "master": "eth1", "vlanId": 4094}"#,
            r#"{"type": "vlan", "master": "eth1"}"#,
            r#"{"type": "bridge"}"#,
            r#"{"type": "bridge", "bridge": null, "vlan": 0}"#,
            r#"{"type": "cnv-bridge", "bridge": "br1", "vlan": 4094, "vlanTrunk": [{"minID": 1, "maxID": 4094, "id": 7}, {}], "preserveDefaultVlan": false}"#,
            r#"{"type": "host-device", "pciBusID": "0000:00:1f.6"}"#,
            r#"{"type": "bond", "mode": "802.3ad", "links": [{"name": "net1"}]}"#,
            r#"{"type": "ovs", "bridge": "br1", "vlan": 4095}"#,
            // A program of another author has rules of its own.
            r#"{"type": "ovn-k8s-cni-overlay", "mode": "l9", "vlan": "x", "master": 7, "bridge": "far-too-long-a-name"}"#,
        ] {
            assert_eq!(verdicts(config), [""; 0], "{config}");
        }
    }

    #[test]
    fn a_value_that_the_program_refuses_is_named_with_rule_and_fix() {
        let long = "sixteen-letters-";
        for (config, expected) in [
            (
                r#"{"type": "macvlan", "mode": "Bridge"}"#.to_owned(),
                vec![r#"R mode "Bridge" is not known to the plugin macvlan: write bridge or private or vepa or passthru"#.to_owned()],
            ),
            (
                r#"{"plugins": [{"type": "tuning"}, {"type": "ipvlan", "mode": "l4"}]}"#.to_owned(),
                vec![r#"R plugins[1].mode "l4" is not known to the plugin ipvlan: write l2 or l3 or l3s"#.to_owned()],
            ),
            (
                r#"{"type": "bond", "mode": "1"}"#.to_owned(),
                vec![r#"R mode "1" is not known to the plugin bond: write balance-rr or active-backup or balance-xor or broadcast or 802.3ad or balance-tlb or balance-alb"#.to_owned()],
            ),
            (
                format!(r#"{{"type": "macvlan", "master": "{long}"}}"#),
                vec![format!(r#"D master "{long}" has more than 15 characters, so only an alternative name of an interface can be meant: write the name that ip link shows first"#)],
            ),
            (
                format!(r#"{{"type": "bridge", "bridge": "{long}"}}"#),
                vec![format!(r#"R bridge "{long}" is not the name of an interface: write 1 to 15 characters without blanks, '/' and ':'"#)],
            ),
            (
                r#"{"type": "bridge", "bridge": "br 1", "vlan": 4095}"#.to_owned(),
                vec![
                    r#"R bridge "br 1" is not the name of an interface: write 1 to 15 characters without blanks, '/' and ':'"#.to_owned(),
                    "R vlan 4095 is out of range: choose 0 to 4094".to_owned(),
                ],
            ),
            (
                r#"{"type": "bridge", "vlan": "100", "isGateway": "true", "mtu": 1.5}"#.to_owned(),
                vec![
                    r#"R vlan must be a whole number, not "100": remove the quotes"#.to_owned(),
                    "R mtu must be a whole number, not 1.5".to_owned(),
                    r#"R isGateway must be a boolean, not "true": remove the quotes"#.to_owned(),
                ],
            ),
            (
                r#"{"type": "bridge", "vlanTrunk": [{"minID": 0, "maxID": 4095}, {"minID": 9, "maxID": 3}, {"maxID": 2}, {"minID": 2}, {"id": "7"}]}"#.to_owned(),
                vec![
                    "R vlanTrunk[0].minID 0 is out of range: choose 1 to 4094".to_owned(),
                    "R vlanTrunk[0].maxID 4095 is out of range: choose 1 to 4094".to_owned(),
                    "R vlanTrunk[1].maxID 3 must not be less than minID, 9".to_owned(),
                    "R vlanTrunk[2].minID is missing next to maxID".to_owned(),
                    "R vlanTrunk[3].maxID is missing next to minID".to_owned(),
                    r#"R vlanTrunk[4].id must be a whole number, not "7": remove the quotes"#.to_owned(),
                ],
            ),
            (
                r#"{"type": "vlan", "vlanId": -1}"#.to_owned(),
                vec![
                    "R vlanId -1 is out of range: choose 0 to 4094".to_owned(),
                    "R master is missing: name the interface of the node that gets the VLAN, such as eth1".to_owned(),
                ],
            ),
            (
                r#"{"type": "ovs", "bridge": 1, "vlan": 4096}"#.to_owned(),
                vec![
                    "R bridge must be a string, not 1: put it in quotes".to_owned(),
                    "R vlan 4096 is out of range: choose 0 to 4095".to_owned(),
                ],
            ),
            (
                format!(r#"{{"type": "host-device", "device": "{long}"}}"#),
                vec![format!(r#"D device "{long}" has more than 15 characters, so only an alternative name of an interface can be meant: write the name that ip link shows first"#)],
            ),
            (
                r#"{"type": "macvlan", "cniVersion": "1.2.0"}"#.to_owned(),
                vec![r#"U cniVersion "1.2.0" must be 0.1.0 or 0.2.0 or 0.3.0 or 0.3.1 or 0.4.0 or 1.0.0 or 1.1.0"#.to_owned()],
            ),
            (
                "[1]".to_owned(),
                vec!["R must be a JSON object: begin it with { and end it with }".to_owned()],
            ),
        ] {
            assert_eq!(verdicts(&config), expected, "{config}");
        }
    }
}
