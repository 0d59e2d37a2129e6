//! Whole resources and records, as the API server might have stored them under any schema: a
//! decision is made or refused, and nothing else.

use serde_json::{Value, json};
use weft_cluster_network::{RENDER_ERROR, providers, record};

use super::{decide, resource};

/// Decides, and what is accepted can be built, and means the same when it is read again: from the
/// resource and from the record.
fn check(resource: &Value) -> Option<String> {
    let decision = match decide(resource, None) {
        Ok(decision) => decision,
        Err(refusal) => {
            assert_ne!(
                refusal.reason, RENDER_ERROR,
                "what is valid can be built: {:?}: {resource}",
                refusal.problems
            );
            assert!(!refusal.problems.is_empty(), "{resource}");
            return None;
        }
    };
    let record = decision.decided.to_string();
    let mut again = resource.clone();
    again["spec"] = decision.decided.clone();
    for (resource, what) in [(resource, "asked again"), (&again, "what was decided")] {
        let same = decide(resource, Some(&record))
            .unwrap_or_else(|refusal| panic!("{what}: {:?}: {resource}", refusal.problems));
        assert_eq!(same.decided, decision.decided, "{what}: {resource}");
        assert_eq!(same.units, decision.units, "{what}: {resource}");
    }
    Some(record)
}

#[test]
fn any_json() {
    bolero::check!().with_iterations(2000).for_each(|bytes| {
        if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
            check(&value);
            check(&resource(value));
        }
    });
}

#[test]
fn any_record() {
    bolero::check!().with_iterations(2000).for_each(|bytes| {
        let _ = record::read(&String::from_utf8_lossy(bytes), providers::ALL);
    });
}

/// Where a specification is edited, and with what.
const FIELDS: [&str; 27] = [
    "/clusterNetworks",
    "/clusterNetworks/0",
    "/clusterNetworks/0/cidr",
    "/clusterNetworks/0/hostSubnetLength",
    "/clusterNetworks/0/hostPrefix",
    "/clusterNetworks/1",
    "/clusterNetwork",
    "/serviceNetwork",
    "/defaultNetwork",
    "/defaultNetwork/type",
    "/defaultNetwork/openshiftSDNConfig",
    "/defaultNetwork/openshiftSDNConfig/mode",
    "/defaultNetwork/openshiftSDNConfig/mtu",
    "/defaultNetwork/openshiftSDNConfig/vxlanPort",
    "/defaultNetwork/flannelConfig",
    "/defaultNetwork/flannelConfig/backend",
    "/defaultNetwork/flannelConfig/port",
    "/defaultNetwork/flannelConfig/vni",
    "/defaultNetwork/flannelConfig/mtu",
    "/defaultNetwork/flannelConfig/cniPlugin",
    "/deployKubeProxy",
    "/kubeProxyConfig",
    "/kubeProxyConfig/iptablesSyncPeriod",
    "/kubeProxyConfig/bindAddress",
    "/kubeProxyConfig/proxyArguments",
    "/additionalNetworks",
    "/additionalNetworks/0/simpleMacvlanConfig",
];

fn values() -> Vec<Value> {
    vec![
        Value::Null,
        json!({}),
        json!([]),
        json!(""),
        json!(0),
        json!(-1),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e300),
        json!(true),
        json!(false),
        json!("x"),
        json!("\u{0}"),
        json!(9),
        json!(23),
        json!(1400),
        json!(65536),
        json!("10.128.0.0/14"),
        json!("10.128.0.0/13"),
        json!("0.0.0.0/0"),
        json!("fd01::/48"),
        json!("fd01::/127"),
        json!("172.30.0.0/16"),
        json!(["172.30.0.0/16", "fd02::/112"]),
        json!(["fd02::/112"]),
        json!({"cidr": "fd01::/48", "hostSubnetLength": 64}),
        json!({"cidr": "10.0.0.0/14", "hostPrefix": 23}),
        json!([{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}]),
        json!([{"cidr": "10.128.0.0/14"}, {"cidr": "fd01::/48"}]),
        json!("OpenShiftSDN"),
        json!("OpenshiftSDN"),
        json!("Flannel"),
        json!("None"),
        json!("Networkpolicy"),
        json!("host-gw"),
        json!("wireguard"),
        json!("flannel"),
        json!("30s"),
        json!("::"),
        json!({"proxy-mode": ["nftables"]}),
        json!({"proxy-mode": [], "x": ["y"]}),
        json!([
            {"type": "Raw", "name": "a", "rawCNIConfig": "{}"},
            {"type": "Raw", "name": "a", "rawCNIConfig": "["}
        ]),
        json!({
            "master": "a b",
            "ipamConfig": {"type": "Static", "staticIPAMConfig": {"addresses": [{"address": "x"}]}}
        }),
    ]
}

fn set(spec: &mut Value, path: &str, value: &Value) {
    let mut place = spec;
    for field in path.split('/').skip(1) {
        if let Ok(index) = field.parse::<usize>() {
            if !place.is_array() {
                *place = json!([]);
            }
            let items = place.as_array_mut().unwrap();
            items.resize(items.len().max(index + 1), json!({}));
            place = &mut items[index];
        } else {
            if !place.is_object() {
                *place = json!({});
            }
            place = &mut place[field];
        }
    }
    *place = value.clone();
}

/// From one specification to another: it is carried out or refused, and what is refused as unsafe
/// is refused with reasons.
#[test]
fn edited_specifications() {
    let values = values();
    bolero::check!()
        .with_iterations(3000)
        .with_max_len(24)
        .for_each(|bytes| {
            let mut spec = json!({
                "serviceNetwork": "172.30.0.0/16",
                "clusterNetworks": [{"cidr": "10.128.0.0/14", "hostSubnetLength": 9}],
                "defaultNetwork": {"type": "OpenShiftSDN"},
            });
            let mut before: Option<String> = None;
            for edit in bytes.chunks_exact(2) {
                set(
                    &mut spec,
                    FIELDS[usize::from(edit[0]) % FIELDS.len()],
                    &values[usize::from(edit[1]) % values.len()],
                );
                let resource = resource(spec.clone());
                if let Some(record) = check(&resource) {
                    if let Err(refusal) = decide(&resource, before.as_deref()) {
                        let changes: Vec<_> = refusal
                            .changes
                            .iter()
                            .map(|change| (&change.old, &change.new))
                            .collect();
                        assert!(
                            !changes.is_empty() && changes.iter().all(|(old, new)| old != new),
                            "{:?}: {before:?} {resource}",
                            refusal.problems
                        );
                    } else {
                        before = Some(record);
                    }
                }
            }
        });
}
