//! Multus.

use weft_plan::{Manifest, ManifestError, kinds};

use crate::{
    Image,
    overlay::{CONFIG_HASH, Overlay},
};

const FILES: [&str; 3] = [
    include_str!("../../../../components/multus/rbac.yaml"),
    include_str!("../../../../components/multus/config.yaml"),
    include_str!("../../../../components/multus/daemonset.yaml"),
];

pub(crate) fn objects(overlay: &Overlay<'_>) -> Result<Vec<Manifest>, ManifestError> {
    let mut objects = overlay.load(&FILES)?;
    // Taken before the labels are set: a new version of the operator alone restarts nothing.
    let config = objects.iter().find(|object| object.key().kind == kinds::CONFIG_MAP).map(Manifest::hash);
    for object in &mut objects {
        if object.key().kind == kinds::DAEMON_SET {
            let images = [("install-multus-binary", Image::Multus), ("kube-multus", Image::Multus)];
            overlay.workload(object, &images, &overlay.effective.workloads)?;
            if let Some(hash) = &config {
                object.set_pod_annotation(CONFIG_HASH, hash);
            }
        }
    }
    Ok(objects)
}
