//! The Open vSwitch CNI plugins and marker.

use weft_operands::pod::Workload;
use weft_plan::{Manifest, ManifestError, kinds};

use crate::{Image, overlay::Overlay};

const FILES: [&str; 2] = [
    include_str!("../../../../components/ovs/rbac.yaml"),
    include_str!("../../../../components/ovs/daemonset.yaml"),
];
const CONSTRAINTS: &str = include_str!("../../../../components/ovs/openshift.yaml");

pub(crate) fn objects(overlay: &Overlay<'_>) -> Result<Vec<Manifest>, ManifestError> {
    let mut objects = overlay.load(&FILES)?;
    for object in objects
        .iter_mut()
        .filter(|object| object.key().kind == kinds::DAEMON_SET)
    {
        let images = [
            ("ovs-cni-plugin", Image::OvsCni),
            ("ovs-cni-marker", Image::OvsCni),
        ];
        overlay.workload(object, &images, &overlay.effective.workloads)?;
        object.edit_pods(|pod| overlay.plugin_folder(pod, "cnibin"))?;
    }
    overlay.constrain(
        &mut objects,
        CONSTRAINTS,
        &[("ovs-cni-amd64", "ovs-cni-marker")],
    )?;
    Ok(objects)
}
