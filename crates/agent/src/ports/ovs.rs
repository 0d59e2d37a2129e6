//! Pods' ports of OVS bridges: rows that ovs-cni has written into Open vSwitch's database once. A
//! change of the bridge leaves them alone, but they go with its row. A program that recreates the
//! bridge does not know of them, and neither does a rollback of its deletion.
//!
//! The agent attaches the host's end of an existing veth pair. The representor of a virtual
//! function (SR-IOV) outlasts its pod, so its existence does not show that a pod still uses it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Attachment, Error, Reattached};
use crate::{
    host::{Host, HostError, Seen},
    state_dir::{self, StateDir},
};

const FILE: &str = "ovs-ports.json";

/// `external_ids:owner` of what ovs-cni has written.
const OWNER: &str = "ovs-cni.network.kubevirt.io";
/// `external_ids` of a port that was put back. ovs-cni removes a port when its pod goes, and then
/// the device. Nobody else would remove a port that is put back in between.
const PUT_BACK: &str = "weft.network/put-back";

/// Columns of a port that are configuration and refer to no other rows (ovs-vswitchd.conf.db(5)).
const PORT_COLUMNS: [&str; 8] = [
    "cvlans",
    "external_ids",
    "mac",
    "other_config",
    "protected",
    "tag",
    "trunks",
    "vlan_mode",
];
/// The same of an interface.
const INTERFACE_COLUMNS: [&str; 9] = [
    "external_ids",
    "ingress_policing_burst",
    "ingress_policing_rate",
    "mac",
    "mtu_request",
    "ofport_request",
    "options",
    "other_config",
    "type",
];

type Columns = Map<String, Value>;

/// A pod's port, and how it is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Port {
    /// The index of its device. Together with the name it distinguishes a device from a later one
    /// of the same name.
    index: u32,
    name: String,
    bridge: String,
    port: Columns,
    interface: Columns,
}

/// All pods' ports of the OVS bridges that policies shape, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    ports: BTreeMap<String, Port>,
}

impl Memory {
    /// Loads the notes of an earlier process.
    ///
    /// # Errors
    /// The agent's folder cannot be read.
    pub fn load(dir: &StateDir) -> Result<Self, state_dir::Error> {
        Ok(dir.read(FILE)?.unwrap_or_default())
    }

    /// The names of the ports that are remembered.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.ports.keys().map(String::as_str)
    }

    /// Looks at Open vSwitch's database, puts back each port that is known and has lost its bridge
    /// while bridge and device are there, takes out again what was put back for a pod that has
    /// gone, and remembers how things are. `bridges` are those that policies name, next to those
    /// remembered, where there are none, or no Open vSwitch, nobody is asked.
    ///
    /// # Errors
    /// The host cannot be asked, or what is known cannot be kept.
    pub async fn reconcile(
        &mut self,
        dir: &StateDir,
        host: &dyn Host,
        bridges: &BTreeSet<String>,
    ) -> Result<Reattached, Error> {
        let mut reattached = Reattached::default();
        if bridges.is_empty() && self.ports.is_empty() {
            return Ok(reattached);
        }
        let Some(mut switch) = Switch::read(host).await? else {
            return Ok(reattached);
        };
        let seen = host.links().await?;
        let orphans: Vec<Value> = switch.orphans(&seen).map(|row| detach(&row.uuid)).collect();
        let mut is_changed = !orphans.is_empty();
        if is_changed {
            host.ovsdb(orphans).await?;
        }
        for port in self.lost(&switch, &seen) {
            let attachment = Attachment {
                port: port.name.clone(),
                bridge: port.bridge.clone(),
            };
            match host.ovsdb(attach(port)).await {
                Ok(_) => reattached.done.push(attachment),
                Err(error) => reattached.failed.push((attachment, error.to_string())),
            }
        }
        is_changed |= !reattached.done.is_empty();
        if is_changed {
            switch = Switch::read(host).await?.unwrap_or_default();
        }
        let now = self.after(&switch, &seen, bridges);
        if now != *self {
            dir.write(FILE, &now)?;
            *self = now;
        }
        Ok(reattached)
    }

    /// Known ports whose device is there and that no bridge has, while theirs is there.
    fn lost(&self, switch: &Switch, seen: &Seen) -> Vec<&Port> {
        let is_lost = |port: &&Port| {
            seen.pod_end(port.index, &port.name).is_some()
                && !switch.ports.contains_key(&port.name)
                && switch.bridges.contains(&port.bridge)
        };
        self.ports.values().filter(is_lost).collect()
    }

    /// Returns the ports to remember: attached ports, and the last attachment of the others.
    fn after(&self, switch: &Switch, seen: &Seen, bridges: &BTreeSet<String>) -> Self {
        let known: BTreeSet<&str> = self
            .ports
            .values()
            .map(|port| port.bridge.as_str())
            .collect();
        let port = |index: u32, name: &str| match switch.ports.get(name) {
            Some(row) => {
                let bridge = row.bridge.as_ref().filter(|bridge| {
                    bridges.contains(*bridge) || known.contains(bridge.as_str())
                })?;
                let (port, interface) = (row.port.clone(), row.interface.clone());
                row.is_pods().then(|| Port {
                    index,
                    name: name.to_owned(),
                    bridge: bridge.clone(),
                    port,
                    interface,
                })
            }
            None => self
                .ports
                .get(name)
                .filter(|port| port.index == index)
                .cloned(),
        };
        let ports = seen
            .pod_ends()
            .filter_map(|link| Some((link.name.clone(), port(link.index, &link.name)?)));
        Self {
            ports: ports.collect(),
        }
    }
}

/// Bridges and ports in Open vSwitch's database at one time.
#[derive(Clone, Debug, Default)]
struct Switch {
    bridges: BTreeSet<String>,
    /// By name, which no two have.
    ports: BTreeMap<String, Row>,
}

#[derive(Clone, Debug)]
struct Row {
    uuid: String,
    bridge: Option<String>,
    port: Columns,
    /// Of the interface that has its name. A bond has several others, a pod's port only this.
    interface: Columns,
}

impl Row {
    /// A port that ovs-cni has made for a pod: its tunnels between nodes have no interface in a
    /// container.
    fn is_pods(&self) -> bool {
        let ids = map(&self.port["external_ids"]);
        ids.get("owner") == Some(&OWNER)
            && ids.get("contIface").is_some_and(|name| !name.is_empty())
    }
}

impl Switch {
    /// `None` where there is no Open vSwitch.
    async fn read(host: &dyn Host) -> Result<Option<Self>, HostError> {
        let select = |table: &str, own: &[&str], more: &[&str]| {
            let columns: Vec<&str> = [own, more].concat();
            json!({"op": "select", "table": table, "where": [], "columns": columns})
        };
        let operations = vec![
            select("Bridge", &["name", "ports"], &[]),
            select("Port", &["_uuid", "name"], &PORT_COLUMNS),
            select("Interface", &["name"], &INTERFACE_COLUMNS),
        ];
        Ok(host
            .ovsdb(operations)
            .await?
            .map(|results| Self::of(&results)))
    }

    fn of(results: &[Value]) -> Self {
        let rows = |index: usize| {
            results
                .get(index)
                .and_then(|result| result["rows"].as_array())
                .into_iter()
                .flatten()
        };
        let name = |row: &Value| row["name"].as_str().unwrap_or_default().to_owned();
        let bridge_of: BTreeMap<&str, String> = rows(0)
            .flat_map(|bridge| {
                references(&bridge["ports"])
                    .into_iter()
                    .map(|port| (port, name(bridge)))
            })
            .collect();
        let mut interfaces: BTreeMap<String, Columns> = rows(2)
            .map(|row| (name(row), only(row, &INTERFACE_COLUMNS)))
            .collect();
        let ports = rows(1).filter_map(|row| {
            let uuid = row["_uuid"][1].as_str()?;
            let interface = interfaces.remove(&name(row)).unwrap_or_default();
            let bridge = bridge_of.get(uuid).cloned();
            Some((
                name(row),
                Row {
                    uuid: uuid.to_owned(),
                    bridge,
                    port: only(row, &PORT_COLUMNS),
                    interface,
                },
            ))
        });
        let ports = ports.collect();
        Self {
            bridges: rows(0).map(name).collect(),
            ports,
        }
    }

    /// Ports that were put back for a pod that was going just then.
    fn orphans<'a>(&'a self, seen: &'a Seen) -> impl Iterator<Item = &'a Row> {
        let is_orphan = |(name, row): &(&String, &Row)| {
            row.is_pods()
                && map(&row.port["external_ids"]).contains_key(PUT_BACK)
                && !seen.is_there(name)
        };
        self.ports.iter().filter(is_orphan).map(|(_, row)| row)
    }
}

/// A port that no bridge has is no more (ovsdb-server(7): rows that nothing refers to, of tables
/// that are no roots).
fn detach(port: &str) -> Value {
    let port = json!(["uuid", port]);
    json!({
        "op": "mutate", "table": "Bridge", "where": [["ports", "includes", port]],
        "mutations": [["ports", "delete", port]]
    })
}

/// Attaches a port to its bridge as it was attached, if the bridge is there and no port has its
/// name.
fn attach(port: &Port) -> Vec<Value> {
    let row = |columns: &Columns, more: Value| {
        let mut row = columns.clone();
        row.insert("name".to_owned(), json!(port.name));
        row.extend(more.as_object().cloned().unwrap_or_default());
        row
    };
    let mut ids = map(&port.port["external_ids"]);
    ids.insert(PUT_BACK, "true");
    let ids: Vec<(&str, &str)> = ids.into_iter().collect();
    let of_port = row(
        &port.port,
        json!({"interfaces": ["named-uuid", "interface"], "external_ids": ["map", ids]}),
    );
    let bridge = json!([["name", "==", port.bridge]]);
    vec![
        json!({"op": "wait", "timeout": 0, "table": "Bridge", "where": bridge, "columns": ["name"], "until": "==",
            "rows": [{"name": port.bridge}]}),
        json!({
            "op": "insert", "table": "Interface", "uuid-name": "interface",
            "row": row(&port.interface, json!({}))
        }),
        json!({"op": "insert", "table": "Port", "uuid-name": "port", "row": of_port}),
        json!({
            "op": "mutate", "table": "Bridge", "where": bridge,
            "mutations": [["ports", "insert", ["named-uuid", "port"]]]
        }),
    ]
}

fn only(row: &Value, columns: &[&str]) -> Columns {
    columns
        .iter()
        .filter_map(|&column| Some((column.to_owned(), row.get(column)?.clone())))
        .collect()
}

/// `["map", [["key", "value"], …]]` (RFC 7047, 5.1).
fn map(value: &Value) -> BTreeMap<&str, &str> {
    let pairs = value[1].as_array().into_iter().flatten();
    pairs
        .filter_map(|pair| Some((pair[0].as_str()?, pair[1].as_str()?)))
        .collect()
}

/// `["uuid", "…"]`, or `["set", […]]` of them: one alone stands without its set.
fn references(value: &Value) -> Vec<&str> {
    let set = value[1].as_array().filter(|_| value[0] == "set");
    set.map_or_else(|| vec![value], |set| set.iter().collect())
        .into_iter()
        .filter_map(|reference| reference[1].as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::links::{Link, Settings};

    fn links(ends: &[(u32, &str)]) -> Seen {
        let link = |&(index, name): &(u32, &str)| Link {
            index,
            name: name.to_owned(),
            is_bridge: false,
            is_pod_end: name.starts_with("veth"),
            up: true,
            master: None,
            settings: Settings::default(),
        };
        Seen::new(ends.iter().map(link))
    }

    /// As ovsdb-server answers: `br1` with these ports, each with its `external_ids`.
    fn switch(ports: &[(&str, Value)]) -> Switch {
        let uuids: Vec<_> = ports
            .iter()
            .map(|(name, _)| json!(["uuid", format!("of {name}")]))
            .collect();
        let all = if let [one] = &uuids[..] {
            one.clone()
        } else {
            json!(["set", uuids])
        };
        let port = |(name, ids): &(&str, Value)| {
            json!({
                "_uuid": ["uuid", format!("of {name}")], "name": name, "tag": 7,
                "external_ids": ["map", ids]
            })
        };
        let interface = |(name, _): &(&str, Value)| {
            json!({
                "name": name, "type": "", "ofport_request": ["set", []]
            })
        };
        Switch::of(&[
            json!({"rows": [{"name": "br1", "ports": all}]}),
            json!({"rows": ports.iter().map(port).collect::<Vec<_>>()}),
            json!({"rows": ports.iter().map(interface).collect::<Vec<_>>()}),
        ])
    }

    fn pods() -> Value {
        json!([
            ["contIface", "net1"],
            ["contNetns", "/run/netns/a"],
            ["owner", OWNER]
        ])
    }

    fn remembered(switch: &Switch, seen: &Seen) -> Memory {
        Memory::default().after(switch, seen, &BTreeSet::from(["br1".to_owned()]))
    }

    #[test]
    fn only_what_ovs_cni_has_attached_for_a_pod_is_remembered() {
        let seen = links(&[
            (3, "eth1"),
            (4, "vetha"),
            (5, "vethb"),
            (6, "vethc"),
            (7, "vf0"),
        ]);
        let tunnel = json!([["contIface", ""], ["owner", OWNER]]);
        let all = switch(&[
            ("eth1", json!([])),
            ("vetha", pods()),
            ("vethb", json!([["owner", "me"]])),
            ("vethc", tunnel),
            ("vf0", pods()),
        ]);
        assert_eq!(
            remembered(&all, &seen).names().collect::<Vec<_>>(),
            ["vetha"]
        );
        assert_eq!(
            Memory::default().after(&all, &seen, &BTreeSet::new()),
            Memory::default(),
            "no policy names the bridge"
        );
    }

    #[test]
    fn a_port_is_put_back_as_it_was_when_its_bridge_has_it_no_more() {
        let (seen, attached) = (links(&[(4, "vetha")]), switch(&[("vetha", pods())]));
        let memory = remembered(&attached, &seen);
        assert!(memory.lost(&attached, &seen).is_empty());
        let gone = Switch::default();
        assert!(
            memory.lost(&gone, &seen).is_empty(),
            "there is nothing to attach it to"
        );
        assert_eq!(
            memory.after(&gone, &seen, &BTreeSet::new()),
            memory,
            "it is remembered meanwhile"
        );
        let anew = switch(&[]);
        let lost = memory.lost(&anew, &seen);
        let operations = attach(lost[0]);
        let (interface, port) = (&operations[1]["row"], &operations[2]["row"]);
        assert_eq!(
            *interface,
            json!({"name": "vetha", "type": "", "ofport_request": ["set", []]})
        );
        assert_eq!((&port["name"], &port["tag"]), (&json!("vetha"), &json!(7)));
        let ids = map(&port["external_ids"]);
        assert_eq!(
            (ids["contNetns"], ids["owner"], ids[PUT_BACK]),
            ("/run/netns/a", OWNER, "true")
        );
    }

    #[test]
    fn a_pod_that_has_gone_gets_nothing_back() {
        let memory = remembered(&switch(&[("vetha", pods())]), &links(&[(4, "vetha")]));
        for seen in [links(&[]), links(&[(5, "vetha")])] {
            assert!(memory.lost(&switch(&[]), &seen).is_empty());
            assert_eq!(
                memory.after(&switch(&[]), &seen, &BTreeSet::new()),
                Memory::default()
            );
        }
    }

    #[test]
    fn a_port_put_back_for_a_pod_that_was_going_is_removed_again() {
        let mut ids = pods();
        ids.as_array_mut()
            .into_iter()
            .for_each(|ids| ids.push(json!([PUT_BACK, "true"])));
        let rows = switch(&[("vetha", ids), ("vethb", pods())]);
        let orphans = |seen: &Seen| {
            rows.orphans(seen)
                .map(|row| row.uuid.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(orphans(&links(&[(4, "vetha")])), Vec::<String>::new());
        assert_eq!(
            orphans(&links(&[])),
            ["of vetha"],
            "the other is for ovs-cni to remove"
        );
    }
}
