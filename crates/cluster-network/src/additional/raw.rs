//! `Raw`: a CNI configuration as the user wrote it.

use serde_json::{Map, Value};
use weft_api::cluster_network::AdditionalNetwork;
use weft_plan::Problem;

use super::{given, problem};

/// The configuration, letter by letter: plugins may read more in it than JSON has.
pub(super) fn configuration(path: &str, network: &AdditionalNetwork) -> Result<String, Problem> {
    let refuse = |message: String| problem(path, "rawCNIConfig", message);
    let text = given(network.raw_cni_config.as_ref())
        .ok_or_else(|| refuse(r#"is missing: write a CNI configuration, like {"cniVersion": "0.3.1", "type": "macvlan", …}"#.to_owned()))?;
    serde_json::from_str::<Map<String, Value>>(text)
        .map_err(|error| refuse(format!("{text:?} is not a JSON object: {error}")))?;
    Ok(text.clone())
}
