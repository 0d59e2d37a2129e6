//! Ports of bridges: which links are to be ports, and that a port has neither an address nor a route
//! of its own, as with NetworkManager.

use std::collections::{BTreeMap, BTreeSet};

use rtnetlink::packet_route::route::RouteMessage;
use serde_json::Value;

use super::{
    super::{HostError, links::Links},
    addresses, settings,
    snapshot::{self, Link},
    wanted::{find, link_of, ports_of, present},
};

/// Attaches and detaches ports as bridges list them, or as they name their controller. `own` are
/// ports that earlier changes have named.
pub async fn move_them(
    kernel: &Links,
    wanted: &Value,
    own: &BTreeSet<String>,
) -> Result<(), HostError> {
    let links = snapshot::links(kernel).await?;
    // A port that one bridge no longer lists can be that of another one, before it or behind it.
    let mut leaving: BTreeSet<u32> = BTreeSet::new();
    let mut joining: BTreeMap<u32, Option<u32>> = BTreeMap::new();
    for interface in present(wanted) {
        let Some(link) = link_of(&links, interface) else {
            continue;
        };
        if let Some(listed) = listed(&links, interface) {
            // No policy names the ports of pods and of virtual machines.
            let left_out = links.values().filter(|port| {
                port.controller == Some(link.index)
                    && !listed.contains(&port.index)
                    && port.kind != "tun"
                    && (!port.is_pod_end || own.contains(&port.name))
            });
            leaving.extend(left_out.map(|port| port.index));
            joining.extend(listed.into_iter().map(|port| (port, Some(link.index))));
        }
        if let Some(controller) = interface["controller"].as_str() {
            let controller = find(&links, controller).map(|controller| controller.index);
            joining.insert(link.index, controller);
        }
    }
    let mut moves: BTreeMap<u32, Option<u32>> =
        leaving.into_iter().map(|port| (port, None)).collect();
    moves.extend(joining);
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

/// The links that a state wants as ports and that are ports, by index.
pub fn of(links: &BTreeMap<u32, Link>, wanted: &Value) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for interface in present(wanted) {
        found.extend(listed(links, interface).into_iter().flatten());
        if interface["controller"].is_string() {
            found.extend(link_of(links, interface).map(|link| link.index));
        }
    }
    found.retain(|index| {
        links
            .get(index)
            .is_some_and(|link| link.controller.is_some())
    });
    found
}

/// Takes the addresses of ports away, and the routes over them, those of routers included. The port
/// itself stays up.
pub async fn clear(kernel: &Links, attached: &BTreeSet<u32>) -> Result<(), HostError> {
    for port in attached {
        addresses::clear(kernel, *port).await?;
    }
    // The kernel drops routes of IPv4 with the last address, and none of IPv6.
    let routes = snapshot::routes(kernel).await?.into_iter();
    let routes = routes.chain(snapshot::announced(kernel).await?);
    for route in routes {
        let mut outputs = snapshot::outputs(&route).peekable();
        if outputs.peek().is_some() && outputs.all(|index| attached.contains(&index)) {
            remove(kernel, route.clone()).await?;
        }
    }
    Ok(())
}

async fn remove(kernel: &Links, route: RouteMessage) -> Result<(), HostError> {
    match kernel.handle().route().del(route).execute().await {
        // It went with another one, or its time was over.
        Err(rtnetlink::Error::NetlinkError(error))
            if error.raw_code() == -rustix::io::Errno::SRCH.raw_os_error() =>
        {
            Ok(())
        }
        done => Ok(done?),
    }
}

/// The links that a bridge lists as its ports. `None` if it lists none.
fn listed(links: &BTreeMap<u32, Link>, bridge: &Value) -> Option<BTreeSet<u32>> {
    let index = |port: &String| Some(find(links, port)?.index);
    Some(ports_of(bridge)?.iter().filter_map(index).collect())
}
