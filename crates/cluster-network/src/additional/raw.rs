//! `Raw`: a CNI configuration as the user wrote it.

use serde_json::Value;
use weft_api::cluster_network::AdditionalNetwork;
use weft_operands::text::some;
use weft_plan::{Notice, Problem};

use super::{cni, given, problem};

/// The field with the configuration.
const FIELD: &str = "rawCNIConfig";

/// The configuration, letter by letter: plugins may read more in it than JSON has.
pub(super) fn configuration(path: &str, network: &AdditionalNetwork) -> Result<String, Problem> {
    let refuse = |message: String| problem(path, FIELD, message);
    let text = given(network.raw_cni_config.as_ref())
        .ok_or_else(|| refuse(r#"is missing: write a CNI configuration, like {"cniVersion": "0.3.1", "type": "macvlan", …}"#.to_owned()))?;
    match serde_json::from_str(text) {
        Ok(Value::Object(_)) => Ok(text.clone()),
        Ok(_) => Err(refuse(
            "must be a JSON object: begin it with { and end it with }".to_owned(),
        )),
        Err(error) => Err(refuse(format!("is not JSON: {error}"))),
    }
}

/// A notice about a configuration that the API accepts, and that no pod can use.
pub(super) fn hint(path: &str, network: &AdditionalNetwork) -> Option<Notice> {
    let text = network.raw_cni_config.as_ref()?;
    // Anything but an object is a problem, see above.
    let config = serde_json::from_str::<Value>(text)
        .ok()
        .filter(Value::is_object)?;
    let flaws = cni::flaws(&config);
    (!flaws.is_empty()).then(|| Notice {
        about: format!("{path}.{FIELD}"),
        message: format!(
            "{}. Pods that ask for this network do not start",
            some(&flaws)
        ),
    })
}
