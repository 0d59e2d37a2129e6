//! Whether a change may be carried out while pods use the network.

use weft_plan::FieldChange;

use crate::{config::Effective, provider::Provider};

/// The fields that may not change like this. Both configurations are complete and canonical, so an alias or a default that is written
/// out is no change.
pub fn unsafe_changes(provider: &dyn Provider, previous: &Effective, next: &Effective) -> Vec<FieldChange> {
    let (old, new) = (&previous.default_network, &next.default_network);
    if old.type_ != new.type_ {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        return vec![FieldChange {
            field: "spec.defaultNetwork.type".to_owned(),
            old: text(&old.type_),
            new: text(&new.type_),
            why: "all pods would lose their network".to_owned(),
        }];
    }
    provider.unsafe_changes(old, new)
}
