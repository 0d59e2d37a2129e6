//! The report of a node about its CNI plugins, which reaches the operator as that about its network
//! does ([`CniReport`](crate::CniReport)).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cni_report::{LIMIT, reports, truncate};

/// The CNI plugins of a node, among those that a configuration asks for. Each map has the version by
/// the name of the plugin. The version is empty if the plugin prints none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginsReport {
    /// Those that Weft installed.
    pub cni_plugins: BTreeMap<String, String>,
    /// Those that the node has from elsewhere, for example from a package of its distribution.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub of_others: BTreeMap<String, String>,
    /// Why a plugin could not be installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl PluginsReport {
    /// One line of JSON, at most [`LIMIT`] bytes: of what is too long, the end is left out.
    pub fn to_line(&self) -> String {
        let mut short = self.clone();
        let mut keep = LIMIT / 2;
        loop {
            // A structure of texts can always be written.
            let line = serde_json::to_string(&short).unwrap_or_default();
            if line.len() <= LIMIT || keep == 0 {
                return line;
            }
            keep /= 2;
            if let Some(error) = &mut short.error {
                truncate(error, keep);
            }
            for plugins in [&mut short.cni_plugins, &mut short.of_others] {
                while plugins.len() > keep / 64 {
                    plugins.pop_last();
                }
                for version in plugins.values_mut() {
                    truncate(version, keep);
                }
            }
        }
    }

    /// Reads a line as [`PluginsReport::to_line`] writes it. `None` if it is anything else.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::CniReport;
    use proptest::prelude::*;
    use serde_json::json;

    fn report() -> PluginsReport {
        let plugins = |names: &[&str], version: &str| {
            let of = |name: &&str| ((*name).to_owned(), version.to_owned());
            names.iter().map(of).collect()
        };
        PluginsReport {
            cni_plugins: plugins(&["ipvlan", "macvlan"], "1.10.0"),
            of_others: plugins(&["bridge"], ""),
            error: None,
        }
    }

    #[test]
    fn a_report_reads_as_people_expect() {
        let line = report().to_line();
        assert_eq!(
            line,
            r#"{"cniPlugins":{"ipvlan":"1.10.0","macvlan":"1.10.0"},"ofOthers":{"bridge":""}}"#
        );
        assert_eq!(PluginsReport::parse(&format!("{line}\n")), Some(report()));
    }

    #[test]
    fn a_pod_has_the_report_of_either_kind() {
        let network = CniReport {
            mtu: Some(9000),
            ..CniReport::default()
        };
        let ended = |message: String| json!({"state": {"terminated": {"message": message}}});
        let pod = json!({"status": {"initContainerStatuses": [
            ended(network.to_line()), ended(report().to_line())
        ]}});
        assert_eq!(PluginsReport::of_pod(&pod), Some(report()));
        assert_eq!(CniReport::of_pod(&pod), Some(network));
        assert_eq!(PluginsReport::of_pod(&json!({})), None);
        for other in ["", "{}", "[1]", r#"{"cniPlugins":{"a":1}}"#] {
            assert_eq!(PluginsReport::parse(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn a_line_always_fits_and_can_be_read(
            error in "\\PC{0,5000}",
            plugins in prop::collection::btree_map("[a-z]{1,248}", "\\PC{0,40}", 0..60),
        ) {
            let report = PluginsReport {
                of_others: plugins.clone(), cni_plugins: plugins, error: Some(error)
            };
            let line = report.to_line();
            prop_assert!(line.len() <= LIMIT && !line.contains('\n'));
            prop_assert!(PluginsReport::parse(&line).is_some());
        }
    }
}
