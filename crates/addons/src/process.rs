//! Settings that a resource requests for the operator's own process: its log level, and the TLS
//! settings of its metrics.

use serde_json::Value;
use weft_plan::{ProcessSettings, ServerTls};

use crate::validate;

/// Settings that this resource requests. While it is refused, what the last good configuration
/// asked for.
pub(crate) fn settings(resource: Option<&Value>) -> ProcessSettings {
    let Some(resource) = resource else {
        return ProcessSettings::default();
    };
    of(resource)
        .or_else(|| {
            let mut before = resource.clone();
            before["spec"] = resource["status"]["effectiveConfiguration"].clone();
            of(&before)
        })
        .unwrap_or_default()
}

fn of(resource: &Value) -> Option<ProcessSettings> {
    let valid = validate::validate(&validate::read(resource).ok()?).ok()?;
    let texts = |all: Vec<&'static str>| all.into_iter().map(str::to_owned).collect();
    Some(ProcessSettings {
        log_level: valid.log_level,
        tls: Some(ServerTls {
            min_version: valid.tls.min_version.to_owned(),
            cipher_suites: texts(valid.tls.cipher_suites),
            groups: valid.tls.groups,
        }),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::resource;
    use serde_json::json;
    use weft_plan::LogLevel;

    #[test]
    fn level_and_profile_are_those_of_the_resource() {
        assert_eq!(settings(None), ProcessSettings::default());
        let asked = settings(Some(&resource(
            json!({"operatorLogLevel": "Debug", "tlsSecurityProfile": {"type": "Intermediate"}}),
        )));
        assert_eq!(
            (asked.log_level, &*asked.tls.unwrap().min_version),
            (Some(LogLevel::Debug), "VersionTLS12")
        );
        assert_eq!(
            settings(Some(&resource(json!({}))))
                .tls
                .unwrap()
                .min_version,
            "VersionTLS13"
        );
    }

    #[test]
    fn while_a_resource_is_refused_the_last_good_one_counts() {
        let mut refused = resource(
            json!({"operatorLogLevel": "Debug", "tlsSecurityProfile": {"type": "Custom"}}),
        );
        assert_eq!(settings(Some(&refused)), ProcessSettings::default());
        refused["status"] = json!({
            "effectiveConfiguration": {
                "operatorLogLevel": "Error", "tlsSecurityProfile": {"type": "Old"}
            }
        });
        let before = settings(Some(&refused));
        assert_eq!(
            (before.log_level, &*before.tls.unwrap().min_version),
            (Some(LogLevel::Error), "VersionTLS10")
        );
    }
}
