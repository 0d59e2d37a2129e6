//! `Raw`: a CNI configuration as the user wrote it.

use weft_api::cluster_network::AdditionalNetwork;
use weft_attachments::{Config, Verdict};
use weft_operands::text::some;
use weft_plan::{Notice, Problem};

use super::{given, problem};

/// The field with the configuration.
const FIELD: &str = "rawCNIConfig";

/// The configuration, letter by letter: plugins may read more in it than JSON has.
pub(super) fn configuration(path: &str, network: &AdditionalNetwork) -> Result<String, Problem> {
    let refuse = |message: String| problem(path, FIELD, message);
    let text = given(network.raw_cni_config.as_ref())
        .ok_or_else(|| refuse(r#"is missing: write a CNI configuration, like {"cniVersion": "0.3.1", "type": "macvlan", …}"#.to_owned()))?;
    match Config::read(text) {
        Ok(config) if config.is_object() => Ok(text.clone()),
        Ok(_) => Err(refuse(
            "must be a JSON object: begin it with { and end it with }".to_owned(),
        )),
        Err(error) => Err(refuse(format!("is not JSON: {error}"))),
    }
}

/// Notices about a configuration that the API accepts: one about what keeps pods from their start,
/// and one about what has no effect, or another one than it seems to have.
pub(super) fn hints(path: &str, network: &AdditionalNetwork) -> Vec<Notice> {
    let text = network.raw_cni_config.as_deref().unwrap_or_default();
    // Anything but an object is a problem, see above.
    let config = Config::read(text).ok().filter(Config::is_object);
    let verdicts = config.map(|config| config.verdicts()).unwrap_or_default();
    let (flaws, doubts): (Vec<_>, Vec<_>) = verdicts.into_iter().partition(Verdict::stops_pods);
    let notice = |verdicts: Vec<Verdict>, end: &str| {
        let texts: Vec<_> = verdicts.iter().map(Verdict::to_string).collect();
        (!texts.is_empty()).then(|| Notice {
            about: format!("{path}.{FIELD}"),
            message: format!("{}{end}", some(&texts)),
        })
    };
    [
        notice(flaws, ". Pods that ask for this network do not start"),
        notice(doubts, ""),
    ]
    .into_iter()
    .flatten()
    .collect()
}
