//! Texts with a syntax: none makes a parser panic, and the schema and Weft itself agree on which
//! are right.

use std::sync::LazyLock;

use kube_cel::{CompiledSchema, Validator, compile_schema};
use serde_json::{Value, json};
use weft_cluster_network::{
    providers,
    validate::{read, validate},
};

use super::resource;

const INPUTS: usize = 500;

/// A text out of these pieces: one for each byte. So most inputs are nearly right, and a fuzzer can
/// build on what it has found.
fn text(bytes: &[u8], pieces: &[&str]) -> String {
    bytes
        .iter()
        .map(|byte| pieces[usize::from(*byte) % pieces.len()])
        .collect()
}

/// Returns the findings of the schema about a specification.
fn broken_rules(resource: &Value) -> Vec<String> {
    static RULES: LazyLock<CompiledSchema> = LazyLock::new(|| {
        let crd = serde_json::to_value(weft_api::cluster_network::crd()).unwrap();
        compile_schema(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    });
    let errors = Validator::new()
        .validate_compiled(&RULES, resource, None)
        .map_or_else(kube_cel::ValidationErrors::into_vec, |()| Vec::new());
    errors
        .iter()
        .map(|error| format!("{}: {}", error.field_path, error.message))
        .collect()
}

/// The schema and Weft itself agree on a specification. Only Weft refuses a block that lies in a
/// reserved one. Returns whether it is right.
fn agree(spec: &Value) -> bool {
    let resource = resource(spec.clone());
    let rules = broken_rules(&resource);
    let valid =
        read(&resource).and_then(|resource| validate(&resource.spec, providers::ALL).map(|_| ()));
    match (&*rules, &valid) {
        ([], Ok(())) | ([_, ..], Err(_)) => {}
        ([], Err(problems)) => {
            let reserved = problems
                .iter()
                .all(|problem| problem.message.contains(", which is for "));
            assert!(
                reserved,
                "{spec}: no rule of the schema refuses it, but Weft does: {problems:?}"
            );
        }
        (rules, Ok(())) => panic!("{spec}: Weft accepts it, but the schema does not: {rules:?}"),
    }
    valid.is_ok()
}

#[test]
fn blocks() {
    const PIECES: [&str; 24] = [
        "0", "1", "10", "32", "48", "64", "128", "192", "255", "256", ".", "0.0.0", "/", "/8",
        "/16", "/032", "fd01", ":", "::", "f", "::ffff:", "%eth0", "+", " ",
    ];
    bolero::check!()
        .with_iterations(INPUTS)
        .with_max_len(12)
        .for_each(|bytes| {
            let text = text(bytes, &PIECES);
            // kube-cel, unlike the API server, reads the length of an IPv6 prefix with leading zeros.
            if text.contains(':') && text.contains("/0") && !text.ends_with("/0") {
                return;
            }
            agree(
                &json!({"defaultNetwork": {"type": "None"}, "clusterNetworks": [{"cidr": text}]}),
            );
        });
}

#[test]
fn shares_of_nodes() {
    bolero::check!()
        .with_type::<(u32, u8, i16, bool)>()
        .with_iterations(INPUTS)
        .for_each(|(bits, length, share, later)| {
            let length = length % 33;
            let block = std::net::Ipv4Addr::from_bits(
                bits & u32::MAX
                    .checked_shl(32 - u32::from(length))
                    .unwrap_or_default(),
            );
            // The schema's ranges of numbers do not matter here.
            let share = share.rem_euclid(129);
            let field = if *later {
                "hostPrefix"
            } else {
                "hostSubnetLength"
            };
            agree(&json!({
                "defaultNetwork": {"type": "None"},
                "clusterNetworks": [{"cidr": format!("{block}/{length}"), field: share}]
            }));
        });
}

#[test]
fn pairs_of_blocks() {
    bolero::check!()
        .with_type::<[(u8, u8); 2]>()
        .with_iterations(INPUTS)
        .for_each(|blocks| {
            let block = |(bits, length): &(u8, u8)| {
                let length = length % 5;
                let bits = bits
                    & u8::MAX
                        .checked_shl(8 - u32::from(length))
                        .unwrap_or_default();
                json!({"cidr": format!("10.{bits}.0.0/{}", 8 + length)})
            };
            agree(&json!({
                "defaultNetwork": {"type": "None"},
                "clusterNetworks": blocks.iter().map(block).collect::<Vec<_>>()
            }));
        });
}

#[test]
fn addresses_and_durations_of_the_proxy() {
    const PIECES: [&str; 20] = [
        "0", "1", "30", "192", "255", ".", "0.0.0", ":", "::", "::ffff:", "f", "s", "m", "ms", "h",
        ".5", "-", "+", " ", "%",
    ];
    bolero::check!()
        .with_iterations(INPUTS)
        .with_max_len(8)
        .for_each(|bytes| {
            let text = text(bytes, &PIECES);
            for field in ["bindAddress", "iptablesSyncPeriod"] {
                agree(
                    &json!({"defaultNetwork": {"type": "None"}, "kubeProxyConfig": {field: text}}),
                );
            }
        });
}
