//! Fuzz targets. As plain tests they take some thousand random inputs each. `make fuzz` lets a
//! coverage-guided fuzzer look for more.

mod resource;
mod texts;

use serde_json::{Value, json};
use weft_cluster_network::{
    ClusterNetwork, Settings,
    settings::{ApiServer, Image},
};
use weft_plan::{Decision, Domain, Facts, Input, Refusal};

fn resource(spec: Value) -> Value {
    json!({
        "apiVersion": "networkoperator.openshift.io/v1", "kind": "NetworkConfig",
        "metadata": {"name": "default"}, "spec": spec
    })
}

fn decide(resource: &Value, record: Option<&str>) -> Result<Decision, Refusal> {
    let settings = Settings {
        images: Image::ALL
            .iter()
            .map(|image| (*image, "registry.example/x:1".to_owned()))
            .collect(),
        api_server: Some(ApiServer {
            host: "api.example".to_owned(),
            port: "6443".to_owned(),
        }),
        ..Settings::default()
    };
    ClusterNetwork::new(settings).decide(Input {
        resource,
        record,
        decided: None,
        facts: &Facts::default(),
        random: &mut |_| {},
    })
}
