//! Multus.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Map, Value};
use weft_operands::pod::{CONFIG_HASH, Workload, set_host_path};
use weft_plan::{Manifest, ManifestError, canonical_lines, kinds};

use crate::{
    Image,
    host::{HostPaths, Preset},
    overlay::Overlay,
};

const FILES: [&str; 3] = [
    include_str!("../../../../components/multus/rbac.yaml"),
    include_str!("../../../../components/multus/config.yaml"),
    include_str!("../../../../components/multus/daemonset.yaml"),
];
const CONSTRAINTS: &str = include_str!("../../../../components/multus/openshift.yaml");

const DAEMON: &str = "kube-multus";
const PLUGINS_VOLUME: &str = "cnibin";
const DAEMON_CONFIG: &str = "daemon-config.json";

pub(crate) fn objects(overlay: &Overlay<'_>) -> Result<Vec<Manifest>, ManifestError> {
    let mut objects = overlay.load(&FILES)?;
    let paths = &overlay.effective.host_paths;
    for object in objects
        .iter_mut()
        .filter(|object| object.key().kind == kinds::CONFIG_MAP)
    {
        object.edit("/data", |data: &mut Map<String, Value>| {
            configure(data, paths)
        })?;
    }
    // The pods of the original and of earlier releases have read the configuration that the manifest
    // holds, and a hash would restart them. So only a configuration that differs from it gets a hash,
    // and before the labels are set, as a new version of the operator restarts no pod.
    let config = objects
        .iter()
        .find(|object| object.key().kind == kinds::CONFIG_MAP)
        .filter(|_| changes(paths))
        .map(Manifest::hash);
    for object in &mut objects {
        if object.key().kind == kinds::DAEMON_SET {
            let images = [
                ("install-multus-binary", Image::Multus),
                (DAEMON, Image::Multus),
            ];
            overlay.workload(object, &images, &overlay.effective.workloads)?;
            object.edit_pods(|pod| mount(pod, paths))?;
            if let Some(hash) = &config {
                object.set_pod_annotation(CONFIG_HASH, hash);
            }
        }
    }
    overlay.constrain(&mut objects, CONSTRAINTS, &[("multus", "multus")])?;
    Ok(objects)
}

/// Returns true if the daemon's configuration has to differ from that of the manifest: the CNI
/// plugins are not in the default folder.
fn changes(paths: &HostPaths) -> bool {
    paths.cni_bin_dir != Preset::default().paths().cni_bin_dir
}

/// Sets `binDir` in the daemon's configuration, the folder of the plugins that it calls for a pod's
/// networks. Leaves the manifest as it is if this is the default folder.
fn configure(data: &mut Map<String, Value>, paths: &HostPaths) -> Result<(), String> {
    if !changes(paths) {
        return Ok(());
    }
    let text = data
        .get(DAEMON_CONFIG)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("there is no {DAEMON_CONFIG}"))?;
    let mut config: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
    config.insert("binDir".to_owned(), paths.cni_bin_dir.clone().into());
    // Another text would restart the pods.
    let text = canonical_lines(&Value::Object(config));
    data.insert(DAEMON_CONFIG.to_owned(), text.into());
    Ok(())
}

/// Mounts the folders of the nodes. Inside, the paths stay what the daemon expects, but for that of
/// the plugins: it runs them after a chroot to the host, so it must be the same there.
fn mount(pod: &mut PodSpec, paths: &HostPaths) -> Result<(), String> {
    set_host_path(pod, PLUGINS_VOLUME, &paths.cni_bin_dir)?;
    set_host_path(pod, "cni", &paths.cni_config_dir)?;
    set_host_path(pod, "host-var-lib-kubelet", &paths.kubelet_dir)?;
    set_host_path(pod, "host-run-netns", &paths.network_namespace_dir)?;
    let daemon = pod
        .containers
        .iter_mut()
        .find(|container| container.name == DAEMON);
    let mut mounts = daemon
        .into_iter()
        .flat_map(|container| container.volume_mounts.iter_mut().flatten());
    let plugins = mounts
        .find(|mount| mount.name == PLUGINS_VOLUME)
        .ok_or_else(|| format!("{DAEMON} does not mount {PLUGINS_VOLUME}"))?;
    paths.cni_bin_dir.clone_into(&mut plugins.mount_path);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};
    use weft_plan::Decision;

    use crate::testing::{decide, object, resource};

    fn with(host_paths: Value) -> Decision {
        decide(&resource(json!({"multus": {}, "hostPaths": host_paths})))
    }

    fn pod(decision: &Decision) -> &Value {
        &object(decision, "DaemonSet", "multus")["spec"]["template"]["spec"]
    }

    fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
        list.as_array()
            .unwrap()
            .iter()
            .find(|one| one["name"] == name)
            .unwrap()
    }

    fn config(decision: &Decision) -> Value {
        serde_json::from_str(
            object(decision, "ConfigMap", "multus-daemon-config")["data"]["daemon-config.json"]
                .as_str()
                .unwrap(),
        )
        .unwrap()
    }

    #[test]
    fn the_folders_are_those_of_the_nodes_and_the_daemon_finds_them() {
        let by_default = with(json!({}));
        let k3s = with(json!({
            "preset": "K3s", "kubeletDir": "/data/kubelet",
            "networkNamespaceDir": "/var/run/netns"
        }));
        let bin = "/var/lib/rancher/k3s/data/cni";
        for (volume, path) in [
            ("cnibin", bin),
            ("cni", "/var/lib/rancher/k3s/agent/etc/cni/net.d"),
            ("host-var-lib-kubelet", "/data/kubelet"),
            ("host-run-netns", "/var/run/netns"),
            ("hostroot", "/"),
        ] {
            assert_eq!(
                named(&pod(&k3s)["volumes"], volume)["hostPath"]["path"],
                path
            );
        }
        let mounts = |pod: &Value, list: &str| pod[list][0]["volumeMounts"].clone();
        let daemon = mounts(pod(&k3s), "containers");
        assert_eq!(
            named(&daemon, "cnibin")["mountPath"],
            bin,
            "the same inside and outside"
        );
        for volume in ["cni", "host-var-lib-kubelet", "host-run-netns"] {
            assert_eq!(
                named(&daemon, volume),
                named(&mounts(pod(&by_default), "containers"), volume),
                "the daemon's own names"
            );
        }
        assert_eq!(
            mounts(pod(&k3s), "initContainers"),
            mounts(pod(&by_default), "initContainers")
        );
        let mut expected = config(&by_default);
        assert_eq!(expected["binDir"], Value::Null);
        expected["binDir"] = bin.into();
        assert_eq!(config(&k3s), expected);
    }

    #[test]
    fn the_pods_roll_when_the_config_changes_and_not_when_weft_takes_over() {
        let hash = |decision: &Decision| {
            let template = &object(decision, "DaemonSet", "multus")["spec"]["template"];
            template["metadata"]["annotations"]["weft.network/config-hash"].clone()
        };
        assert_eq!(hash(&with(json!({}))), Value::Null);
        let elsewhere = |folder: &str| hash(&with(json!({"cniBinDir": folder})));
        assert!(elsewhere("/a").is_string());
        assert_ne!(elsewhere("/a"), elsewhere("/b"));
    }

    /// No hash rolls the pods when this changes: then the manifest needs one always.
    #[test]
    fn the_config_of_the_manifest_is_that_of_the_original() {
        assert_eq!(
            config(&with(json!({}))),
            json!({
                "chrootDir": "/hostroot", "cniVersion": "0.3.1", "logLevel": "verbose", "logToStderr": true,
                "cniConfigDir": "/host/etc/cni/net.d", "multusAutoconfigDir": "/host/etc/cni/net.d", "multusConfigFile": "auto",
                "socketDir": "/host/run/multus/"
            })
        );
    }

    #[test]
    fn the_same_folders_by_name_restart_nothing() {
        let by_name = with(json!({"preset": "Kubeadm", "networkNamespaceDir": "/run/netns"}));
        assert_eq!(by_name.units, with(json!({})).units);
    }
}
