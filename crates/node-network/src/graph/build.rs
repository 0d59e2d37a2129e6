//! Makes the picture of a node from all that is known about it.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;
use serde_json::Value;
use weft_api::node_network::NodeNetworkConfigurationPolicySpec as Spec;

use super::{
    interfaces,
    model::{Change, Fact, Health, Kind, Link, LinkKind, NodeGraph, Part, PolicyState},
    pods::{Networks, PodInterface},
    policies::{self, OnNode},
    routes,
};
use crate::{
    claims::Owner,
    drift::{Difference, differences},
    form, lldp,
    path::{Path, Step, entries, interface_key, interfaces as list, text},
    plan::{Node, Plan, owners_at, plan},
    removal::lasting_removals,
    route,
    secrets::{self, HIDDEN},
};

/// All that is known about a node.
pub struct Known<'a> {
    /// Its report, its labels, and the results of finished policies.
    pub node: &'a Node,
    /// All policies, by name.
    pub policies: &'a BTreeMap<String, Spec>,
    /// The reports of the node's agent about policies.
    pub reports: &'a [OnNode],
    /// The interfaces of pods on the node.
    pub pods: &'a [PodInterface],
    /// The interfaces that networks of pods use.
    pub networks: &'a Networks,
}

/// Returns the picture of a node. Every link leads from one of its parts to another one. The order
/// of parts and links depends on the input alone.
pub fn graph(known: &Known) -> NodeGraph {
    let current = form::of_host(&known.node.current);
    let plan = plan(known.node, known.policies);
    let wanted = secrets::mask(&plan.desired, HIDDEN);
    let mut differences: Vec<Difference> = differences(&wanted, &current)
        .into_iter()
        // An interface that an incomplete report lacks can exist.
        .filter(|difference| {
            let missing = missing(difference);
            missing.is_none_or(|key| !known.node.partial && !plan.hidden.contains_key(key))
        })
        .collect();
    let removals = lasting_removals(&wanted, &current);
    let concern = |all: &[Difference], owner: &Owner| {
        all.iter()
            .any(|difference| owners_at(&plan.owners, &difference.path).contains(owner))
    };
    let states = policies::states(
        &plan,
        known.reports,
        |owner| concern(&differences, owner),
        |owner| concern(&removals, owner),
    );
    // Where a policy has been applied, they are nothing that it still has to do.
    differences.extend(removals.into_iter().filter(|removal| {
        let names: Vec<String> = owners_at(&plan.owners, &removal.path)
            .iter()
            .map(policies::name)
            .collect();
        states
            .iter()
            .any(|state| state.health == Health::Pending && names.contains(&state.name))
    }));
    let mut drawing = Drawing::default();
    drawing.interfaces(list(&current));
    drawing.missing(&wanted, &differences);
    drawing.links(list(&current));
    drawing.links(list(&wanted));
    drawing.neighbors(list(&current));
    drawing.routes(&current, &wanted);
    drawing.pods(known.pods, known.networks);
    drawing.owners(&plan, &wanted, &current);
    drawing.marks(&plan, &states, &differences);
    drawing.failures(known.reports, &states);
    drawing.refusals(&plan, &states);
    drawing.finish(known, &current, states)
}

/// The interface that the node lacks as a whole.
fn missing(difference: &Difference) -> Option<&str> {
    let interface = difference.path.whole_interface();
    interface.filter(|_| difference.found.is_null())
}

/// The entry of `routes.config` that a path is, or is a part of.
fn route_of(path: &Path) -> Option<&str> {
    match path.0.as_slice() {
        [Step::Key(section), Step::Key(_), Step::Item(key), ..] if section == "routes" => Some(key),
        _ => None,
    }
}

/// The place of a difference inside of its part. Empty if the whole part differs.
fn inside(path: &Path) -> &[Step] {
    let above = match route_of(path) {
        Some(_) => 3,
        None => 2,
    };
    path.0.get(above..).unwrap_or_default()
}

/// Returns the change that removes a difference, for its part.
fn change(difference: &Difference) -> Change {
    match (inside(&difference.path), &difference.wanted) {
        ([], Value::Null) => Change::Removed,
        ([], _) => Change::Added,
        _ => Change::Changed,
    }
}

/// Returns a difference in words for its part, which people see next to it.
fn of_part(difference: &Difference) -> String {
    match (inside(&difference.path), &difference.wanted) {
        ([], Value::Null) => "should not be there".to_owned(),
        ([], _) => "is missing".to_owned(),
        (inside, _) => Difference {
            path: Path(inside.to_vec()),
            ..difference.clone()
        }
        .to_string(),
    }
}

#[derive(Default)]
struct Drawing {
    parts: Vec<Part>,
    /// The position of each part, by its id.
    index: BTreeMap<String, usize>,
    links: BTreeSet<Link>,
    messages: Vec<String>,
    health: Health,
}

impl Drawing {
    /// Adds a part. If there is one with its id, it gets another one.
    fn add(&mut self, mut part: Part) -> String {
        let wanted = part.id.clone();
        let mut number = 1;
        while self.index.contains_key(&part.id) {
            number += 1;
            part.id = format!("{wanted} #{number}");
        }
        let id = part.id.clone();
        self.index.insert(id.clone(), self.parts.len());
        self.parts.push(part);
        id
    }

    fn part(&mut self, id: &str) -> Option<&mut Part> {
        self.parts.get_mut(*self.index.get(id)?)
    }

    /// Returns the id of the interface with this name, as the kernel knows it. A bridge of Open
    /// vSwitch is in second place, since its internal port usually has the same name.
    fn by_name(&self, name: &str) -> Option<String> {
        [name.to_owned(), format!("{name} (ovs-bridge)")]
            .iter()
            .map(|key| interfaces::id(key))
            .find(|id| self.index.contains_key(id))
    }

    /// Returns the id of the bridge, bond or VRF with this name.
    fn controller(&self, name: &str) -> Option<String> {
        let bridge = interfaces::id(&format!("{name} (ovs-bridge)"));
        match self.index.contains_key(&bridge) {
            true => Some(bridge),
            false => self.by_name(name),
        }
    }

    fn link(&mut self, from: String, to: String, kind: LinkKind, label: String) {
        // A pair is linked once, whichever end names the other one.
        let is_there = |link: &Link| {
            link.kind == kind && link.from == from && link.to == to
                || kind == LinkKind::Peer && link.from == to && link.to == from
        };
        if from != to && !self.links.iter().any(is_there) {
            self.links.insert(Link {
                from,
                to,
                kind,
                label,
            });
        }
    }

    fn interfaces(&mut self, reported: &[Value]) {
        for interface in reported
            .iter()
            .filter(|interface| !interfaces::is_usual(interface))
        {
            self.add(interfaces::part(interface));
        }
    }

    /// Adds the interfaces that policies want and the node lacks.
    fn missing(&mut self, wanted: &Value, differences: &[Difference]) {
        for key in differences.iter().filter_map(missing) {
            let found = list(wanted)
                .iter()
                .find(|interface| interface_key(interface) == key);
            if let Some(interface) = found {
                let mut part = interfaces::part(interface);
                // The wanted values are not those of the node.
                let wanted: Vec<String> = part.facts.iter().map(Fact::to_string).collect();
                part.messages.push(format!("wanted: {}", wanted.join(", ")));
                part.facts = vec![Fact {
                    label: "state",
                    value: "missing".to_owned(),
                }];
                self.add(part);
            }
        }
    }

    /// Adds the links that interfaces name. The other end of a link may be left out of the report.
    /// Then the part says its name.
    fn links(&mut self, all: &[Value]) {
        for interface in all {
            let own = interfaces::id(&interface_key(interface));
            if !self.index.contains_key(&own) || interface["state"] == "absent" {
                continue;
            }
            for named in interfaces::named_links(interface) {
                let is_controller = named.kind == LinkKind::Port && !named.is_below;
                let other = match is_controller {
                    true => self.controller(&named.other),
                    false => self.by_name(&named.other),
                };
                match other {
                    Some(other) if named.is_below => {
                        self.link(other, own.clone(), named.kind, named.label)
                    }
                    // The bridge's own list of ports has the label.
                    Some(other) => self.link(own.clone(), other, named.kind, named.label),
                    // The other end of a pair that leads into a pod is not on this host.
                    None if named.kind == LinkKind::Peer => {}
                    None => {
                        let label = match named.kind {
                            LinkKind::Port if is_controller => "port of",
                            LinkKind::Port => "port",
                            _ => "on",
                        };
                        let fact = Fact {
                            label,
                            value: format!("{} (not reported)", named.other),
                        };
                        if let Some(part) = self.part(&own)
                            && !part.facts.contains(&fact)
                        {
                            part.facts.push(fact);
                        }
                    }
                }
            }
        }
    }

    fn neighbors(&mut self, reported: &[Value]) {
        for interface in reported {
            let own = interfaces::id(&interface_key(interface));
            if !self.index.contains_key(&own) {
                continue;
            }
            for neighbor in lldp::neighbors(interface) {
                if neighbor.switch.is_empty() {
                    continue;
                }
                let id = format!("switch/{}", neighbor.switch);
                if !self.index.contains_key(&id) {
                    self.add(Part::new(Kind::Switch, id.clone(), neighbor.switch));
                }
                let label = match neighbor.port.is_empty() {
                    true => String::new(),
                    false => format!("port {}", neighbor.port),
                };
                self.link(id, own.clone(), LinkKind::Cable, label);
            }
        }
    }

    /// Adds the running routes, those that are configured and do not run, and those that policies
    /// want and the node lacks.
    fn routes(&mut self, current: &Value, wanted: &Value) {
        for route in entries(&current["routes"]["running"]) {
            let id = self.add(routes::part(route));
            self.link_route(route, id);
        }
        let configured = entries(&current["routes"]["config"]).iter();
        let wanted = entries(&wanted["routes"]["config"]).iter();
        let others = configured
            .map(|route| (route, "not running"))
            .chain(wanted.map(|route| (route, "missing")));
        for (route, state) in others {
            if route::is_absent(route) || !self.ids_of_route(route, current).is_empty() {
                continue;
            }
            let mut part = routes::part(route);
            part.facts.insert(
                0,
                Fact {
                    label: "state",
                    value: state.to_owned(),
                },
            );
            let id = self.add(part);
            self.link_route(route, id);
        }
    }

    fn link_route(&mut self, route: &Value, id: String) {
        if let Some(interface) = self.by_name(&text(&route["next-hop-interface"])) {
            self.link(interface, id, LinkKind::Route, String::new());
        }
    }

    fn pods(&mut self, pods: &[PodInterface], networks: &Networks) {
        for pod in pods {
            let name = format!("{} {}", pod.pod, pod.interface);
            let mut part = Part::new(
                Kind::Pod,
                format!("pod/{}/{}", pod.pod, pod.interface),
                name,
            );
            let network = match pod.network.as_str() {
                "" => "of the cluster",
                network => network,
            };
            let addresses = pod
                .addresses
                .iter()
                .map(|address| ("address", address.as_str()));
            let facts = [("network", network), ("MAC", pod.mac.as_str())]
                .into_iter()
                .chain(addresses);
            part.facts = facts
                .filter(|(_, value)| !value.is_empty())
                .map(|(label, value)| Fact {
                    label,
                    value: value.to_owned(),
                })
                .collect();
            let id = self.add(part);
            let attachment = networks.of(&pod.network);
            let named = attachment.and_then(|attachment| self.controller(&attachment.interface));
            let vlan = attachment.and_then(|attachment| attachment.vlan.clone());
            let label = vlan.map(|vlan| format!("VLAN {vlan}")).unwrap_or_default();
            if let Some(interface) = named.or_else(|| self.bridge_of(&pod.addresses)) {
                self.link(interface, id, LinkKind::Pod, label);
            }
        }
    }

    /// Returns the bridge that has one of these addresses in its own subnet: the kernel sends
    /// packets for the pod there.
    fn bridge_of(&self, addresses: &[String]) -> Option<String> {
        let addresses: Vec<IpAddr> = addresses
            .iter()
            .filter_map(|address| address.parse().ok())
            .collect();
        let holds = |fact: &Fact| {
            fact.label == "address"
                && fact
                    .value
                    .parse::<IpNet>()
                    .is_ok_and(|block| addresses.iter().any(|address| block.contains(address)))
        };
        self.parts
            .iter()
            .find(|part| part.type_name == "linux-bridge" && part.facts.iter().any(holds))
            .map(|part| part.id.clone())
    }

    /// Names the policies behind each part.
    fn owners(&mut self, plan: &Plan, wanted: &Value, current: &Value) {
        let routes: Vec<(String, Vec<String>)> = entries(&wanted["routes"]["config"])
            .iter()
            .filter(|route| !route::is_absent(route))
            .map(|wanted| (route::key(wanted), self.ids_of_route(wanted, current)))
            .collect();
        for (path, owners) in &plan.owners {
            let names: Vec<String> = owners.iter().map(policies::name).collect();
            let ids = match (path.interface(), route_of(path)) {
                (Some(key), _) => vec![interfaces::id(key)],
                (_, Some(key)) => routes
                    .iter()
                    .filter(|(known, _)| known == key)
                    .flat_map(|(_, ids)| ids.clone())
                    .collect(),
                _ => continue,
            };
            for id in ids {
                if let Some(part) = self.part(&id) {
                    part.policies.extend(names.iter().cloned());
                }
            }
        }
    }

    /// Returns the ids of the routes that a wanted route describes.
    fn ids_of_route(&self, wanted: &Value, current: &Value) -> Vec<String> {
        let [list, _] = route::LISTS;
        let running = entries(&current["routes"]["running"]).iter();
        let same = running.filter(|found| (list.matches)(wanted, found));
        let mut ids: Vec<String> = same.map(|found| routes::part(found).id).collect();
        ids.push(routes::part(wanted).id);
        ids.retain(|id| self.index.contains_key(id));
        ids.dedup();
        ids
    }

    /// Marks the parts that differ from what is wanted.
    fn marks(&mut self, plan: &Plan, states: &[PolicyState], differences: &[Difference]) {
        for difference in differences {
            let owners = owners_at(&plan.owners, &difference.path);
            let names: BTreeSet<String> = owners.iter().map(policies::name).collect();
            let of_owners = states.iter().filter(|state| names.contains(&state.name));
            // A policy that the agent has not judged yet cannot be the reason of less than this.
            let health = of_owners
                .map(|state| state.health)
                .max()
                .unwrap_or_default()
                .max(Health::Pending);
            let id = match (difference.path.interface(), route_of(&difference.path)) {
                (Some(key), _) => interfaces::id(key),
                (_, Some(key)) => format!("route/{key}"),
                _ => String::new(),
            };
            match self.part(&id) {
                Some(part) => {
                    part.change = part.change.or(Some(change(difference)));
                    part.mark(health, of_part(difference));
                }
                None => self.note(health, difference.to_string()),
            }
        }
    }

    /// Marks the parts where a policy has failed by the words of the agent.
    fn failures(&mut self, reports: &[OnNode], states: &[PolicyState]) {
        for report in reports {
            let Some(path) = &report.failed_path else {
                continue;
            };
            let key = path
                .strip_prefix("interfaces[")
                .and_then(|rest| rest.split(']').next());
            let state = states.iter().find(|state| state.name == report.policy);
            if let (Some(key), Some(state)) = (key, state)
                && let Some(part) = self.part(&interfaces::id(key))
            {
                for message in &state.messages {
                    part.mark(Health::Failed, message.clone());
                }
            }
        }
    }

    /// Names the causes at the parts for which the host would refuse a policy.
    fn refusals(&mut self, plan: &Plan, states: &[PolicyState]) {
        let refused: BTreeSet<&String> = states
            .iter()
            .filter(|state| state.state == policies::REFUSED)
            .map(|state| &state.name)
            .collect();
        for part in &mut self.parts {
            let Some(key) = part.id.strip_prefix("interface/") else {
                continue;
            };
            if !part.policies.iter().any(|name| refused.contains(name)) {
                continue;
            }
            let place = format!("interfaces[{key}]");
            for refusal in &plan.refusals {
                if let Some(rest) = refusal.strip_prefix(&place) {
                    let message = rest.trim_start_matches(['.', ':', ' ']);
                    part.mark(Health::Failed, message.to_owned());
                }
            }
        }
    }

    fn note(&mut self, health: Health, message: String) {
        self.health = self.health.max(health);
        self.messages.push(message);
    }

    fn finish(mut self, known: &Known, current: &Value, policies: Vec<PolicyState>) -> NodeGraph {
        if known.node.partial {
            self.note(
                Health::Unknown,
                "the report of the node is not complete".to_owned(),
            );
        }
        let worst = self.parts.iter().map(|part| part.health);
        let worst = worst
            .chain(policies.iter().map(|policy| policy.health))
            .max();
        let resolver = &current["dns-resolver"]["running"];
        let facts = [("server", "name server"), ("search", "search domain")]
            .into_iter()
            .flat_map(|(field, label)| {
                entries(&resolver[field]).iter().map(move |entry| Fact {
                    label,
                    value: text(entry),
                })
            })
            .collect();
        NodeGraph {
            node: known.node.name.clone(),
            health: worst.unwrap_or_default().max(self.health),
            facts,
            policies,
            parts: self.parts,
            links: self.links.into_iter().collect(),
            messages: self.messages,
        }
    }
}
