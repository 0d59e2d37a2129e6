//! Equal values that are written differently: nmstate reads numbers and booleans from texts, and
//! addresses in any spelling.

use ipnet::IpNet;
use serde_json::Value;
use std::net::{IpAddr, Ipv6Addr};

/// Reports whether two values mean the same. The order of lists does not count, but for those that
/// nmstate keeps in order: see [`same_order`].
pub(crate) fn same(left: &Value, right: &Value) -> bool {
    canonical(left) == canonical(right)
}

/// Like [`same`], where order counts: name servers and search domains.
pub(crate) fn same_order(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| same(left, right))
        }
        _ => same(left, right),
    }
}

/// One spelling for all that mean the same.
pub(crate) fn canonical(value: &Value) -> Value {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(list) => {
            let mut list: Vec<Value> = list.iter().map(canonical).collect();
            list.sort_by_cached_key(Value::to_string);
            Value::Array(list)
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            Value::Object(
                entries
                    .into_iter()
                    .map(|(key, value)| (key.clone(), canonical(value)))
                    .collect(),
            )
        }
        other => other.clone(),
    }
}

fn scalar(text: &str) -> Value {
    match text {
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        _ => {}
    }
    if let Ok(number) = text.parse::<i64>() {
        return number.into();
    }
    Value::String(if is_mac(text) {
        text.to_ascii_uppercase()
    } else {
        address(text).unwrap_or_else(|| text.to_owned())
    })
}

/// An address, or a block of addresses, in its usual spelling. A block of one address is that
/// address.
fn address(text: &str) -> Option<String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    // A link-local name server stands with its interface.
    if let Some((address, zone)) = text.split_once('%') {
        let address: Ipv6Addr = address.parse().ok()?;
        return Some(format!("{address}%{zone}"));
    }
    let block: IpNet = text.parse().ok()?;
    Some(if block.prefix_len() == block.max_prefix_len() {
        block.addr().to_string()
    } else {
        block.to_string()
    })
}

/// The network of a block, as routes have it: nmstate drops the bits of the host.
pub(crate) fn network(text: &str) -> String {
    match text.parse::<IpNet>() {
        Ok(block) => address(&block.trunc().to_string()).unwrap_or_default(),
        Err(_) => address(text).unwrap_or_else(|| text.to_owned()),
    }
}

/// Reports whether this is a hardware address: six octets or more (InfiniBand has 20), in
/// hexadecimal, between colons.
pub(crate) fn is_mac(text: &str) -> bool {
    text.len() >= 17
        && text
            .split(':')
            .all(|octet| octet.len() == 2 && octet.bytes().all(|digit| digit.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn spellings_of_one_value_are_the_same() {
        for (left, right) in [
            (json!("1500"), json!(1500)),
            (json!("true"), json!(true)),
            (json!("0a:00:00:00:00:0f"), json!("0A:00:00:00:00:0F")),
            (json!("2001:DB8:0::1"), json!("2001:db8::1")),
            (json!("FE80::53%eth0"), json!("fe80::53%eth0")),
            (json!("10.0.0.1/32"), json!("10.0.0.1")),
            (
                json!([{"ip": "::1", "prefix-length": 64}, {"ip": "::2"}]),
                json!([{"ip": "0::2"}, {"prefix-length": "64", "ip": "::1"}]),
            ),
        ] {
            assert!(same(&left, &right), "{left} {right}");
        }
        for (left, right) in [
            (json!("eth1"), json!("eth2")),
            (json!("fe80::53%eth0"), json!("fe80::53%ETH0")),
            (json!("10.0.0.1/24"), json!("10.0.0.2/24")),
            (json!(null), json!(0)),
            (json!([1, 1]), json!([1])),
        ] {
            assert!(!same(&left, &right), "{left} {right}");
        }
        assert!(!same_order(
            &json!(["10.0.0.1", "10.0.0.2"]),
            &json!(["10.0.0.2", "10.0.0.1"])
        ));
        assert!(same_order(&json!(["::1"]), &json!(["0::1"])));
        assert_eq!(network("10.1.2.3/16"), "10.1.0.0/16");
        assert_eq!(network("0.0.0.0/0"), "0.0.0.0/0");
    }
}
