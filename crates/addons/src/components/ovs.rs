//! The Open vSwitch CNI plugins and marker.

use weft_plan::{Manifest, ManifestError, kinds};

use crate::{Image, overlay::Overlay};

const FILES: [&str; 2] = [include_str!("../../../../components/ovs/rbac.yaml"), include_str!("../../../../components/ovs/daemonset.yaml")];

pub(crate) fn objects(overlay: &Overlay<'_>) -> Result<Vec<Manifest>, ManifestError> {
    let mut objects = overlay.load(&FILES)?;
    for object in objects.iter_mut().filter(|object| object.key().kind == kinds::DAEMON_SET) {
        let images = [("ovs-cni-plugin", Image::OvsCni), ("ovs-cni-marker", Image::OvsCni)];
        overlay.workload(object, &images, &overlay.effective.workloads)?;
    }
    Ok(objects)
}
