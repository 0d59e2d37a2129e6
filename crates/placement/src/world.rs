//! The input of an assessment: objects in the namespace of the PlacementAPI, its own and others'.
//!
//! The operator answers from its watches, and watches every object that an assessment asks for. So
//! an assessment that reads a Secret runs again when the Secret changes. A preview answers from the
//! objects that it has read.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use weft_plan::{
    Kind, Live, ObjectKey, kinds,
    report::Failure,
    rollout::{PodView, Trouble},
};

use crate::{
    ini::{IniError, refuse_control},
    registration::{Progress, Task},
};

/// An answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen<T> {
    /// Nothing yet. The answer is on its way.
    Unknown,
    /// The cluster does not serve the kind: nobody has installed what brings it.
    NotServed,
    /// The API server does not let us look, in these words.
    Refused(String),
    /// The known answer.
    Known(T),
}

impl<T> Seen<T> {
    /// The same of something else.
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Seen::Unknown => Seen::Unknown,
            Seen::NotServed => Seen::NotServed,
            Seen::Refused(why) => Seen::Refused(why),
            Seen::Known(found) => Seen::Known(of(found)),
        }
    }
}

/// A question of an assessment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Question {
    /// One object.
    Object(ObjectKey),
    /// Those of a kind that a label selector chooses. All, if it is empty.
    Selected(Kind, String),
}

impl Question {
    /// The kind of what is asked for.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Object(key) => key.kind,
            Self::Selected(kind, _) => *kind,
        }
    }
}

/// The cluster as far as a PlacementAPI depends on it. Namespaces are those of the keys. A selector
/// is of labels.
pub trait World {
    /// An object of another user's, whole.
    fn object(&self, key: &ObjectKey) -> Seen<Option<Arc<Value>>>;

    /// The objects of a kind in the namespace that a label selector chooses, whosever they are. All
    /// if it is empty. By name.
    fn selected(&self, kind: Kind, labels: &str) -> Seen<Vec<Arc<Value>>>;

    /// An object that was made for this PlacementAPI, if it is there.
    fn own(&self, key: &ObjectKey) -> Option<Arc<Value>>;

    /// All objects of a kind that were made for this PlacementAPI, by name.
    fn all_own(&self, kind: Kind) -> Vec<Arc<Value>>;

    /// Why such an object could not be applied the last time.
    fn failure(&self, key: &ObjectKey) -> Option<Failure>;

    /// The cause why a pod does not start, by the events about it. The operator lists these once the
    /// pod was asked for and has not started for a while.
    fn held_up(&self, pod: &PodView) -> Option<Trouble>;

    /// How far a task at Keystone is. It is begun by being asked for.
    fn keystone(&self, task: &Task) -> Progress;

    /// Reports whether the cluster serves a kind that others bring.
    fn serves(&self, kind: Kind) -> bool;
}

/// A Secret, read.
#[derive(Clone, Debug)]
pub struct Secret {
    name: String,
    object: Arc<Value>,
}

/// Why a Secret has no such value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It has no such key.
    // In the words of lib-common.
    #[error("field not found in Secret: field '{key}' not found in secret/{name}")]
    NoKey {
        /// the key
        key: String,
        /// the Secret
        name: String,
    },
    /// The value is empty, or nothing but blanks.
    #[error(
        "field '{key}' of secret/{name} is empty, and a value is needed there: write it into the Secret"
    )]
    Empty {
        /// the key
        key: String,
        /// the Secret
        name: String,
    },
    /// The value is no text.
    #[error("field '{key}' of secret/{name} is not text in UTF-8")]
    NoText {
        /// the key
        key: String,
        /// the Secret
        name: String,
    },
    /// The value begins or ends with a blank, which is no part of an id or of an address.
    #[error(
        "field '{key}' of secret/{name} begins or ends with a blank: write the Secret without it"
    )]
    Blank {
        /// the key
        key: String,
        /// the Secret
        name: String,
    },
    /// The value has a control character.
    #[error(transparent)]
    Control(#[from] IniError),
}

impl Secret {
    /// A Secret as the API server has it.
    pub fn new(object: Arc<Value>) -> Self {
        Self {
            name: Live::of(&object).name().to_owned(),
            object,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value of an annotation.
    pub fn annotation(&self, name: &str) -> Option<&str> {
        Live::of(&self.object).annotation(name)
    }

    /// Which version of which object this is.
    pub fn version(&self) -> String {
        let live = Live::of(&self.object);
        json!([live.uid(), live.resource_version_text()]).to_string()
    }

    /// The bytes under a key.
    ///
    /// # Errors
    /// There is no such key, or nothing under it.
    pub fn bytes(&self, key: &str) -> Result<Vec<u8>, SecretError> {
        let missing = || SecretError::NoKey {
            key: key.to_owned(),
            name: self.name.clone(),
        };
        let encoded = self.object["data"][key].as_str().ok_or_else(missing)?;
        // The API server takes no other.
        let value = STANDARD.decode(encoded).map_err(|_| missing())?;
        if value.iter().all(u8::is_ascii_whitespace) {
            return Err(SecretError::Empty {
                key: key.to_owned(),
                name: self.name.clone(),
            });
        }
        Ok(value)
    }

    /// Returns the text under a key, for example a password. Blanks are part of it.
    ///
    /// A text with a control character is an error here, before Weft sends the value anywhere.
    /// Keystone would accept a password with a line break, which then fits into no file.
    ///
    /// # Errors
    /// There is no such key, nothing under it, or no such text.
    pub fn text(&self, key: &str) -> Result<String, SecretError> {
        let text = String::from_utf8(self.bytes(key)?).map_err(|_| SecretError::NoText {
            key: key.to_owned(),
            name: self.name.clone(),
        })?;
        refuse_control(&text, &format!("field '{key}' of secret/{}", self.name))?;
        Ok(text)
    }

    /// The same of what has no blank at either end: an id, an address.
    ///
    /// # Errors
    /// As [`text`](Self::text), or there is one.
    pub fn word(&self, key: &str) -> Result<String, SecretError> {
        let text = self.text(key)?;
        if text.trim() == text {
            Ok(text)
        } else {
            Err(SecretError::Blank {
                key: key.to_owned(),
                name: self.name.clone(),
            })
        }
    }
}

/// The key of a Secret.
pub fn secret(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(kinds::SECRET, namespace, name)
}
