//! The report of a node about its own network. A container on the node writes one line of JSON as
//! its termination message, and the operator reads it from the pod's status. So no permission is
//! needed on the node for it, and nobody has to poll.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The kubelet keeps this many bytes of a container's termination message
/// (`MaxContainerTerminationMessageLength`).
pub const LIMIT: usize = 4096;

/// The report of a node about its own network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CniReport {
    /// The MTU of the host's network, in bytes: the smallest of all default routes. `None` if it
    /// could not be found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// The route that this MTU is from. If there is none, why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mtu_from: String,
    /// `Node.spec.podCIDRs` as they were found.
    #[serde(rename = "podCIDRs")]
    pub pod_cidrs: Vec<String>,
    /// CNI plugins that the configuration needs and that the node lacks.
    pub missing_plugins: Vec<String>,
    /// Other CNI configurations in the directory that the container runtime reads first, and so
    /// instead of this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shadowed_by: Vec<String>,
    /// The CNI configuration file, if it is there as it should be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
    /// Why the node's network cannot work, and the way out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl CniReport {
    /// One line of JSON, at most [`LIMIT`] bytes: of what is too long, the end is left out.
    pub fn to_line(&self) -> String {
        let mut short = self.clone();
        let mut keep = LIMIT / 4;
        loop {
            // A structure of texts and numbers can always be written.
            let line = serde_json::to_string(&short).unwrap_or_default();
            if line.len() <= LIMIT {
                return line;
            }
            keep /= 2;
            short.shadowed_by.truncate(keep / 64);
            for text in [Some(&mut short.mtu_from), short.error.as_mut()]
                .into_iter()
                .flatten()
            {
                truncate(text, keep);
            }
            if keep == 0 {
                return serde_json::to_string(&Self {
                    mtu: self.mtu,
                    ..Self::default()
                })
                .unwrap_or_default();
            }
        }
    }

    /// Reads what [`CniReport::to_line`] wrote. `None` if it is anything else.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        line.starts_with('{')
            .then(|| serde_json::from_str(line).ok())?
    }

    /// Reads the report of a pod's init containers, if there is one. While they wait for the next
    /// run, the report of their last run counts.
    pub fn of_pod(pod: &Value) -> Option<Self> {
        reports(pod).find_map(Self::parse)
    }
}

/// The termination messages of a pod's init containers.
pub(crate) fn reports(pod: &Value) -> impl Iterator<Item = &str> {
    let containers = pod["status"]["initContainerStatuses"].as_array();
    let states = containers
        .into_iter()
        .flatten()
        .flat_map(|container| [&container["state"], &container["lastState"]]);
    states.filter_map(|state| state["terminated"]["message"].as_str())
}

pub(crate) fn truncate(text: &mut String, bytes: usize) {
    if text.len() > bytes {
        let end = (0..=bytes)
            .rev()
            .find(|end| text.is_char_boundary(*end))
            .unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_report_reads_as_people_expect() {
        let report = CniReport {
            mtu: Some(1500),
            mtu_from: "default via 10.0.0.1 dev eth0".to_owned(),
            pod_cidrs: vec!["10.244.0.0/24".to_owned()],
            written: Some("10-flannel.conflist".to_owned()),
            ..CniReport::default()
        };
        let line = report.to_line();
        assert_eq!(
            line,
            r#"{"mtu":1500,"mtuFrom":"default via 10.0.0.1 dev eth0","podCIDRs":["10.244.0.0/24"],"missingPlugins":[],"written":"10-flannel.conflist"}"#
        );
        assert_eq!(CniReport::parse(&format!("{line}\n")), Some(report));
    }

    #[test]
    fn other_messages_are_no_reports() {
        for other in [
            "",
            "Error",
            "{}",
            r#"{"mtu":1500}"#,
            r#"{"mtu":"x","podCIDRs":[],"missingPlugins":[]}"#,
            "[1]",
            "null",
        ] {
            assert_eq!(CniReport::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_pod_tells_by_its_init_container_also_while_that_waits_to_run_again() {
        let told = CniReport {
            mtu: Some(9000),
            ..CniReport::default()
        };
        let terminated = json!({"terminated": {"exitCode": 0, "message": told.to_line()}});
        let pod = |container: Value| {
            json!({
                "status": {
                    "initContainerStatuses": [
                        {"name": "other", "state": {"terminated": {"message": "done"}}}, container
                    ]
                }
            })
        };
        assert_eq!(
            CniReport::of_pod(&pod(json!({"state": terminated}))),
            Some(told.clone())
        );
        let waits =
            json!({"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": terminated});
        assert_eq!(CniReport::of_pod(&pod(waits)), Some(told));
        assert_eq!(
            CniReport::of_pod(&pod(json!({"state": {"running": {}}}))),
            None
        );
        assert_eq!(CniReport::of_pod(&json!({})), None);
    }

    proptest! {
        #[test]
        fn a_line_always_fits_and_can_be_read(error in "\\PC{0,3000}", from in "(\\PC|\"){0,3000}", names in prop::collection::vec("[^/]{1,255}", 0..40)) {
            let report = CniReport { mtu: Some(1500), mtu_from: from, shadowed_by: names, error: Some(error), ..CniReport::default() };
            let line = report.to_line();
            prop_assert!(line.len() <= LIMIT && !line.contains('\n'));
            let read = CniReport::parse(&line).unwrap();
            prop_assert_eq!(read.mtu, Some(1500));
            prop_assert!(read == report || report.error.unwrap().starts_with(read.error.unwrap().trim_end_matches('…')));
        }
    }
}
