//! Why a transaction failed, in parts that a person and a program can read: never a dump of the
//! state.

use nmstate::{ErrorKind, NmstateError};
use serde::{Deserialize, Serialize};

use super::Phase;
use crate::{host::HostError, secrets};

/// Values are cut to this many characters, and messages to four times as many: they go into status,
/// events and logs.
const MAX: usize = 256;

/// A failed transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The phase that failed.
    pub phase: Phase,
    /// Which probe, for the phase `Probe`.
    pub probe: Option<String>,
    /// How nmstate calls it, for example `VerificationError`.
    pub kind: Option<String>,
    /// The property, for example `interfaces[eth1].mtu`.
    pub path: Option<String>,
    /// The wanted value.
    pub wanted: Option<String>,
    /// The live value.
    pub found: Option<String>,
    /// One or two sentences.
    pub message: String,
    /// nmstate's own words, to find out whose property it is.
    pub said: Option<String>,
    /// The probes that did not count, each with the reason.
    pub left_out: Vec<String>,
    /// True if the probe fails on the host as it was before, too, so that the change is not to blame.
    pub is_outage: bool,
    /// True if the host had begun to change an interface that the node needs.
    pub is_on_lifeline: bool,
}

impl Failure {
    /// A failure with nothing but words.
    pub fn new(phase: Phase, message: impl Into<String>) -> Self {
        let message = cut(&message.into(), 4 * MAX);
        Self {
            phase,
            probe: None,
            kind: None,
            path: None,
            wanted: None,
            found: None,
            message,
            said: None,
            left_out: Vec::new(),
            is_outage: false,
            is_on_lifeline: false,
        }
    }

    /// A probe that did not succeed in time.
    pub fn probe(probe: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            probe: Some(probe.into()),
            ..Self::new(Phase::Probe, message)
        }
    }

    /// Returns the failure for an error of nmstate in this phase. Its kinds are too coarse to
    /// distinguish all failures, so this reads its sentences: those of version 2.2.62.
    pub fn nmstate(phase: Phase, error: &NmstateError) -> Self {
        Self {
            phase,
            ..Self::said(error.kind(), error.msg())
        }
    }

    /// Returns the failure for an error of the host, in this phase unless nmstate's words show a
    /// later one.
    pub fn host(phase: Phase, error: &HostError) -> Self {
        match error {
            HostError::Nmstate { kind, message } => {
                let said = Self::said(*kind, message);
                Self {
                    phase: phase.max(said.phase),
                    ..said
                }
            }
            HostError::Activation { error, causes } => Self::host(phase, error).because(causes),
            error => Self::new(phase, error.to_string()),
        }
    }

    /// The failure with those words of NetworkManager that its message lacks.
    fn because(mut self, causes: &[String]) -> Self {
        let lacking: Vec<&str> = causes
            .iter()
            .map(String::as_str)
            .filter(|cause| !self.message.contains(*cause))
            .collect();
        if !lacking.is_empty() {
            self.message = format!("{}; NetworkManager: {}", self.message, lacking.join("; "));
        }
        self
    }

    /// [`Failure::nmstate`] by its parts.
    pub fn said(kind: ErrorKind, said: &str) -> Self {
        let phase = if kind == ErrorKind::VerificationError {
            Phase::Verify
        } else {
            Phase::Apply
        };
        let property = property(said).unwrap_or_default();
        let message = match (&property.path, &property.wanted) {
            (Some(path), Some(wanted)) => match &property.found {
                Some(found) => format!("{path} should be {wanted} and is {found}"),
                None => format!("{path} should have {wanted} and does not"),
            },
            _ => said.to_owned(),
        };
        let mut failure = Self::new(phase, message);
        failure.kind = Some(kind.to_string());
        failure.said = Some(cut(said, 4 * MAX));
        failure.path = property.path;
        failure.wanted = property.wanted.map(|value| cut(&value, MAX));
        failure.found = property.found.map(|value| cut(&value, MAX));
        failure
    }

    /// The failure of a change whose rollback has failed as well, with this error.
    #[must_use]
    pub fn not_rolled_back(mut self, error: &Self) -> Self {
        self.message = format!(
            "{}; before that: {self}; the next start of the agent tries again to bring the host back",
            error.message
        );
        self.phase = Phase::Rollback;
        self
    }

    /// The failure of a change that had begun to touch interfaces that the node needs, with a warning
    /// that names them.
    #[must_use]
    pub(super) fn on_lifeline(mut self, warning: &str) -> Self {
        self.is_on_lifeline = true;
        self.message = format!(
            "{}; {warning}, so the agent does not try it again by itself",
            self.message
        );
        self
    }

    /// Reports whether the change has cut the node off, or may have: another try would do so again.
    /// A probe that fails on the host as it was before, too, is an outage.
    pub fn has_cut_off(&self) -> bool {
        self.is_on_lifeline || self.probe.is_some() && !self.is_outage
    }

    /// Reports whether another try is worth it: one of a change that has cut the node off is not.
    /// After an outage one more try is. A second of such `outages` is more than chance: a switch can
    /// need longer than the agent waits after each change.
    pub fn is_harmless(&self, outages: u32) -> bool {
        !(self.has_cut_off() || self.is_outage && outages >= 2)
    }

    /// Reports whether another try may succeed, and is worth it: what nmstate does not accept, it will
    /// not accept later.
    pub fn may_pass(&self, outages: u32) -> bool {
        let is_refused = matches!(
            self.kind.as_deref(),
            Some("InvalidArgument" | "NotImplementedError" | "NotSupportedError")
        );
        !is_refused && self.is_harmless(outages)
    }

    /// Every occurrence of a secret is replaced, wherever it has got to.
    #[must_use]
    pub fn without(mut self, hidden: &[String]) -> Self {
        for text in [
            &mut self.probe,
            &mut self.path,
            &mut self.wanted,
            &mut self.found,
            &mut self.said,
        ]
        .into_iter()
        .flatten()
        .chain([&mut self.message])
        .chain(&mut self.left_out)
        {
            *text = secrets::without(text, hidden);
        }
        self
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.phase)?;
        if let Some(probe) = &self.probe {
            write!(formatter, " ({probe})")?;
        }
        write!(formatter, ": {}", self.message)
    }
}

/// A property that is not as wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Property {
    path: Option<String>,
    wanted: Option<String>,
    found: Option<String>,
}

impl Property {
    fn of(path: impl Into<String>, wanted: impl Into<String>, found: Option<&str>) -> Self {
        Self {
            path: Some(path.into()),
            wanted: Some(wanted.into()),
            found: found.map(str::to_owned),
        }
    }
}

/// Returns the property that a sentence of nmstate is about.
fn property(said: &str) -> Option<Property> {
    if let Some(rest) = said.strip_prefix("Verification failure: ") {
        let (reference, rest) = rest.split_once(" desire '")?;
        let (wanted, rest) = rest.split_once("', current '")?;
        return Some(Property::of(
            interface_path(reference),
            wanted,
            Some(rest.strip_suffix('\'').unwrap_or(rest)),
        ));
    }
    if let Some(rest) = said.strip_prefix("Failed to apply DNS config: desire ") {
        let (what, rest) = rest.split_once(" '")?;
        let (wanted, found) = rest.split_once("', got '")?;
        let field = match what {
            "name servers" => "server",
            "searches" => "search",
            _ => "options",
        };
        return Some(Property::of(
            format!("dns-resolver.config.{field}"),
            wanted,
            Some(found.strip_suffix('\'').unwrap_or(found)),
        ));
    }
    for (start, path) in [
        ("Desired route rule ", "route-rules.config"),
        ("Desired route ", "routes.config"),
    ] {
        if let Some(rest) = said.strip_prefix(start) {
            return Some(Property::of(
                path,
                rest.strip_suffix(" not found after apply")?.trim(),
                None,
            ));
        }
    }
    for (start, path) in [
        ("Desired absent route rule ", "route-rules.config"),
        ("Desired absent route ", "routes.config"),
    ] {
        if let Some(rest) = said.strip_prefix(start) {
            let (_, found) = rest.split_once(" still found after apply: ")?;
            return Some(Property::of(path, "state: absent", Some(found.trim())));
        }
    }
    if let Some(rest) = said.strip_prefix("Absent/Down interface ") {
        // After that comes the interface in full, as Rust prints it.
        let (interface, _) = rest.split_once(" still found as ")?;
        let name = interface
            .rsplit_once('/')
            .map_or(interface, |(name, _)| name);
        return Some(Property::of(
            format!("interfaces[{name}].state"),
            "absent or down",
            Some("still there"),
        ));
    }
    if let Some(rest) = said.strip_prefix("Failed to find desired interface ") {
        let name = rest.split(' ').next()?;
        return Some(Property::of(
            format!("interfaces[{name}].state"),
            "up",
            Some("no such interface"),
        ));
    }
    if let Some(rest) = said.strip_prefix("Verification fail, desire ") {
        let (path, rest) = rest.split_once(": ")?;
        let (wanted, found) = rest.split_once(", current: ")?;
        return Some(Property::of(path, wanted, Some(found)));
    }
    None
}

/// `br1.interface.bridge.port[0].name` is `interfaces[br1].bridge.port[0].name` in a policy.
fn interface_path(reference: &str) -> String {
    match reference.split_once(".interface") {
        Some((name, rest)) => format!("interfaces[{name}]{rest}"),
        None => reference.to_owned(),
    }
}

/// At most so many characters, and a sign where some are missing.
fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verification(said: &str) -> (String, String, Option<String>) {
        let failure = Failure::said(ErrorKind::VerificationError, said);
        assert_eq!(failure.phase, Phase::Verify);
        (
            failure.path.unwrap(),
            failure.wanted.unwrap(),
            failure.found,
        )
    }

    #[test]
    fn the_property_is_found_in_each_sentence_that_nmstate_says() {
        let cases = [
            (
                "Verification failure: eth1.interface.mtu desire '9000', current '1500'",
                "interfaces[eth1].mtu",
                "9000",
                Some("1500"),
            ),
            (
                "Verification failure: br1.interface.bridge.port[0].name desire '\"eth1\"', current '\"eth2\"'",
                "interfaces[br1].bridge.port[0].name",
                "\"eth1\"",
                Some("\"eth2\""),
            ),
            (
                "Verification failure: bond0.30.interface.state desire '\"up\"', current '\"down\"'",
                "interfaces[bond0.30].state",
                "\"up\"",
                Some("\"down\""),
            ),
            (
                "Failed to apply DNS config: desire name servers '192.0.2.1 192.0.2.2', got '192.0.2.9'",
                "dns-resolver.config.server",
                "192.0.2.1 192.0.2.2",
                Some("192.0.2.9"),
            ),
            (
                "Failed to apply DNS config: desire searches 'example.com', got ''",
                "dns-resolver.config.search",
                "example.com",
                Some(""),
            ),
            (
                "Desired route destination: 198.51.100.0/24 next-hop-interface: eth1 not found after apply",
                "routes.config",
                "destination: 198.51.100.0/24 next-hop-interface: eth1",
                None,
            ),
            (
                "Desired absent route destination: 0.0.0.0/0 still found after apply: destination: 0.0.0.0/0 metric: 100",
                "routes.config",
                "state: absent",
                Some("destination: 0.0.0.0/0 metric: 100"),
            ),
            (
                "Desired route rule ip-from: 192.0.2.0/24 not found after apply",
                "route-rules.config",
                "ip-from: 192.0.2.0/24",
                None,
            ),
            (
                "Failed to find desired interface br9 LinuxBridge",
                "interfaces[br9].state",
                "up",
                Some("no such interface"),
            ),
            (
                "Verification fail, desire hostname.running: a, current: Some(\"b\")",
                "hostname.running",
                "a",
                Some("Some(\"b\")"),
            ),
        ];
        for (said, path, wanted, found) in cases {
            assert_eq!(
                verification(said),
                (path.into(), wanted.into(), found.map(str::to_owned)),
                "{said}"
            );
        }
    }

    #[test]
    fn an_interface_is_never_dumped() {
        let dump = format!(
            "Absent/Down interface br1/linux-bridge still found as LinuxBridge({})",
            "x".repeat(100_000)
        );
        let failure = Failure::said(ErrorKind::VerificationError, &dump);
        assert_eq!(failure.path.as_deref(), Some("interfaces[br1].state"));
        assert!(failure.message.len() < 200, "{}", failure.message);
        let unknown = Failure::said(ErrorKind::Bug, &"é".repeat(100_000));
        assert_eq!(unknown.phase, Phase::Apply);
        assert_eq!(unknown.message.chars().count(), 4 * MAX + 1);
    }

    #[test]
    fn neither_a_refused_state_nor_one_that_cut_the_node_off_is_tried_again() {
        for (kind, may_pass) in [
            (ErrorKind::InvalidArgument, false),
            (ErrorKind::NotImplementedError, false),
            (ErrorKind::NotSupportedError, false),
            (ErrorKind::VerificationError, true),
            (ErrorKind::Bug, true),
        ] {
            assert_eq!(Failure::said(kind, "no").may_pass(4), may_pass, "{kind}");
        }
        assert!(Failure::new(Phase::Commit, "the checkpoint is gone").may_pass(4));
        let cut_off = Failure::probe("API server", "no answer");
        assert!(!cut_off.may_pass(1));
        let outage = Failure {
            is_outage: true,
            ..cut_off.clone()
        };
        assert!(outage.may_pass(1));
        assert!(
            !outage.may_pass(2),
            "a slow switch port answers late each time"
        );
        assert!(!cut_off.is_harmless(0) && outage.is_harmless(1) && !outage.is_harmless(2));
        let left = cut_off.not_rolled_back(&Failure::new(Phase::Rollback, "no"));
        assert!(!left.may_pass(1));
        let late = Failure::new(Phase::Apply, "the lease did not come");
        assert!(late.may_pass(0));
        let refused = Failure::said(ErrorKind::InvalidArgument, "no such port");
        assert!(
            refused.is_harmless(0),
            "the node's own state waits for a card"
        );
        assert!(!late.on_lifeline("this changes eth0").may_pass(0));
    }

    #[test]
    fn an_error_of_the_host_belongs_to_its_phase_or_to_a_later_one() {
        let said = |kind| HostError::Nmstate {
            kind,
            message: "no".into(),
        };
        assert_eq!(
            Failure::host(Phase::Apply, &said(ErrorKind::VerificationError)).phase,
            Phase::Verify
        );
        assert_eq!(
            Failure::host(Phase::Apply, &said(ErrorKind::Bug)).phase,
            Phase::Apply
        );
        assert_eq!(
            Failure::host(Phase::Rollback, &said(ErrorKind::Bug)).phase,
            Phase::Rollback
        );
        let refused = NmstateError::new(ErrorKind::VerificationError, "no".into());
        assert_eq!(Failure::nmstate(Phase::Plan, &refused).phase, Phase::Plan);
    }

    #[test]
    fn networkmanagers_words_end_the_message_once_and_without_secrets() {
        let nmstate = |kind, message: &str| HostError::Nmstate {
            kind,
            message: message.into(),
        };
        let br7 = "br7 failed to create resources: no such pre-shared key: hunter2";
        let v0 = "the activation of v0 failed: config-failed";
        let missing = "Failed to find desired interface v0 Veth";
        for (error, causes, expected) in [
            (
                nmstate(ErrorKind::VerificationError, missing),
                vec![v0],
                "Verify: interfaces[v0].state should be up and is no such interface; \
                 NetworkManager: the activation of v0 failed: config-failed",
            ),
            // nmstate has returned the first one.
            (
                nmstate(ErrorKind::Bug, &format!("Device(CreationFailed): {br7}")),
                vec![br7, v0],
                "Apply: Device(CreationFailed): br7 failed to create resources: no such pre-shared \
                 key: <hidden>; NetworkManager: the activation of v0 failed: config-failed",
            ),
            (
                nmstate(ErrorKind::Bug, v0),
                vec![v0],
                "Apply: the activation of v0 failed: config-failed",
            ),
            (
                HostError::TimedOut(std::time::Duration::from_secs(300)),
                vec![br7, v0],
                "Apply: the host has not answered within 300 s; NetworkManager: br7 failed to \
                 create resources: no such pre-shared key: <hidden>; the activation of v0 failed: \
                 config-failed",
            ),
        ] {
            let error = HostError::Activation {
                error: Box::new(error),
                causes: causes.into_iter().map(str::to_owned).collect(),
            };
            let failure = Failure::host(Phase::Apply, &error).without(&["hunter2".to_owned()]);
            assert_eq!(failure.to_string(), expected);
            // These are for the search of the property's owner.
            assert!(
                !failure
                    .said
                    .is_some_and(|said| said.contains("; NetworkManager"))
            );
        }
    }

    #[test]
    fn a_failed_rollback_names_its_own_error_and_the_one_before_it() {
        let cause = Failure {
            path: Some("interfaces[eth1].mtu".into()),
            ..Failure::probe("gateway", "192.0.2.1 does not answer")
        };
        let failure =
            cause.not_rolled_back(&Failure::new(Phase::Rollback, "NetworkManager is away"));
        let message = "NetworkManager is away; before that: Probe (gateway): 192.0.2.1 does not answer; \
                       the next start of the agent tries again to bring the host back";
        assert_eq!(
            (failure.phase, failure.message.as_str()),
            (Phase::Rollback, message)
        );
        assert_eq!(failure.path.as_deref(), Some("interfaces[eth1].mtu"));
    }

    #[test]
    fn a_secret_goes_nowhere() {
        let said = "Verification failure: eth1.interface.802.1x.private-key-password desire '\"hunter2\"', current '\"hunter1\"'";
        let failure = Failure::said(ErrorKind::VerificationError, said).without(&[
            "hunter2".into(),
            String::new(),
            "hunter1".into(),
        ]);
        assert!(!format!("{failure:?}").contains("hunter"), "{failure:?}");
        assert_eq!(
            failure.path.as_deref(),
            Some("interfaces[eth1].802.1x.private-key-password")
        );
    }
}
