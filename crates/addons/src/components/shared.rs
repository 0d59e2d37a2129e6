//! What several components rest on.

use weft_plan::{Manifest, ManifestError};

use crate::overlay::Overlay;

/// The namespace of the operands.
pub(crate) fn namespace(overlay: &Overlay<'_>) -> Result<Vec<Manifest>, ManifestError> {
    overlay.load(&[include_str!("../../../../components/namespace/namespace.yaml")])
}

/// The definition of NetworkAttachmentDefinition.
pub(crate) fn network_attachment_definition(overlay: &Overlay<'_>) -> Result<Vec<Manifest>, ManifestError> {
    overlay.load(&[include_str!("../../../../components/network-attachment-definition/crd.yaml")])
}

/// Policies that let labelled pods reach the API server and DNS.
pub(crate) fn network_policy(overlay: &Overlay<'_>) -> Result<Vec<Manifest>, ManifestError> {
    overlay.load(&[include_str!("../../../../components/network-policy/egress.yaml")])
}
