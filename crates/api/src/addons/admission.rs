//! Warnings at `kubectl apply` about what is accepted but better written otherwise, and what
//! accounts may write.

use serde_json::{Value, json};

use super::{GROUP, PLURAL, VERSION, VERSION_V1ALPHA1, accounts};
use crate::admission::SpecificationPolicy;

/// The admission policies of this API, each with its binding.
pub fn admission() -> Vec<Value> {
    [hints().to_vec(), accounts::policies()].concat()
}

/// Warnings: nothing is refused. They come when the specification changes, so that writes of others
/// (labels, finalizers) stay quiet.
fn hints() -> [Value; 2] {
    let policy = SpecificationPolicy {
        name: "weft-network-addons-config-hints",
        group: GROUP,
        versions: &[VERSION, VERSION_V1ALPHA1],
        plural: PLURAL,
        when: ("has-spec", "has(object.spec)"),
        variables: &[],
        validations: vec![
            hint(
                "!has(object.spec.kubeSecondaryDNS) || !has(object.spec.kubeSecondaryDNS.DOMAIN)",
                "spec.kubeSecondaryDNS.DOMAIN is understood, but the field is called domain: please write domain",
            ),
            hint(
                "!has(object.spec.kubeSecondaryDNS) || !has(object.spec.kubeSecondaryDNS.NAME_SERVER_IP)",
                "spec.kubeSecondaryDNS.NAME_SERVER_IP is understood, but the field is called nameServerIP: please write nameServerIP",
            ),
        ],
        action: "Warn",
    };
    policy.objects()
}

/// Says `message` unless `expression` holds.
fn hint(expression: &str, message: &str) -> Value {
    json!({"expression": expression, "message": message})
}
