//! Services that another `serviceNetwork` leaves out.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;
use weft_api::cluster_network::ServiceNetwork;
use weft_plan::Live;

/// Returns the blocks of services of a specification. Other texts count for nothing.
fn blocks(spec: &Value) -> Vec<IpNet> {
    let network: Option<ServiceNetwork> =
        serde_json::from_value(spec["serviceNetwork"].clone()).ok();
    let texts = network.as_ref().map(ServiceNetwork::blocks);
    let all = texts.unwrap_or_default().iter();
    all.filter_map(|text| text.parse().ok()).collect()
}

/// Reports whether the services' blocks of a specification leave out a part of those before. False if
/// it states no block.
pub fn shrink(previous: &Value, next: &Value) -> bool {
    let next = blocks(next);
    let is_there = |block: &IpNet| next.iter().any(|next| next.contains(block));
    !next.is_empty() && !blocks(previous).iter().all(is_there)
}

/// Returns each Service that has addresses in the blocks before and not in the next ones, as
/// `namespace/name: address, address`.
///
/// `previous` and `next` are specifications of a NetworkConfig. `services` are all Services of the
/// cluster.
pub fn left_out(previous: &Value, next: &Value, services: &[Value]) -> Vec<String> {
    let (previous, next) = (blocks(previous), blocks(next));
    let holds = |blocks: &[IpNet], address: &str| {
        let address = address.parse::<IpAddr>();
        address.is_ok_and(|address| blocks.iter().any(|block| block.contains(&address)))
    };
    let line = |service: &Value| {
        // A headless Service has the text None there.
        let all = service["spec"]["clusterIPs"].as_array();
        let addresses = all.into_iter().flatten().filter_map(Value::as_str);
        let lost: Vec<_> = addresses
            .filter(|address| holds(&previous, address) && !holds(&next, address))
            .collect();
        let live = Live::of(service);
        let namespace = live.stated_namespace().unwrap_or_default();
        (!lost.is_empty()).then(|| format!("{namespace}/{}: {}", live.name(), lost.join(", ")))
    };
    services.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn services_with_an_address_that_goes_are_named() {
        let service = |name: &str, addresses: &[&str]| {
            json!({
                "metadata": {"namespace": "n", "name": name}, "spec": {"clusterIPs": addresses},
            })
        };
        let services = [
            service("goes", &["10.96.0.1"]),
            service("headless", &["None"]),
            service("one-goes", &["10.96.1.1", "fd00:96::1"]),
            service("stays", &["fd00:96::2"]),
            service("was-outside", &["192.0.2.1"]),
            json!({"metadata": {"namespace": "n", "name": "external"}, "spec": {}}),
        ];
        let spec = |blocks: Value| json!({"serviceNetwork": blocks});
        let both = spec(json!(["10.96.0.0/16", "fd00:96::/112"]));
        let other = spec(json!(["10.97.0.0/16", "fd00:96::/112"]));
        assert!(shrink(&both, &other));
        assert_eq!(
            left_out(&both, &other, &services),
            ["n/goes: 10.96.0.1", "n/one-goes: 10.96.1.1"]
        );
        let smaller = spec(json!(["10.96.1.0/24", "fd00:96::/112"]));
        assert_eq!(left_out(&both, &smaller, &services), ["n/goes: 10.96.0.1"]);
        let larger = spec(json!(["10.96.0.0/12", "fd00:96::/112"]));
        for same in [&both, &larger] {
            assert!(!shrink(&both, same));
            assert!(left_out(&both, same, &services).is_empty());
        }
        // Of a NetworkConfig that is new, nothing goes.
        assert!(!shrink(&Value::Null, &other));
        // Without a block, there is nothing to compare with.
        assert!(!shrink(&other, &Value::Null));
    }
}
