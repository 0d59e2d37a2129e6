//! The conditions of `NMState`, with the reasons that kubernetes-nmstate's users know.

use jiff::Timestamp;
use serde_json::Value;
use weft_api::Condition;
use weft_plan::report::Report;

/// Everything is there and runs.
const DEPLOYED: &str = "SuccessfullyDeployed";
/// It is on its way.
const DEPLOYING: &str = "Deploying";
/// Something cannot be applied.
const INTERNAL_ERROR: &str = "InternalError";

/// The usual conditions. Each has a reason, as there. Mistakes in the resource, and trouble on the
/// nodes, have a reason of their own, which kubernetes-nmstate did not distinguish. The message of
/// `Available` also names the fields without effect.
pub(super) fn conditions(report: &Report, previous: &Value, now: Timestamp) -> Vec<Condition> {
    let mut all = weft_plan::conditions(report, previous, now);
    if report.blocked.is_some() {
        return all;
    }
    let is_true = |all: &[Condition], name: &str| {
        all.iter()
            .any(|condition| condition.type_ == name && condition.status == "True")
    };
    let (available, degraded) = (is_true(&all, "Available"), is_true(&all, "Degraded"));
    let cause = all
        .iter()
        .find(|condition| condition.type_ == "Degraded" && degraded)
        .and_then(|condition| condition.reason.clone());
    for condition in &mut all {
        let reason = match (&*condition.type_, condition.reason.as_deref()) {
            ("Available" | "Progressing" | "Degraded", None) if available => {
                Some(DEPLOYED.to_owned())
            }
            ("Available", Some("Startup")) | ("Degraded", None) => Some(DEPLOYING.to_owned()),
            ("Degraded", Some("FailedToApply" | "FailedToDeleteObjects")) => {
                Some(INTERNAL_ERROR.to_owned())
            }
            ("Available", Some("Failing")) | ("Progressing", Some("InvalidConfiguration")) => {
                cause.clone().map(|cause| {
                    if cause == "FailedToApply" {
                        INTERNAL_ERROR.to_owned()
                    } else {
                        cause
                    }
                })
            }
            _ => continue,
        };
        condition.reason = reason;
    }
    if let Some(condition) = all
        .iter_mut()
        .find(|condition| condition.type_ == "Available" && available)
    {
        let notices: Vec<_> = report
            .notices
            .iter()
            .map(|notice| format!("{} {}", notice.about, notice.message))
            .collect();
        condition.message = Some(notices.join("\n")).filter(|message| !message.is_empty());
    }
    all
}
