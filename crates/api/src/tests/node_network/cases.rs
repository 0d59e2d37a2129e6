//! The table of nmstate.io.

use serde_json::{Value, json};
use weft_api::node_network::policy;

use super::table::Cases;

/// How long names may be.
pub const NAMES: [(&str, usize); 2] = [("NodeNetworkConfigurationPolicy", 63), ("NMState", 55)];

pub fn cases() -> Cases {
    let mut cases: Cases = serde_saphyr::from_str(include_str!("cases.yaml")).unwrap();
    let kinds = cases
        .accepted
        .iter_mut()
        .map(|case| &mut case.kind)
        .chain(cases.refused.iter_mut().map(|case| &mut case.kind));
    kinds
        .filter(|kind| kind.is_empty())
        .for_each(|kind| *kind = policy::KIND.to_owned());
    cases
}

/// The object of this kind with this specification, as v1.
pub fn object(kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": "nmstate.io/v1", "kind": kind, "metadata": {"name": "one"}, "spec": spec})
}
