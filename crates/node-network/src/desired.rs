//! A desired state on its way from the policies to the host.

use std::{fmt, sync::Arc};

use nmstate::{NetworkState, NmstateError};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{functions::with_functions, state, state_error::StateError};

/// A desired state as nmstate has read it: its type, which nmstate merges and applies, and the same
/// as JSON, which Weft compares with the state of a host. Both are made once, and clones share them.
///
/// In a file it is the JSON alone.
#[derive(Clone)]
pub struct Desired(Arc<Read>);

struct Read {
    state: NetworkState,
    value: Value,
}

impl Desired {
    /// Reads a desired state in today's spelling, without references to captures and Secrets.
    ///
    /// # Errors
    /// nmstate does not know a field or cannot take its value.
    pub fn read(desired: &Value) -> Result<Self, StateError> {
        state::parse::<NetworkState>(desired).map(Self::from)
    }

    /// As nmstate's type. Passwords are in clear.
    pub fn state(&self) -> &NetworkState {
        &self.0.state
    }

    /// As nmstate writes it. Passwords are in clear.
    pub fn value(&self) -> &Value {
        &self.0.value
    }

    /// Asks nmstate whether a host in the state `current` can have it.
    ///
    /// # Errors
    /// nmstate's first refusal. [`explained`](crate::verdict::explained) has all of them, with their
    /// places.
    pub fn validate(&self, current: &NetworkState) -> Result<(), NmstateError> {
        let current = with_functions(&self.0.state, current);
        self.0.state.validate(Some(&current))
    }
}

/// The state that asks for nothing.
impl Default for Desired {
    fn default() -> Self {
        Self::from(NetworkState::default())
    }
}

impl From<NetworkState> for Desired {
    fn from(state: NetworkState) -> Self {
        let value = state::value(&state);
        Self(Arc::new(Read { state, value }))
    }
}

/// Without content, which has secrets in it.
impl fmt::Debug for Desired {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Desired").finish_non_exhaustive()
    }
}

impl Serialize for Desired {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.state.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Desired {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        NetworkState::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bridge() -> Value {
        json!({"interfaces": [
            {"name": "br1", "type": "linux-bridge", "state": "up", "mtu": "9000", "bridge": {"port": [{"name": "eth1"}]}},
            {"name": "eth1", "802.1x": {"identity": "node", "eap-methods": ["md5"], "password": "first-pass"}},
        ]})
    }

    #[test]
    fn both_forms_say_the_same_and_a_file_holds_one_of_them() {
        let desired = Desired::read(&bridge()).unwrap();
        let mtu = desired.state().interfaces.iter();
        let mtu: Vec<_> = mtu.map(|interface| interface.base_iface().mtu).collect();
        assert!(mtu.contains(&Some(9000)), "{mtu:?}");
        let file = serde_json::to_string(&desired).unwrap();
        assert_eq!(file, serde_json::to_string(desired.state()).unwrap());
        let again: Desired = serde_json::from_str(&file).unwrap();
        assert_eq!(again.value(), desired.value());
        assert_eq!(
            serde_json::to_value(again.state()).unwrap(),
            *desired.value()
        );
    }

    #[test]
    fn a_field_that_nmstate_does_not_know_is_named() {
        let error = Desired::read(&json!({"interfaces": [{"name": "eth1", "mut": 1500}]}));
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("interfaces[eth1].mut"), "{error}");
    }

    #[test]
    fn its_debug_form_has_no_secret() {
        let text = format!("{:?}", Desired::read(&bridge()).unwrap());
        assert!(!text.contains("first-pass"), "{text}");
    }
}
