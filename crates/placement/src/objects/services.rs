//! The Services placement-internal and placement-public.

use serde_json::{Value, json};
use weft_api::placement::ENDPOINTS;
use weft_plan::Manifest;

use super::{BuildError, named, read};
use crate::Config;

/// Both Services, with what `spec.override.service` changes of them. The list omits objects that do
/// not change any more, so an apply removes them.
///
/// # Errors
/// A defect of Weft.
pub fn services(config: &Config) -> Result<Vec<Manifest>, BuildError> {
    let bases = read(
        include_str!("../../../../components/placement/services.yaml"),
        config,
    )?;
    let mut services = Vec::new();
    for (base, endpoint) in bases.iter().zip(ENDPOINTS) {
        let mut body = named(base, &base.key().name, config)?.body().clone();
        body["spec"]["selector"] = json!(config.labels());
        let change = config
            .service(endpoint)
            .map(|change| json!(change))
            .unwrap_or_default();
        for part in ["labels", "annotations"] {
            merge(&mut body["metadata"][part], &change["metadata"][part]);
        }
        merge(&mut body["spec"], &change["spec"]);
        let service_type = body["spec"]["type"].as_str().unwrap_or_default().to_owned();
        let exposed = endpoint == "public" && service_type == "ClusterIP";
        // openstack-operator makes a Route from it, and users of a name server look for it. A user
        // who sets one of them is right.
        let mut generated = vec![
            ("endpoint", endpoint.to_owned()),
            ("core.openstack.org/ingress_create", exposed.to_string()),
        ];
        if service_type == "LoadBalancer" {
            generated.push((
                "dnsmasq.network.openstack.org/hostname",
                format!("placement-{endpoint}.{}.svc", config.namespace),
            ));
        }
        for (annotation, value) in generated {
            let annotations = &mut body["metadata"]["annotations"];
            if annotations.get(annotation).is_none() {
                annotations[annotation] = value.into();
            }
        }
        services.push(Manifest::new(body)?);
    }
    Ok(services)
}

/// Merges `change` field by field. Its values win. Lists are replaced: those of a Service that can
/// be changed are.
fn merge(base: &mut Value, change: &Value) {
    match change {
        Value::Null => {}
        Value::Object(fields) => fields
            .iter()
            .for_each(|(field, value)| merge(&mut base[field.as_str()], value)),
        value => base.clone_from(value),
    }
}
