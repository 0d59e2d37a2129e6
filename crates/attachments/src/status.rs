//! The networks that a pod has: the annotation `k8s.v1.cni.cncf.io/network-status`.

use serde_json::Value;

/// The annotation that Multus and other meta plugins write, as the Network Plumbing Working Group's
/// specification "Kubernetes Network Custom Resource Definition De-facto Standard" says.
pub const ANNOTATION: &str = "k8s.v1.cni.cncf.io/network-status";

/// An interface of a pod, as the meta plugin reports it. A text is empty where the report lacks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The name of its network: `namespace/name` of a NetworkAttachmentDefinition, or that of the
    /// cluster's network.
    pub network: String,
    /// The name of the interface in the pod. The specification leaves it out for a network without
    /// an interface of its own.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Its hardware address.
    pub mac: String,
}

/// Reads the annotation, in its order. A field of another type counts as left out.
///
/// # Errors
/// The annotation is not a list in JSON.
pub fn read(annotation: &str) -> Result<Vec<Interface>, serde_json::Error> {
    let entries: Vec<Value> = serde_json::from_str(annotation)?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let interface = |entry: &Value| Interface {
        network: text(&entry["name"]),
        name: text(&entry["interface"]),
        addresses: entry["ips"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        mac: text(&entry["mac"]),
    };
    Ok(entries.iter().map(interface).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_entry_is_an_interface_with_what_is_known_of_it() {
        let report = r#"[
            {"name": "kindnet", "interface": "eth0", "ips": ["10.244.0.5"], "mac": "02:00:00:00:00:01", "default": true, "dns": {}},
            {"name": "lab/red", "ips": ["192.0.2.1", 7], "mac": null},
            {}
        ]"#;
        let found: Vec<_> = read(report)
            .unwrap()
            .into_iter()
            .map(|i| {
                format!(
                    "{}|{}|{}|{}",
                    i.network,
                    i.name,
                    i.addresses.join(" "),
                    i.mac
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                "kindnet|eth0|10.244.0.5|02:00:00:00:00:01",
                "lab/red||192.0.2.1|",
                "|||"
            ]
        );
        for report in ["", "{}", "[", "null"] {
            assert!(read(report).is_err(), "{report}");
        }
    }
}
