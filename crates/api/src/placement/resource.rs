//! The resource as a whole: `kind: PlacementAPI`.

use super::{PlacementApiSpec, PlacementApiStatus};
use crate::resource::custom_resource;

custom_resource! {
    /// A Placement service. Namespaced. A namespace has one.
    PlacementApi, PlacementApiSpec, PlacementApiStatus, super, namespaced
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use kube_core::Resource as _;
    use serde_json::json;

    use super::super::KIND;
    use super::*;
    use crate::schema::testing::example;

    #[test]
    fn an_object_without_a_spec_is_read() {
        let read: PlacementApi =
            serde_json::from_value(json!({"metadata": {"name": "placement"}})).unwrap();
        assert_eq!(read.spec, PlacementApiSpec::default());
    }

    /// The types know every field that the schema has: nothing a user writes is lost on the way.
    #[test]
    fn every_field_of_the_schema_survives_reading_and_writing() {
        let crd = crate::placement::crd();
        let schema = crd.spec.versions[0]
            .schema
            .as_ref()
            .unwrap()
            .open_api_v3_schema
            .as_ref()
            .unwrap();
        let mut object = example(&serde_json::to_value(schema).unwrap());
        object["apiVersion"] = json!(PlacementApi::api_version(&()));
        object["kind"] = json!(KIND);
        object["metadata"] = json!({"name": "placement"});
        let read: PlacementApi = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), object);
    }
}
