//! Applies a state to the kernel: links, [`settings`], [`addresses`], and routes by nmstate's
//! kernel-only mode.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use nmstate::{ErrorKind, NetworkState, RouteEntry, RouteState};
use rtnetlink::{LinkBridge, LinkVlan, packet_route::link::LinkAttribute};
use serde_json::Value;
use tokio::time::Instant;
use weft_node_network::{desired::Desired, state};

use super::{
    super::{Backend, HostError, links::Links},
    addresses, ports, settings,
    snapshot::{self, Link, Snapshot},
    wanted::{find, link_of, list, ports_of, present, text},
};

/// How long the kernel may take until it reports the new state: a link has a carrier, an address
/// was checked for duplicates.
const SETTLED: Duration = Duration::from_secs(5);
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// The names of all interfaces that a state changes, or whose routes it changes.
pub fn named(desired: &Value) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for interface in list(&desired["interfaces"]) {
        let base = &interface["vlan"]["base-iface"];
        named.extend([&interface["name"], base].into_iter().filter_map(text));
        named.extend(ports_of(interface).into_iter().flatten());
    }
    let routes = list(&desired["routes"]["config"]);
    named.extend(
        routes
            .iter()
            .filter_map(|route| text(&route["next-hop-interface"])),
    );
    named
}

/// The names of all interfaces that a state wants as ports.
pub fn wanted_ports(desired: &Value) -> BTreeSet<String> {
    let mut wanted = BTreeSet::new();
    for interface in present(desired) {
        wanted.extend(ports_of(interface).into_iter().flatten());
        if text(&interface["controller"]).is_some() {
            wanted.extend(text(&interface["name"]));
        }
    }
    wanted
}

/// Makes the kernel as desired. `own` are ports that earlier changes have named.
pub async fn apply(
    desired: &Desired,
    before: &Snapshot,
    own: &BTreeSet<String>,
    verify: bool,
) -> Result<(), HostError> {
    let kernel = Links::open()?;
    let wanted = desired.value();
    make_and_remove(&kernel, wanted).await?;
    ports::move_them(&kernel, wanted, own).await?;
    let links = snapshot::links(&kernel).await?;
    // Before the bridge gets them, so that an address and a route are never on both.
    let attached = ports::of(&links, wanted);
    ports::clear(&kernel, &attached).await?;
    settings::set_mtus(&kernel, &links, &mtus(&links, wanted)).await?;
    set_up_or_down(&kernel, wanted).await?;
    for interface in present(wanted) {
        if let Some(link) = link_of(&links, interface) {
            addresses::set(&kernel, link.index, interface).await?;
        }
    }
    bring_back_routes(&kernel, before, &attached).await?;
    // nmstate adds before it removes, and takes a route to the same destination for the new one.
    let routes = desired.state().routes.config.iter().flatten().cloned();
    let (gone, new): (Vec<RouteEntry>, Vec<RouteEntry>) =
        routes.partition(|route| route.state == Some(RouteState::Absent));
    for part in [gone, new].into_iter().filter(|part| !part.is_empty()) {
        set_routes(part).await?;
    }
    if verify {
        self::verify(desired).await?;
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
    let mac = match interface["mac-address"].as_str() {
        Some(mac) => {
            let bytes = mac.split(':').map(|byte| u8::from_str_radix(byte, 16));
            bytes.collect::<Result<Vec<u8>, _>>().ok()
        }
        None => interface["copy-mac-from"]
            .as_str()
            .and_then(|source| Some(find(links, source)?.mac.clone())),
    };
    message.attributes.extend(mac.map(LinkAttribute::Address));
    let made = kernel.handle().link().add(message).execute().await;
    made.map_err(|error| HostError::Links(format!("{name} cannot be made: {error}")))
}

/// The kernel drops routes with the last address of a link, also those that the change does not
/// name. A route whose gateway is out of reach now stays away, and so does one over a port.
async fn bring_back_routes(
    kernel: &Links,
    before: &Snapshot,
    attached: &BTreeSet<u32>,
) -> Result<(), HostError> {
    let now = snapshot::routes(kernel).await?;
    let gone = before.routes.iter().filter(|route| {
        !now.contains(route) && !snapshot::outputs(route).any(|index| attached.contains(&index))
    });
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

async fn set_routes(routes: Vec<RouteEntry>) -> Result<(), HostError> {
    let mut state = NetworkState::new();
    state.routes.config = Some(routes);
    state.set_kernel_only(true);
    state.set_verify_change(false);
    Ok(state.apply_async().await?)
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
async fn verify(desired: &Desired) -> Result<(), HostError> {
    let deadline = Instant::now() + SETTLED;
    loop {
        let now = super::retrieve(Default::default()).await?;
        let differences = Backend::Kernel.changes(desired, &state::value(&now));
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
