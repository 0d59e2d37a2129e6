//! The resource as a whole: `kind: NetworkConfig`.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::object::{HasSpec, HasStatus};
use kube_core::{ClusterResourceScope, Resource};
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};

use super::{GROUP, KIND, NetworkConfigSpec, NetworkConfigStatus, PLURAL, VERSION};

/// The cluster's default network. Cluster-scoped; only the object named `default` is acted on.
///
/// Written by hand where other operators use `#[derive(CustomResource)]`: `spec` may be absent in a stored object, which the derive cannot
/// read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct NetworkConfig {
    /// The object's name, generation, finalizers and so on.
    #[serde(default)]
    pub metadata: ObjectMeta,

    /// What the user asks for.
    #[serde(default)]
    pub spec: NetworkConfigSpec,

    /// What the operator reports.
    #[serde(default)]
    pub status: Option<NetworkConfigStatus>,
}

impl NetworkConfig {
    /// An object with this name and specification, and no status.
    pub fn new(name: &str, spec: NetworkConfigSpec) -> Self {
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        Self { metadata, spec, status: None }
    }
}

impl Serialize for NetworkConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct(KIND, 4 + usize::from(self.status.is_some()))?;
        object.serialize_field("apiVersion", &Self::api_version(&()))?;
        object.serialize_field("kind", KIND)?;
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("spec", &self.spec)?;
        if let Some(status) = &self.status {
            object.serialize_field("status", status)?;
        }
        object.end()
    }
}

impl Resource for NetworkConfig {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind(_: &()) -> Cow<'_, str> {
        KIND.into()
    }

    fn group(_: &()) -> Cow<'_, str> {
        GROUP.into()
    }

    fn version(_: &()) -> Cow<'_, str> {
        VERSION.into()
    }

    fn plural(_: &()) -> Cow<'_, str> {
        PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl HasSpec for NetworkConfig {
    type Spec = NetworkConfigSpec;

    fn spec(&self) -> &Self::Spec {
        &self.spec
    }

    fn spec_mut(&mut self) -> &mut Self::Spec {
        &mut self.spec
    }
}

impl HasStatus for NetworkConfig {
    type Status = NetworkConfigStatus;

    fn status(&self) -> Option<&Self::Status> {
        self.status.as_ref()
    }

    fn status_mut(&mut self) -> &mut Option<Self::Status> {
        &mut self.status
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::schema::testing::example;

    #[test]
    fn an_object_without_a_spec_is_read() {
        let read: NetworkConfig = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
        assert_eq!(read.spec, NetworkConfigSpec::default());
    }

    /// The types know every field that the schema has: nothing a user writes is lost on the way.
    #[test]
    fn every_field_of_the_schema_survives_reading_and_writing() {
        let crd = crate::cluster_network::crd();
        let schema = crd.spec.versions[0].schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
        let mut object = example(&serde_json::to_value(schema).unwrap());
        object["apiVersion"] = json!(NetworkConfig::api_version(&()));
        object["kind"] = json!(KIND);
        let read: NetworkConfig = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), object);
    }
}
