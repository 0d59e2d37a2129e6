//! The CNI configuration that connects a node's pods (CNI specification 1.0, "Network configuration
//! lists").
//!
//! The bridge and the network have the names that Flannel's own plugin gives them: a node that
//! changes from one to the other keeps its bridge, and host-local its note of the addresses that
//! are taken (`/var/lib/cni/networks/<network>`).

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// The name of the network.
const NETWORK: &str = "cbr0";
/// The bridge on the node.
const BRIDGE: &str = "cni0";

/// Which plugin connects pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CniType {
    /// The plugin `bridge`, with the node's own ranges.
    Bridge,
    /// Flannel's plugin, which reads what flanneld wrote, and calls `bridge`.
    Flannel,
}

impl CniType {
    /// The version of the CNI specification. Flannel's plugin has that of upstream's `kube-flannel.yml`,
    /// as older plugins know no later one, and pods that run were added by it.
    fn version(self) -> &'static str {
        match self {
            Self::Bridge => "1.0.0",
            Self::Flannel => "0.3.1",
        }
    }

    /// The programs that the configuration needs in the directory for plugins.
    pub fn plugins(self) -> &'static [&'static str] {
        match self {
            Self::Bridge => &["bridge", "host-local", "portmap"],
            Self::Flannel => &["flannel", "bridge", "host-local", "portmap"],
        }
    }
}

/// A range of addresses that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no range of addresses: Node.spec.podCIDRs has to be like 10.244.0.0/24 or fd00:10:244::/64"
)]
pub struct NotACidr(String);

/// A network configuration list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkList {
    cni_version: String,
    name: String,
    plugins: Vec<Plugin>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum Plugin {
    #[serde(rename_all = "camelCase")]
    Bridge {
        bridge: String,
        /// The bridge has the first address of each range, and is the pods' gateway.
        is_gateway: bool,
        /// flanneld hides pods behind the node, where they leave the cluster.
        ip_masq: bool,
        /// A pod may reach itself by the address of its Service.
        hairpin_mode: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mtu: Option<u32>,
        ipam: Ipam,
    },
    Flannel {
        delegate: Delegate,
    },
    Portmap {
        capabilities: PortMappings,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
enum Ipam {
    HostLocal {
        /// An address is taken of each.
        ranges: Vec<[Range; 1]>,
        routes: Vec<Route>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    subnet: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Route {
    dst: String,
}

/// Settings that Flannel's plugin passes to `bridge`, besides those from flanneld.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Delegate {
    hairpin_mode: bool,
    is_default_gateway: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mtu: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PortMappings {
    port_mappings: bool,
}

impl NetworkList {
    /// The configuration of a node with these ranges, one a family. `mtu` is that of the pods'
    /// interfaces. Without it, the kernel's default.
    ///
    /// # Errors
    /// A range is none.
    pub fn new(
        cni_type: CniType,
        pod_cidrs: &[String],
        mtu: Option<u32>,
    ) -> Result<Self, NotACidr> {
        let families = pod_cidrs
            .iter()
            .map(|cidr| is_ipv6(cidr))
            .collect::<Result<Vec<_>, _>>()?;
        let main = match cni_type {
            CniType::Bridge => {
                let everywhere = |is_ipv6: &bool| Route {
                    dst: if *is_ipv6 { "::/0" } else { "0.0.0.0/0" }.to_owned(),
                };
                Plugin::Bridge {
                    bridge: BRIDGE.to_owned(),
                    is_gateway: true,
                    ip_masq: false,
                    hairpin_mode: true,
                    mtu,
                    ipam: Ipam::HostLocal {
                        ranges: pod_cidrs
                            .iter()
                            .map(|cidr| {
                                [Range {
                                    subnet: cidr.clone(),
                                }]
                            })
                            .collect(),
                        routes: families.iter().map(everywhere).collect(),
                    },
                }
            }
            CniType::Flannel => Plugin::Flannel {
                delegate: Delegate {
                    hairpin_mode: true,
                    is_default_gateway: true,
                    mtu,
                },
            },
        };
        Ok(Self {
            cni_version: cni_type.version().to_owned(),
            name: NETWORK.to_owned(),
            plugins: vec![
                main,
                Plugin::Portmap {
                    capabilities: PortMappings {
                        port_mappings: true,
                    },
                },
            ],
        })
    }

    /// The content of its file.
    pub fn to_text(&self) -> String {
        // A structure of texts and numbers can always be written.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

fn is_ipv6(cidr: &str) -> Result<bool, NotACidr> {
    let parsed = cidr.split_once('/').and_then(|(address, length)| {
        Some((address.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?))
    });
    match parsed {
        Some((IpAddr::V4(_), 0..=32)) => Ok(false),
        Some((IpAddr::V6(_), 0..=128)) => Ok(true),
        _ => Err(NotACidr(cidr.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

    fn list(cni_type: CniType, cidrs: &[&str], mtu: Option<u32>) -> Value {
        let cidrs: Vec<_> = cidrs.iter().map(|cidr| (*cidr).to_owned()).collect();
        let list = NetworkList::new(cni_type, &cidrs, mtu).unwrap();
        assert_eq!(
            serde_json::from_str::<NetworkList>(&list.to_text()).unwrap(),
            list,
            "what is written reads back the same"
        );
        serde_json::from_str(&list.to_text()).unwrap()
    }

    #[test]
    fn pods_get_an_address_of_each_family_and_a_way_out() {
        assert_eq!(
            list(
                CniType::Bridge,
                &["10.244.1.0/24", "fd00:10:244:1::/64"],
                Some(1450)
            ),
            json!({
                "cniVersion": "1.0.0",
                "name": "cbr0",
                "plugins": [
                    {
                        "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true, "mtu": 1450,
                        "ipam": {
                            "type": "host-local",
                            "ranges": [
                                [{"subnet": "10.244.1.0/24"}], [{"subnet": "fd00:10:244:1::/64"}]
                            ],
                            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
                        },
                    },
                    {"type": "portmap", "capabilities": {"portMappings": true}},
                ],
            })
        );
        let ipv6 = list(CniType::Bridge, &["fd00::/64"], None);
        assert_eq!(
            ipv6["plugins"][0]["ipam"]["routes"],
            json!([{"dst": "::/0"}])
        );
        assert_eq!(
            ipv6["plugins"][0].get("mtu"),
            None,
            "none given, none written"
        );
    }

    #[test]
    fn flannels_own_plugin_knows_the_ranges_from_flanneld() {
        let list = list(CniType::Flannel, &["10.244.1.0/24"], None);
        assert_eq!(
            list["plugins"][0],
            json!({"type": "flannel", "delegate": {"hairpinMode": true, "isDefaultGateway": true}})
        );
        assert_eq!(
            list["cniVersion"], "0.3.1",
            "older plugins know no later one"
        );
    }

    #[test]
    fn an_invalid_range_is_named() {
        for bad in ["10.244.0.0", "10.244.0.0/33", "fd00::/129", "x/24", ""] {
            let error = NetworkList::new(CniType::Bridge, &[bad.to_owned()], None).unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("{bad:?} is no range")),
                "{error}"
            );
        }
    }
}
