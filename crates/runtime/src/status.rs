//! Status: written only when it says something new, and never Available on old knowledge.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use weft_plan::{ObjectKey, Unit, conditions, manager, report::Report};

use crate::{cluster::Error, controller::Controller, events};

/// The status that a report leads to, or `None` if the resource says so already.
pub fn changed(controller: &Controller, resource: &Value, report: &Report, units: &[Unit]) -> Option<Value> {
    let previous = &resource["status"];
    let conditions = conditions(report, previous, Timestamp::now());
    let status = if report.blocked.is_some() {
        // The other operator's status stays: only our word is added.
        let mut status = previous.clone();
        status["conditions"] = json!(conditions);
        status
    } else {
        controller.domain.status(previous, conditions, report, units)
    };
    (status != *previous).then_some(status)
}

/// Whether a status claims that all is well.
pub fn claims_available(status: &Value) -> bool {
    condition(status, "Available").is_some_and(|condition| condition["status"] == "True")
}

/// The condition of a type.
pub fn condition<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == name)
}

/// Writes a status, and the events that its changes are worth. A resource that is gone needs none.
pub async fn write(controller: &Controller, resource: &Value, status: &Value) -> Result<(), Error> {
    let key = ObjectKey::new(controller.domain.resource(), "", resource["metadata"]["name"].as_str().unwrap_or_default());
    // Fields that are no longer said go: in a merge patch a null says so. The uid keeps it from another resource of that name.
    let mut patch = status.as_object().cloned().unwrap_or_default();
    for field in resource["status"].as_object().map(Map::keys).into_iter().flatten() {
        patch.entry(field.clone()).or_insert(Value::Null);
    }
    let body = json!({"metadata": {"uid": resource["metadata"]["uid"]}, "status": patch});
    match controller.cluster.merge_patch(&key, "status", &body, &manager(&*controller.domain)).await {
        Ok(written) => {
            controller.shared.lock().wrote(&written);
            controller.metrics.wrote(controller.domain.name(), "status", key.kind);
            events::publish(controller, resource, status);
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => {
            tracing::warn!(%error, "status could not be written");
            Err(error)
        }
    }
}
