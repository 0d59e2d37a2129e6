//! Refusals of the original's webhooks that the schema does here.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use weft_plan::kinds;

use crate::system::placement::site::*;

/// Returns the API server's answer to a PlacementAPI.
async fn refused(site: &Site<'_>, spec: Value) -> String {
    let object = json!({
        "apiVersion": "placement.openstack.org/v1beta1", "kind": "PlacementAPI",
        "metadata": {"name": NAME, "namespace": site.namespace}, "spec": spec
    });
    let api = site.cluster.api(kinds::PLACEMENT_API, &site.namespace);
    let error = api
        .patch(
            NAME,
            &PatchParams::apply("test").force(),
            &Patch::Apply(&object),
        )
        .await
        .unwrap_err();
    let kube::Error::Api(status) = error else {
        panic!("{error}")
    };
    assert_eq!(
        (status.code, status.reason.as_str()),
        (422, "Invalid"),
        "{status:?}"
    );
    status.message.clone()
}

/// The image is no default of the object: it follows the operator.
pub async fn has_the_defaults(site: &Site<'_>) {
    site.placement(json!({})).await;
    let spec = site.wait_there(kinds::PLACEMENT_API, NAME).await["spec"].clone();
    assert_eq!(
        (&spec["apiTimeout"], &spec["containerImage"]),
        (&json!(60), &Value::Null)
    );
}

pub async fn uses_the_given_values(site: &Site<'_>) {
    site.placement(json!({"containerImage": "custom-image", "apiTimeout": 120}))
        .await;
    let spec = site.wait_there(kinds::PLACEMENT_API, NAME).await["spec"].clone();
    assert_eq!(
        (&spec["containerImage"], &spec["apiTimeout"]),
        (&json!("custom-image"), &json!(120))
    );
}

pub async fn rejects_a_wrong_default_config_overwrite(site: &Site<'_>) {
    let message = refused(
        site,
        json!({
            "databaseInstance": "o", "secret": SECRET,
            "defaultConfigOverwrite": {"policy.yaml": "", "api-paste.ini": ""}
        }),
    )
    .await;
    assert!(
        message.contains(
            r#"invalid: spec.defaultConfigOverwrite: Invalid value: "api-paste.ini": Only the following keys are valid: policy.yaml"#
        ),
        "{message}"
    );
}

fn wrong_endpoint() -> Value {
    json!({
        "databaseInstance": "o", "secret": SECRET,
        "override": {"service": {"internal": {}, "wrooong": {}}}
    })
}

pub async fn rejects_a_wrong_service_override_endpoint_type(site: &Site<'_>) {
    let message = refused(site, wrong_endpoint()).await;
    assert!(
        message.contains(r#"invalid: spec.override.service[wrooong]: Invalid value: "wrooong": invalid endpoint type: wrooong"#),
        "{message}"
    );
}

pub async fn rejects_an_update_with_a_wrong_service_override_endpoint_type(site: &Site<'_>) {
    site.placement(json!({})).await;
    let message = refused(site, wrong_endpoint()).await;
    assert!(
        message.contains(r#"invalid: spec.override.service[wrooong]: Invalid value: "wrooong": invalid endpoint type: wrooong"#),
        "{message}"
    );
}

pub async fn rejects_a_topologyref_on_a_different_namespace(site: &Site<'_>) {
    let message = refused(
        site,
        json!({
            "databaseInstance": "o", "secret": SECRET,
            "topologyRef": {"name": "foo", "namespace": "bar"}
        }),
    )
    .await;
    let expected = r#"spec.topologyRef.namespace: Invalid value: "namespace": Customizing namespace field is not supported"#;
    assert!(message.contains(expected), "{message}");
}
