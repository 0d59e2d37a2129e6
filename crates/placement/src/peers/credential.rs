//! The application credential by which Placement asks Keystone, in a Secret that keystone-operator
//! makes, replaces and deletes.
//!
//! A credential that is revoked while pods still use it fails every request, so a finalizer keeps
//! its Secret until all pods are proven to run without it.

use serde_json::Value;
use weft_operands::problems::given;
use weft_plan::Live;

use super::name;
use crate::Config;

/// On the Secret while pods use it, as nova-operator has it.
pub const FINALIZER: &str = "openstack.org/placementapi-ac-consumer";

/// On it as well, to find those again that nothing names any more.
pub const LABEL: (&str, &str) = ("weft.network/used-by", "placement");

/// The Secret that is named.
pub fn wanted(config: &Config) -> Option<&str> {
    given(&config.spec().auth.as_ref()?.application_credential_secret)
}

/// The label selector of all Secrets that are held.
pub fn held() -> String {
    format!("{}={}", LABEL.0, LABEL.1)
}

/// Those that pods need no longer, once all of them run with what is named now: all that carry the
/// finalizer but for that one. At the end, when `keep` is nothing, all. By the finalizer and not by
/// what status names: a credential may be replaced before the pods have the one before.
pub fn unused<'a>(
    secrets: impl IntoIterator<Item = &'a Value>,
    keep: Option<&str>,
) -> Vec<&'a Value> {
    secrets
        .into_iter()
        .filter(|secret| Live::of(secret).has_finalizer(FINALIZER) && Some(name(secret)) != keep)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_credential_of_before_is_released() {
        let secret = |name: &str, finalizer: &str| {
            json!({
                "metadata": {"name": name, "finalizers": [finalizer]}
            })
        };
        let all = [
            secret("a", FINALIZER),
            secret("b", FINALIZER),
            secret("c", FINALIZER),
            secret("d", "openstack.org/nova-ac-consumer"),
        ];
        let names = |keep| unused(&all, keep).into_iter().map(name).collect::<Vec<_>>();
        assert_eq!(
            names(Some("c")),
            ["a", "b"],
            "one that was replaced before pods ran with it, too"
        );
        assert_eq!(names(None), ["a", "b", "c"]);
        assert_eq!(held(), "weft.network/used-by=placement");
    }
}
