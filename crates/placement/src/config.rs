//! A specification in which nothing is wrong or open.

use std::collections::BTreeMap;

use weft_api::placement::{PlacementApi, PlacementApiSpec, RoutedOverride};
use weft_operands::problems::given;
use weft_plan::Problem;

use crate::validate::{Registration, registration, validate};

/// The key of `spec.secret` that holds the password, unless another is named.
pub const PASSWORD_KEY: &str = "PlacementPassword";

/// The complete and checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The name of the PlacementAPI.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its uid. Empty offline.
    pub uid: String,
    /// The owner of the registration.
    pub registration: Registration,
    spec: PlacementApiSpec,
}

impl Config {
    /// Checks a resource and fills in what is left out.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn of(resource: &PlacementApi) -> Result<Self, Vec<Problem>> {
        let name = resource.metadata.name.clone().unwrap_or_default();
        let namespace = resource
            .metadata
            .namespace
            .clone()
            .unwrap_or_else(|| "default".to_owned());
        let problems = validate(&name, &namespace, &resource.spec);
        if !problems.is_empty() {
            return Err(problems);
        }
        let registration = registration(resource.spec.keystone.as_ref());
        Ok(Self {
            name,
            namespace,
            uid: resource.metadata.uid.clone().unwrap_or_default(),
            registration,
            spec: resource.spec.clone(),
        })
    }

    /// The specification as it was given.
    pub fn spec(&self) -> &PlacementApiSpec {
        &self.spec
    }

    /// Seconds after which a request is given up.
    pub fn api_timeout(&self) -> i64 {
        self.spec
            .api_timeout
            .filter(|seconds| *seconds != 0)
            .unwrap_or(60)
    }

    /// The service's user in Keystone.
    pub fn service_user(&self) -> &str {
        given(&self.spec.service_user).unwrap_or("placement")
    }

    /// How many pods there are.
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// The key of `spec.secret` that holds the password.
    pub fn password_key(&self) -> &str {
        self.spec
            .password_selectors
            .as_ref()
            .and_then(|selectors| given(&selectors.service))
            .unwrap_or(PASSWORD_KEY)
    }

    /// The Secrets with the certificates of the endpoints, internal and public: both or none.
    pub fn certificates(&self) -> Option<[&str; 2]> {
        let api = self.spec.tls.as_ref()?.api.as_ref()?;
        let [internal, public] = [&api.internal, &api.public].map(|service| {
            service
                .as_ref()
                .and_then(|service| given(&service.secret_name))
        });
        Some([internal?, public?])
    }

    /// The Secret with the certificates that others are verified by.
    pub fn ca_bundle(&self) -> Option<&str> {
        given(&self.spec.tls.as_ref()?.ca_bundle_secret_name)
    }

    /// The Secret with those that an external Keystone is verified by.
    pub fn keystone_ca_bundle(&self) -> Option<&str> {
        given(
            &self
                .spec
                .keystone
                .as_ref()?
                .external
                .as_ref()?
                .ca_bundle_secret_name,
        )
    }

    /// Reports whether clients have to prove who they are.
    pub fn authenticates(&self) -> bool {
        self.spec
            .auth
            .as_ref()
            .and_then(|auth| given(&auth.strategy))
            != Some("noauth2")
    }

    /// The change to the Service of an endpoint.
    pub fn service(&self, endpoint: &str) -> Option<&RoutedOverride> {
        self.spec
            .override_
            .as_ref()?
            .service
            .as_ref()?
            .get(endpoint)
    }

    /// The address that is registered for an endpoint.
    pub fn endpoint_url(&self, endpoint: &str) -> String {
        let scheme = if self.certificates().is_some() {
            "https"
        } else {
            "http"
        };
        let own = || {
            format!(
                "{scheme}://placement-{endpoint}.{}.svc:8778",
                self.namespace
            )
        };
        self.service(endpoint)
            .and_then(|service| given(&service.endpoint_url))
            .map_or_else(own, str::to_owned)
    }

    /// The labels of the pods, by which Services select them.
    pub fn labels(&self) -> BTreeMap<&str, &str> {
        [("service", "placement"), ("owner", &self.name)].into()
    }
}
