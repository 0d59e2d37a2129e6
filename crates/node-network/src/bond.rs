//! Modes and options of Linux bonds by their names. nmstate takes the kernel's numbers and the
//! alias `lacp` as well, and reports names: only by these a bond can be compared with the one that
//! is there.

use serde_json::Value;

use crate::{path::text, schema};

/// Writes each mode and each option that has names by its name.
#[must_use]
pub(crate) fn named(mut desired: Value) -> Value {
    for interface in desired
        .get_mut("interfaces")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        // Those of Open vSwitch have no numbers.
        let Some(bond) = interface
            .get_mut("link-aggregation")
            .and_then(Value::as_object_mut)
        else {
            continue;
        };
        if let Some(mode) = bond.get_mut("mode") {
            name(mode, &["mode"]);
        }
        for (option, value) in bond
            .get_mut("options")
            .and_then(Value::as_object_mut)
            .into_iter()
            .flatten()
        {
            name(value, &["options", option]);
        }
    }
    desired
}

fn name(value: &mut Value, place: &[&str]) {
    let words = schema::words("bond", "link-aggregation", place);
    let word = text(value);
    if word == "lacp" && place == ["mode"] {
        *value = "802.3ad".into();
    } else if word.bytes().all(|byte| byte.is_ascii_digit())
        // A name follows its number.
        && let Some(name) = words.iter().position(|known| *known == word).and_then(|index| words.get(index + 1))
    {
        *value = (*name).into();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bond(mode: Value, options: Value) -> Value {
        json!({
            "interfaces": [
                {
                    "name": "bond0", "type": "bond",
                    "link-aggregation": {"mode": mode, "options": options}
                },
                {"name": "eth0"}
            ]
        })
    }

    #[test]
    fn numbers_and_aliases_become_names_and_all_else_stays() {
        for (mode, expected) in [
            (json!(0), "balance-rr"),
            (json!("1"), "active-backup"),
            (json!(2), "balance-xor"),
            (json!(3), "broadcast"),
            (json!(4), "802.3ad"),
            (json!("lacp"), "802.3ad"),
            (json!("5"), "balance-tlb"),
            (json!(6), "balance-alb"),
            (json!("balance-rr"), "balance-rr"),
        ] {
            assert_eq!(
                named(bond(mode.clone(), json!({}))),
                bond(json!(expected), json!({})),
                "{mode}"
            );
        }
        let numbers = json!({
            "lacp_rate": 1, "ad_select": "2", "arp_validate": 6, "xmit_hash_policy": 1,
            "fail_over_mac": 0, "miimon": 1, "primary": "eth1"
        });
        let names = json!({"lacp_rate": "fast", "ad_select": "count", "arp_validate": "filter_backup", "xmit_hash_policy": "layer3+4",
            "fail_over_mac": "none", "miimon": 1, "primary": "eth1"});
        assert_eq!(
            named(bond(json!("802.3ad"), numbers)),
            bond(json!("802.3ad"), names)
        );
    }
}
