//! A custom resource as a whole, the same for every kind.

/// Defines a custom resource with this specification and status: a struct with `metadata`, `spec`
/// and `status`. Group, version, kind and plural are constants of the module that is named last. It
/// is cluster-scoped unless `namespaced` stands after that.
///
/// Written by hand where other operators use `#[derive(CustomResource)]`, for two reasons: `spec`
/// may be absent in a stored object, which the derive cannot read, and one type may stand for
/// several versions of an API. It is written as the version that is stored.
macro_rules! custom_resource {
    ($(#[$doc:meta])* $name:ident, $spec:ident, $status:ident, $api:ident) => {
        $crate::resource::custom_resource! { $(#[$doc])* $name, $spec, $status, $api, ClusterResourceScope }
    };
    ($(#[$doc:meta])* $name:ident, $spec:ident, $status:ident, $api:ident, namespaced) => {
        $crate::resource::custom_resource! { $(#[$doc])* $name, $spec, $status, $api, NamespaceResourceScope }
    };
    ($(#[$doc:meta])* $name:ident, $spec:ident, $status:ident, $api:ident, $scope:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
        pub struct $name {
            /// The object's name, generation, finalizers and so on.
            #[serde(default)]
            pub metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,

            /// The user's configuration.
            #[serde(default)]
            pub spec: $spec,

            /// The operator's report.
            #[serde(default)]
            pub status: Option<$status>,
        }

        impl $name {
            /// An object with this name and specification, and no status.
            pub fn new(name: &str, spec: $spec) -> Self {
                let metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta { name: Some(name.into()), ..k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta::default() };
                Self { metadata, spec, status: None }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use kube_core::Resource as _;
                use serde::ser::SerializeStruct as _;
                let mut object = serializer.serialize_struct($api::KIND, 4 + usize::from(self.status.is_some()))?;
                object.serialize_field("apiVersion", &Self::api_version(&()))?;
                object.serialize_field("kind", $api::KIND)?;
                object.serialize_field("metadata", &self.metadata)?;
                object.serialize_field("spec", &self.spec)?;
                if let Some(status) = &self.status {
                    object.serialize_field("status", status)?;
                }
                object.end()
            }
        }

        impl kube_core::Resource for $name {
            type DynamicType = ();
            type Scope = kube_core::$scope;

            fn kind(_: &()) -> std::borrow::Cow<'_, str> {
                $api::KIND.into()
            }

            fn group(_: &()) -> std::borrow::Cow<'_, str> {
                $api::GROUP.into()
            }

            fn version(_: &()) -> std::borrow::Cow<'_, str> {
                $api::VERSION.into()
            }

            fn plural(_: &()) -> std::borrow::Cow<'_, str> {
                $api::PLURAL.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }

        impl kube_core::object::HasSpec for $name {
            type Spec = $spec;

            fn spec(&self) -> &Self::Spec {
                &self.spec
            }

            fn spec_mut(&mut self) -> &mut Self::Spec {
                &mut self.spec
            }
        }

        impl kube_core::object::HasStatus for $name {
            type Status = $status;

            fn status(&self) -> Option<&Self::Status> {
                self.status.as_ref()
            }

            fn status_mut(&mut self) -> &mut Option<Self::Status> {
                &mut self.status
            }
        }
    };
}

pub(crate) use custom_resource;
