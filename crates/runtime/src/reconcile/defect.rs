//! A panic in a reconcile. It becomes a condition and does not end the operator.

use std::any::Any;

/// Logs a panic, and returns the message of the condition.
pub fn defect(panic: &(dyn Any + Send)) -> String {
    let message = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or_default();
    tracing::error!(message, "reconcile panicked");
    format!("a defect of Weft, please report it: {message}")
}
