//! The CNI plugins bridge and tuning, and the bridge marker.

use weft_plan::{Manifest, ManifestError, kinds};

use crate::{Image, overlay::Overlay};

const FILES: [&str; 2] =
    [include_str!("../../../../components/linux-bridge/plugin.yaml"), include_str!("../../../../components/linux-bridge/marker.yaml")];

pub(crate) fn objects(overlay: &Overlay<'_>) -> Result<Vec<Manifest>, ManifestError> {
    let mut objects = overlay.load(&FILES)?;
    for object in objects.iter_mut().filter(|object| object.key().kind == kinds::DAEMON_SET) {
        let images = [("cni-plugins", Image::LinuxBridge), ("bridge-marker", Image::LinuxBridgeMarker)];
        overlay.workload(object, &images, &overlay.effective.workloads)?;
    }
    Ok(objects)
}
