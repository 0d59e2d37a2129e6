//! The CNI plugins bridge and tuning, and the bridge marker.

use weft_operands::pod::Workload;
use weft_plan::{Manifest, ManifestError, kinds};

use crate::{Image, overlay::Overlay};

const FILES: [&str; 2] = [
    include_str!("../../../../components/linux-bridge/plugin.yaml"),
    include_str!("../../../../components/linux-bridge/marker.yaml"),
];
const CONSTRAINTS: &str = include_str!("../../../../components/linux-bridge/openshift.yaml");
const PLUGIN: &str = "kube-cni-linux-bridge-plugin";

pub(crate) fn objects(overlay: &Overlay<'_>) -> Result<Vec<Manifest>, ManifestError> {
    let mut objects = overlay.load(&FILES)?;
    for object in objects
        .iter_mut()
        .filter(|object| object.key().kind == kinds::DAEMON_SET)
    {
        let images = [
            ("cni-plugins", Image::LinuxBridge),
            ("bridge-marker", Image::LinuxBridgeMarker),
        ];
        overlay.workload(object, &images, &overlay.effective.workloads)?;
        if object.key().name == PLUGIN {
            object.edit_pods(|pod| {
                if overlay.has_constraints() {
                    pod.service_account_name = Some("linux-bridge".to_owned());
                }
                overlay.plugin_folder(pod, "cnibin")
            })?;
        }
    }
    overlay.constrain(
        &mut objects,
        CONSTRAINTS,
        &[(PLUGIN, "linux-bridge"), ("bridge-marker", "bridge-marker")],
    )?;
    Ok(objects)
}
