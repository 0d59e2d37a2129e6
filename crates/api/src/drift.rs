//! An entry of `status.drift`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An object that is not as it should be and is left so, because the resource asks for that or
/// because others change it after each repair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftedObject {
    /// The kind of the object.
    pub kind: String,

    /// The namespace of the object, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,

    /// The name of the object.
    pub name: String,

    /// Changed, Missing, BeingDeleted (finalizers hold it), Altered (an admission policy or a webhook
    /// changes it), Contested (another client writes a field again each time), or during a pause
    /// Pending (it is not there yet) and Unwanted (it is not wanted any more and still there).
    pub state: String,

    /// The fields that differ, if it is Changed, Altered or Contested. The first few, if they are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub fields: Vec<DriftedField>,
}

/// A field that is not as it should be. Values are JSON, shortened if they are long. Those of a
/// Secret are hidden.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftedField {
    /// Where in the object, for example spec.template.spec.containers[name=kube-multus].image.
    pub path: String,

    /// The wanted value. Omitted if the field should not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<String>,

    /// The live value. Omitted if the field does not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,

    /// The field manager that added it, where it should not be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added_by: Option<String>,
}
