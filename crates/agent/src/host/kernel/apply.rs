//! Applies a state to the kernel: nmstate's kernel-only mode makes and removes links, and sets
//! routes. The rest is [`settings`] and [`addresses`].

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use nmstate::{ErrorKind, NetworkState};
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
/// The properties of a new link that nmstate's kernel-only mode gets.
const BY_NMSTATE: [&str; 5] = ["name", "type", "state", "mac-address", "vlan"];

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

/// nmstate would set addresses of links that are there already, and make those of DHCP and of
/// routers permanent. So it gets the new links and those to remove.
async fn make_and_remove(kernel: &Links, wanted: &Value) -> Result<(), HostError> {
    let links = snapshot::links(kernel).await?;
    let mut interfaces: Vec<Value> = list(&wanted["interfaces"])
        .iter()
        .filter(|interface| match interface["state"].as_str() {
            Some("absent") => true,
            Some("up") | None => link_of(&links, interface).is_none(),
            _ => false,
        })
        .cloned()
        .collect();
    for interface in interfaces.iter_mut().filter_map(Value::as_object_mut) {
        interface.retain(|key, _| BY_NMSTATE.contains(&key.as_str()));
    }
    if interfaces.is_empty() {
        return Ok(());
    }
    by_nmstate(&json!({ "interfaces": interfaces })).await
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
