//! The preview of policies on a node, for people.

use crate::{
    bonding::Part,
    capture::Captures,
    claims::{Layer, Owner, Rank},
    consequences::{Applier, Consequence, consequences_of},
    drift::Difference,
    feasible::refusals,
    form, hidden,
    index::Index,
    kernel_subset,
    lifelines::{self, Lifeline, touched, warning},
    losses::left_on_ports,
    merge::{Conflict, merge},
    normalise::Filter,
    path::{Path, entries, interface_key, interfaces, text},
    references::Names,
    removal::{changes_of, leave_leases},
    render::{Given, own, render},
    resolve::other_names_of,
    secrets::{self, HIDDEN},
    select::select,
    static_addresses::static_addresses,
    values::{References, Source, annotations},
    verdict::verdict,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};
use weft_api::node_network::{NodeNetworkConfigurationPolicySpec as Spec, NodeValues, PoolAddress};
use weft_plan::secrets::{has_mask, masked_at, values as secret_values, without};

/// Known facts about a node.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels and annotations. `None` if they are not known, and then every policy counts as
    /// meant for it.
    pub metadata: Option<Metadata>,
    /// Its network, as its NodeNetworkState reports it or nmstate says.
    pub current: Value,
    /// The wishes of its NodeNetworkState.
    pub own: Option<Value>,
    /// True if `current` leaves out interfaces, so that one that is missing there can exist.
    pub partial: bool,
    /// The names by which `current` leaves out interfaces, if it leaves out some.
    pub filter: Option<Filter>,
    /// True if the agent changes it through the kernel, without NetworkManager.
    pub kernel: bool,
    /// The results of finished policies, by policy.
    pub done: BTreeMap<String, Done>,
    /// Its addresses of pools, by policy, or why it has none.
    pub addresses: BTreeMap<String, Result<BTreeMap<String, PoolAddress>, String>>,
}

/// Labels, annotations and addresses of a node.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Those of its annotations that can be values in a desired state.
    pub annotations: BTreeMap<String, String>,
    /// The addresses by which the cluster knows it: those of type `InternalIP`.
    pub addresses: BTreeSet<String>,
}

impl Metadata {
    /// Reads a Node object.
    pub fn of(object: &Value) -> Self {
        let addresses = entries(&object["status"]["addresses"]).iter();
        let addresses = addresses.filter(|address| address["type"] == "InternalIP");
        Self {
            labels: serde_json::from_value(object["metadata"]["labels"].clone())
                .unwrap_or_default(),
            annotations: annotations(object),
            addresses: addresses.map(|address| text(&address["address"])).collect(),
        }
    }
}

/// The result of a finished policy on a node. Its captures are not carried out again, as what they
/// have found has moved.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// The desired state that it has made.
    pub desired: Value,
    /// The results of its captures.
    pub captures: Captures,
    /// The values that were granted with it.
    pub values: NodeValues,
}

/// A change, and who wants it.
#[derive(Clone, Debug, PartialEq)]
struct Change {
    /// The difference.
    difference: Difference,
    /// The owners of the wish. Empty if it follows from several.
    owners: BTreeSet<Owner>,
}

/// The preview of policies on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The node.
    pub(crate) node: String,
    /// True if nothing is known of its network, so that nobody can say what would change.
    pub is_unknown: bool,
    /// Policies that are not meant for it, and why.
    unselected: BTreeMap<String, String>,
    /// Policies that make no desired state there, and why.
    pub(crate) failed: BTreeMap<String, String>,
    /// Contradictions between policies. None of them would be applied as it is now.
    pub(crate) conflicts: Vec<Conflict>,
    /// The part of each card in automatic bonding, by policy.
    cards: BTreeMap<String, BTreeMap<String, Part>>,
    /// The host's refusals, each with its place first. With one of them nothing changes.
    pub(crate) refusals: Vec<String>,
    /// The changes.
    changes: Vec<Change>,
    /// The wanted interfaces that the report can have left out, and their owners.
    pub(crate) hidden: BTreeMap<String, BTreeSet<Owner>>,
    /// The names on the host of wanted interfaces that have another name there.
    other_names: BTreeMap<String, String>,
    /// The interfaces that the node needs and that the changes touch.
    lifelines: Vec<Lifeline>,
    /// The static addresses that each policy wants, by policy.
    pub(crate) addresses: BTreeMap<String, BTreeSet<String>>,
    /// All that is wanted of the node.
    pub(crate) desired: Value,
    /// The owners of each wanted property.
    pub(crate) owners: BTreeMap<Path, BTreeSet<Owner>>,
}

/// Plans these policies, by name, on a node. References to secrets are not looked up: they count as
/// being as they should.
pub fn plan(node: &Node, policies: &BTreeMap<String, Spec>) -> Plan {
    let mut plan = Plan {
        node: node.name.clone(),
        ..Plan::default()
    };
    let current = form::of_host(&node.current);
    let host = Index::of(&current);
    let mut layers = Vec::new();
    for (name, spec) in policies {
        if let Some(reason) = node
            .metadata
            .as_ref()
            .and_then(|known| select(spec, &known.labels).err())
        {
            plan.unselected.insert(name.clone(), reason.to_string());
            continue;
        }
        let rank = Rank::Policy(spec.priority.unwrap_or_default());
        match desired(node, name, spec, &current) {
            Ok((state, cards)) => {
                if !cards.is_empty() {
                    plan.cards.insert(name.clone(), cards);
                }
                plan.addresses
                    .insert(name.clone(), static_addresses(&state));
                layers.push(Layer {
                    owner: Owner::Policy(name.clone()),
                    rank,
                    state,
                });
            }
            Err(error) => drop(plan.failed.insert(name.clone(), error)),
        }
    }
    match node.own.as_ref().map(own) {
        Some(Ok(state)) => layers.push(Layer {
            owner: Owner::Node,
            rank: Rank::Node,
            state,
        }),
        Some(Err(error)) => drop(
            plan.failed
                .insert(Owner::Node.to_string(), error.to_string()),
        ),
        None => {}
    }
    let merged = merge(&layers);
    // As the host reports it, so that nobody waits for a difference that cannot be seen.
    let hidden = secrets::mask(&merged.state, HIDDEN);
    let formed = form::of_desired(&hidden, &host);
    let names = Names::of(&formed, &host);
    let mut hidden = formed.clone();
    names.rename(&mut hidden);
    let mut differences = changes_of(&hidden, &host);
    leave_leases(&mut differences, &hidden, &host);
    if node.kernel {
        differences.extend(left_on_ports(&hidden, &current));
    }
    let applier = match node.kernel {
        true => Applier::Kernel,
        false => Applier::NetworkManager,
    };
    let consequences = consequences_of(&hidden, &host, &differences, Some(applier));
    plan.lifelines = touched(
        differences
            .iter()
            .chain(consequences.iter().map(|one| &one.difference)),
        &current,
        &node
            .metadata
            .as_ref()
            .map(|known| known.addresses.clone())
            .unwrap_or_default(),
    );
    let hidden_keys = node.filter.as_ref();
    let hidden_keys = hidden_keys.map(|filter| hidden::wanted(&formed, &host, filter));
    let hidden_keys = hidden_keys.unwrap_or_default();
    for mut difference in differences {
        names.restore(&mut difference.path);
        let is_hidden = |key: &str| hidden_keys.contains(key);
        // An interface that the report leaves out can be there.
        if difference.found.is_null() && difference.path.whole_interface().is_some_and(is_hidden) {
            continue;
        }
        let owners = owners_at(&merged.owners, &difference.path);
        plan.changes.push(Change { difference, owners });
    }
    for Consequence {
        mut difference,
        mut of,
    } in consequences
    {
        names.restore(&mut difference.path);
        names.restore(&mut of);
        let owners = owners_at(&merged.owners, &of);
        plan.changes.push(Change { difference, owners });
    }
    if !node.partial {
        let filter = node.filter.as_ref();
        let filled = filter.and_then(|filter| hidden::with_stand_ins(&formed, &host, filter));
        let filled = filled.as_ref().map(Index::of);
        let host = filled.as_ref().unwrap_or(&host);
        let mut found = refusals(&formed, host);
        if found.is_empty() {
            found = verdict(&formed, Some(host.state));
        }
        if node.kernel {
            found.extend(kernel_subset::refusals_of(&formed, host));
        }
        plan.refusals = found.iter().map(ToString::to_string).collect();
    }
    plan.hide(&in_clear(node, policies));
    for key in hidden_keys {
        let place = Path::default().key("interfaces").item(&key);
        let owners = owners_at(&merged.owners, &place);
        plan.hidden.insert(key, owners);
    }
    plan.other_names = other_names_of(&formed, &host);
    plan.conflicts = merged.conflicts;
    plan.desired = merged.state;
    plan.owners = merged.owners;
    plan
}

/// The secrets in policies and reports, which a message may quote.
fn in_clear(node: &Node, policies: &BTreeMap<String, Spec>) -> BTreeSet<String> {
    let wanted = policies
        .values()
        .filter_map(|spec| spec.desired_state.as_ref());
    let done = node.done.values().map(|done| &done.desired);
    wanted
        .chain(&node.own)
        .chain(done)
        .chain([&node.current])
        .flat_map(secret_values)
        .collect()
}

/// The owners of a place: of all that covers it, and of all that is below it.
pub(crate) fn owners_at(owners: &BTreeMap<Path, BTreeSet<Owner>>, place: &Path) -> BTreeSet<Owner> {
    let above = (0..place.0.len()).filter_map(|end| owners.get(&Path(place.0[..end].to_vec())));
    // Paths are in order, so what is below one follows it.
    let below = owners
        .range::<Path, _>(place..)
        .take_while(|(path, _)| place.covers(path))
        .map(|(_, owners)| owners);
    above.chain(below).flatten().cloned().collect()
}

/// The desired state of a policy on a node, and the part of each card in automatic bonding.
fn desired(
    node: &Node,
    policy: &str,
    spec: &Spec,
    current: &Value,
) -> Result<(Value, BTreeMap<String, Part>), String> {
    let values = values(node, policy, spec)?;
    let done = node.done.get(policy).filter(|_| spec.capture.is_some());
    // An enactment shows no secrets, and the policy has them.
    let is_whole = |done: &&Done| done.values == values && !has_mask(&done.desired);
    if let Some(done) = done.filter(is_whole) {
        return Ok((done.desired.clone(), BTreeMap::new()));
    }
    let given = Given {
        values,
        captures: done.map(|done| done.captures.clone()),
        ..Given::default()
    };
    let rendered = render(spec, current, &given).map_err(|error| error.to_string())?;
    Ok((rendered.desired, rendered.cards))
}

/// The values of a node that a policy refers to.
fn values(node: &Node, policy: &str, spec: &Spec) -> Result<NodeValues, String> {
    let references = References::of(spec.desired_state.as_ref().unwrap_or(&Value::Null));
    let known = match &node.metadata {
        Some(known) => known,
        None if references.is_of_metadata() => {
            return Err(format!(
                "spec.desiredState refers to labels or annotations of the node {0}, and these are not known here: add its Node object, kubectl get node {0} -o yaml",
                node.name
            ));
        }
        None => &Metadata::default(),
    };
    let addresses = match node.addresses.get(policy) {
        Some(Err(problem)) => return Err(problem.clone()),
        Some(Ok(addresses)) => addresses,
        None => &BTreeMap::new(),
    };
    let values = references.of_node(Source {
        name: &node.name,
        labels: &known.labels,
        annotations: &known.annotations,
        addresses,
    });
    values.map_err(|lack| lack.message)
}

impl Plan {
    /// Takes these secrets out of messages.
    fn hide(&mut self, secrets: &BTreeSet<String>) {
        let failed = self.failed.values_mut();
        for text in failed.chain(&mut self.refusals) {
            *text = without(text, secrets);
        }
    }

    /// The plan of a node that reports nothing, where one of these policies is meant for it.
    pub fn unknown(
        node: &str,
        labels: &BTreeMap<String, String>,
        policies: &BTreeMap<String, Spec>,
    ) -> Option<Self> {
        let is_meant = policies.values().any(|spec| select(spec, labels).is_ok());
        is_meant.then(|| Self {
            node: node.to_owned(),
            is_unknown: true,
            ..Self::default()
        })
    }

    /// Reports whether anything would change, or cannot.
    pub fn says_something(&self) -> bool {
        !(self.changes.is_empty()
            && self.conflicts.is_empty()
            && self.failed.is_empty()
            && self.refusals.is_empty()
            && self.hidden.is_empty())
    }

    /// For people: a line a change, below the name of the node. The first line warns of changes of
    /// an interface that the node needs.
    pub fn text(&self) -> String {
        let warning = warning(&self.lifelines);
        let warning = warning.map_or_else(String::new, |warning| format!(": {warning}"));
        let mut out = format!("{}{warning}\n", self.node);
        if self.is_unknown {
            line(
                &mut out,
                "? unknown: the node has no NodeNetworkState, so its agent does not run or has not reported yet",
            );
            return out;
        }
        for (policy, reason) in &self.failed {
            line(&mut out, &format!("! {policy}: {reason}"));
        }
        for conflict in &self.conflicts {
            line(&mut out, &format!("! {conflict}"));
        }
        for refusal in &self.refusals {
            line(&mut out, &format!("! {refusal}"));
        }
        let several = self.owners().len() > 1;
        let by = |owners: &BTreeSet<Owner>| {
            let by: Vec<String> = owners.iter().map(ToString::to_string).collect();
            if several && !by.is_empty() {
                format!("   ({})", by.join(", "))
            } else {
                String::new()
            }
        };
        for (key, owners) in &self.hidden {
            let by = by(owners);
            line(
                &mut out,
                &format!(
                    "? interfaces[{key}]: unknown, because the report leaves it out (spec.interfaceFilter of the NMState){by}"
                ),
            );
        }
        let desired = Index::of(&self.desired);
        for Change { difference, owners } in &self.changes {
            let by = by(owners);
            let lines = lines_of(difference, &self.other_names, |key| desired.key(key));
            for (index, text) in lines.iter().enumerate() {
                line(
                    &mut out,
                    &format!("{text}{}", if index == 0 { &*by } else { "" }),
                );
            }
        }
        if !self.says_something() {
            let unmeant = !self.unselected.is_empty()
                && self.owners().is_empty()
                && self.desired == json!({});
            line(
                &mut out,
                if unmeant {
                    "is not selected"
                } else {
                    "nothing would change"
                },
            );
        }
        for (policy, cards) in &self.cards {
            for (card, part) in cards {
                line(&mut out, &format!("note: policy {policy}: {card} {part}"));
            }
        }
        for (policy, reason) in &self.unselected {
            line(
                &mut out,
                &format!("note: policy {policy} is not for this node: {reason}"),
            );
        }
        out
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let owners =
            |owners: &BTreeSet<Owner>| owners.iter().map(ToString::to_string).collect::<Vec<_>>();
        let change = |change: &Change| {
            let Difference {
                path,
                wanted,
                found,
            } = change.difference.shown();
            json!({
                "path": path.to_string(), "from": found, "to": wanted, "by": owners(&change.owners)
            })
        };
        json!({
            "node": self.node,
            "unknown": self.is_unknown,
            "unselected": self.unselected,
            "failed": self.failed,
            "bonding": self.cards.iter().map(|(policy, cards)| {
                let cards = cards.iter().map(|(card, part)| (card.clone(), Value::from(part.to_string())));
                (policy.clone(), cards.collect())
            }).collect::<serde_json::Map<String, Value>>(),
            "conflicts": self.conflicts.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "refusals": self.refusals,
            "hidden": self.hidden.keys().collect::<Vec<_>>(),
            "lifelines": lifelines::json(&self.lifelines),
            "otherNames": self.other_names,
            "changes": self.changes.iter().map(change).collect::<Vec<_>>(),
        })
    }

    fn owners(&self) -> BTreeSet<&Owner> {
        self.changes
            .iter()
            .map(|change| &change.owners)
            .chain(self.hidden.values())
            .flatten()
            .collect()
    }
}

/// A change for people, with a mask in place of each secret: one line, and below it the properties
/// of an interface that is made, as `desired` wants it. `other_names` has the names on the host of interfaces that have another name
/// there.
pub fn lines(
    difference: &Difference,
    desired: &Value,
    other_names: &BTreeMap<String, String>,
) -> Vec<String> {
    lines_of(difference, other_names, |key| {
        interfaces(desired)
            .iter()
            .find(|interface| interface_key(interface) == key)
    })
}

/// The same, with the wanted interface of a key from `find`.
fn lines_of<'a>(
    difference: &Difference,
    other_names: &BTreeMap<String, String>,
    find: impl Fn(&str) -> Option<&'a Value>,
) -> Vec<String> {
    let Difference {
        path,
        wanted,
        found,
    } = &difference.shown();
    let mut place = path.to_string();
    if let Some(key) = path.interface()
        && let Some(name) = other_names.get(key)
    {
        place = place.replacen(&format!("[{key}]"), &format!("[{key} = {name}]"), 1);
    }
    match (wanted, found) {
        (Value::Null, _) => vec![format!("- {place}")],
        (_, Value::Null) => [
            vec![format!("+ {place}: {}", text(wanted))],
            made(path, find),
        ]
        .concat(),
        _ => vec![format!("~ {place}: {} -> {}", text(found), text(wanted))],
    }
}

/// The properties of an interface that is made. None of anything else.
fn made<'a>(path: &Path, find: impl Fn(&str) -> Option<&'a Value>) -> Vec<String> {
    let interface = path.whole_interface().and_then(find);
    let properties = interface.and_then(Value::as_object).into_iter().flatten();
    let shown = properties.filter(|(key, _)| !matches!(key.as_str(), "name" | "type" | "state"));
    shown
        .map(|(key, value)| {
            let value = masked_at(key, value, HIDDEN);
            format!("    {key}: {}", text(&value))
        })
        .collect()
}

fn line(out: &mut String, line: &str) {
    for part in line.lines() {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {part}");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use weft_plan::secrets::REPLACED;

    fn node() -> Node {
        Node {
            name: "node-a".to_owned(),
            metadata: Some(Metadata {
                labels: BTreeMap::from([("rack".to_owned(), "r1".to_owned())]),
                annotations: BTreeMap::from([("mtu".to_owned(), "9000".to_owned())]),
                addresses: BTreeSet::from(["192.0.2.11".to_owned()]),
            }),
            current: json!({"capabilities": [], "interfaces": [
                {"name": "eth0", "type": "ethernet", "state": "up", "mtu": 1500, "ifIndex": 2},
                {"name": "eth1", "type": "ethernet", "state": "up", "mtu": 1500, "ifIndex": 3},
                {"name": "br0", "type": "linux-bridge", "state": "up", "ifIndex": 4},
            ]}),
            own: None,
            partial: false,
            filter: None,
            kernel: false,
            done: BTreeMap::new(),
            addresses: BTreeMap::new(),
        }
    }

    fn policies(list: &[(&str, Value)]) -> BTreeMap<String, Spec> {
        list.iter()
            .map(|(name, spec)| {
                (
                    (*name).to_owned(),
                    serde_json::from_value(spec.clone()).unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn an_interface_with_another_name_on_the_host_is_named_by_both() {
        let difference = Difference {
            path: Path::of_interface(&json!({"name": "wan0"})).key("mtu"),
            wanted: json!(9000),
            found: json!(1500),
        };
        let mut node = node();
        node.current["interfaces"][1]["mac-address"] = json!("02:00:00:00:00:0A");
        let desired = json!({"interfaces": [{
            "name": "wan0", "identifier": "mac-address", "mac-address": "02:00:00:00:00:0a"
        }]});
        let names = crate::resolve::other_names(&desired, &node.current);
        assert_eq!(
            lines(&difference, &desired, &names),
            ["~ interfaces[wan0 = eth1].mtu: 1500 -> 9000"]
        );
        assert_eq!(
            lines(&difference, &desired, &BTreeMap::new()),
            ["~ interfaces[wan0].mtu: 1500 -> 9000"]
        );
    }

    #[test]
    fn the_owners_of_a_place_are_those_of_what_covers_it_and_of_what_is_below() {
        let eth = |name: &str| Path::default().key("interfaces").item(name);
        let places = [
            (eth("eth1"), "whole"),
            (eth("eth1").key("ipv4"), "stack"),
            (eth("eth1").key("ipv4").key("dhcp"), "dhcp"),
            (eth("eth1").key("mtu"), "mtu"),
            (eth("eth10").key("mtu"), "other"),
        ];
        let owner = |name: &str| Owner::Policy(name.to_owned());
        let owners = places.map(|(path, name)| (path, BTreeSet::from([owner(name)])));
        let owners = BTreeMap::from(owners);
        for (place, expected) in [
            (eth("eth1").key("ipv4"), vec!["dhcp", "stack", "whole"]),
            (eth("eth1").key("mtu"), vec!["mtu", "whole"]),
            (eth("eth10"), vec!["other"]),
            (eth("eth2"), vec![]),
        ] {
            let expected: BTreeSet<Owner> = expected.into_iter().map(owner).collect();
            assert_eq!(owners_at(&owners, &place), expected, "{place}");
        }
    }

    #[test]
    fn a_plan_reads_line_by_line() {
        let jumbo = json!({
            "match": {"interfaces": {"name": "eth*"}},
            "desiredState": {"interfaces": [{"mtu": 9000}]}
        });
        let plan_of = plan(&node(), &policies(&[("jumbo", jumbo.clone())]));
        assert_eq!(
            plan_of.text(),
            "node-a\n  ~ interfaces[eth0].mtu: 1500 -> 9000\n  ~ interfaces[eth1].mtu: 1500 -> 9000\n"
        );
        let bridges = json!({"desiredState": {"interfaces": [
            {"name": "br0", "type": "linux-bridge", "state": "absent"},
            {
                "name": "br1", "type": "linux-bridge", "state": "up",
                "bridge": {"port": [{"name": "eth1", "vlan": {}}]}
            },
        ]}});
        let own = json!({"interfaces": [{"name": "eth0", "mtu": 1400}]});
        let plan_of = plan(
            &Node {
                own: Some(own),
                ..node()
            },
            &policies(&[("jumbo", jumbo), ("bridges", bridges)]),
        );
        assert_eq!(
            plan_of.text(),
            "node-a\n  \
             - interfaces[br0]   (policy bridges)\n  \
             + interfaces[br1]: linux-bridge   (policy bridges)\n      bridge: {\"port\":[{\"name\":\"eth1\",\"vlan\":{}}]}\n  \
             ~ interfaces[eth0].mtu: 1500 -> 1400   (the NodeNetworkState's spec)\n  \
             ~ interfaces[eth1].mtu: 1500 -> 9000   (policy jumbo)\n"
        );
        assert_eq!(plan_of.json()["changes"][2]["from"], 1500);
    }

    #[test]
    fn the_part_of_each_card_in_bonding_is_shown() {
        let policy = json!({
            "match": {"interfaces": {"type": "ethernet", "lldp": {"vlan-ids": [101]}}},
            "autoConfig": {"autoBonding": true}
        });
        let mut node = node();
        node.current["interfaces"][1]["lldp"] = json!({"enabled": true, "neighbors": [[
            {"system-name": "switch-1"}, {"ieee-802-1-vlans": [{"vid": 101}]}
        ]]});
        let plan = plan(&node, &policies(&[("bond", policy)]));
        let text = plan.text();
        for line in [
            "  + interfaces[bond101]: bond\n",
            "  + interfaces[bond101.101]: vlan\n",
            "  note: policy bond: eth0 does not listen to LLDP: set lldp.enabled to true",
            "  note: policy bond: eth1 joins bond101: switch-1 announces VLAN 101\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert_eq!(
            plan.json()["bonding"]["bond"]["eth1"],
            "joins bond101: switch-1 announces VLAN 101"
        );
    }

    #[test]
    fn no_planted_secret_is_in_a_plan() {
        let planted: Value =
            serde_saphyr::from_str(include_str!("../../plan/tests/planted.yaml")).unwrap();
        let policy = json!({"desiredState": planted});
        let contrary = planted.to_string().replace("pl4nted", "pl4nted-too");
        let contrary: Value = serde_json::from_str(&contrary).unwrap();
        let contrary = json!({"desiredState": contrary});
        let shown = |node: &Node, list: &[(&str, Value)]| {
            let plan = plan(node, &policies(list));
            format!("{}{}", plan.text(), plan.json())
        };
        let new = shown(&node(), &[("a", policy.clone())]);
        // A report in clear, as of nmstatectl: each secret is another one.
        let reported = planted.to_string().replace("-zz", "-old");
        let reported = Node {
            current: serde_json::from_str(&reported).unwrap(),
            ..node()
        };
        let changed = shown(&reported, &[("a", policy.clone())]);
        let conflict = shown(&node(), &[("a", policy), ("b", contrary)]);
        for text in [&new, &changed, &conflict] {
            assert!(!text.contains("pl4nted"), "{text}");
        }
        let mut harmless = planted.to_string();
        let mut count = 0;
        while let Some((_, rest)) = harmless.split_once("h4rmless-") {
            let value = format!("h4rmless-{}-zz", &rest[..2]);
            assert!(new.contains(&value), "{value}: {new}");
            assert!(changed.contains(&value), "{value}: {changed}");
            harmless = rest.to_owned();
            count += 1;
        }
        assert!(count > 30, "{count}");
        // A password that is another one is a change.
        for place in [
            "interfaces[eth1].802.1x.password",
            "interfaces[m0].macsec.mka-cak",
            "interfaces[vpn0 (ipsec)].libreswan.psk",
            "ovs-db.external_ids.ssl_key",
        ] {
            let line = format!("~ {place}: {HIDDEN} -> {HIDDEN}\n");
            assert!(changed.contains(&line), "{place}: {changed}");
        }
        assert!(
            conflict.contains(&format!(
                "ovs-db.external_ids.ssl_key: policy a wants \"{HIDDEN}\", policy b wants \"{HIDDEN}\""
            )),
            "{conflict}"
        );
    }

    #[test]
    fn a_message_about_a_policy_quotes_no_secret_of_it() {
        let wrong = json!({"desiredState": {"interfaces": [{
            "name": "vpn0", "type": "ipsec", "libreswan": {"right": "x", "psk": 4711147}
        }]}});
        let text = plan(&node(), &policies(&[("a", wrong)])).text();
        let is_said = text.contains("! a: ") && text.contains(REPLACED);
        assert!(is_said && !text.contains("4711147"), "{text}");
    }

    #[test]
    fn a_secret_that_an_enactment_hides_is_planned_from_the_policy() {
        let policies = policies(&[(
            "p",
            json!({
                "capture": {"card": "interfaces.name==\"eth1\""},
                "desiredState": {"ovs-db": {"external_ids": {
                    "ssl_key": "from-the-policy", "card": "{{ capture.card.interfaces.0.mtu }}"
                }}}
            }),
        )]);
        let done = |key: &str| Done {
            desired: json!({"ovs-db": {"external_ids": {"ssl_key": key, "card": "1400"}}}),
            captures: BTreeMap::from([(
                "card".to_owned(),
                json!({"interfaces": [{"name": "eth1", "mtu": "1401"}]}),
            )]),
            ..Done::default()
        };
        let planned = |key: &str| {
            let mut node = node();
            node.done = BTreeMap::from([("p".to_owned(), done(key))]);
            plan(&node, &policies).desired["ovs-db"]["external_ids"].clone()
        };
        assert_eq!(
            planned("as-done"),
            json!({"ssl_key": "as-done", "card": "1400"})
        );
        assert_eq!(
            planned(HIDDEN),
            json!({"ssl_key": "from-the-policy", "card": "1401"})
        );
    }

    #[test]
    fn obstacles_are_reported() {
        let wants = |mtu: u32| {
            json!({
                "desiredState": {
                    "interfaces": [{"name": "eth1", "type": "ethernet", "state": "up", "mtu": mtu}]
                }
            })
        };
        let quarrel = plan(
            &node(),
            &policies(&[("a", wants(9000)), ("b", wants(1400))]),
        )
        .text();
        assert!(
            quarrel.contains("! interfaces[eth1].mtu: policy a wants 9000, policy b wants 1400"),
            "{quarrel}"
        );
        let slip = plan(
            &node(),
            &policies(&[(
                "a",
                json!({"desiredState": {"interfaces": [{"name": "eth1", "mut": 1}]}}),
            )]),
        )
        .text();
        assert!(
            slip.contains("! a: spec.desiredState: interfaces[eth1].mut is not known to nmstate"),
            "{slip}"
        );
        let elsewhere = json!({
            "nodeSelector": {"rack": "r2"},
            "desiredState": {"interfaces": [{"name": "eth1", "mtu": 9000}]}
        });
        let text = plan(&node(), &policies(&[("a", elsewhere.clone())])).text();
        assert!(
            text.starts_with("node-a\n  is not selected\n  note: policy a is not for this node"),
            "{text}"
        );
        assert_eq!(
            plan(&node(), &policies(&[("a", wants(1500))])).text(),
            "node-a\n  nothing would change\n"
        );
        let nobody = policies(&[(
            "a",
            json!({
                "desiredState": {
                    "interfaces": [{"name": "eth7", "type": "ethernet", "state": "up"}]
                }
            }),
        )]);
        let text = plan(&node(), &nobody).text();
        assert!(
            text.contains("! interfaces[eth7]: there is no such interface"),
            "{text}"
        );
        let bond = policies(&[(
            "b",
            json!({
                "desiredState": {
                    "interfaces": [
                        {
                            "name": "bond0", "type": "bond", "state": "up",
                            "link-aggregation": {"mode": "active-backup", "port": ["eth1"]}
                        }
                    ]
                }
            }),
        )]);
        let refused =
            "! interfaces[bond0].type: must be one that the agent makes without NetworkManager";
        for kernel in [true, false] {
            let node = Node { kernel, ..node() };
            let text = plan(&node, &bond).text();
            assert_eq!(text.contains(refused), kernel, "{text}");
        }
        assert!(
            !plan(
                &Node {
                    partial: true,
                    ..node()
                },
                &nobody
            )
            .text()
            .contains('!'),
            "it may be among those that are left out"
        );
        let unknown = |rack: &str| {
            Plan::unknown(
                "node-z",
                &BTreeMap::from([("rack".to_owned(), rack.to_owned())]),
                &policies(&[("a", elsewhere.clone())]),
            )
        };
        assert!(
            unknown("r2")
                .unwrap()
                .text()
                .starts_with("node-z\n  ? unknown")
        );
        assert_eq!(unknown("r1"), None);
    }

    #[test]
    fn refusals_of_nmstate_on_this_node_are_shown() {
        let wants = |interface: Value| {
            policies(&[("a", json!({ "desiredState": {"interfaces": [interface]} }))])
        };
        let mut node = node();
        node.current["interfaces"][2]["bridge"] = json!({"port": [{"name": "eth1"}]});
        node.current["interfaces"][1]["controller"] = node.current["interfaces"][2]["name"].clone();
        let address = json!({
            "name": "eth1", "type": "ethernet", "state": "up", "ipv4": {"enabled": true, "dhcp": true}
        });
        let text = plan(&node, &wants(address)).text();
        assert!(
            text.contains("! interfaces[eth1].ipv4: nmstate refuses it: "),
            "{text}"
        );
        let vlan = json!({
            "name": "eth1", "type": "vlan", "state": "up", "vlan": {"base-iface": "eth0", "id": 7}
        });
        let text = plan(&node, &wants(vlan)).text();
        assert!(
            text.contains("! interfaces[eth1].type: cannot become vlan"),
            "{text}"
        );
    }

    #[test]
    fn an_interface_that_the_filter_hides_is_not_called_missing() {
        let filter = Filter::new(&[], &["eth7*".into(), "br7".into()]).unwrap();
        let filter = Filter::of_words(&filter.words().unwrap());
        let node = Node {
            filter: Some(filter),
            ..node()
        };
        let planned = |interfaces: Value, routes: Value| {
            let desired = json!({"interfaces": interfaces, "routes": {"config": routes}});
            let policies = policies(&[("p", json!({"desiredState": desired}))]);
            plan(&node, &policies)
        };
        let unknown = "? interfaces[eth7]: unknown, because the report leaves it out";
        let all = planned(
            json!([
                {
                    "name": "eth7", "type": "ethernet", "state": "up", "mtu": 9000,
                    "ipv4": {"enabled": true, "address": [{"ip": "192.0.2.11", "prefix-length": 24}]}
                },
                {"name": "eth70.5", "type": "vlan", "vlan": {"base-iface": "eth70", "id": 5}},
                {"name": "v9", "type": "vlan", "vlan": {"base-iface": "eth71", "id": 5}},
                {"name": "br0", "type": "linux-bridge", "bridge": {"port": [{"name": "eth72"}]}},
                {"name": "eth1", "controller": "br7"}
            ]),
            json!([{
                "destination": "198.51.100.0/24", "next-hop-interface": "eth73",
                "next-hop-address": "192.0.2.1"
            }]),
        );
        let text = all.text();
        assert!(!text.contains("  !"), "{text}");
        assert!(text.contains(unknown), "{text}");
        assert!(!text.contains("+ interfaces[eth7"), "{text}");
        assert!(text.contains("+ interfaces[v9]: vlan"), "{text}");
        assert_eq!(all.json()["hidden"], json!(["eth7", "eth70.5"]));

        let alone = planned(
            json!([{"name": "eth7", "type": "ethernet", "state": "absent"}]),
            json!([]),
        );
        assert!(
            alone.says_something() && alone.text().contains(unknown),
            "{}",
            alone.text()
        );
        for name in ["eth9", "br8"] {
            let text = planned(json!([{"name": name, "type": "ethernet"}]), json!([])).text();
            assert!(text.contains("there is no such interface"), "{text}");
        }
        let port = json!([{"name": "br0", "type": "linux-bridge", "bridge": {"port": [{"name": "eth9"}]}}]);
        let text = planned(port, json!([])).text();
        assert!(text.contains("there is no interface eth9"), "{text}");
        let address = json!([{"name": "wan", "type": "ethernet", "identifier": "mac-address", "mac-address": "02:00:00:00:00:77"}]);
        let text = planned(address, json!([])).text();
        assert!(
            text.contains("? interfaces[wan]") && !text.contains("  !"),
            "{text}"
        );
    }

    fn description(text: &str) -> Value {
        json!({"desiredState": {"interfaces": [{"name": "eth0", "description": text}]}})
    }

    /// A report does not say which addresses are leased. As a port, the card loses them all.
    #[test]
    fn a_card_with_dhcp_loses_its_address_to_its_bridge() {
        let with = |card: Value| {
            let bridge = json!({
                "name": "br1", "type": "linux-bridge", "state": "up",
                "bridge": {"port": [{"name": "eth1", "vlan": {}}]}
            });
            let desired = json!({"desiredState": {"interfaces": [bridge, card]}});
            let mut node = node();
            node.current["interfaces"][1]["ipv4"] = json!({
                "enabled": true, "dhcp": true, "address": [{"ip": "192.0.2.11", "prefix-length": 24}]
            });
            plan(&node, &policies(&[("bridge", desired)])).text()
        };
        let lost = "- interfaces[eth1].ipv4.address[192.0.2.11/24]";
        for card in [
            json!({"name": "eth1", "type": "ethernet", "state": "up"}),
            json!({"name": "eth1", "type": "ethernet", "state": "up", "controller": "br1"}),
        ] {
            let text = with(card);
            assert!(text.contains(lost), "{text}");
        }
        let other = json!({"name": "eth2", "type": "ethernet", "state": "up"});
        let text = with(other);
        assert!(text.contains(lost), "{text}");
    }

    #[test]
    fn a_plan_shows_what_a_card_loses_to_its_bridge() {
        let bridge = json!({"desiredState": {
            "interfaces": [{
                "name": "br1", "type": "linux-bridge", "state": "up",
                "ipv4": {"enabled": true, "dhcp": false, "address": [{"ip": "192.0.2.11", "prefix-length": 24}]},
                "bridge": {"port": [{"name": "eth1", "vlan": {}}]}
            }],
            "routes": {"config": [{
                "destination": "0.0.0.0/0", "next-hop-interface": "br1",
                "next-hop-address": "192.0.2.1"
            }]}
        }});
        let policies = policies(&[("bridge", bridge)]);
        let mut node = Node {
            kernel: true,
            ..node()
        };
        let address =
            json!({"enabled": true, "address": [{"ip": "192.0.2.11", "prefix-length": 24}]});
        node.current["interfaces"][1]["ipv4"] = address;
        node.current["routes"] = json!({"config": [{
            "destination": "0.0.0.0/0", "next-hop-interface": "eth1",
            "next-hop-address": "192.0.2.1"
        }]});
        assert_eq!(
            plan(&node, &policies).text(),
            "node-a: this changes eth1, which carries the node's address 192.0.2.11\n  \
             + interfaces[br1]: linux-bridge\n      bridge: {\"port\":[{\"name\":\"eth1\",\"vlan\":{}}]}\n      ipv4: {\"address\":[{\"ip\":\"192.0.2.11\",\"prefix-length\":24}],\"dhcp\":false,\"enabled\":true}\n  \
             + routes.config[0.0.0.0/0 via 192.0.2.1 dev br1]: {\"destination\":\"0.0.0.0/0\",\"next-hop-address\":\"192.0.2.1\",\"next-hop-interface\":\"br1\"}\n  \
             - interfaces[eth1].ipv4.address[192.0.2.11/24]\n  \
             - routes.config[0.0.0.0/0 via 192.0.2.1 dev eth1]\n"
        );
        // A client of the host has given the port an address again.
        node.current["interfaces"][1]["controller"] = "br1".into();
        node.current["interfaces"][2] = json!({
            "name": "br1", "type": "linux-bridge", "state": "up",
            "bridge": {"port": [{"name": "eth1", "vlan": {}}]}
        });
        let again = "  - interfaces[br1].bridge.port[eth1].ipv4.address[192.0.2.11/24]";
        let text = plan(&node, &policies).text();
        assert!(text.contains(again), "{text}");
        node.kernel = false;
        let text = plan(&node, &policies).text();
        assert!(!text.contains(again), "NetworkManager leaves it: {text}");
    }

    /// A port of a VRF keeps its addresses, and the main table leads to it no longer.
    #[test]
    fn a_plan_warns_of_a_needed_card_that_a_vrf_or_hsr_interface_takes() {
        let mut node = node();
        node.current["interfaces"][1]["ipv4"] = json!({
            "enabled": true, "dhcp": true, "address": [{"ip": "192.0.2.11", "prefix-length": 24}]
        });
        let route = json!({
            "destination": "0.0.0.0/0", "next-hop-interface": "eth1",
            "next-hop-address": "192.0.2.1", "table-id": 254
        });
        node.current["routes"] = json!({"config": [], "running": [route]});
        let of_vrf = json!({
            "name": "red", "type": "vrf", "state": "up",
            "vrf": {"port": ["eth1"], "route-table-id": 70}
        });
        let of_hsr = json!({
            "name": "hsr0", "type": "hsr", "state": "up",
            "hsr": {"port1": "eth1", "port2": "eth0", "multicast-spec": 40, "protocol": "prp"}
        });
        let warning = "node-a: this changes eth1, which carries the default route and the node's address 192.0.2.11\n";
        let route = "\n  - routes.config[0.0.0.0/0 via 192.0.2.1 dev eth1]\n";
        let address = "\n  - interfaces[eth1].ipv4.address[192.0.2.11/24]\n";
        for (interface, has_address) in [(of_vrf, false), (of_hsr, true)] {
            let policies = policies(&[("p", json!({"desiredState": {"interfaces": [interface]}}))]);
            let text = plan(&node, &policies).text();
            assert!(text.starts_with(warning), "{text}");
            assert!(text.contains(route), "{text}");
            assert_eq!(text.contains(address), has_address, "{text}");

            let mut static_route = node.clone();
            let running = node.current["routes"]["running"].clone();
            static_route.current["routes"]["config"] = running;
            let text = plan(&static_route, &policies).text();
            assert!(text.starts_with(warning), "{text}");
        }
    }

    #[test]
    fn values_of_the_node_are_planned() {
        let mtu = json!({"desiredState": {"interfaces": [
            {"name": "eth1", "mtu": "{{ node.annotations['mtu'] }}"},
        ], "hostname": {"config": "{{ node.name }}-{{ node.labels['rack'] }}"}}});
        let policies = policies(&[("p", mtu)]);
        let text = plan(&node(), &policies).text();
        assert_eq!(
            text,
            "node-a\n  ~ interfaces[eth1].mtu: 1500 -> 9000\n  + hostname.config: node-a-r1\n"
        );
        let of_file = Node {
            metadata: None,
            ..node()
        };
        let text = plan(&of_file, &policies).text();
        assert!(
            text.contains(
                "! p: spec.desiredState refers to labels or annotations of the node node-a"
            ) && text.contains("kubectl get node node-a -o yaml"),
            "{text}"
        );
    }

    #[test]
    fn a_plan_names_the_value_that_a_node_lacks() {
        let policies = policies(&[("p", description("{{ node.labels['zone'] }}"))]);
        let plan = plan(&node(), &policies);
        assert!(plan.says_something());
        assert!(
            plan.text().contains("! p: spec.desiredState.interfaces[0].description: {{ node.labels[\"zone\"] }} has no value, because the node node-a has no label zone"),
            "{}",
            plan.text()
        );
    }

    /// The card has become the port of a bridge since, so its capture would find something else.
    #[test]
    fn captures_of_a_finished_policy_stay_when_a_value_changes() {
        let mut spec = description("{{ capture.a.interfaces.0.name }} {{ node.labels['rack'] }}");
        spec["capture"] = json!({"a": "interfaces.name==eth0"});
        let policies = policies(&[("p", spec)]);
        let mut node = node();
        let done = |rack: &str| Done {
            desired: json!({"interfaces": [{"name": "eth0", "description": "as done"}]}),
            captures: Captures::from([("a".into(), json!({"interfaces": [{"name": "card"}]}))]),
            values: NodeValues {
                labels: BTreeMap::from([("rack".to_owned(), rack.to_owned())]),
                ..NodeValues::default()
            },
        };
        node.done = BTreeMap::from([("p".to_owned(), done("r1"))]);
        let planned =
            |node: &Node| plan(node, &policies).desired["interfaces"][0]["description"].clone();
        assert_eq!(planned(&node), "as done");
        node.done = BTreeMap::from([("p".to_owned(), done("r0"))]);
        assert_eq!(planned(&node), "card r1");
    }
}
