//! Applies a state to the kernel: links, [`settings`], [`addresses`], and routes by nmstate's
//! kernel-only mode.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use nmstate::{ErrorKind, NetworkState};
use rtnetlink::{LinkBridge, LinkVlan, packet_route::link::LinkAttribute};
use serde_json::{Value, json};
use tokio::time::Instant;
use weft_node_network::{removal, state};

use super::{
    super::{HostError, links::Links},
    addresses, settings,
    snapshot::{self, Link, Snapshot},
};

/// How long the kernel may take until it reports the new state: a link has a carrier, an address
/// was checked for duplicates.
const SETTLED: Duration = Duration::from_secs(5);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// The names of all interfaces that a state changes, or whose routes it changes.
pub fn named(desired: &NetworkState) -> BTreeSet<String> {
    let desired = state::value(desired);
    let mut named = BTreeSet::new();
    for interface in list(&desired["interfaces"]) {
        let base = &interface["vlan"]["base-iface"];
        named.extend([&interface["name"], base].into_iter().filter_map(text));
        named.extend(ports(interface).into_iter().flatten());
    }
    let routes = list(&desired["routes"]["config"]);
    named.extend(
        routes
            .iter()
            .filter_map(|route| text(&route["next-hop-interface"])),
    );
    named
}

/// Makes the kernel as desired.
pub async fn apply(
    desired: &NetworkState,
    before: &Snapshot,
    verify: bool,
) -> Result<(), HostError> {
    let kernel = Links::open()?;
    let wanted = state::value(desired);
    make_and_remove(&kernel, &wanted).await?;
    controllers(&kernel, &wanted).await?;
    let links = snapshot::links(&kernel).await?;
    settings::set_mtus(&kernel, &links, &mtus(&links, &wanted)).await?;
    set_up_or_down(&kernel, &wanted).await?;
    for interface in present(&wanted) {
        if let Some(link) = link_of(&links, interface) {
            addresses::set(&kernel, link.index, interface).await?;
        }
    }
    bring_back_routes(&kernel, before).await?;
    // nmstate adds before it removes, and takes a route to the same destination for the new one.
    let (gone, new): (Vec<&Value>, Vec<&Value>) = list(&wanted["routes"]["config"])
        .iter()
        .partition(|route| route["state"] == "absent");
    for part in [gone, new].into_iter().filter(|part| !part.is_empty()) {
        by_nmstate(&json!({"routes": {"config": part}})).await?;
    }
    if verify {
        self::verify(&wanted).await?;
    }
    Ok(())
}

/// nmstate would also set the addresses of ports and bases that are there already, and make those of
/// DHCP and of routers permanent.
async fn make_and_remove(kernel: &Links, wanted: &Value) -> Result<(), HostError> {
    let links = snapshot::links(kernel).await?;
    let absent = list(&wanted["interfaces"])
        .iter()
        .filter(|interface| interface["state"] == "absent");
    let mut gone: Vec<&Link> = absent
        .filter_map(|interface| link_of(&links, interface))
        .collect();
    // The kernel removes a link together with its base.
    gone.sort_by_key(|link| std::cmp::Reverse(settings::height(&links, link.index)));
    for link in gone {
        kernel.handle().link().del(link.index).execute().await?;
    }
    // A base may be new, too.
    let mut new: Vec<&Value> = present(wanted)
        .filter(|interface| link_of(&links, interface).is_none())
        .collect();
    while !new.is_empty() {
        let links = snapshot::links(kernel).await?;
        let (ready, waiting): (Vec<&Value>, Vec<&Value>) = new.iter().partition(|interface| {
            let base = interface["vlan"]["base-iface"].as_str();
            base.is_none_or(|base| find(&links, base).is_some())
        });
        if ready.is_empty() {
            let names: Vec<_> = waiting.iter().map(|one| one["name"].to_string()).collect();
            let names = names.join(", ");
            return Err(HostError::Links(format!("the base of {names} is missing")));
        }
        for interface in ready {
            make(kernel, &links, interface).await?;
        }
        new = waiting;
    }
    Ok(())
}

async fn make(
    kernel: &Links,
    links: &BTreeMap<u32, Link>,
    interface: &Value,
) -> Result<(), HostError> {
    let name = text(&interface["name"]).unwrap_or_default();
    let base = interface["vlan"]["base-iface"]
        .as_str()
        .and_then(|base| find(links, base));
    let mut message = match base {
        Some(base) => {
            let id = interface["vlan"]["id"].as_u64().unwrap_or_default();
            let id = u16::try_from(id).unwrap_or(u16::MAX);
            LinkVlan::new(&name, base.index, id).up().build()
        }
        None => LinkBridge::new(&name).up().build(),
    };
    if let Some(mac) = interface["mac-address"].as_str() {
        let bytes = mac.split(':').map(|byte| u8::from_str_radix(byte, 16));
        let bytes: Result<Vec<u8>, _> = bytes.collect();
        message
            .attributes
            .extend(bytes.ok().map(LinkAttribute::Address));
    }
    let made = kernel.handle().link().add(message).execute().await;
    made.map_err(|error| HostError::Links(format!("{name} cannot be made: {error}")))
}

/// The kernel drops routes with the last address of a link, also those that the change does not
/// name. A route whose gateway is out of reach now stays away.
async fn bring_back_routes(kernel: &Links, before: &Snapshot) -> Result<(), HostError> {
    let now = snapshot::routes(kernel).await?;
    let gone = before.routes.iter().filter(|route| !now.contains(route));
    for route in gone {
        let added = kernel.handle().route().add(route.clone()).execute().await;
        if let Err(error) = added {
            tracing::debug!(%error, ?route, "a route has gone with the change");
        }
    }
    Ok(())
}

fn mtus(links: &BTreeMap<u32, Link>, wanted: &Value) -> BTreeMap<u32, u32> {
    let mtu = |interface: &Value| {
        let mtu = interface["mtu"].as_u64()?;
        Some((link_of(links, interface)?.index, u32::try_from(mtu).ok()?))
    };
    present(wanted).filter_map(mtu).collect()
}

async fn by_nmstate(part: &Value) -> Result<(), HostError> {
    let mut part: NetworkState = state::parse(part).map_err(|error| HostError::Nmstate {
        kind: ErrorKind::InvalidArgument,
        message: error.to_string(),
    })?;
    part.set_kernel_only(true);
    part.set_verify_change(false);
    Ok(part.apply_async().await?)
}

/// Ports come and go as bridges list them, or as they name their controller.
async fn controllers(kernel: &Links, wanted: &Value) -> Result<(), HostError> {
    let links = snapshot::links(kernel).await?;
    let mut moves: BTreeMap<u32, Option<u32>> = BTreeMap::new();
    for interface in present(wanted) {
        let Some(link) = link_of(&links, interface) else {
            continue;
        };
        if let Some(ports) = ports(interface) {
            let listed: BTreeSet<u32> = ports
                .iter()
                .filter_map(|port| Some(find(&links, port)?.index))
                .collect();
            // Ports of pods are not in policies. Their end of the pair is out of sight.
            let leaving = links.values().filter(|port| {
                port.controller == Some(link.index)
                    && !listed.contains(&port.index)
                    && !port.is_pod_end
            });
            moves.extend(leaving.map(|port| (port.index, None)));
            moves.extend(listed.into_iter().map(|port| (port, Some(link.index))));
        }
        if let Some(controller) = interface["controller"].as_str() {
            let controller = find(&links, controller).map(|controller| controller.index);
            moves.insert(link.index, controller);
        }
    }
    for (index, controller) in moves {
        let link = &links[&index];
        if link.controller != controller {
            let new = Link {
                // A port is of use only if it is up. It has the settings of a new port.
                up: true,
                port: Default::default(),
                ..link.clone()
            };
            settings::set_controller(kernel, &new, controller).await?;
        }
    }
    Ok(())
}

async fn set_up_or_down(kernel: &Links, wanted: &Value) -> Result<(), HostError> {
    let links = snapshot::links(kernel).await?;
    for interface in list(&wanted["interfaces"]) {
        let up = match interface["state"].as_str().unwrap_or("up") {
            "up" => true,
            "down" => false,
            _ => continue,
        };
        if let Some(link) = link_of(&links, interface).filter(|link| link.up != up) {
            settings::set_up(kernel, link.index, up).await?;
        }
    }
    Ok(())
}

/// Waits until a plan of the same state would change nothing.
async fn verify(wanted: &Value) -> Result<(), HostError> {
    let deadline = Instant::now() + SETTLED;
    loop {
        let now = super::retrieve(Default::default()).await?;
        let differences = removal::changes(wanted, &state::value(&now));
        let Some(first) = differences.first() else {
            return Ok(());
        };
        if Instant::now() > deadline {
            // In nmstate's words, so that one reader finds the property and its policy.
            return Err(HostError::Nmstate {
                kind: ErrorKind::VerificationError,
                message: format!(
                    "Verification failure: {} desire '{}', current '{}'",
                    as_nmstate(&first.path.to_string()),
                    first.wanted,
                    first.found
                ),
            });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// `interfaces[br1].mtu` is `br1.interface.mtu` in a message of nmstate.
fn as_nmstate(path: &str) -> String {
    let of_interface = path
        .strip_prefix("interfaces[")
        .and_then(|rest| rest.split_once(']'));
    match of_interface {
        Some((name, rest)) => format!("{name}.interface{rest}"),
        None => path.to_owned(),
    }
}

/// The interfaces that are to be up.
fn present(wanted: &Value) -> impl Iterator<Item = &Value> {
    list(&wanted["interfaces"])
        .iter()
        .filter(|interface| interface["state"].as_str().unwrap_or("up") == "up")
}

/// The names of the ports that a bridge lists. `None` if it lists none.
fn ports(interface: &Value) -> Option<Vec<String>> {
    let bridge = &interface["bridge"];
    let ports = ["port", "ports"]
        .into_iter()
        .find_map(|key| bridge[key].as_array())?;
    Some(
        ports
            .iter()
            .filter_map(|port| text(&port["name"]))
            .collect(),
    )
}

fn link_of<'a>(links: &'a BTreeMap<u32, Link>, interface: &Value) -> Option<&'a Link> {
    find(links, interface["name"].as_str()?)
}

fn find<'a>(links: &'a BTreeMap<u32, Link>, name: &str) -> Option<&'a Link> {
    links.values().find(|link| link.name == name)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> Option<String> {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}
