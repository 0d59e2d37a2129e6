//! A model of addresses: two operators that replace each other, writes that arrive late or never,
//! watches that lag, and nodes, policies and pools that come, change and go.
//!
//! The model assumes of the real parts: only the leader decides (the fence), and a new leader has
//! caught up with the API server before it decides. A write of an
//! earlier leader may still arrive at any later time. The garbage collector takes the enactments of
//! a Node that is gone.
//!
//! `PROPTEST_CASES=20000` makes it run for more histories.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{collections::BTreeMap, net::IpAddr, rc::Rc};

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use serde_json::{Value, json};

use super::{Action, Decision, testing::Cluster, view::enactment_name};
use crate::addresses::ledger::Ledger;

const NODES: usize = 4;
const POLICIES: usize = 2;
/// They overlap, and one has fewer addresses than there are nodes.
const RANGES: [&str; 4] = [
    "192.0.2.1-192.0.2.3",
    "192.0.2.2-192.0.2.9",
    "192.0.2.0/29",
    "198.51.100.0/28",
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Arrives,
    Lost,
    AnswerLost,
}

#[derive(Clone, Debug)]
enum Happening {
    /// The leader decides, and sends its writes.
    Decide,
    /// A write arrives at the API server, it is lost, or its answer is.
    Arrive {
        which: usize,
        fate: Fate,
    },
    /// The watches of the leader report something: nodes, policies, reports, statuses.
    Watch {
        nodes: bool,
        policies: bool,
        states: bool,
        enactments: bool,
    },
    /// All writes arrive, all agents act, and the watches report it, a few times over. Hosts report
    /// their addresses, too, or not.
    Settle {
        reports: bool,
    },
    /// The other operator leads.
    Takeover,
    Agent {
        node: usize,
        succeeds: bool,
    },
    Report(usize),
    /// The user removes what no policy wants on a host.
    Clear(usize),
    NodeGone(usize),
    NodeNew(usize),
    Label(usize, bool),
    Pool(usize, usize),
    OnDelete(usize, bool),
    Delete(usize),
    Make(usize, usize, bool),
}

fn happening() -> impl Strategy<Value = Happening> {
    let (node, policy, range) = (0..NODES, 0..POLICIES, 0..RANGES.len());
    let flag = any::<bool>();
    let fate =
        prop_oneof![8 => Just(Fate::Arrives), 1 => Just(Fate::Lost), 1 => Just(Fate::AnswerLost)];
    prop_oneof![
        12 => Just(Happening::Decide),
        16 => (0..8_usize, fate).prop_map(|(which, fate)| Happening::Arrive { which, fate }),
        8 => (flag, flag, flag, flag).prop_map(|(nodes, policies, states, enactments)| Happening::Watch { nodes, policies, states, enactments }),
        4 => flag.prop_map(|reports| Happening::Settle { reports }),
        2 => Just(Happening::Takeover),
        12 => (node.clone(), prop::bool::weighted(0.9)).prop_map(|(node, succeeds)| Happening::Agent { node, succeeds }),
        6 => node.clone().prop_map(Happening::Report),
        3 => node.clone().prop_map(Happening::Clear),
        1 => node.clone().prop_map(Happening::NodeGone),
        2 => node.clone().prop_map(Happening::NodeNew),
        3 => (node, flag).prop_map(|(node, worker)| Happening::Label(node, worker)),
        2 => (policy.clone(), range.clone()).prop_map(|(policy, range)| Happening::Pool(policy, range)),
        1 => (policy.clone(), flag).prop_map(|(policy, reverts)| Happening::OnDelete(policy, reverts)),
        1 => policy.clone().prop_map(Happening::Delete),
        2 => (policy, range, flag).prop_map(|(policy, range, reverts)| Happening::Make(policy, range, reverts)),
    ]
}

fn node(number: usize) -> String {
    format!("node-{number}")
}

fn policy(number: usize) -> String {
    format!("p{number}")
}

fn spec(range: usize, reverts: bool) -> Value {
    let mut pool = json!({"range": RANGES[range]});
    if !RANGES[range].contains('/') {
        pool["prefixLength"] = 24.into();
    }
    json!({
        "maxUnavailable": "100%",
        "nodeSelector": {"role": "worker"},
        "onDelete": if reverts { "revert" } else { "retain" },
        "addressPools": {"a": pool},
        "desiredState": {"interfaces": [{
            "name": "eth1", "type": "ethernet", "state": "up",
            "ipv4": {"enabled": true, "address": [
                {"ip": "{{ pool.a.ip }}", "prefix-length": "{{ pool.a.prefix-length }}"}
            ]}
        }]}
    })
}

/// A write on its way, with what it was derived from.
#[derive(Clone, Debug)]
enum Write {
    Ledger {
        version: usize,
        next: Ledger,
    },
    Action {
        action: Box<Action>,
        seen: Rc<Cluster>,
    },
}

struct Model {
    real: Cluster,
    /// The view of the leader.
    view: Cluster,
    flying: Vec<(usize, Write)>,
    /// How many takeovers there were: a write of an earlier leader has a smaller number.
    term: usize,
    /// The number of enactments that were made.
    uids: usize,
    /// The addresses of each host, by the policy that brought them.
    hosts: BTreeMap<String, BTreeMap<String, IpAddr>>,
    /// Writes of the ledger test its version, as the operator does.
    is_guarded: bool,
}

fn granted(object: &Value) -> Option<IpAddr> {
    let ip = &object["spec"]["granted"]["values"]["pools"]["a"]["ip"];
    ip.as_str()?.parse().ok()
}

impl Model {
    fn new() -> Self {
        let real = Cluster::with_nodes(NODES - 1);
        Self {
            view: real.clone(),
            real,
            flying: Vec::new(),
            term: 0,
            uids: 0,
            hosts: BTreeMap::new(),
            is_guarded: true,
        }
    }

    fn happen(&mut self, happening: &Happening) {
        match *happening {
            Happening::Decide => self.decide(),
            Happening::Arrive { which, fate } => {
                if !self.flying.is_empty() {
                    let (term, write) = self.flying.remove(which % self.flying.len());
                    if fate != Fate::Lost {
                        self.arrive(term == self.term && fate == Fate::Arrives, write);
                    }
                }
            }
            Happening::Watch {
                nodes,
                policies,
                states,
                enactments,
            } => {
                if nodes {
                    self.view.nodes.clone_from(&self.real.nodes);
                    self.view.pods.clone_from(&self.real.pods);
                }
                if policies {
                    self.view.policies.clone_from(&self.real.policies);
                }
                if states {
                    self.view.states.clone_from(&self.real.states);
                }
                if enactments {
                    self.view.enactments.clone_from(&self.real.enactments);
                    self.view.ledger.clone_from(&self.real.ledger);
                    self.view.version = self.real.version;
                }
            }
            Happening::Settle { reports } => self.settle(reports),
            Happening::Takeover => {
                self.term += 1;
                self.view = self.real.clone();
            }
            Happening::Agent {
                node: number,
                succeeds,
            } => self.act(&node(number), succeeds),
            Happening::Report(number) => self.report(&node(number)),
            Happening::Clear(number) => {
                let name = node(number);
                let enactments = &self.real.enactments;
                if let Some(host) = self.hosts.get_mut(&name) {
                    host.retain(|policy, _| {
                        enactments.contains_key(&enactment_name(policy, &name))
                    });
                }
            }
            Happening::NodeGone(number) => {
                let name = node(number);
                self.real.remove_node(&name);
                self.real.states.remove(&name);
                self.real
                    .enactments
                    .retain(|_, object| object["spec"]["nodeName"] != *name);
                self.hosts.remove(&name);
            }
            Happening::NodeNew(number) => self.real.add_node(&node(number)),
            Happening::Label(number, worker) => {
                self.real
                    .label(&node(number), if worker { "worker" } else { "other" });
            }
            Happening::Pool(number, range) => {
                let pools = spec(range, false)["addressPools"].clone();
                self.real.merge(&policy(number), "addressPools", pools);
            }
            Happening::OnDelete(number, reverts) => {
                let word = if reverts { "revert" } else { "retain" };
                self.real.merge(&policy(number), "onDelete", json!(word));
            }
            Happening::Delete(number) => self.real.delete(&policy(number)),
            Happening::Make(number, range, reverts) => {
                if !self.real.policies.contains_key(&policy(number)) {
                    self.real.apply(&policy(number), spec(range, reverts));
                }
            }
        }
    }

    fn settle(&mut self, reports: bool) {
        for _ in 0..4 {
            while !self.flying.is_empty() {
                let (term, write) = self.flying.remove(0);
                self.arrive(term == self.term, write);
            }
            for number in 0..NODES {
                self.act(&node(number), true);
                if reports {
                    self.report(&node(number));
                }
            }
            self.view = self.real.clone();
            self.decide();
        }
    }

    /// As the operator does it: the ledger first. The other decisions go by the ledger that is
    /// stored.
    fn decide(&mut self) {
        let next = self.view.next_ledger();
        if next != self.view.ledger {
            let version = self.view.version;
            self.flying
                .push((self.term, Write::Ledger { version, next }));
        }
        let view = Rc::new(self.view.clone());
        for action in self.view.actions() {
            let seen = Rc::clone(&view);
            let action = Box::new(action);
            self.flying
                .push((self.term, Write::Action { action, seen }));
        }
    }

    /// A write as the API server carries it out, with its preconditions. `knows` is true if the
    /// leader has the answer.
    fn arrive(&mut self, knows: bool, write: Write) {
        match write {
            Write::Ledger { version, next } => {
                if self.is_guarded && version != self.real.version {
                    return;
                }
                self.real.ledger = next;
                self.real.version += 1;
                if knows {
                    self.view.ledger.clone_from(&self.real.ledger);
                    self.view.version = self.real.version;
                }
            }
            Write::Action { action, seen } => {
                let Some(name) = self.carry_out(&action, &seen) else {
                    return;
                };
                if !knows {
                    return;
                }
                match self.real.enactments.get(&name) {
                    Some(object) => drop(self.view.enactments.insert(name, object.clone())),
                    None => drop(self.view.enactments.remove(&name)),
                }
            }
        }
    }

    /// Returns the enactment that was written.
    fn carry_out(&mut self, action: &Action, seen: &Cluster) -> Option<String> {
        match action {
            Action::Keep { policy } | Action::Release { policy } => {
                let uid = &seen.policies.get(policy)?["metadata"]["uid"];
                if self.real.policies.get(policy)?["metadata"]["uid"] == *uid {
                    self.real.write(action);
                    self.view.policies.clone_from(&self.real.policies);
                }
                None
            }
            Action::Delete { name, .. } => {
                self.real.write(action);
                Some(name.clone())
            }
            Action::Create {
                policy,
                node,
                wanted,
                values,
            } => {
                let name = enactment_name(policy, node);
                let owner = &seen.nodes.get(node)?["metadata"]["uid"];
                let is_there = self.real.nodes.get(node)?["metadata"]["uid"] == *owner;
                if self.real.enactments.contains_key(&name) || !is_there {
                    return None;
                }
                self.uids += 1;
                let uid = format!("e-{}", self.uids);
                let object = json!({
                    "metadata": {
                        "name": name, "uid": uid, "generation": 1,
                        "ownerReferences": [{"kind": "Node", "name": node, "uid": owner}]
                    },
                    "spec": body(policy, node, wanted, values.as_ref(), seen)
                });
                self.real.enactments.insert(name.clone(), object);
                Some(name)
            }
            Action::Change {
                policy,
                node,
                wanted,
                values,
            } => {
                let name = enactment_name(policy, node);
                let before = seen.enactments.get(&name)?;
                let object = self.real.enactments.get_mut(&name)?;
                let same = |field: &str| object["metadata"][field] == before["metadata"][field];
                if !same("uid") || values.is_some() && !same("generation") {
                    return None;
                }
                let mut spec = body(policy, node, wanted, values.as_ref(), seen);
                if wanted.decision != Decision::Granted {
                    spec["granted"] = object["spec"]["granted"].clone();
                }
                if object["spec"] != spec {
                    object["spec"] = spec;
                    let generation = object["metadata"]["generation"].as_i64().unwrap();
                    object["metadata"]["generation"] = (generation + 1).into();
                }
                Some(name)
            }
            // Of nodes, and none of `decide`.
            Action::Tell { .. } | Action::Untaint { .. } => None,
        }
    }

    fn act(&mut self, node: &str, succeeds: bool) {
        self.real.act(node, succeeds);
        for object in self.real.enactments.values() {
            let is_done = object["status"]["conditions"][0]["type"] == "Available"
                && object["status"]["observedGeneration"] == object["metadata"]["generation"];
            if object["spec"]["nodeName"] != *node || !is_done {
                continue;
            }
            let policy = object["spec"]["policy"].as_str().unwrap().to_owned();
            let host = self.hosts.entry(node.to_owned()).or_default();
            match (
                object["spec"]["wanted"]["decision"].as_str(),
                granted(object),
            ) {
                (Some("Granted"), Some(ip)) => drop(host.insert(policy, ip)),
                (Some("Revert"), _) => drop(host.remove(&policy)),
                _ => {}
            }
        }
    }

    fn report(&mut self, node: &str) {
        if !self.real.nodes.contains_key(node) {
            return;
        }
        let host = self.hosts.get(node);
        let addresses: Vec<_> = host
            .iter()
            .flat_map(|host| host.values())
            .map(|ip| json!({"ip": ip.to_string(), "prefix-length": 24}))
            .collect();
        let state = json!({
            "metadata": {"name": node}, "spec": {"managed": true},
            "status": {"currentState": {"interfaces": [
                {"name": "eth1", "ipv4": {"enabled": true, "address": addresses}}
            ]}}
        });
        self.real.states.insert(node.to_owned(), state);
    }

    /// Returns the address that two hosts have.
    fn twice(&self) -> Option<IpAddr> {
        let mut owners: BTreeMap<IpAddr, &String> = BTreeMap::new();
        for (node, host) in &self.hosts {
            for ip in host.values() {
                let other = owners.insert(*ip, node).filter(|other| *other != node);
                if other.is_some() {
                    return Some(*ip);
                }
            }
        }
        None
    }

    /// Runs a history to its end, or to the first address on two hosts.
    fn run(&mut self, happenings: &[Happening]) -> Option<IpAddr> {
        happenings.iter().find_map(|happening| {
            self.happen(happening);
            self.twice()
        })
    }
}

fn body(
    policy: &str,
    node: &str,
    wanted: &super::Wanted,
    values: Option<&weft_api::node_network::NodeValues>,
    seen: &Cluster,
) -> Value {
    let of = &seen.policies[policy];
    let mut spec = json!({
        "policy": policy, "policyUid": of["metadata"]["uid"], "nodeName": node,
        "wanted": wanted.to_value()
    });
    if wanted.decision == Decision::Granted {
        spec["granted"] = json!({"generation": of["metadata"]["generation"], "spec": of["spec"]});
        if let Some(values) = values {
            spec["granted"]["values"] = json!(values);
        }
    }
    spec
}

fn histories() -> impl Strategy<Value = Vec<Happening>> {
    prop::collection::vec(happening(), 0..150)
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn no_history_gives_one_address_to_two_hosts(happenings in histories()) {
        let mut model = Model::new();
        let twice = model.run(&happenings);
        prop_assert!(twice.is_none(), "{twice:?} is on two hosts\n{:#?}\n{:#?}", model.real.ledger, model.hosts);
    }
}

/// The earlier leader has given an address to node-0, and its write is late. The next one gives it
/// to node-1.
#[test]
fn a_late_write_of_the_ledger_brings_no_address_to_a_second_host() {
    let agent = |node| Happening::Agent {
        node,
        succeeds: true,
    };
    let arrives = |which| Happening::Arrive {
        which,
        fate: Fate::Arrives,
    };
    let watch = Happening::Watch {
        nodes: true,
        policies: true,
        states: true,
        enactments: true,
    };
    let run = |is_guarded: bool| {
        let mut model = Model::new();
        model.is_guarded = is_guarded;
        let label = |number, worker| Happening::Label(number, worker);
        let prepare = [
            label(1, false),
            label(2, false),
            Happening::Make(0, 0, false),
            watch.clone(),
            Happening::Decide,
        ];
        assert_eq!(model.run(&prepare), None);
        let is_late = |(_, write): &(usize, Write)| matches!(write, Write::Ledger { .. });
        model.flying.retain(is_late);
        let late = model.flying.pop().unwrap();
        let next = [
            Happening::Takeover,
            label(0, false),
            label(1, true),
            watch.clone(),
            Happening::Decide,
            arrives(0),
        ];
        model.run(&next);
        model.flying.clear();
        model.run(&[Happening::Decide, arrives(0), agent(1), agent(1)]);
        assert!(model.hosts.contains_key("node-1"), "{:#?}", model.real);
        model.flying = vec![late];
        model.run(&[label(0, true), arrives(0), watch.clone(), Happening::Decide]);
        // All decisions arrive, in any order.
        for _ in 0..4 {
            while !model.flying.is_empty() {
                model.happen(&arrives(0));
            }
            for happening in [agent(0), agent(0), watch.clone(), Happening::Decide] {
                model.happen(&happening);
            }
        }
        assert!(model.hosts.contains_key("node-0"), "{:#?}", model.real);
        model.twice()
    };
    assert_eq!(run(true), None);
    assert!(run(false).is_some(), "the model misses the mistake");
}

/// The random histories are worth something: many bring addresses to hosts.
#[test]
fn many_histories_bring_addresses_to_hosts() {
    let mut runner = TestRunner::deterministic();
    let mut with_addresses = 0;
    for _ in 0..100 {
        let happenings = histories().new_tree(&mut runner).unwrap().current();
        let mut model = Model::new();
        model.run(&happenings);
        with_addresses += usize::from(model.hosts.values().any(|host| !host.is_empty()));
    }
    assert!(with_addresses > 10, "{with_addresses} of 100");
}
