//! Status: written only when it says something new, and never Available on old knowledge.

use serde_json::{Value, json};
use weft_api::Condition;
use weft_plan::{
    Live, ObjectKey, Unit, dropped, escape,
    health::with_health,
    manager, own_condition,
    report::{FailureClass, Report},
};

use crate::{
    api_server::clock,
    reconcile::{context::Context, events},
};

/// The status that a report leads to, or `None` if the resource says so already.
pub(crate) fn changed(
    context: &Context,
    resource: &Value,
    report: &Report,
    units: &[Unit],
) -> Option<Value> {
    let previous = &resource["status"];
    let now = clock::now();
    let stored: Vec<Condition> =
        serde_json::from_value(previous["conditions"].clone()).unwrap_or_default();
    let mut own = context.domain.conditions(report, previous, now);
    // While another operator runs, the definition is its own. A deletion needs no field.
    if report.blocked.is_some() || report.removing {
        own.retain(|condition| condition.type_ != dropped::CONDITION);
    } else {
        let lost = context.shared.lock().dropped();
        let notice = dropped::notice(context.domain.name(), &lost);
        own.extend(notice.map(|notice| {
            let said = (true, dropped::REASON, notice);
            own_condition(dropped::CONDITION, said, report, previous, now)
        }));
    }
    let conditions = with_health(own, report.generation, &stored, now);
    let status = if report.blocked.is_some() {
        // The other operator's status stays: Weft adds only its own conditions, and the generation
        // that they are about.
        let mut status = previous.clone();
        status["conditions"] = json!(conditions);
        status["observedGeneration"] = report.generation.into();
        status
    } else {
        let mut status = context.domain.status(previous, conditions, report, units);
        // Texts of pods and nodes are in other fields than the conditions as well.
        escape::strings(&mut status);
        status
    };
    let lost = context.shared.lock().dropped_of(context.domain.resource());
    let status = dropped::of_status(status, &lost);
    (status != *previous).then_some(status)
}

/// Reports whether a status claims that all is well.
pub(crate) fn claims_available(status: &Value) -> bool {
    weft_plan::condition(status, "Available").is_some_and(|condition| condition["status"] == "True")
}

/// Writes a status, and the events that its changes are worth. A resource that is gone needs none.
///
/// # Errors
/// The write failed, or the API server has dropped the generation, although the definition has it.
pub(crate) async fn write(
    context: &Context,
    resource: &Value,
    status: &Value,
) -> Result<(), FailureClass> {
    let key = ObjectKey::new(context.domain.resource(), "", Live::of(resource).name());
    // The uid keeps it from another resource of that name.
    let body = json!({
        "metadata": {"uid": Live::of(resource).uid()},
        "status": merge_patch(&resource["status"], status)
    });
    match context
        .cluster
        .merge_patch(&key, "status", &body, &manager(&*context.domain))
        .await
    {
        Ok(written) => {
            context.shared.lock().wrote(&written);
            context
                .metrics
                .wrote(context.domain.name(), "status", key.kind);
            // Before the check: the next write compares with this status, and has no news then.
            events::publish(&context.recorder, key.kind, resource, status);
            let observed = &written["status"]["observedGeneration"];
            let knows_definition = context.shared.lock().knows_definition(key.kind);
            if knows_definition && *observed != status["observedGeneration"] {
                // An API server goes by the older definition for a moment.
                return Err(FailureClass::Transient);
            }
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => {
            tracing::warn!(%error, "status could not be written");
            Err(error.class())
        }
    }
}

/// The merge patch (RFC 7386) that makes `new` of `old`: all of `new`, and a null for each field
/// that goes, at any depth.
pub fn merge_patch(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let gone = old
        .keys()
        .filter(|field| !new.contains_key(*field))
        .map(|field| (field.clone(), Value::Null));
    let said = new.iter().map(|(field, value)| {
        (
            field.clone(),
            merge_patch(old.get(field).unwrap_or(&Value::Null), value),
        )
    });
    gone.chain(said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_status_fields_go_at_any_depth() {
        let old = json!({"a": 1, "b": {"c": {"d": 1, "e": [1]}, "f": 1}, "g": "text"});
        for new in [
            json!({"b": {"c": {"e": [2]}}, "g": {}}),
            json!({}),
            json!({"b": {}, "g": {"h": {"i": 1}}}),
            old.clone(),
        ] {
            let mut patched = old.clone();
            json_patch::merge(&mut patched, &merge_patch(&old, &new));
            assert_eq!(patched, new);
        }
        assert_eq!(merge_patch(&Value::Null, &old), old);
    }
}
