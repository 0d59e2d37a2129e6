//! The effect of a change of a host, compared with `weft-agent plan`: each difference between the
//! reports before and after it is in the plan, and each line of the plan is such a difference.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weft_node_network::{
    drift::{self, Difference},
    state,
};

/// The properties of an interface that a plan must have. An apply also changes others that no state
/// asks for: the first profile of a card brings defaults of NetworkManager with it, and the kernel
/// computes addresses of the link layer and speeds.
const COMPARED: [&str; 13] = [
    "bridge",
    "description",
    "ipvlan",
    "link-aggregation",
    "mac-vlan",
    "mac-vtap",
    "mtu",
    "state",
    "type",
    "vlan",
    "vrf",
    "vxlan",
    "wait-ip",
];
/// Those of them below `ipv4` and `ipv6`. A stack without addresses can be on or off.
const OF_STACK: [&str; 3] = ["address", "autoconf", "dhcp"];
/// The other sections that a plan must have. All else follows from it.
const SECTIONS: [&str; 6] = [
    "dns-resolver.config",
    "hostname.config",
    "ovn",
    "ovs-db",
    "route-rules",
    "routes",
];
/// Properties of a plan that no report shows, or under another name.
const NOT_REPORTED: [&str; 3] = [".profile-name", ".identifier", ".dispatch"];
/// Properties whose planned value is compared with the reported one.
const WITH_VALUE: [&str; 5] = [".mtu", ".dhcp", ".autoconf", ".description", ".mac-address"];

/// A plan, and the report of the host that it was made for.
pub struct HostPlan {
    changes: Vec<Value>,
    before: Value,
}

/// A difference between two reports.
#[derive(Debug)]
struct Seen {
    before: Value,
    after: Value,
}

impl HostPlan {
    /// `plan` is the output of `weft-agent plan -o json`, and `before` that of `weft-agent show -o
    /// json` before the change.
    pub fn new(plan: &Value, before: Value) -> Self {
        let changes = plan["changes"].as_array().expect("a plan has changes");
        Self {
            changes: changes.clone(),
            before,
        }
    }

    /// Compares the plan with the host's report after the change.
    ///
    /// # Errors
    /// They differ: the error lists the differences.
    pub fn compare(&self, after: &Value) -> Result<(), String> {
        let seen = differences(&self.before, after);
        let planned: Vec<(String, &Value)> = self
            .changes
            .iter()
            .map(|change| (plain(change["path"].as_str().unwrap_or_default()), change))
            .collect();
        let unplanned = seen.iter().filter(|(path, difference)| {
            must_be_planned(path, difference, after)
                && !planned.iter().any(|(plan, change)| {
                    is_part_of(path, plan) || is_same_port(path, plan) || comes_up(path, change)
                })
        });
        let unplanned = unplanned
            .map(|(path, seen)| format!("not planned: {path}: {} -> {}", seen.before, seen.after));
        let unseen = planned.iter().filter_map(|(path, change)| {
            let why = self.unseen(path, change, after, &seen)?;
            Some(format!("not seen: {path}: {why}"))
        });
        let all: Vec<String> = unplanned.chain(unseen).collect();
        if all.is_empty() {
            return Ok(());
        }
        let plan: Vec<String> = self
            .changes
            .iter()
            .map(|change| format!("{}: {} -> {}", change["path"], change["from"], change["to"]))
            .collect();
        Err(format!(
            "plan and effect disagree:\n{}\nThe plan:\n{}",
            all.join("\n"),
            plan.join("\n")
        ))
    }

    /// Why a line of the plan is no difference between the reports. `None` if it is one.
    fn unseen(
        &self,
        path: &str,
        change: &Value,
        after: &Value,
        seen: &BTreeMap<String, Seen>,
    ) -> Option<String> {
        if NOT_REPORTED.iter().any(|part| path.contains(part)) {
            return None;
        }
        // nmstate reports an interface that is up and has no carrier so.
        if state_of(path).is_some_and(|name| interface(after, name)["state"] == "unknown") {
            return None;
        }
        // A client has brought the same route before.
        if path.starts_with("routes.")
            && [&self.before, after]
                .map(comparable)
                .iter()
                .all(|report| has_route(report, path))
        {
            return None;
        }
        if let Some(name) = port_by_itself(path) {
            let controller = |state: &Value| interface(state, name)["controller"].clone();
            let (old, new) = (controller(&self.before), controller(after));
            return (old == new).then(|| format!("the controller is {new} still"));
        }
        if let Some(found) = seen.get(path) {
            let (wanted, is) = (spelled(&change["to"]), spelled(&found.after));
            let has_value = WITH_VALUE.iter().any(|end| path.ends_with(end));
            // A stack that is off says nothing of clients.
            let is_off = wanted == "false" && is.is_empty();
            return (has_value && wanted != is && !is_off)
                .then(|| format!("{is} and not {wanted}"));
        }
        let is_seen = seen
            .keys()
            .any(|other| is_part_of(other, path) || is_part_of(path, other));
        (!is_seen).then(|| "nothing has changed there".to_owned())
    }
}

/// A value in one spelling.
fn spelled(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.to_lowercase(),
        other => other.to_string(),
    }
}

/// The same, where a host that waits for any address says so or not.
fn said(value: &Value) -> String {
    let text = spelled(value);
    if text == "any" { String::new() } else { text }
}

/// The interface of this name that the kernel has.
fn interface<'a>(state: &'a Value, name: &str) -> &'a Value {
    let all = state["interfaces"].as_array().into_iter().flatten();
    let mut of_name = all.filter(|interface| interface["name"] == name);
    of_name
        .find(|interface| interface["type"] != "ovs-bridge")
        .unwrap_or(&Value::Null)
}

/// The differences between two reports, by path.
fn differences(before: &Value, after: &Value) -> BTreeMap<String, Seen> {
    let (before, after) = (comparable(before), comparable(after));
    let mut found = BTreeMap::new();
    let mut add = |path: String, before: Value, after: Value| {
        found.entry(path).or_insert(Seen { before, after });
    };
    for Difference {
        path,
        wanted,
        found,
    } in drift::differences(&after, &before)
    {
        add(plain(&path.to_string()), found, wanted);
    }
    // The comparison for drift looks for what is wanted, so it sees nothing that goes.
    for Difference {
        path,
        wanted,
        found,
    } in drift::differences(&before, &after)
    {
        add(plain(&path.to_string()), wanted, found);
    }
    // It leaves these to the reader, as a host without NetworkManager has none.
    for there in after["interfaces"].as_array().into_iter().flatten() {
        let name = there["name"].as_str().unwrap_or_default();
        let earlier = interface(&before, name);
        for key in ["description", "wait-ip"] {
            if earlier.is_object()
                && there["type"] != "ovs-bridge"
                && said(&earlier[key]) != said(&there[key])
            {
                let path = format!("interfaces[{name}].{key}");
                add(path, earlier[key].clone(), there[key].clone());
            }
        }
    }
    // NetworkManager chooses the metric of a route at each activation.
    let is_route_of_both = |path: &str| {
        path.starts_with("routes.") && has_route(&after, path) && has_route(&before, path)
    };
    found.retain(|path, _| !is_route_of_both(path));
    found
}

/// Reports whether a state has a route of this path, with any metric.
fn has_route(state: &Value, path: &str) -> bool {
    let nothing = json!({});
    let mut routes = state["routes"]["config"].as_array().into_iter().flatten();
    routes.any(|route| {
        let alone = json!({"routes": {"config": [route]}});
        drift::differences(&alone, &nothing)
            .iter()
            .any(|one| plain(&one.path.to_string()) == path)
    })
}

/// A report in which routes through a gateway that a client has brought stand next to the others.
fn comparable(report: &Value) -> Value {
    let mut state = state::without_additions(report);
    let list = |key: &str| {
        let routes = report["routes"][key].as_array().cloned();
        routes.unwrap_or_default()
    };
    let through_gateway = |route: &Value| {
        route["next-hop-address"]
            .as_str()
            .is_some_and(|gateway| !gateway.is_empty())
    };
    let mut routes = list("config");
    routes.extend(list("running").into_iter().filter(through_gateway));
    for route in &mut routes {
        let is_direct = route["next-hop-address"] == "";
        if let Some(route) = route.as_object_mut().filter(|_| is_direct) {
            route.remove("next-hop-address");
        }
    }
    state["routes"] = json!({ "config": routes });
    state
}

/// A path as both sides have it. A rule is named by all of its properties, and a host adds some. The
/// addresses of a port stand with the port.
fn plain(path: &str) -> String {
    if path.starts_with("route-rules.") {
        return "route-rules".to_owned();
    }
    for family in ["ipv4", "ipv6"] {
        if let Some((above, rest)) = path.split_once(&format!("].{family}."))
            && let Some((_, port)) = above.rsplit_once(".port[")
        {
            return format!("interfaces[{port}].{family}.{rest}");
        }
    }
    path.to_owned()
}

/// Reports whether a place is another one, or below it.
fn is_part_of(path: &str, above: &str) -> bool {
    // The whole card changes with its state.
    let above = match above.strip_suffix(".state") {
        Some(interface) if interface.ends_with(']') => interface,
        _ => above,
    };
    path.strip_prefix(above)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The interface whose `controller` a path is.
fn port_by_itself(path: &str) -> Option<&str> {
    path.strip_prefix("interfaces[")?
        .strip_suffix("].controller")
}

/// The interface whose `state` a path is.
fn state_of(path: &str) -> Option<&str> {
    path.strip_prefix("interfaces[")?.strip_suffix("].state")
}

/// Reports whether a place is in the list of ports of a controller, and the plan names the port
/// itself, or an entry of the list.
fn is_same_port(path: &str, plan: &str) -> bool {
    let in_list = |name: &str| {
        path.ends_with(&format!(".port[{name}]"))
            || path.ends_with(".link-aggregation.port")
            || path.ends_with(".vrf.port")
    };
    port_by_itself(plan).or(state_of(plan)).is_some_and(in_list)
        || plan.contains(".port[") && is_part_of(plan, path) && path.ends_with(".port")
}

/// Reports whether a place is a route over an interface that the change sets up: its routes come
/// with it.
fn comes_up(path: &str, change: &Value) -> bool {
    let plan = change["path"].as_str().unwrap_or_default();
    let interface = state_of(plan);
    change["to"] == "up" && interface.is_some() && device(path) == interface
}

/// The interface that a route leads over, by its path.
fn device(path: &str) -> Option<&str> {
    let route = path.strip_prefix("routes.config[")?.strip_suffix(']')?;
    let (_, after) = route.split_once(" dev ")?;
    after.split(' ').next()
}

/// Reports whether a plan must have this difference.
fn must_be_planned(path: &str, seen: &Seen, after: &Value) -> bool {
    if let Some(over) = device(path) {
        let family = match path.contains(':') {
            true => "ipv6",
            false => "ipv4",
        };
        return !has_client(interface(after, over), family);
    }
    let Some((name, rest)) = path
        .strip_prefix("interfaces[")
        .and_then(|rest| rest.split_once(']'))
    else {
        return SECTIONS.iter().any(|section| is_part_of(path, section));
    };
    let mut steps = rest.trim_start_matches('.').split(['.', '[']);
    match (steps.next().unwrap_or_default(), steps.next()) {
        // The other end of a pair comes with it, and ends of pods' pairs come and go.
        ("", _) => seen.before != "veth" && seen.after != "veth",
        (family @ ("ipv4" | "ipv6"), Some(property)) => {
            // The client brings and takes them when it likes.
            let is_clients = property == "address" && has_client(interface(after, name), family);
            OF_STACK.contains(&property) && !is_clients
        }
        // nmstate reports an end of a pair so while the other end is down.
        ("state", _) if seen.before == "unknown" || seen.after == "unknown" => false,
        (property, _) => COMPARED.contains(&property),
    }
}

/// Reports whether a client of DHCP or of routers runs on an interface.
fn has_client(interface: &Value, family: &str) -> bool {
    let stack = &interface[family];
    stack["dhcp"] == true || stack["autoconf"] == true
}
