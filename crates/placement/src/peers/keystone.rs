//! Keystone as keystone-operator runs it: its addresses, and the registration of the service in it.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use weft_api::placement::ENDPOINTS;
use weft_operands::problems::given;
use weft_plan::{Kind, Live, Manifest, ManifestError, kinds};

use super::{FINALIZER, is_outdated, mirror, name};
use crate::{
    Config, KeystoneEndpoints,
    conditions::{State, Step},
};

/// The name of KeystoneService and KeystoneEndpoint, and of the service in Keystone.
pub const NAME: &str = "placement";

/// Where Keystone is, by the one KeystoneAPI of the namespace. `served`: whether the cluster knows
/// the kind.
///
/// placement-operator takes each of these cases for an error and tries again ever more seldom. Here
/// only two Keystones are one, since that does not pass.
///
/// # Errors
/// It does not say yet, or there are two.
pub fn endpoints(
    config: &Config,
    served: bool,
    all: &[Arc<Value>],
) -> Result<KeystoneEndpoints, State> {
    let namespace = &config.namespace;
    let waiting = |what: String| {
        Err(State::requested(format!(
            "Service config create waits for {what}"
        )))
    };
    let api = match all {
        [] if !served => {
            return waiting(
                "the kind KeystoneAPI: install keystone-operator, or name another Keystone in spec.keystone.external".to_owned(),
            );
        }
        [] => {
            return waiting(format!(
                "a KeystoneAPI in the namespace {namespace}, or for spec.keystone.external"
            ));
        }
        [api] => api,
        several => {
            let mut names: Vec<_> = several.iter().map(|api| name(api)).collect();
            names.sort_unstable();
            let why = format!(
                "there are {} KeystoneAPIs in the namespace {namespace}: {}; there must be one",
                names.len(),
                names.join(", ")
            );
            return Err(Step::ServiceConfig.fails(why));
        }
    };
    let address = |endpoint: &str| {
        api["status"]["apiEndpoints"][endpoint]
            .as_str()
            .filter(|address| !address.is_empty())
            .map(str::to_owned)
    };
    let (Some(public), Some(internal)) = (address("public"), address("internal")) else {
        let missing: Vec<_> = ENDPOINTS
            .into_iter()
            .filter(|endpoint| address(endpoint).is_none())
            .collect();
        return waiting(format!(
            "the {} endpoint in the status of KeystoneAPI {}",
            missing.join(" and the "),
            name(api)
        ));
    };
    let region = api["status"]["region"]
        .as_str()
        .filter(|region| !region.is_empty())
        .map(str::to_owned);
    Ok(KeystoneEndpoints {
        public,
        internal,
        region,
    })
}

/// Asks keystone-operator for the service and its user.
///
/// # Errors
/// A defect of Weft.
pub fn service(config: &Config) -> Result<Manifest, ManifestError> {
    let spec = json!({
        "serviceType": NAME,
        "serviceName": NAME,
        "serviceDescription": "Placement Service",
        "enabled": true,
        "serviceUser": config.service_user(),
        "secret": given(&config.spec().secret).unwrap_or_default(),
        "passwordSelector": config.password_key(),
    });
    object(config, kinds::KEYSTONE_SERVICE, spec)
}

/// Asks it for the endpoints.
///
/// # Errors
/// A defect of Weft.
pub fn endpoint(config: &Config) -> Result<Manifest, ManifestError> {
    let addresses: Map<String, Value> = ENDPOINTS
        .into_iter()
        .map(|endpoint| (endpoint.to_owned(), config.endpoint_url(endpoint).into()))
        .collect();
    object(
        config,
        kinds::KEYSTONE_ENDPOINT,
        json!({"serviceName": NAME, "endpoints": addresses}),
    )
}

/// Returns the state that a KeystoneService or KeystoneEndpoint reports. Nothing: it says nothing
/// yet.
pub fn registered(object: &Value) -> Option<State> {
    if is_outdated(object) {
        return Some(State::requested(format!(
            "keystone-operator has not seen the latest {} yet",
            Live::of(object).kind().to_owned()
        )));
    }
    mirror(object)
}

fn object(config: &Config, kind: Kind, spec: Value) -> Result<Manifest, ManifestError> {
    Manifest::new(json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {
            "name": NAME, "namespace": config.namespace, "labels": config.labels(),
            "finalizers": [FINALIZER]
        },
        "spec": spec,
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::objects::tests::config;

    fn api(name: &str, status: Value) -> Arc<Value> {
        Arc::new(json!({"metadata": {"name": name}, "status": status}))
    }

    #[test]
    fn keystone_is_waited_for_until_it_says_where_it_is() {
        let config = config(&json!({}));
        let both = json!({
            "public": "http://keystone-public.cloud.svc:5000",
            "internal": "http://keystone-internal.cloud.svc:5000"
        });
        let waits = |served: bool, all: &[Arc<Value>], text: &str| {
            let state = endpoints(&config, served, all).unwrap_err();
            assert!(
                state.reason == "Requested" && state.message.contains(text),
                "{state:?}"
            );
        };
        waits(false, &[], "install keystone-operator");
        waits(true, &[], "a KeystoneAPI in the namespace cloud");
        waits(
            true,
            &[api("keystone", json!({}))],
            "the internal and the public endpoint in the status of KeystoneAPI keystone",
        );
        waits(
            true,
            &[api(
                "keystone",
                json!({"apiEndpoints": {"public": "http://a"}}),
            )],
            "the internal endpoint in",
        );
        let read = |status: Value| endpoints(&config, true, &[api("keystone", status)]).unwrap();
        let found = read(json!({"apiEndpoints": both}));
        assert_eq!(
            (found.internal.as_str(), &found.region),
            ("http://keystone-internal.cloud.svc:5000", &None)
        );
        assert_eq!(
            read(json!({"apiEndpoints": both, "region": "RegionTwo"}))
                .region
                .as_deref(),
            Some("RegionTwo")
        );
        assert_eq!(
            endpoints(&config, true, &[api("b", json!({})), api("a", json!({}))]),
            Err(State::error(
                "Service config create error occurred there are 2 KeystoneAPIs in the namespace cloud: a, b; there must be one"
            ))
        );
    }

    #[test]
    fn the_registration_is_that_of_placement_operator() {
        let config = config(&json!({
            "serviceUser": "me", "passwordSelectors": {"service": "Mine"},
            "override": {"service": {"public": {"endpointURL": "https://placement.example"}}}
        }));
        let service = service(&config).unwrap();
        assert_eq!(
            service.body()["spec"],
            json!({"serviceType": "placement", "serviceName": "placement", "serviceDescription": "Placement Service", "enabled": true,
                "serviceUser": "me", "secret": "osp-secret", "passwordSelector": "Mine"})
        );
        let endpoint = endpoint(&config).unwrap();
        assert_eq!(
            endpoint.body()["spec"],
            json!({
                "serviceName": "placement",
                "endpoints": {
                    "internal": "http://placement-internal.cloud.svc:8778",
                    "public": "https://placement.example"
                }
            })
        );
        for object in [service, endpoint] {
            assert_eq!(
                object.body()["metadata"],
                json!({
                    "name": "placement", "namespace": "cloud",
                    "labels": {"service": "placement", "owner": "placement"},
                    "finalizers": ["openstack.org/placementapi"]
                })
            );
        }
    }

    #[test]
    fn a_report_of_keystone_operator_about_an_older_object_does_not_count() {
        let mut object = json!({"kind": "KeystoneEndpoint", "metadata": {"generation": 2},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "message": "Setup complete"}]
        }});
        let read = |object: &Value| registered(object).map(|said| (said.status, said.message));
        assert_eq!(
            read(&object),
            Some(("True".into(), "Setup complete".into()))
        );
        object["status"]["observedGeneration"] = 1.into();
        assert_eq!(
            read(&object),
            Some((
                "False".into(),
                "keystone-operator has not seen the latest KeystoneEndpoint yet".into()
            ))
        );
        object["status"]["observedGeneration"] = 2.into();
        assert_eq!(read(&object).unwrap().0, "True");
        assert_eq!(registered(&json!({"metadata": {}})), None);
    }
}
