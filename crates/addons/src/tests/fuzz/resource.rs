//! Whole resources, as the API server might have stored them under any schema: a decision is made
//! or refused, and nothing else.

use serde_json::{Value, json};
use weft_addons::FAILED_TO_RENDER;

use super::{decide, resource};

/// Decides, and what is accepted can be built, and means the same when it is read again.
fn check(resource: &Value) {
    let decision = match decide(resource, None) {
        Ok(decision) => decision,
        Err(refusal) => {
            assert_ne!(
                refusal.reason, FAILED_TO_RENDER,
                "what is valid can be built: {:?}: {resource}",
                refusal.problems
            );
            assert!(!refusal.problems.is_empty(), "{resource}");
            return;
        }
    };
    let mut again = resource.clone();
    again["spec"] = decision.decided.clone();
    for (resource, what) in [(resource, "asked again"), (&again, "what was decided")] {
        let same = decide(resource, Some(&decision.decided))
            .unwrap_or_else(|refusal| panic!("{what}: {:?}: {resource}", refusal.problems));
        assert_eq!(same.decided, decision.decided, "{what}: {resource}");
        assert_eq!(same.units, decision.units, "{what}: {resource}");
    }
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

/// Where a specification is edited, and with what.
const FIELDS: [&str; 40] = [
    "/multus",
    "/multusDynamicNetworks",
    "/multusDynamicNetworks/hostCRISocketPath",
    "/linuxBridge",
    "/ovs",
    "/nmstate",
    "/kubeMacPool",
    "/kubeMacPool/rangeStart",
    "/kubeMacPool/rangeEnd",
    "/macvtap",
    "/macvtap/devicePluginConfig",
    "/kubeSecondaryDNS",
    "/kubeSecondaryDNS/domain",
    "/kubeSecondaryDNS/DOMAIN",
    "/kubeSecondaryDNS/nameServerIP",
    "/kubevirtIpamController",
    "/kubevirtIpamController/defaultNetworkNADNamespace",
    "/kubevirtIpamController/certificateProvider",
    "/imagePullPolicy",
    "/selfSignConfiguration",
    "/selfSignConfiguration/caRotateInterval",
    "/selfSignConfiguration/caOverlapInterval",
    "/selfSignConfiguration/certRotateInterval",
    "/selfSignConfiguration/certOverlapInterval",
    "/placementConfiguration",
    "/placementConfiguration/infra",
    "/placementConfiguration/infra/tolerations",
    "/placementConfiguration/workloads",
    "/placementConfiguration/workloads/nodeSelector",
    "/placementConfiguration/workloads/affinity",
    "/tlsSecurityProfile",
    "/tlsSecurityProfile/type",
    "/tlsSecurityProfile/custom",
    "/tlsSecurityProfile/custom/minTLSVersion",
    "/tlsSecurityProfile/custom/ciphers",
    "/images",
    "/images/ovsCni",
    "/imageRegistry",
    "/imagePullSecrets",
    "/driftPolicy",
];

fn values() -> Vec<Value> {
    vec![
        Value::Null,
        json!({}),
        json!({}),
        json!([]),
        json!(""),
        json!(0),
        json!(-1),
        json!(1e300),
        json!(true),
        json!("x"),
        json!("\u{0}"),
        json!("02:00:00:00:00:00"),
        json!("02:00:00:ff:ff:ff"),
        json!("/run/a.sock"),
        json!("a.example"),
        json!("192.0.2.53"),
        json!("1h"),
        json!("2h"),
        json!("0s"),
        json!("Always"),
        json!("Custom"),
        json!("Intermediate"),
        json!("Report"),
        json!("Weft"),
        json!("CertManager"),
        json!("VersionTLS12"),
        json!(["ECDHE-RSA-AES128-GCM-SHA256"]),
        json!([""]),
        json!([{}]),
        json!([{"name": "a"}]),
        json!([{"operator": "Exists"}]),
        json!({"a": "b"}),
        json!({"a": 1}),
        json!({"nodeAffinity": {}}),
        json!({"nodeSelector": {"a": "b\nc"}}),
        json!({"minTLSVersion": "VersionTLS13"}),
        json!({"rangeStart": "02:00:00:00:00:00", "rangeEnd": "02:00:00:00:00:01"}),
    ]
}

fn set(spec: &mut Value, path: &str, value: &Value) {
    let mut place = spec;
    for field in path.split('/').skip(1) {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[field];
    }
    *place = value.clone();
}

#[test]
fn edited_specifications() {
    let values = values();
    bolero::check!()
        .with_iterations(3000)
        .with_max_len(24)
        .for_each(|bytes| {
            let mut spec = json!({});
            for edit in bytes.chunks_exact(2) {
                set(
                    &mut spec,
                    FIELDS[usize::from(edit[0]) % FIELDS.len()],
                    &values[usize::from(edit[1]) % values.len()],
                );
            }
            check(&resource(spec));
        });
}
