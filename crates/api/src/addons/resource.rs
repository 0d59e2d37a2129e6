//! The resource as a whole: `kind: NetworkAddonsConfig`.

use super::{NetworkAddonsConfigSpec, NetworkAddonsConfigStatus};
use crate::resource::custom_resource;

custom_resource! {
    /// Which network add-ons the cluster has. Cluster-scoped. Only the object named `cluster` is
    /// acted on.
    NetworkAddonsConfig, NetworkAddonsConfigSpec, NetworkAddonsConfigStatus, super
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use serde_json::json;

    use kube_core::Resource as _;

    use super::super::KIND;
    use super::*;
    use crate::schema::testing::example;

    fn read(yaml: &str) -> NetworkAddonsConfig {
        serde_saphyr::from_str(yaml).unwrap()
    }

    #[test]
    fn an_object_of_the_oldest_supported_operator_is_read() {
        let object = read(
            "
apiVersion: networkaddonsoperator.network.kubevirt.io/v1alpha1
kind: NetworkAddonsConfig
metadata: {name: cluster, generation: 1, uid: 7f3c}
spec:
  multus: {}
  linuxBridge: {}
  kubeMacPool: {rangeStart: '02:00:00:00:00:00', rangeEnd: '02:ff:ff:ff:ff:ff'}
  nmstate: {}
  ovs: {}
  imagePullPolicy: Always
  sriov: {}
status:
  conditions:
  - {type: Ready, status: 'True'}
  - {type: Available, status: 'True', lastHeartbeatTime: '2020-02-03T04:05:06Z', lastTransitionTime: null}
",
        );
        assert_eq!(object.spec.image_pull_policy.as_deref(), Some("Always"));
        assert!(object.spec.nmstate.is_some());
        assert!(object.spec.macvtap.is_none());
        let pool = object.spec.kube_mac_pool.unwrap();
        assert_eq!(pool.range_end.as_deref(), Some("02:ff:ff:ff:ff:ff"));
        assert_eq!(
            object.status.unwrap().conditions[1].last_transition_time,
            None
        );
    }

    #[test]
    fn an_object_of_the_newest_supported_operator_is_read() {
        let object = read(
            "
apiVersion: networkaddonsoperator.network.kubevirt.io/v1
kind: NetworkAddonsConfig
metadata: {name: cluster}
spec:
  multusDynamicNetworks: {hostCRISocketPath: /run/crio/crio.sock}
  kubeSecondaryDNS: {domain: example.com, nameServerIP: 192.0.2.53}
  kubevirtIpamController: {defaultNetworkNADNamespace: ovn-kubernetes}
  placementConfiguration: {workloads: {nodeSelector: {kubernetes.io/os: linux}, affinity: {}}}
  tlsSecurityProfile: {type: Custom, old: null, custom: {ciphers: [AES128-SHA], minTLSVersion: VersionTLS12}}
status:
  operatorVersion: 0.102.0
  targetVersion: 0.102.0
  observedVersion: 0.102.0
  conditions:
  - {type: Degraded, status: 'False', lastHeartbeatTime: null, lastTransitionTime: '2026-04-01T00:00:00Z'}
  containers:
  - {parentKind: DaemonSet, parentName: multus, name: kube-multus, image: 'example.com/multus:v4'}
",
        );
        let spec = object.spec;
        let socket = spec.multus_dynamic_networks.unwrap().host_cri_socket_path;
        assert_eq!(socket.as_deref(), Some("/run/crio/crio.sock"));
        let dns = spec.kube_secondary_dns.unwrap();
        assert_eq!(dns.effective_name_server_ip(), Some("192.0.2.53"));
        assert!(!dns.uses_upper_case_spelling());
        let tls = spec.tls_security_profile.unwrap();
        assert_eq!((tls.type_.as_deref(), tls.old), (Some("Custom"), None));
        assert_eq!(object.status.unwrap().containers[0].parent_name, "multus");
    }

    #[test]
    fn an_object_without_a_spec_is_read() {
        assert_eq!(
            read("metadata: {name: cluster}").spec,
            NetworkAddonsConfigSpec::default()
        );
    }

    #[test]
    fn settings_that_break_the_schema_are_read() {
        let object = read(
            "{spec: {imagePullPolicy: Sometimes, tlsSecurityProfile: {}, kubeMacPool: {rangeStart: x}}}",
        );
        assert_eq!(object.spec.image_pull_policy.as_deref(), Some("Sometimes"));
    }

    #[test]
    fn both_spellings_of_the_secondary_dns_are_read() {
        let dns = |yaml: &str| {
            read(&format!("{{spec: {{kubeSecondaryDNS: {yaml}}}}}"))
                .spec
                .kube_secondary_dns
                .unwrap()
        };
        let capitals = dns("{DOMAIN: example.com, NAME_SERVER_IP: 192.0.2.53}");
        assert_eq!(capitals.effective_domain(), Some("example.com"));
        assert_eq!(capitals.effective_name_server_ip(), Some("192.0.2.53"));
        assert!(capitals.uses_upper_case_spelling());
        let mixed = dns("{domain: '', DOMAIN: example.com}");
        assert_eq!(mixed.effective_domain(), Some("example.com"));
        assert_eq!(dns("{domain: ''}").effective_domain(), None);
    }

    #[test]
    fn unset_fields_are_not_written() {
        let object = NetworkAddonsConfig::new("cluster", NetworkAddonsConfigSpec::default());
        let expected = json!({
            "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
            "kind": "NetworkAddonsConfig",
            "metadata": {"name": "cluster"},
            "spec": {},
        });
        assert_eq!(serde_json::to_value(object).unwrap(), expected);
    }

    /// The types know every field that the schema has: nothing a user writes is lost on the way.
    #[test]
    fn every_field_of_the_schema_survives_reading_and_writing() {
        let crd = crate::addons::crd();
        let schema = crd.spec.versions[0]
            .schema
            .as_ref()
            .unwrap()
            .open_api_v3_schema
            .as_ref()
            .unwrap();
        let mut object = example(&serde_json::to_value(schema).unwrap());
        object["apiVersion"] = json!(NetworkAddonsConfig::api_version(&()));
        object["kind"] = json!(KIND);
        let read: NetworkAddonsConfig = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), object);
    }
}
