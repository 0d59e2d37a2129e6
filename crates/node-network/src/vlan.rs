//! The VLANs of a bridge's port: single tags and ranges say the same in many ways.

use crate::{
    canonical,
    path::{entries, text},
};
use serde_json::{Value, json};

/// Reports whether what is wanted of a port's VLANs is so. An omitted value may be anything, except
/// for the tags of a trunk: they are a complete list. `{}` wants no VLAN filtering.
pub(crate) fn same(wanted: &Value, is: &Value) -> bool {
    let Some(wanted) = wanted.as_object() else {
        return wanted.is_null() || wanted == is;
    };
    if wanted.is_empty() {
        return is.as_object().is_none_or(serde_json::Map::is_empty);
    }
    wanted.iter().all(|(key, value)| match key.as_str() {
        "trunk-tags" => ranges(value) == ranges(&is[key.as_str()]),
        // The tag of an access port is its own. Off is left out of the report.
        _ => {
            canonical::same(value, &is[key.as_str()])
                || (is[key.as_str()].is_null()
                    && matches!(text(value).as_str(), "false" | "0" | ""))
        }
    })
}

/// Tags as ranges that do not touch, in order.
fn ranges(tags: &Value) -> Vec<(u64, u64)> {
    let number = |value: &Value| text(value).parse::<u64>().ok();
    let range = |tag: &Value| match &tag["id"] {
        Value::Null => Some((
            number(&tag["id-range"]["min"])?,
            number(&tag["id-range"]["max"])?,
        )),
        id => Some((number(id)?, number(id)?)),
    };
    let mut all: Vec<_> = entries(tags).iter().filter_map(range).collect();
    all.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (min, max) in all {
        match joined.last_mut() {
            Some((_, end)) if min <= *end + 1 => *end = (*end).max(max),
            _ => joined.push((min, max)),
        }
    }
    joined
}

/// Writes the tags of trunks of OVS bridges as Open vSwitch's database lists them: in order, and
/// neighbours as a range. nmstate compares them with that list as they are.
pub(crate) fn join_tags(state: &mut Value) {
    let list = state.get_mut("interfaces").and_then(Value::as_array_mut);
    for interface in list.into_iter().flatten() {
        if interface["type"] != "ovs-bridge" {
            continue;
        }
        let ports = interface
            .pointer_mut("/bridge/port")
            .and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten() {
            let Some(tags) = port.pointer_mut("/vlan/trunk-tags") else {
                continue;
            };
            let joined = ranges(tags).into_iter().map(|(min, max)| {
                if min == max {
                    json!({ "id": min })
                } else {
                    json!({"id-range": {"min": min, "max": max}})
                }
            });
            *tags = joined.collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tags_are_compared_as_the_set_that_they_are() {
        let trunk = |tags: Value| json!({"mode": "trunk", "trunk-tags": tags});
        let single = trunk(json!([{"id": 12}, {"id": 10}, {"id": "11"}]));
        let range = trunk(json!([{"id-range": {"min": 10, "max": 12}}]));
        assert!(same(&single, &range) && same(&range, &single));
        assert!(!same(&trunk(json!([{"id": 10}])), &range));
        assert!(same(
            &json!({"mode": "access", "tag": 5}),
            &json!({"mode": "access", "tag": 5, "enable-native": false})
        ));
        assert!(same(
            &json!({"mode": "trunk", "enable-native": false}),
            &range
        ));
        assert!(same(&json!({}), &json!(null)) && !same(&json!({}), &range));
    }

    #[test]
    fn tags_of_an_ovs_bridge_become_ordered_ranges() {
        let bridge = |kind: &str, tags: Value| {
            json!({"interfaces": [{"name": "br1", "type": kind, "bridge": {"port": [
                {"name": "eth1", "vlan": {"mode": "trunk", "trunk-tags": tags}}, {"name": "eth2"}
            ]}}]})
        };
        let single = json!([{"id": 104}, {"id": 102}, {"id": "101"}]);
        let mut state = bridge("ovs-bridge", single.clone());
        join_tags(&mut state);
        let joined = json!([{"id-range": {"min": 101, "max": 102}}, {"id": 104}]);
        assert_eq!(state, bridge("ovs-bridge", joined));

        let mut other = bridge("linux-bridge", single.clone());
        join_tags(&mut other);
        assert_eq!(other, bridge("linux-bridge", single));
    }
}
