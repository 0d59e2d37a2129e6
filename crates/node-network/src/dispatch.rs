//! Scripts of an interface that NetworkManager runs when it has activated or deactivated the interface:
//! nmstate's property `dispatch`. nmstate writes them to `/etc/NetworkManager/dispatcher.d`, and
//! removes one whose text is empty.

use serde_json::Value;

use crate::path::text;

/// The events with a script.
const EVENTS: [&str; 2] = ["post-activation", "post-deactivation"];

/// The script of an interface for an event. The line breaks at its end do not count.
fn script(interface: &Value, event: &str) -> String {
    let script = text(&interface["dispatch"][event]);
    script.trim_end_matches('\n').to_owned()
}

/// The event for which the host would get a script that it does not have.
pub(crate) fn new_script(wanted: &Value, there: Option<&Value>) -> Option<&'static str> {
    if matches!(wanted["state"].as_str(), Some("absent" | "ignore")) {
        return None;
    }
    EVENTS.into_iter().find(|event| {
        let script_of = |interface| script(interface, event);
        let wanted = script_of(wanted);
        !wanted.is_empty() && there.map(script_of).as_ref() != Some(&wanted)
    })
}

/// The events for which the host has a script that would go.
pub(crate) fn removed_scripts(wanted: &Value, there: &Value) -> Vec<&'static str> {
    let goes = |event: &&'static str| {
        wanted["dispatch"][*event].is_string()
            && script(wanted, event).is_empty()
            && !script(there, event).is_empty()
    };
    EVENTS.into_iter().filter(goes).collect()
}
