//! The macvtap CNI plugin and its device plugin.

use k8s_openapi::api::core::v1::PodSpec;
use weft_operands::pod::{Workload, containers};
use weft_plan::{Manifest, ManifestError, Mode, kinds};

use crate::{Image, overlay::Overlay};

const FILES: [&str; 2] = [
    include_str!("../../../../components/macvtap/config.yaml"),
    include_str!("../../../../components/macvtap/daemonset.yaml"),
];
const CONSTRAINTS: &str = include_str!("../../../../components/macvtap/openshift.yaml");

/// `device_plugin_config` is the name of the ConfigMap that the device plugin reads. The one of the
/// default name is made where it is missing. Any other is the user's own, and the pods wait for it.
pub(crate) fn objects(
    overlay: &Overlay<'_>,
    device_plugin_config: &str,
) -> Result<Vec<Manifest>, ManifestError> {
    let mut objects = Vec::new();
    for mut object in overlay.load(&FILES)? {
        match object.key().kind {
            kinds::CONFIG_MAP => object = object.with_mode(Mode::CreateOnly),
            kinds::DAEMON_SET => {
                let images = [
                    ("install-cni", Image::MacvtapCni),
                    ("macvtap-cni", Image::MacvtapCni),
                ];
                overlay.workload(&mut object, &images, &overlay.effective.workloads)?;
                object.edit_pods(|pod| {
                    read_from(pod, device_plugin_config);
                    overlay.plugin_folder(pod, "cni")
                })?;
            }
            _ => {}
        }
        objects.push(object);
    }
    overlay.constrain(&mut objects, CONSTRAINTS, &[("macvtap-cni", "macvtap-cni")])?;
    Ok(objects)
}

fn read_from(pod: &mut PodSpec, config_map: &str) {
    let sources = containers(pod).flat_map(|container| container.env_from.iter_mut().flatten());
    sources
        .filter_map(|source| source.config_map_ref.as_mut())
        .for_each(|reference| reference.name = config_map.to_owned());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};
    use weft_plan::{Mode, ObjectKey, kinds, rollout};

    use crate::testing::{decide, decide_on_openshift, object, objects, resource};

    #[test]
    fn the_default_config_is_made_once_and_nothing_else_is_the_users() {
        for macvtap in [json!({}), json!({"devicePluginConfig": "mine"})] {
            let decision = decide(&resource(json!({"macvtap": macvtap})));
            let create_only: Vec<_> = objects(&decision)
                .filter(|object| object.mode() == Mode::CreateOnly)
                .map(|object| object.key().human())
                .collect();
            assert_eq!(
                create_only,
                ["ConfigMap cluster-network-addons/macvtap-deviceplugin-config"]
            );
            assert_eq!(
                object(&decision, "ConfigMap", "macvtap-deviceplugin-config")["data"],
                json!({"DP_MACVTAP_CONF": "[]"})
            );
        }
    }

    #[test]
    fn the_pods_read_the_config_that_is_named_and_cannot_start_without_it() {
        for (macvtap, name) in [
            (json!({}), "macvtap-deviceplugin-config"),
            (json!({"devicePluginConfig": "mine"}), "mine"),
        ] {
            let decision = decide(&resource(json!({"macvtap": macvtap})));
            let workload = object(&decision, "DaemonSet", "macvtap-cni");
            let container = &workload["spec"]["template"]["spec"]["containers"][0];
            assert_eq!(
                container["envFrom"],
                json!([{"configMapRef": {"name": name}}])
            );
            assert_eq!(
                rollout::inputs(workload),
                [ObjectKey::new(
                    kinds::CONFIG_MAP,
                    "cluster-network-addons",
                    name
                )]
            );
        }
    }

    #[test]
    fn the_plugin_goes_where_the_runtime_looks_for_it() {
        let resource = resource(json!({"macvtap": {}}));
        let path = |decision| -> Value {
            let pod =
                object(&decision, "DaemonSet", "macvtap-cni")["spec"]["template"]["spec"].clone();
            pod["volumes"]
                .as_array()
                .unwrap()
                .iter()
                .find(|volume| volume["name"] == "cni")
                .unwrap()["hostPath"]["path"]
                .clone()
        };
        assert_eq!(path(decide(&resource)), "/opt/cni/bin");
        assert_eq!(path(decide_on_openshift(&resource)), "/var/lib/cni/bin");
    }
}
