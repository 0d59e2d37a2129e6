//! Mistakes in a desired state or in captures that do not depend on a node, with their places in
//! the document.

use crate::{
    bridge,
    capture::{self, CaptureError},
    contradictions,
    expression::Expression,
    path::{Path, Step, interface_key, name_of, text},
    ranges, schema,
    secrets::{self, HIDDEN},
    state,
    state_error::{StateError, way_out},
    template,
    translate::{TranslateError, translate},
    verdict::{SECRET, verdict},
};
use serde_json::Value;
use weft_api::node_network::NodeNetworkConfigurationPolicySpec as Spec;
use weft_plan::{
    Problem,
    secrets::{values, without},
};

/// Stands in for the names that a match gives.
const MATCHED: &str = "matched";

/// Returns the mistakes in `capture` and `desiredState` of a policy. `field` is where its
/// specification stands: `spec`.
pub(crate) fn policy(field: &str, spec: &Spec) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, rule) in spec.capture.iter().flatten() {
        if let Err(error) = Expression::parse(rule) {
            problems.push(Problem {
                field: format!("{field}.capture.{name}"),
                message: error.to_string(),
            });
        }
    }
    let nothing = Value::Null;
    let (rules, desired) = (
        spec.capture.clone().unwrap_or_default(),
        spec.desired_state.as_ref().unwrap_or(&nothing),
    );
    let pools = spec.address_pools.clone().unwrap_or_default();
    problems.extend(
        capture::mistakes(&rules)
            .into_iter()
            .map(|error| captured(field, error)),
    );
    problems.extend(
        template::mistakes(desired, &rules, &pools)
            .into_iter()
            .map(|error| Problem {
                field: format!("{field}.{}", error.path),
                message: error.error.to_string(),
            }),
    );
    let field = format!("{field}.desiredState");
    let Some(desired) = &spec.desired_state else {
        return problems;
    };
    let matched = spec
        .match_
        .as_ref()
        .is_some_and(|rule| rule.interfaces.is_some());
    // As the node does before it asks nmstate.
    problems.extend(mistakes(&field, desired, matched, bridge::default_vlans));
    problems
}

fn captured(field: &str, error: CaptureError) -> Problem {
    let (place, message) = match error {
        CaptureError::Expression { name, error } => {
            (format!("{field}.capture.{name}"), error.to_string())
        }
        CaptureError::Circle(names) => (
            format!("{field}.capture"),
            format!("{names} need each other, so none of them can be first"),
        ),
    };
    Problem {
        field: place,
        message,
    }
}

/// Returns the mistakes in a desired state. `matched` is true if `spec.match.interfaces` names the
/// interfaces that have no name.
pub fn desired_state(field: &str, desired: &Value, matched: bool) -> Vec<Problem> {
    mistakes(field, desired, matched, |state| state)
}

/// `prepare` adds what the node adds to the state before it asks nmstate.
fn mistakes(
    field: &str,
    desired: &Value,
    matched: bool,
    prepare: fn(Value) -> Value,
) -> Vec<Problem> {
    let mut problems = in_clear(field, desired, matched, prepare);
    let hidden = values(desired);
    for problem in &mut problems {
        problem.message = without(&problem.message, &hidden);
    }
    problems
}

/// The same with the secrets that a message quotes.
fn in_clear(
    field: &str,
    desired: &Value,
    matched: bool,
    prepare: fn(Value) -> Value,
) -> Vec<Problem> {
    if !desired.is_object() && !desired.is_null() {
        return vec![Problem {
            field: field.to_owned(),
            message: "must be an object, with interfaces, routes, dns-resolver …".to_owned(),
        }];
    }
    let at = |path: &Path| join(field, &in_document(desired, path));
    let translated = match translate(desired) {
        Ok(translated) => translated,
        Err(errors) => {
            return errors
                .iter()
                .map(|error| Problem {
                    field: at(path_of(error)),
                    message: error.to_string(),
                })
                .collect();
        }
    };
    let state = match secrets::conceal(&translated) {
        Ok(state) => state,
        Err(error) => {
            return vec![Problem {
                field: field.to_owned(),
                message: error.to_string(),
            }];
        }
    };
    // The replacement of a reference may be the only missing part.
    let complete = !state.to_string().contains("{{");
    let state = with_names(state, matched);
    let found = schema::mistakes(&strip(&state).unwrap_or_else(state::empty))
        .into_iter()
        .filter(|mistake| complete || !matches!(mistake, StateError::Missing { .. }));
    let mut problems: Vec<Problem> = found.map(|mistake| problem(&at, mistake)).collect();
    // A value that stands in for a reference is none that could be judged, and one that is refused
    // already is not judged again.
    let state = literal(&with_names(secrets::mask(&translated, HIDDEN), matched));
    let named = unmatched(&state, matched);
    let others = ranges::mistakes(&state)
        .into_iter()
        .chain(contradictions::mistakes(&named));
    for problem in others.map(|mistake| problem(&at, mistake)) {
        let is_follow_up = |known: &Problem| {
            known.field.starts_with(&problem.field) || problem.field.starts_with(&known.field)
        };
        if !problems.iter().any(is_follow_up) {
            problems.push(problem);
        }
    }
    // nmstate reads no state with unknown keys, and says less about the other mistakes.
    if problems.is_empty() {
        let refusals = verdict(&prepare(named), None).into_iter();
        problems.extend(refusals.map(|refusal| problem(&at, refusal)));
    }
    problems
}

fn problem(at: &impl Fn(&Path) -> String, mistake: StateError) -> Problem {
    match mistake {
        StateError::Unknown {
            path,
            places,
            suggestion,
        } => {
            let key = path
                .0
                .last()
                .map(|step| {
                    if let Step::Key(key) = step {
                        key.as_str()
                    } else {
                        ""
                    }
                })
                .unwrap_or_default();
            let hint = way_out(&places, suggestion.as_deref()).replace('`', "\"");
            Problem {
                field: at(&path),
                message: format!("nmstate knows no {key:?} here{hint}"),
            }
        }
        StateError::Invalid { path, message } => Problem {
            field: at(&path),
            message,
        },
        StateError::Missing { path } => Problem {
            field: at(&path),
            message: "is missing".to_owned(),
        },
    }
}

/// The state with a name for interfaces that a match gives one.
fn with_names(mut state: Value, matched: bool) -> Value {
    for interface in state
        .get_mut("interfaces")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if matched && text(&interface["name"]).is_empty() && interface.is_object() {
            interface["name"] = MATCHED.into();
        }
    }
    state
}

/// The state without the interfaces and other sections that have a reference: only a node can judge
/// them. An interface is judged without its sections of secrets.
fn literal(state: &Value) -> Value {
    let is_literal = |part: &Value| {
        let part = part.to_string();
        !part.contains("{{") && !part.contains(HIDDEN)
    };
    let mut state = state.clone();
    let Some(sections) = state.as_object_mut() else {
        return state;
    };
    let interfaces = sections.get_mut("interfaces").and_then(Value::as_array_mut);
    if let Some(interfaces) = interfaces {
        for interface in interfaces.iter_mut().filter_map(Value::as_object_mut) {
            interface.retain(|section, content| {
                !SECRET.contains(&section.as_str()) || is_literal(content)
            });
        }
        interfaces.retain(is_literal);
    }
    sections.retain(|_, content| is_literal(content));
    state
}

/// The state without the interfaces that a match gives a name: each of them may be another one.
fn unmatched(state: &Value, matched: bool) -> Value {
    let mut state = state.clone();
    if let Some(list) = state
        .get_mut("interfaces")
        .and_then(Value::as_array_mut)
        .filter(|_| matched)
    {
        list.retain(|interface| interface["name"] != MATCHED);
    }
    state
}

fn strip(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) if text.contains("{{") => None,
        // Entries of a list differ by their names, so a name stays as it is written.
        Value::Object(map) => {
            let kept = |(key, value): (&String, &Value)| {
                if key == "name" {
                    Some((key.clone(), value.clone()))
                } else {
                    Some((key.clone(), strip(value)?))
                }
            };
            Some(Value::Object(map.iter().filter_map(kept).collect()))
        }
        Value::Array(list) => Some(Value::Array(list.iter().filter_map(strip).collect())),
        other => Some(other.clone()),
    }
}

fn path_of(error: &TranslateError) -> &Path {
    match error {
        TranslateError::Both { path, .. }
        | TranslateError::Unsupported { path, .. }
        | TranslateError::Malformed { path, .. } => path,
    }
}

/// A path as the document has it: entries of lists by their index.
pub(crate) fn in_document(desired: &Value, path: &Path) -> String {
    let mut value = desired;
    let mut place = String::new();
    for step in &path.0 {
        match step {
            Step::Key(key) => {
                place = join(&place, key);
                value = &value[key.as_str()];
            }
            Step::Item(item) => {
                let entries = crate::path::entries(value);
                let named =
                    |entry: &Value| interface_key(entry) == *item || name_of(entry) == *item;
                let index = entries.iter().position(named).or_else(|| item.parse().ok());
                // The one without a name, which a match names.
                let index = index
                    .or_else(|| {
                        entries
                            .iter()
                            .position(|entry| text(&entry["name"]).is_empty())
                    })
                    .unwrap_or_default();
                place.push_str(&format!("[{index}]"));
                value = entries.get(index).unwrap_or(&Value::Null);
            }
        }
    }
    place
}

fn join(path: &str, field: &str) -> String {
    match (path, field) {
        ("", field) => field.to_owned(),
        (path, "") => path.to_owned(),
        _ => format!("{path}.{field}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn problems(spec: Value) -> Vec<String> {
        policy("spec", &serde_json::from_value(spec).unwrap())
            .iter()
            .map(|problem| format!("{}: {}", problem.field, problem.message))
            .collect()
    }

    #[test]
    fn a_mistake_quotes_no_secret() {
        let state = json!({"interfaces": [{
            "name": "vpn0", "type": "ipsec", "libreswan": {"right": "x", "psk": 4711147}
        }]});
        let problems = desired_state("spec.desiredState", &state, false);
        assert!(problems[0].message.contains("<hidden>"), "{problems:?}");
        assert!(!problems[0].message.contains("4711147"), "{problems:?}");
    }

    /// The node gives the port the VLANs that nmstate asks for with such an option.
    #[test]
    fn nmstate_judges_a_bridge_with_the_vlans_that_the_node_gives_it() {
        let bridge = |vlan: Option<Value>| {
            let mut port = json!({"name": "eth1"});
            if let Some(vlan) = vlan {
                port["vlan"] = vlan;
            }
            problems(json!({"desiredState": {"interfaces": [{
                "name": "br1", "type": "linux-bridge", "state": "up",
                "bridge": {"options": {"vlan-default-pvid": 5}, "port": [port]}
            }]}}))
        };
        assert_eq!(bridge(None), [""; 0]);
        let said = bridge(Some(json!({})));
        assert!(said[0].contains("vlan-default-pvid"), "{said:?}");
    }

    #[test]
    fn all_of_it_is_found_at_its_place() {
        let spec = json!({
            "capture": {"gw": "routes.running.destination=\"0.0.0.0/0\""},
            "desiredState": {
                "interfaces": [
                    {
                        "name": "eth1", "type": "ethernet", "state": "up",
                        "ipv4": {"enabled": true, "dchp": true}
                    },
                    {"name": "eth2", "type": "ethernet", "mut": 1500},
                    {
                        "name": "br1", "type": "linux-bridge",
                        "bridge": {
                            "port": [{"name": "eth3"}, {"name": "eth4", "vlan": {"mod": "trunk"}}]
                        }
                    },
                    {"type": "ethernet"},
                ],
                "routes": {"config": [{"destination": "0.0.0.0/0", "next-hop": "10.0.0.1"}]},
            },
        });
        assert_eq!(
            problems(spec),
            [
                "spec.capture.gw: expected ==, != or :=\n| routes.running.destination=\"0.0.0.0/0\"\n| ..........................^",
                "spec.desiredState.interfaces[0].ipv4.dchp: nmstate knows no \"dchp\" here; did you mean \"dhcp\"?",
                "spec.desiredState.interfaces[1].mut: nmstate knows no \"mut\" here; did you mean \"mtu\"?",
                "spec.desiredState.interfaces[2].bridge.port[1].vlan.mod: nmstate knows no \"mod\" here; did you mean \"mode\"?",
                "spec.desiredState.interfaces[3].name: is missing: give the interface a name, or let spec.match.interfaces of a policy give it one",
                "spec.desiredState.routes.config[0].next-hop: nmstate knows no \"next-hop\" here",
            ]
        );
    }

    #[test]
    fn a_port_in_a_list_of_names_is_found_at_its_place() {
        let bond = |name: &str, ports: [&str; 2]| {
            json!({
                "name": name, "type": "bond", "state": "up",
                "link-aggregation": {"mode": "active-backup", "port": ports}
            })
        };
        let spec = json!({"desiredState": {"interfaces": [
            bond("bond0", ["eth1", "eth2"]), bond("bond1", ["eth3", "eth2"])
        ]}});
        let found = problems(spec);
        assert_eq!(
            found[0],
            "spec.desiredState.interfaces[1].link-aggregation.port[1]: eth2 is to be a port of bond0, too"
        );
    }

    #[test]
    fn checks_that_need_a_node_are_left_to_it() {
        let spec = json!({
            "match": {"interfaces": {"type": "ethernet"}},
            "capture": {"a": "interfaces.name==eth0"},
            "desiredState": {
                "interfaces": [
                    {"mtu": 9000, "ipv6": {"enabled": true, "autoConf": true}},
                    {"name": "br1", "type": "linux-bridge", "state": "up", "ipv4": "{{ capture.a.interfaces.0.ipv4 }}",
                     "bridge": {"port": [{"name": "{{ capture.a.interfaces.0.name }}"}]}},
                    {"name": "m0", "type": "macsec", "state": "up", "macsec": {"base-iface": "eth1", "encrypt": true, "port": 0, "validation": "strict", "send-sci": true,
                        "mka-ckn": "{{ capture.a.interfaces.0.description }}", "mka-cak": {
                            "secretRef": {"name": "a", "key": "b"}
                        }}},
                ],
                "routes": {"config": "{{ capture.a.routes.running }}"},
            },
        });
        assert_eq!(problems(spec), Vec::<String>::new());
        assert_eq!(problems(json!({})), Vec::<String>::new());
        assert_eq!(
            problems(json!({"desiredState": {"interfaces": null}})),
            Vec::<String>::new()
        );
    }

    #[test]
    fn entries_without_a_reference_are_judged_next_to_others() {
        let secret = json!({"secretRef": {"name": "s", "key": "k"}});
        for reference in [json!("{{ capture.a.interfaces.0.description }}"), secret] {
            let found = problems(json!({
                "capture": {"a": "interfaces.name == \"eth1\""},
                "desiredState": {
                    "interfaces": [
                        {"name": "eth1", "type": "ethernet", "state": "up", "description": reference},
                        {"name": "eth2.5000", "type": "vlan", "state": "up", "vlan": {"base-iface": "eth2", "id": 5000}},
                        {"name": "bond1", "type": "bond", "state": "up", "link-aggregation": {
                            "mode": "balance-rr", "options": {"lacp_rate": "fast"}, "port": ["eth1"]
                        }},
                        {"name": "eth3", "type": "ethernet", "state": "up", "802.1x": {
                            "identity": "node", "eap-methods": ["md5"], "password": reference
                        }, "ipv4": {"enabled": true, "address": [{"ip": "192.0.2.300", "prefix-length": 24}]}},
                    ],
                    "route-rules": {"config": [{"ip-to": "192.0.2.0/24", "priority": 5_000_000_000_i64}]}
                }
            }));
            let fields: Vec<&str> = found
                .iter()
                .filter_map(|found| found.split_once(": "))
                .map(|(field, _)| field)
                .collect();
            for field in [
                "interfaces[1].vlan.id",
                "interfaces[3].ipv4.address[0].ip",
                "route-rules.config[0].priority",
            ] {
                assert!(
                    fields.iter().any(|found| found.ends_with(field)),
                    "{field}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn all_that_needs_no_host_is_found_at_once() {
        let spec = json!({
            "capture": {
                "a": "capture.b | interfaces.name:=x", "b": "capture.a | interfaces.name:=y",
                "c": "capture.nobody | interfaces.mtu:=1"
            },
            "desiredState": {
                "interfaces": [
                    {
                        "name": "v1", "type": "vlan", "state": "up",
                        "vlan": {"base-iface": "eth1", "id": 5000}
                    },
                    {
                        "name": "bond0", "type": "bond", "mut": 1,
                        "link-aggregation": {"mode": "active-backup", "port": ["bond0"]}
                    },
                    {"name": "eth1", "mtu": 1500},
                    {"name": "eth1", "mtu": 9000},
                ],
                "routes": {"config": [{"destination": "1.2.3.4/33", "next-hop-interface": "eth1"}]},
            },
        });
        let found: Vec<String> = policy("spec", &serde_json::from_value(spec).unwrap())
            .into_iter()
            .map(|problem| problem.field)
            .collect();
        assert_eq!(
            found,
            [
                "spec.capture.c",
                "spec.capture",
                "spec.desiredState.interfaces[1].mut",
                "spec.desiredState.interfaces[0].vlan.id",
                "spec.desiredState.routes.config[0].destination",
                "spec.desiredState.interfaces[1].link-aggregation.port[0]",
                "spec.desiredState.interfaces[2].mtu",
            ]
        );
        let reference = json!({
            "desiredState": {
                "interfaces": [{"name": "{{ capture.gone.interfaces.0.name }}", "mtu": 1500}]
            }
        });
        assert_eq!(
            problems(reference),
            [
                "spec.desiredState.interfaces[0].name: there is no capture gone\n| {{ capture.gone.interfaces.0.name }}\n| ...^"
            ]
        );
    }

    #[test]
    fn a_configuration_that_can_never_work_is_refused() {
        let address = json!({"desiredState": {"interfaces": [{"name": "eth1", "type": "ethernet", "state": "up",
            "ipv4": {"enabled": true, "address": [{"ip": "10.0.0.1", "prefix-length": 33}]}}]}});
        assert_eq!(
            problems(address),
            [
                "spec.desiredState.interfaces[0].ipv4.address[0].prefix-length: must be 0 to 32 for IPv4, not 33"
            ]
        );
        assert!(
            problems(json!({
                "desiredState": {"interfaces": [{"name": "x", "vlanID": 1, "vlan": {"id": 2}}]}
            }))[0]
                .starts_with("spec.desiredState.interfaces[0]: ")
        );
        assert_eq!(
            problems(json!({"desiredState": []})),
            ["spec.desiredState: must be an object, with interfaces, routes, dns-resolver …"]
        );
    }
}
