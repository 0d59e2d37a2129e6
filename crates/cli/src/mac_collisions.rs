//! MAC addresses that several machines use at the same time. KubeMacPool admits an address that a
//! user has written, also if another machine has it, and reports the collision by events.

use std::collections::BTreeSet;

use serde_json::Value;
use weft_operands::text::some;
use weft_plan::text;
use weft_runtime::{
    api_server::cluster::Error, inspect::reader::Reader, reconcile::starts::CORE_EVENT,
};

/// The API server selects by the reason, so no other events are sent.
const QUERY: &str = "fieldSelector=reason%3DMACCollision";

/// Reads the collisions that KubeMacPool has reported, as far as the user of this reader may look.
/// Returns a text about them, or `None` if there are none.
///
/// # Errors
/// The API server refuses the request for another reason.
pub async fn read(reader: &Reader) -> Result<Option<String>, Error> {
    Ok(summary(&reader.list_extra(CORE_EVENT, QUERY).await?))
}

/// KubeMacPool writes the same message about each machine of a collision.
fn summary(events: &[Value]) -> Option<String> {
    let messages: BTreeSet<_> = events
        .iter()
        .map(|event| text(event, "message"))
        .filter(|message| !message.is_empty())
        .collect();
    let messages: Vec<_> = messages.into_iter().collect();
    (!messages.is_empty()).then(|| {
        format!(
            "events of KubeMacPool name MAC addresses that several machines use: {}; a collision of the past is shown until the API server drops its event, after an hour by default",
            some(&messages)
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_collision_is_named_once_for_all_its_machines() {
        let event = |name: &str, message: &str| {
            json!({
                "involvedObject": {"kind": "VirtualMachineInstance", "name": name},
                "reason": "MACCollision", "message": message
            })
        };
        assert_eq!(summary(&[]), None);
        let message = "MAC 02:00:00:00:00:07: Collision between vmi/default/a, vmi/default/b";
        let text = summary(&[event("a", message), event("b", message)]).unwrap();
        assert_eq!(text.matches(message).count(), 1, "{text}");
        let many: Vec<_> = (0..5)
            .map(|number| event("a", &format!("MAC 02:00:00:00:00:0{number}")))
            .collect();
        let text = summary(&many).unwrap();
        assert!(text.contains("MAC 02:00:00:00:00:02 and 2 more;"), "{text}");
    }
}
