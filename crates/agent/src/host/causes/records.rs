//! Activations that NetworkManager refuses, from the log of nmstate.
//!
//! nmstate 2.2.62 tries an activation six times within a minute, and all of them once more. It logs
//! each refusal but the last one at the level Info, and returns the last one of the first
//! connection only.

use std::fmt;

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{Layer, filter::Targets, layer::Context, registry::LookupSpan};

use super::{HEARD, Heard};

/// The beginning of nmstate's record of a refusal.
const REFUSED: &str = "Got activation failure ";

/// Returns the layer that reads nmstate's log. Its filter is its own, so it reads the records that
/// the agent's log leaves out, too.
pub fn layer<S>() -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    layer_of::<S>(&HEARD)
}

fn layer_of<S>(heard: &'static Heard) -> impl Layer<S>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    let records = Targets::new().with_target("nmstate", LevelFilter::INFO);
    Layer::<S>::with_filter(Records(heard), records)
}

struct Records(&'static Heard);

impl<S: Subscriber> Layer<S> for Records {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if !self.0.is_listening() {
            return;
        }
        let mut message = Message::default();
        event.record(&mut message);
        if let Some(cause) = cause(&message.0) {
            self.0.add(cause);
        }
    }
}

/// The text of a record.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Returns NetworkManager's words in a record. nmstate puts two names before them: its own kind of
/// the error, and the error's name on D-Bus.
fn cause(record: &str) -> Option<&str> {
    let (_, said) = record.strip_prefix(REFUSED)?.split_once(": ")?;
    let is_name = |name: &str| {
        name.ends_with(')')
            && name
                .chars()
                .all(|sign| sign.is_ascii_alphanumeric() || "()\"".contains(sign))
    };
    Some(match said.split_once(':') {
        Some((name, words)) if is_name(name) => words.trim_start(),
        _ => said,
    })
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::{Registry, layer::SubscriberExt};

    use super::*;

    const CONNECTION: &str = "nmstate::nm::query_apply::connection";

    fn heard() -> &'static Heard {
        Box::leak(Box::default())
    }

    #[test]
    fn networkmanagers_words_are_found_in_a_record() {
        let no_such_link = "d0 failed to create resources: Failed to create dummy interface 'd0' for 'd0': Operation not supported";
        for (record, words) in [
            (
                format!("Got activation failure Bug: Device(CreationFailed): {no_such_link}"),
                Some(no_such_link),
            ),
            (
                "Got activation failure Bug: Manager(UnknownDevice): No suitable device found for this connection (device eth0 not available because profile is not compatible with device).".to_owned(),
                Some("No suitable device found for this connection (device eth0 not available because profile is not compatible with device)."),
            ),
            (
                "Got activation failure Bug: Manager(Unknown(\"New\")): no".to_owned(),
                Some("no"),
            ),
            (
                "Got activation failure Bug: DbusConnectionError: I/O error".to_owned(),
                Some("DbusConnectionError: I/O error"),
            ),
            ("Will retry activation 2 seconds".to_owned(), None),
            (
                "Retrying on: VerificationError: Failed to find desired interface d0 Dummy".to_owned(),
                None,
            ),
            (
                "Reapply operation failed on eth1 802-3-ethernet 0b0c, reason: IncompatibleReapply:Can't reapply any changes to settings 'connection', retry on normal activation".to_owned(),
                None,
            ),
        ] {
            assert_eq!(cause(&record), words, "{record}");
        }
    }

    #[test]
    fn records_are_read_that_the_log_leaves_out() {
        let heard = heard();
        let log = tracing_subscriber::fmt::layer()
            .with_writer(std::io::sink)
            .with_filter(LevelFilter::ERROR);
        let subscriber = Registry::default()
            .with(layer_of::<Registry>(heard))
            .with(log);
        let listening = heard.listen();
        let records = [
            "Got activation failure Bug: Device(CreationFailed): br7 failed",
            "Got activation failure Bug: Device(CreationFailed): br8 failed",
            "Will retry activation 2 seconds",
            "Got activation failure Bug: Device(CreationFailed): br7 failed",
        ];
        tracing::subscriber::with_default(subscriber, || {
            for record in records {
                tracing::info!(target: CONNECTION, "{record}");
            }
        });
        assert_eq!(listening.causes(), ["br7 failed", "br8 failed"]);
    }

    #[test]
    fn only_nmstates_level_info_is_read() {
        let heard = heard();
        let subscriber = Registry::default().with(layer_of::<Registry>(heard));
        let listening = heard.listen();
        let record = "Got activation failure Bug: Device(CreationFailed): br7 failed";
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(target: "zbus", "{record}");
            tracing::debug!(target: CONNECTION, "{record}");
        });
        assert_eq!(listening.causes(), [""; 0]);
    }
}
