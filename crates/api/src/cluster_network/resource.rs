//! The resource as a whole: `kind: NetworkConfig`.

use super::{NetworkConfigSpec, NetworkConfigStatus};
use crate::resource::custom_resource;

custom_resource! {
    /// The cluster's default network. Cluster-scoped. Only the object named `default` is acted on.
    NetworkConfig, NetworkConfigSpec, NetworkConfigStatus, super
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use kube_core::Resource as _;

    use super::super::KIND;
    use super::*;
    use crate::schema::testing::example;

    #[test]
    fn an_object_without_a_spec_is_read() {
        let read: NetworkConfig =
            serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
        assert_eq!(read.spec, NetworkConfigSpec::default());
    }

    /// The types know every field that the schema has: nothing a user writes is lost on the way.
    #[test]
    fn every_field_of_the_schema_survives_reading_and_writing() {
        let crd = crate::cluster_network::crd();
        let schema = crd.spec.versions[0]
            .schema
            .as_ref()
            .unwrap()
            .open_api_v3_schema
            .as_ref()
            .unwrap();
        let mut object = example(&serde_json::to_value(schema).unwrap());
        object["apiVersion"] = json!(NetworkConfig::api_version(&()));
        object["kind"] = json!(KIND);
        let read: NetworkConfig = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), object);
    }
}
