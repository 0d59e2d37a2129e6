//! `SimpleMacvlan`: the CNI plugin `macvlan` with the addresses of DHCP, or those that are written
//! down.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Serialize;
use weft_api::cluster_network::{
    AdditionalNetwork, IpamConfig, SimpleMacvlanConfig, StaticIpamConfig, StaticIpamDns,
};
use weft_operands::text::is_interface;
use weft_plan::Problem;

use super::{given, problem};

/// Modes as the API has them. The plugin knows them in lower case.
const MODES: [&str; 4] = ["Bridge", "Private", "VEPA", "Passthru"];
const IPAM_TYPES: [&str; 2] = ["DHCP", "Static"];

/// The configuration of the plugins `macvlan` and `dhcp` or `static`.
#[derive(Serialize)]
struct Macvlan {
    #[serde(rename = "cniVersion")]
    cni_version: &'static str,
    #[serde(rename = "type")]
    type_: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    master: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtu: Option<i64>,
    /// Values that a pod may set in its annotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<Capabilities>,
    ipam: Ipam,
}

#[derive(Serialize)]
struct Capabilities {
    ips: bool,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Ipam {
    Dhcp,
    Static {
        #[serde(skip_serializing_if = "Vec::is_empty")]
        addresses: Vec<Address>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        routes: Vec<Route>,
        #[serde(skip_serializing_if = "Option::is_none")]
        dns: Option<Dns>,
    },
}

#[derive(Serialize)]
struct Address {
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<String>,
}

#[derive(Serialize)]
struct Route {
    dst: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    gw: Option<String>,
}

#[derive(Serialize)]
struct Dns {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nameservers: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    search: Vec<String>,
}

/// The configuration of a network.
pub(super) fn configuration(
    path: &str,
    network: &AdditionalNetwork,
) -> Result<String, Vec<Problem>> {
    let path = format!("{path}.simpleMacvlanConfig");
    let mut problems = Vec::new();
    let SimpleMacvlanConfig {
        master,
        ipam_config,
        mode,
        mtu,
    } = network.simple_macvlan_config.clone().unwrap_or_default();
    if let Some(master) = given(master.as_ref()).filter(|master| !is_interface(master)) {
        let message = format!(
            "{master:?} is not the name of an interface: write it like eth1, at most 15 letters without blanks, '/' and ':'"
        );
        problems.push(problem(&path, "master", message));
    }
    let mode = one_of(&path, "mode", mode.as_ref(), &MODES, &mut problems).map(str::to_lowercase);
    let mtu = mtu.filter(|mtu| *mtu != 0);
    if let Some(mtu) = mtu.filter(|mtu| !(68..=65536).contains(mtu)) {
        problems.push(problem(
            &path,
            "mtu",
            format!("{mtu} is out of range: choose 68 to 65536, or leave the field out"),
        ));
    }
    let ipam = ipam(&path, ipam_config.as_ref(), &mut problems);
    // Without an address here, each pod has to bring its own.
    let open = matches!(&ipam, Ipam::Static { addresses, .. } if addresses.is_empty());
    let macvlan = Macvlan {
        cni_version: "0.3.1",
        type_: "macvlan",
        master: given(master.as_ref()).cloned(),
        mode,
        mtu,
        capabilities: open.then_some(Capabilities { ips: true }),
        ipam,
    };
    let text = serde_json::to_string(&macvlan)
        .map_err(|error| vec![problem(&path, "", error.to_string())])?;
    if problems.is_empty() {
        Ok(text)
    } else {
        Err(problems)
    }
}

fn ipam(path: &str, config: Option<&IpamConfig>, problems: &mut Vec<Problem>) -> Ipam {
    let path = format!("{path}.ipamConfig");
    let IpamConfig {
        type_,
        static_ipam_config,
    } = config.cloned().unwrap_or_default();
    if one_of(&path, "type", type_.as_ref(), &IPAM_TYPES, problems) != Some("Static") {
        return Ipam::Dhcp;
    }
    let path = format!("{path}.staticIPAMConfig");
    let StaticIpamConfig {
        addresses,
        routes,
        dns,
    } = static_ipam_config.unwrap_or_default();
    let mut addresses_out = Vec::new();
    for (index, entry) in addresses.iter().flatten().enumerate() {
        let path = format!("{path}.addresses[{index}]");
        let address = block(
            &path,
            "address",
            entry.address.as_ref(),
            "192.0.2.10/24",
            problems,
        );
        let gateway = ip(&path, "gateway", entry.gateway.as_ref(), problems);
        addresses_out.extend(address.map(|address| Address {
            address: address.to_string(),
            gateway,
        }));
    }
    let mut routes_out = Vec::new();
    for (index, entry) in routes.iter().flatten().enumerate() {
        let path = format!("{path}.routes[{index}]");
        let destination = block(
            &path,
            "destination",
            entry.destination.as_ref(),
            "198.51.100.0/24",
            problems,
        );
        let gw = ip(&path, "gateway", entry.gateway.as_ref(), problems);
        // The network of an address in it is meant.
        routes_out.extend(destination.map(|destination| Route {
            dst: destination.trunc().to_string(),
            gw,
        }));
    }
    let nameservers = dns
        .iter()
        .flat_map(|dns| dns.nameservers.iter().flatten())
        .enumerate();
    for (index, server) in nameservers.filter(|(_, server)| server.parse::<IpAddr>().is_err()) {
        let message = format!(
            "{server:?} is not an IP address: write it like 192.0.2.53, or remove the entry"
        );
        problems.push(problem(
            &format!("{path}.dns"),
            &format!("nameservers[{index}]"),
            message,
        ));
    }
    let dns = dns.map(
        |StaticIpamDns {
             nameservers,
             domain,
             search,
         }| Dns {
            nameservers: nameservers.unwrap_or_default(),
            domain: given(domain.as_ref()).cloned(),
            search: search.unwrap_or_default(),
        },
    );
    Ipam::Static {
        addresses: addresses_out,
        routes: routes_out,
        dns,
    }
}

/// The canonical spelling of one of some words.
fn one_of<'k>(
    path: &str,
    field: &str,
    value: Option<&String>,
    known: &[&'k str],
    problems: &mut Vec<Problem>,
) -> Option<&'k str> {
    let value = given(value)?;
    let found = known
        .iter()
        .copied()
        .find(|known| known.eq_ignore_ascii_case(value));
    if found.is_none() {
        problems.push(problem(
            path,
            field,
            format!(
                "{value:?} is not known: choose {}, or leave the field out",
                known.join(", ")
            ),
        ));
    }
    found
}

fn block(
    path: &str,
    field: &str,
    text: Option<&String>,
    example: &str,
    problems: &mut Vec<Problem>,
) -> Option<IpNet> {
    let text = given(text).map_or("", String::as_str);
    let parsed = text.parse().ok();
    if parsed.is_none() {
        problems.push(problem(
            path,
            field,
            format!(
                "{text:?} is not an address with the length of its prefix: write it like {example}"
            ),
        ));
    }
    parsed
}

fn ip(
    path: &str,
    field: &str,
    text: Option<&String>,
    problems: &mut Vec<Problem>,
) -> Option<String> {
    let text = given(text)?;
    if text.parse::<IpAddr>().is_err() {
        problems.push(problem(
            path,
            field,
            format!(
                "{text:?} is not an IP address: write it like 192.0.2.1, or leave the field out"
            ),
        ));
    }
    Some(text.clone())
}
