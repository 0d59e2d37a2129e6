//! Common helpers of the tests.

use serde_json::Value;
use weft_cluster_network::{
    Settings,
    settings::{ApiServer, Image},
};
use weft_plan::{Decision, Domain, Facts, Input, kinds};

/// Settings with an image for everything.
pub fn settings() -> Settings {
    let image = |image: &Image| {
        (
            *image,
            format!(
                "registry.example/{}:v1",
                image.env().to_lowercase().replace('_', "-")
            ),
        )
    };
    Settings {
        images: Image::ALL.iter().map(image).collect(),
        api_server: Some(ApiServer {
            host: "api.example".into(),
            port: "6443".into(),
        }),
        ..Settings::default()
    }
}

/// Returns the decision about a resource, on a cluster with Multus.
pub fn decide(domain: &dyn Domain, resource: &Value) -> Decision {
    let facts = Facts {
        definitions: [kinds::NETWORK_ATTACHMENT_DEFINITION.definition()].into(),
        ..Facts::default()
    };
    let input = Input {
        resource,
        record: None,
        decided: None,
        facts: &facts,
        random: &mut |_| {},
    };
    domain.decide(input).unwrap()
}
