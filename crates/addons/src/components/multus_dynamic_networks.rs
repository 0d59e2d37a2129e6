//! The controller that attaches running pods to networks and detaches them.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Map, Value, json};
use weft_operands::pod::{CONFIG_HASH, Workload, set_host_path, set_mount_path};
use weft_plan::{Manifest, ManifestError, canonical_lines, kinds};

use crate::{Image, overlay::Overlay};

const FILES: [&str; 3] = [
    include_str!("../../../../components/multus-dynamic-networks/rbac.yaml"),
    include_str!("../../../../components/multus-dynamic-networks/config.yaml"),
    include_str!("../../../../components/multus-dynamic-networks/daemonset.yaml"),
];

/// Where the host's folders are mounted in the container.
const HOST: &str = "/host";
const MULTUS_SOCKET: &str = "/run/multus/multus.sock";
const CRI_VOLUME: &str = "cri-socket";

/// `cri_socket` is the path of the container runtime's socket on the nodes.
pub(crate) fn objects(
    overlay: &Overlay<'_>,
    cri_socket: &str,
) -> Result<Vec<Manifest>, ManifestError> {
    let mut objects = overlay.load(&FILES)?;
    for object in objects
        .iter_mut()
        .filter(|object| object.key().kind == kinds::CONFIG_MAP)
    {
        object.edit("/data", |data: &mut Map<String, Value>| {
            configure(data, cri_socket);
            Ok::<_, String>(())
        })?;
    }
    let config = objects
        .iter()
        .find(|object| object.key().kind == kinds::CONFIG_MAP)
        .map(Manifest::hash);
    for object in objects
        .iter_mut()
        .filter(|object| object.key().kind == kinds::DAEMON_SET)
    {
        overlay.workload(
            object,
            &[("dynamic-networks-controller", Image::MultusDynamicNetworks)],
            &overlay.effective.workloads,
        )?;
        object.edit_pods(|pod| mount(pod, cri_socket))?;
        if let Some(hash) = &config {
            object.set_pod_annotation(CONFIG_HASH, hash);
        }
    }
    Ok(objects)
}

fn configure(data: &mut Map<String, Value>, cri_socket: &str) {
    let config = json!({
        "criSocketPath": format!("{HOST}{cri_socket}"),
        "multusSocketPath": format!("{HOST}{MULTUS_SOCKET}")
    });
    data.insert(
        "dynamic-networks-config.json".into(),
        (canonical_lines(&config) + "\n").into(),
    );
}

/// Mounts the folder that the runtime's socket is in.
fn mount(pod: &mut PodSpec, cri_socket: &str) -> Result<(), String> {
    let folder = cri_socket.rsplit_once('/').map_or("", |(folder, _)| folder);
    set_host_path(
        pod,
        CRI_VOLUME,
        if folder.is_empty() { "/" } else { folder },
    )?;
    set_mount_path(pod, CRI_VOLUME, &format!("{HOST}{folder}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use crate::testing::{decide, object, resource};

    /// Configuration, host path and mount path of the runtime's socket, and the hash on the pods.
    fn of(networks: Value) -> (Value, Value, Value, Value) {
        let decision = decide(&resource(
            json!({"multus": {}, "multusDynamicNetworks": networks}),
        ));
        let config = object(&decision, "ConfigMap", "dynamic-networks-controller-config");
        let config = serde_json::from_str(
            config["data"]["dynamic-networks-config.json"]
                .as_str()
                .unwrap(),
        )
        .unwrap();
        let template =
            &object(&decision, "DaemonSet", "dynamic-networks-controller-ds")["spec"]["template"];
        let named = |list: &Value| {
            list.as_array()
                .unwrap()
                .iter()
                .find(|one| one["name"] == "cri-socket")
                .unwrap()
                .clone()
        };
        let volume = named(&template["spec"]["volumes"])["hostPath"]["path"].clone();
        let mount = named(&template["spec"]["containers"][0]["volumeMounts"])["mountPath"].clone();
        (
            config,
            volume,
            mount,
            template["metadata"]["annotations"]["weft.network/config-hash"].clone(),
        )
    }

    #[test]
    fn the_controller_finds_any_socket_of_a_runtime() {
        for (socket, folder, mounted) in [
            (
                "/run/containerd/containerd.sock",
                "/run/containerd",
                "/host/run/containerd",
            ),
            (
                "/run/k3s/containerd/containerd.sock",
                "/run/k3s/containerd",
                "/host/run/k3s/containerd",
            ),
            ("/run/k0s/containerd.sock", "/run/k0s", "/host/run/k0s"),
            ("/run/cri-dockerd.sock", "/run", "/host/run"),
            ("/cri.sock", "/", "/host"),
        ] {
            let (config, volume, mount, _) = of(json!({"hostCRISocketPath": socket}));
            assert_eq!(
                config,
                json!({
                    "criSocketPath": format!("/host{socket}"),
                    "multusSocketPath": "/host/run/multus/multus.sock"
                })
            );
            assert_eq!((volume, mount), (folder.into(), mounted.into()), "{socket}");
        }
    }

    #[test]
    fn another_socket_rolls_the_pods() {
        let (_, volume, _, by_default) = of(json!({}));
        assert_eq!(volume, "/run/crio");
        assert!(by_default.is_string());
        assert_ne!(
            of(json!({"hostCRISocketPath": "/run/crio/other.sock"})).3,
            by_default
        );
    }

    #[test]
    fn a_socket_that_is_made_anew_is_found() {
        // A mounted socket stays the old one when its server restarts. A mounted folder shows the
        // new one.
        let decision = decide(&resource(
            json!({"multus": {}, "multusDynamicNetworks": {}}),
        ));
        let pod = &object(&decision, "DaemonSet", "dynamic-networks-controller-ds")["spec"]["template"]
            ["spec"];
        let types: Vec<_> = pod["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|volume| volume["hostPath"]["type"].as_str())
            .collect();
        assert_eq!(types, ["Directory", "Directory"]);
    }
}
