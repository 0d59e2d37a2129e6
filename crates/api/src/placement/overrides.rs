//! Changes to the created objects: the Services, and the probes of the pods.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{rules, schemas};

/// Changes to the created objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiOverride {
    /// The Services placement-public and placement-internal, by the keys public and internal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "services")]
    pub service: Option<BTreeMap<String, RoutedOverride>>,

    /// The probes of the pods. Omitted values are computed from apiTimeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<ProbeOverrides>,
}

/// A map, so that a key that is not known is refused and not dropped.
fn services(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": generator.subschema_for::<RoutedOverride>(),
        "x-kubernetes-validations": rules::endpoints(),
    })
}

/// A Service and the endpoint that is registered for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutedOverride {
    /// Labels and annotations that the Service has next to those that are always there, or instead
    /// of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<EmbeddedMetadata>,

    /// Fields of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<ServiceOverride>,

    /// The address that is registered in Keystone. Left out: that of the Service in the cluster.
    #[serde(
        rename = "endpointURL",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = rules::url()))]
    pub endpoint_url: Option<String>,
}

/// Labels and annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EmbeddedMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::texts")]
    pub labels: Option<BTreeMap<String, String>>,

    /// Annotations, for example those by which MetalLB is asked for an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::texts")]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Fields of a Service, as in its spec. `kubectl explain service.spec` has the details.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceOverride {
    /// How the Service is reached. Left out: ClusterIP.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]))]
    pub type_: Option<String>,

    /// Sends a client always to the same pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["ClientIP", "None"]))]
    pub session_affinity: Option<String>,

    /// For how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_affinity_config: Option<SessionAffinityConfig>,

    /// The clients that a load balancer lets through, as blocks of addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::source_ranges")]
    pub load_balancer_source_ranges: Option<Vec<String>>,

    /// The name that a Service of the type ExternalName stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub external_name: Option<String>,

    /// Includes pods on other nodes than the one that receives a request from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Cluster", "Local"]))]
    pub external_traffic_policy: Option<String>,

    /// Gives the Service one address, or one of each family.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["SingleStack", "PreferDualStack", "RequireDualStack"]))]
    pub ip_family_policy: Option<String>,

    /// Which load balancer is meant, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub load_balancer_class: Option<String>,

    /// Includes pods on other nodes than the client's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["Cluster", "Local"]))]
    pub internal_traffic_policy: Option<String>,
}

/// How long a client gets to the same pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionAffinityConfig {
    /// By the client's address.
    #[serde(rename = "clientIP", default, skip_serializing_if = "Option::is_none")]
    pub client_ip: Option<ClientIpConfig>,
}

/// How long a client gets to the same pod, by its address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientIpConfig {
    /// Seconds. Left out: 10800, three hours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub timeout_seconds: Option<i32>,
}

/// The probes of the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbeOverrides {
    /// Probe that restarts the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness_probes: Option<ProbeOverride>,

    /// Probe that lets the pod take requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness_probes: Option<ProbeOverride>,

    /// Probe for the start of the container. The others wait for it. Left out: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_probes: Option<ProbeOverride>,
}

/// A probe. Omitted values stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::probe()))]
pub struct ProbeOverride {
    /// HTTP, a request, or Exec, a command in the container. Left out: HTTP.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["HTTP", "Exec", ""]))]
    pub type_: Option<String>,

    /// The path of the request. Left out: /.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), extend("x-kubernetes-validations" = rules::path()))]
    pub path: Option<String>,

    /// The command, with its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub command: Option<Vec<String>>,

    /// The port of the request. Left out: 8778.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,

    /// HTTP or HTTPS. Left out: HTTPS if tls.api is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["HTTP", "HTTPS"]))]
    pub scheme: Option<String>,

    /// Seconds from the start of the container to the first probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86400))]
    pub initial_delay_seconds: Option<i32>,

    /// Seconds until a probe without an answer has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub timeout_seconds: Option<i32>,

    /// Seconds from one probe to the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86400))]
    pub period_seconds: Option<i32>,

    /// How many probes in a row must fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub failure_threshold: Option<i32>,
}
