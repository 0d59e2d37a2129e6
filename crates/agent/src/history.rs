//! The last outcomes on this host, with the state before each: what changed when, and the way back.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
};

use jiff::Timestamp;
use nmstate::{
    AltNameEntry, AltNameState, BaseInterface, NetworkState, NmstateError, OvsDbGlobalConfig,
    RouteEntry, RouteState,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use weft_node_network::{
    consequences,
    desired::Desired,
    drift::{self, Difference},
    losses,
    plan::lines,
    removal, revert as back, state,
};

use crate::{
    secrets::{mask, without},
    state_dir::{Error, StateDir},
};

/// How many outcomes are kept.
const KEPT: usize = 20;
/// How many lines an outcome has about changed properties, at most.
const LINES: usize = 50;
/// How many characters a line has, at most.
const WIDTH: usize = 256;
const FOLDER: &str = "history";

/// One outcome. States have secrets in them: the files are for root alone, and nothing but
/// `weft-agent rollback` reads the states.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Time of the change.
    pub at: Timestamp,
    /// The owner of the change.
    pub what: String,
    /// Why it failed and was rolled back. `None` if it was done.
    pub failure: Option<String>,
    /// Lines about the changed properties, without secrets. Files of earlier versions of the agent
    /// have none.
    #[serde(default)]
    pub differences: Vec<String>,
    before: NetworkState,
    desired: Desired,
}

/// An outcome for those who may see the host and not its secrets.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Summary {
    /// Time of the change.
    pub at: Timestamp,
    /// The owner of the change.
    pub what: String,
    /// Why it failed and was rolled back. `None` if it was done.
    pub failure: Option<String>,
    /// Lines about the changed properties. Files of earlier versions of the agent have none.
    #[serde(default)]
    pub differences: Vec<String>,
}

impl Entry {
    /// An outcome of now. Its texts have none of these secrets.
    pub fn new(
        what: &str,
        outcome: Result<(), String>,
        before: NetworkState,
        desired: Desired,
        secrets: &BTreeSet<String>,
    ) -> Self {
        Self {
            at: Timestamp::now(),
            what: without(what, secrets),
            failure: outcome.err().map(|failure| without(&failure, secrets)),
            differences: differences(&desired, &before, secrets),
            before,
            desired,
        }
    }

    /// Returns the change that takes this one back: a changed property gets its earlier value, and
    /// an object that this change made goes.
    ///
    /// # Errors
    /// nmstate cannot compute the change.
    pub fn revert(&self) -> Result<Desired, NmstateError> {
        revert(&self.desired, &self.before)
    }
}

/// Returns lines about the properties that differ, as `weft-agent plan` prints them, without these
/// secrets.
fn differences(
    desired: &Desired,
    before: &NetworkState,
    secrets: &BTreeSet<String>,
) -> Vec<String> {
    let (desired, before) = (desired.value(), state::value(before));
    let masked = mask(desired, secrets);
    let shown = |difference: Difference| {
        let difference = Difference {
            wanted: mask(&difference.wanted, secrets),
            found: mask(&difference.found, secrets),
            path: difference.path,
        };
        lines(&difference, &masked, &BTreeMap::new())
    };
    // Compared in clear, as a password that is another one is a change, too.
    let mut all = removal::changes(desired, &before);
    let follow = consequences::consequences(desired, &before, &all, None);
    all.extend(follow.into_iter().map(|one| one.difference));
    let mut all: Vec<_> = all
        .into_iter()
        .flat_map(shown)
        // A path may have a secret as the name of an entry.
        .map(|line| without(&line, secrets).chars().take(WIDTH).collect())
        .collect();
    let left_out = all.len().saturating_sub(LINES);
    if left_out > 0 {
        all.truncate(LINES);
        all.push(format!("and {left_out} more lines"));
    }
    all
}

/// Returns the change that leads from the desired state back to that before it.
///
/// nmstate takes from the state before only what the desired state names. One property of IPv4 or
/// IPv6 can change the others: where the desired state switches a stack off, its addresses go, and
/// where it switches DHCP off, the options of DHCP do. So all of a stack comes back. And nmstate
/// removes each route that the desired state names, also one that was there before, so those stay.
/// The routes of an interface that became a port come back, too. nmstate also leaves out what was
/// not there before, such as a description, an alternative name or a key of Open vSwitch's database.
///
/// # Errors
/// nmstate cannot compute the change.
pub(crate) fn revert(desired: &Desired, before: &NetworkState) -> Result<Desired, NmstateError> {
    let mut revert = desired.state().generate_revert(before)?;
    for interface in revert.interfaces.iter_mut() {
        let Some(earlier) = before
            .interfaces
            .get_iface(interface.name(), interface.iface_type())
        else {
            continue;
        };
        let (base, earlier) = (interface.base_iface_mut(), earlier.base_iface());
        if base.ipv4.is_some() {
            base.ipv4.clone_from(&earlier.ipv4);
        }
        if base.ipv6.is_some() {
            base.ipv6.clone_from(&earlier.ipv6);
        }
        let wanted = desired.state().interfaces.iter();
        let mut wanted = wanted.filter(|wanted| wanted.name() == base.name);
        if let Some(wanted) = wanted.next() {
            unset(base, wanted.base_iface(), earlier);
        }
    }
    // No checkpoint of NetworkManager has these keys: nmstate sets them itself, and its own way back
    // leaves a purge out.
    let keys = back::open_vswitch(&state::value(before), desired.value());
    revert.ovsdb = keys.and_then(|keys| OvsDbGlobalConfig::deserialize(keys).ok());
    give_routes_back(&mut revert, desired, before);
    if let Some(routes) = &mut revert.routes.config {
        let before = state::value(before);
        routes.retain(|route| {
            !(route.state == Some(RouteState::Absent) && was_there(route, &before))
        });
    }
    Ok(revert.into())
}

/// Takes properties of `wanted` out of the way back that had no value `earlier`.
fn unset(back: &mut BaseInterface, wanted: &BaseInterface, earlier: &BaseInterface) {
    if wanted.description.is_some() && earlier.description.is_none() {
        back.description = Some(String::new());
    }
    let Some(names) = &wanted.alt_names else {
        return;
    };
    let there = earlier.alt_names.as_deref().unwrap_or_default();
    let former = |name: &AltNameEntry| {
        let mut former = AltNameEntry::default();
        former.name.clone_from(&name.name);
        let was_there = there.iter().any(|there| there.name == name.name);
        former.state = (!was_there).then_some(AltNameState::Absent);
        former
    };
    back.alt_names = Some(names.iter().map(former).collect());
}

/// The routes of interfaces that became ports went with their addresses, which nmstate gives back.
fn give_routes_back(revert: &mut NetworkState, desired: &Desired, before: &NetworkState) {
    let earlier = state::value(before);
    let ports = losses::taken(desired.value(), &earlier);
    let of_port = |route: &&RouteEntry| {
        let interface = route.next_hop_iface.as_deref();
        ports.iter().any(|port| port["name"].as_str() == interface)
    };
    for route in before.routes.config.iter().flatten().filter(of_port) {
        let back = revert.routes.config.get_or_insert_default();
        if !back.contains(route) {
            back.push(route.clone());
        }
    }
}

/// Reports whether a state has a route. An omitted property of the route may be anything.
pub(crate) fn was_there(route: &RouteEntry, before: &Value) -> bool {
    let mut wanted = route.clone();
    wanted.state = None;
    drift::has_route(before, &state::value(&wanted))
}

/// Outcomes by number, or why the file of an outcome cannot be read.
pub type Numbered<T> = Vec<(u64, Result<T, Error>)>;

/// All changes in the history.
pub struct History {
    dir: StateDir,
}

impl History {
    /// Opens the history in the agent's folder.
    pub fn new(dir: &StateDir) -> Result<Self, Error> {
        Ok(Self {
            dir: StateDir::open(dir.path(FOLDER))?,
        })
    }

    /// Adds an outcome, and forgets the oldest if there are too many.
    pub fn add(&self, entry: &Entry) -> Result<(), Error> {
        let numbers = self.numbers()?;
        let next = numbers.last().map_or(1, |last| last + 1);
        self.dir.write(&file(next), entry)?;
        let surplus = (numbers.len() + 1).saturating_sub(KEPT);
        numbers
            .iter()
            .take(surplus)
            .try_for_each(|number| self.dir.remove(&file(*number)))
    }

    /// The outcomes, oldest first, by number. A file that cannot be read hides no other.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn entries(&self) -> Result<Numbered<Entry>, Error> {
        self.all()
    }

    /// The outcomes without states, the newest first, by number. A file that cannot be read hides no
    /// other.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn summaries(&self) -> Result<Numbered<Summary>, Error> {
        let mut all = self.all()?;
        all.reverse();
        Ok(all)
    }

    fn all<T: DeserializeOwned>(&self) -> Result<Numbered<T>, Error> {
        let read = |number| match self.dir.read(&file(number)) {
            Ok(found) => found.map(|found| (number, Ok(found))),
            Err(error) => Some((number, Err(error))),
        };
        Ok(self.numbers()?.into_iter().filter_map(read).collect())
    }

    /// The number of the newest outcome.
    pub fn newest(&self) -> Result<Option<u64>, Error> {
        Ok(self.numbers()?.pop())
    }

    fn numbers(&self) -> Result<Vec<u64>, Error> {
        let path = self.dir.path("");
        let listed = || -> io::Result<Vec<u64>> {
            let mut numbers = Vec::new();
            for file in fs::read_dir(&path)? {
                let name = file?.file_name();
                numbers.extend(
                    name.to_str()
                        .and_then(|name| name.strip_suffix(".json"))
                        .and_then(|number| number.parse::<u64>().ok()),
                );
            }
            numbers.sort_unstable();
            Ok(numbers)
        };
        listed().map_err(|source| Error::Io {
            path: path.clone(),
            source,
        })
    }
}

fn file(number: u64) -> String {
    format!("{number}.json")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use nmstate::InterfaceIpv4;

    fn state(text: &str) -> NetworkState {
        NetworkState::new_from_yaml(text).unwrap()
    }

    fn entry(what: &str) -> Entry {
        let before = NetworkState::new_from_yaml(
            "interfaces: [{name: eth1, type: ethernet, state: up, mtu: 1500}]",
        )
        .unwrap();
        let desired = NetworkState::new_from_yaml(
            "interfaces: [{name: eth1, type: ethernet, state: up, mtu: 9000}]",
        )
        .unwrap();
        Entry::new(what, Ok(()), before, desired.into(), &BTreeSet::new())
    }

    #[test]
    fn twenty_are_kept_and_the_last_can_be_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::new(&StateDir::open(folder.path()).unwrap()).unwrap();
        assert!(history.entries().unwrap().is_empty());
        for number in 1..=23 {
            history.add(&entry(&format!("change {number}"))).unwrap();
        }
        let entries = history.entries().unwrap();
        assert_eq!(entries.len(), KEPT);
        assert_eq!(entries[0].1.as_ref().unwrap().what, "change 4");
        let (number, last) = &entries[KEPT - 1];
        let last = last.as_ref().unwrap();
        assert_eq!((*number, last.what.as_str()), (23, "change 23"));
        let revert = last.revert().unwrap();
        let mtu = revert
            .state()
            .interfaces
            .iter()
            .map(|interface| interface.base_iface().mtu)
            .collect::<Vec<_>>();
        assert_eq!(mtu, [Some(1500)]);
    }

    #[test]
    fn a_route_that_was_there_before_a_change_stays_when_it_is_taken_back() {
        let route = |gateway: &str| {
            format!(
                "{{destination: 198.51.100.0/24, next-hop-interface: eth1, next-hop-address: {gateway}}}"
            )
        };
        let state = |routes: &[String]| {
            let yaml = format!(
                "{{interfaces: [{{name: eth1, type: ethernet, state: up, ipv4: {{enabled: true, dhcp: false, \
                 address: [{{ip: 192.0.2.7, prefix-length: 24}}]}}}}], routes: {{config: [{}]}}}}",
                routes.join(", ")
            );
            NetworkState::new_from_yaml(&yaml).unwrap()
        };
        let before = state(&[route("192.0.2.1")]);
        let desired = state(&[route("192.0.2.1"), route("192.0.2.2")]);
        let back = revert(&desired.into(), &before).unwrap().value().clone();
        let routes = back["routes"]["config"].as_array().unwrap();
        assert_eq!(routes.len(), 1, "{back:#}");
        assert_eq!(routes[0]["next-hop-address"], "192.0.2.2");
    }

    #[test]
    fn a_card_that_became_a_port_gets_its_addresses_and_routes_back() {
        let before = state(
            "interfaces:
- {name: eth0, type: ethernet, state: up, ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.11, prefix-length: 24}]}}
routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: eth0, next-hop-address: 192.0.2.1, table-id: 254}]}",
        );
        let desired = state(
            "interfaces:
- {name: br0, type: linux-bridge, state: up, bridge: {port: [{name: eth0}]},
   ipv4: {enabled: true, dhcp: false, address: [{ip: 192.0.2.11, prefix-length: 24}]}}
routes: {config: [{destination: 0.0.0.0/0, next-hop-interface: br0, next-hop-address: 192.0.2.1, table-id: 254}]}",
        );
        let back = revert(&desired.into(), &before).unwrap().value().clone();
        let interfaces = back["interfaces"].as_array().unwrap();
        let named = |name: &str| interfaces.iter().find(|one| one["name"] == name).unwrap();
        assert_eq!(named("br0")["state"], "absent", "{back:#}");
        assert_eq!(named("eth0")["ipv4"]["address"][0]["ip"], "192.0.2.11");
        let routes = back["routes"]["config"].as_array().unwrap();
        let over = |name: &str| {
            let of_interface = |route: &&Value| route["next-hop-interface"] == name;
            routes.iter().find(of_interface).unwrap()["state"].clone()
        };
        assert_eq!((over("br0"), over("eth0")), (json!("absent"), Value::Null));
    }

    /// No checkpoint of NetworkManager has alternative names and the database of Open vSwitch.
    #[test]
    fn a_value_that_was_not_there_goes_when_a_change_is_taken_back() {
        let eth1 = |more: &str| {
            format!("interfaces: [{{name: eth1, type: ethernet, state: up, mtu: 1500{more}}}]")
        };
        let before = state(&format!(
            "{}\novs-db: {{external_ids: {{a: '1', b: '2', ovn-bridge-mappings: 'n:b'}}, other_config: {{c: '3'}}}}",
            eth1(", alt-names: [{name: old}, {name: kept}]")
        ));
        let back = |desired: &str| revert(&state(desired).into(), &before).unwrap();
        let changed = back(&eth1(
            ", description: uplink, alt-names: [{name: new}, {name: old, state: absent}]",
        ));
        let interface = changed.state().interfaces.iter().next().unwrap();
        assert_eq!(interface.base_iface().description.as_deref(), Some(""));
        assert_eq!(
            changed.value()["interfaces"][0]["alt-names"],
            json!([{"name": "new", "state": "absent"}, {"name": "old"}])
        );
        let of_database = |desired: &str| back(desired).value()["ovs-db"].clone();
        assert_eq!(
            of_database("ovs-db: {external_ids: {new: x, a: y, b: null}}"),
            json!({"external_ids": {"a": "1", "b": "2", "new": null}})
        );
        let purged = json!({"external_ids": {"a": "1", "b": "2"}, "other_config": {"c": "3"}});
        assert_eq!(of_database("ovs-db: {}"), purged);
        assert_eq!(of_database("hostname: {config: node-1}"), Value::Null);
        assert_eq!(of_database("ovs-db: {external_ids: {}}"), Value::Null);
        let empty = state(&eth1(""));
        let of_nothing = revert(&state("ovs-db: {}").into(), &empty).unwrap();
        assert_eq!(of_nothing.value()["ovs-db"], Value::Null, "it would purge");
    }

    #[test]
    fn a_file_of_an_earlier_agent_can_be_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::new(&StateDir::open(folder.path()).unwrap()).unwrap();
        let mut earlier = serde_json::to_value(entry("change 1")).unwrap();
        earlier.as_object_mut().unwrap().remove("differences");
        history.dir.write(&file(1), &earlier).unwrap();
        let entries = history.entries().unwrap();
        assert!(entries[0].1.as_ref().unwrap().revert().is_ok());
        let summaries = history.summaries().unwrap();
        assert_eq!(summaries[0].1.as_ref().unwrap().what, "change 1");
    }

    #[test]
    fn a_truncated_file_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::new(&StateDir::open(folder.path()).unwrap()).unwrap();
        for number in 1..=3 {
            history.add(&entry(&format!("change {number}"))).unwrap();
        }
        let second = history.dir.path(&file(2));
        let text = fs::read(&second).unwrap();
        fs::write(&second, &text[..text.len() / 2]).unwrap();
        let seen: Vec<_> = history
            .summaries()
            .unwrap()
            .into_iter()
            .map(|(number, summary)| (number, summary.ok().map(|summary| summary.what)))
            .collect();
        let of = |number: u64| (number, Some(format!("change {number}")));
        assert_eq!(seen, [of(3), (2, None), of(1)]);
        let errors: Vec<_> = history
            .entries()
            .unwrap()
            .into_iter()
            .filter_map(|(_, entry)| entry.err())
            .collect();
        assert_eq!(errors.len(), 1);
        assert!(errors[0].to_string().contains("2.json"), "{}", errors[0]);
    }

    #[test]
    fn a_summary_shows_changed_properties_and_no_secret() {
        let wire = |password: &str, description: &str| {
            state(&format!(
                "interfaces: [{{name: eth1, type: ethernet, state: up, description: {description}, mtu: 1500, \
                 802.1x: {{identity: node, eap-methods: [md5], password: {password}}}}}]"
            ))
        };
        let (before, mut desired) = (wire("first-pass", "wall"), wire("second-pass", "taken"));
        desired.interfaces.push(
            state(
                "interfaces: [{name: br-taken, type: linux-bridge, state: up, bridge: {port: []}}]",
            )
            .interfaces
            .iter()
            .next()
            .unwrap()
            .clone(),
        );
        // Values of Secrets, and those that nmstate knows.
        let mut secrets = BTreeSet::from(["taken".to_owned()]);
        for state in [&before, &desired] {
            secrets.extend(crate::secrets::values(state, &BTreeSet::new()));
        }
        let failure = "eth1 should be second-pass".to_owned();
        let folder = tempfile::tempdir().unwrap();
        let history = History::new(&StateDir::open(folder.path()).unwrap()).unwrap();
        history
            .add(&Entry::new(
                "policy of taken",
                Err(failure),
                before,
                desired.into(),
                &secrets,
            ))
            .unwrap();
        let (number, summary) = history.summaries().unwrap().remove(0);
        let summary = summary.unwrap();
        assert_eq!(number, 1);
        assert_eq!(summary.what, "policy of <hidden>");
        assert_eq!(summary.failure.as_deref(), Some("eth1 should be <hidden>"));
        let text = summary.differences.join("\n");
        for part in [
            "~ interfaces[eth1].802.1x.password: <_password_hid_by_nmstate> -> <_password_hid_by_nmstate>",
            "~ interfaces[eth1].description: wall -> <_password_hid_by_nmstate>",
            "+ interfaces[br-<hidden>]: ",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        for secret in ["first-pass", "second-pass", "taken"] {
            assert!(!text.contains(secret), "{text}");
        }
    }

    #[test]
    fn no_planted_secret_is_in_the_history() {
        let planted = include_str!("../../plan/tests/planted.yaml");
        let (wanted, before) = (state(planted), state(&planted.replace("-zz", "-old")));
        let mut secrets = crate::secrets::values(&before, &BTreeSet::new());
        secrets.extend(crate::secrets::values(&wanted, &BTreeSet::new()));
        assert!(secrets.len() > 100, "{secrets:?}");
        let outcome = Err(format!("nmstate has said: {planted}"));
        let entry = Entry::new(planted, outcome, before, wanted.into(), &secrets);
        let shown = entry.differences.join("\n");
        let line = "~ interfaces[eth1].802.1x.password: <_password_hid_by_nmstate> -> <_password_hid_by_nmstate>";
        assert!(
            shown.contains(line) && shown.contains("h4rmless"),
            "{shown}"
        );
        let (what, failure) = (&entry.what, entry.failure.as_ref().unwrap());
        for text in [&shown, what, failure] {
            assert!(!text.contains("pl4nted"), "{text}");
        }
        for text in [what, failure] {
            let count = |text: &str| text.matches("h4rmless").count();
            assert_eq!(count(text), count(planted), "{text}");
        }
    }

    #[test]
    fn the_way_back_has_the_secrets_that_the_history_hides() {
        let keys = |key: &str| {
            state(&format!(
                "{{interfaces: [], ovs-db: {{external_ids: {{ssl_key: {key}}}}}}}"
            ))
        };
        let (before, wanted) = (keys("hunter22"), keys("hunter33"));
        let secrets = crate::secrets::values(&before, &BTreeSet::new());
        let entry = Entry::new("a", Ok(()), before, wanted.into(), &secrets);
        assert_eq!(
            entry.differences,
            [
                "~ ovs-db.external_ids.ssl_key: <_password_hid_by_nmstate> -> <_password_hid_by_nmstate>"
            ]
        );
        let back = entry.revert().unwrap();
        assert_eq!(
            back.value()["ovs-db"]["external_ids"]["ssl_key"],
            "hunter22"
        );
    }

    /// Returns IPv4 of the change that leads back.
    fn reverted(before: &str, desired: &str) -> InterfaceIpv4 {
        let [before, desired] = [before, desired].map(|ipv4| {
            let eth1 = format!("{{name: eth1, type: ethernet, state: up, ipv4: {ipv4}}}");
            NetworkState::new_from_yaml(&format!("interfaces: [{eth1}]")).unwrap()
        });
        let revert = revert(&desired.into(), &before).unwrap();
        let eth1 = revert.state().interfaces.iter().next().unwrap();
        eth1.base_iface().ipv4.clone().unwrap()
    }

    #[test]
    fn a_stack_comes_back_as_a_whole() {
        let address = "{enabled: true, dhcp: false, address: [{ip: 192.0.2.1, prefix-length: 24}]}";
        let without_route = "{enabled: true, dhcp: true, auto-gateway: false}";
        let dhcp = reverted(without_route, address);
        assert_eq!((dhcp.dhcp, dhcp.auto_gateway), (Some(true), Some(false)));
        let again = reverted(address, "{enabled: false}");
        assert_eq!(again.addresses.map(|list| list.len()), Some(1));
    }
}
