//! The default gateway, as the kernel has it now.

use std::{net::IpAddr, time::Duration};

use futures::TryStreamExt;
use rtnetlink::{
    Handle, RouteMessageBuilder, new_connection,
    packet_route::{
        AddressFamily,
        neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourState},
        route::{RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType},
    },
};
use tokio::time::{Instant, sleep};

use super::{Means, Silence, reach};

/// How long a gateway may take to answer an echo request: it is on the same link.
const ECHO: Duration = Duration::from_secs(1);
/// How long the kernel may take to learn whether a neighbour is there.
const RESOLUTION: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gateway {
    address: IpAddr,
    interface: u32,
    metric: u32,
}

/// Succeeds if the gateway of the best default route answers in this way. IPv4 comes first, as the
/// node's own addresses do.
pub(super) async fn answers(means: Means) -> Result<(), Silence> {
    let (connection, handle, _) =
        new_connection().map_err(|error| format!("rtnetlink: {error}"))?;
    let connection = tokio::spawn(connection);
    let answer = ask(&handle, means).await;
    connection.abort();
    answer
}

async fn ask(handle: &Handle, means: Means) -> Result<(), Silence> {
    let gateway = best(handle)
        .await
        .map_err(|error| format!("rtnetlink: {error}"))?;
    let gateway = gateway
        .ok_or_else(|| Silence::NoWay("there is no default route with a gateway".to_owned()))?;
    let link = handle
        .link()
        .get()
        .match_index(gateway.interface)
        .execute()
        .try_next()
        .await;
    let link = link
        .ok()
        .flatten()
        .ok_or_else(|| "the interface of the default route is gone".to_owned())?;
    let name = link
        .attributes
        .into_iter()
        .find_map(|attribute| match attribute {
            rtnetlink::packet_route::link::LinkAttribute::IfName(name) => Some(name),
            _ => None,
        });
    let name = name.unwrap_or_default();
    // The kernel asks for the neighbour before it sends the echo request.
    let pinged = reach::ping(gateway.address, Some((gateway.interface, &name)), ECHO).await;
    let by = match (means, pinged) {
        (_, Ok(())) => return Ok(()),
        (Means::Icmp, Err(_)) => "ICMP".to_owned(),
        (Means::Neighbour, Err(_)) if is_neighbour(handle, &gateway).await => return Ok(()),
        (Means::Neighbour, Err(_)) => format!("ICMP or {}", resolution(gateway.address)),
    };
    let words = format!("gateway {} at {name} does not answer {by}", gateway.address);
    Err(Silence::NoAnswer(words))
}

fn resolution(address: IpAddr) -> &'static str {
    if address.is_ipv4() {
        "ARP"
    } else {
        "neighbour discovery"
    }
}

/// The gateway of the default route with the lowest metric in the main table.
async fn best(handle: &Handle) -> Result<Option<Gateway>, rtnetlink::Error> {
    for question in [
        RouteMessageBuilder::<std::net::Ipv4Addr>::new().build(),
        RouteMessageBuilder::<std::net::Ipv6Addr>::new().build(),
    ] {
        let routes: Vec<RouteMessage> =
            handle.route().get(question).execute().try_collect().await?;
        if let Some(gateway) = routes
            .iter()
            .filter_map(gateway)
            .min_by_key(|gateway| gateway.metric)
        {
            return Ok(Some(gateway));
        }
    }
    Ok(None)
}

fn gateway(route: &RouteMessage) -> Option<Gateway> {
    let is_default = route.header.destination_prefix_length == 0
        && route.header.kind == RouteType::Unicast
        && matches!(
            route.header.address_family,
            AddressFamily::Inet | AddressFamily::Inet6
        );
    let (mut address, mut interface, mut metric, mut table) =
        (None, None, 0, u32::from(route.header.table));
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Gateway(RouteAddress::Inet(gateway)) => {
                address = Some(IpAddr::from(*gateway))
            }
            RouteAttribute::Gateway(RouteAddress::Inet6(gateway)) => {
                address = Some(IpAddr::from(*gateway))
            }
            RouteAttribute::Oif(index) => interface = Some(*index),
            RouteAttribute::Priority(priority) => metric = *priority,
            RouteAttribute::Table(number) => table = *number,
            // Several gateways at once: the first of them.
            RouteAttribute::MultiPath(hops) => {
                let hop = hops.first()?;
                interface = Some(hop.interface_index);
                address = hop.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::Gateway(RouteAddress::Inet(gateway)) => {
                        Some(IpAddr::from(*gateway))
                    }
                    RouteAttribute::Gateway(RouteAddress::Inet6(gateway)) => {
                        Some(IpAddr::from(*gateway))
                    }
                    _ => None,
                });
            }
            _ => {}
        }
    }
    (is_default && table == u32::from(RouteHeader::RT_TABLE_MAIN)).then_some(Gateway {
        address: address?,
        interface: interface?,
        metric,
    })
}

/// Reports whether the kernel has just heard from the gateway. An old entry is asked about anew
/// (`NUD_PROBE`): what was true before the change is not an answer.
async fn is_neighbour(handle: &Handle, gateway: &Gateway) -> bool {
    let deadline = Instant::now() + RESOLUTION;
    let mut asked = false;
    while Instant::now() < deadline {
        match state(handle, gateway).await {
            Some((NeighbourState::Reachable, _)) if asked => return true,
            Some((NeighbourState::Permanent | NeighbourState::Noarp, _)) => return true,
            Some((
                NeighbourState::Reachable | NeighbourState::Stale | NeighbourState::Delay,
                hardware,
            )) if !asked => {
                let neighbour = handle
                    .neighbours()
                    .add(gateway.interface, gateway.address)
                    .state(NeighbourState::Probe)
                    .replace();
                if neighbour
                    .link_layer_address(&hardware)
                    .execute()
                    .await
                    .is_err()
                {
                    return false;
                }
                asked = true;
            }
            // A first question is under way since the echo request.
            Some((NeighbourState::Incomplete, _)) => asked = true,
            Some(_) => {}
            None => return false,
        }
        sleep(Duration::from_millis(50)).await;
    }
    false
}

async fn state(handle: &Handle, gateway: &Gateway) -> Option<(NeighbourState, Vec<u8>)> {
    let mut neighbours = Box::pin(handle.neighbours().get().execute());
    while let Ok(Some(neighbour)) = neighbours.try_next().await {
        if neighbour.header.ifindex != gateway.interface {
            continue;
        }
        let (mut address, mut hardware) = (None, Vec::new());
        for attribute in &neighbour.attributes {
            match attribute {
                NeighbourAttribute::Destination(NeighbourAddress::Inet(found)) => {
                    address = Some(IpAddr::from(*found))
                }
                NeighbourAttribute::Destination(NeighbourAddress::Inet6(found)) => {
                    address = Some(IpAddr::from(*found))
                }
                NeighbourAttribute::LinkLayerAddress(found) => hardware.clone_from(found),
                _ => {}
            }
        }
        if address == Some(gateway.address) {
            return Some((neighbour.header.state, hardware));
        }
    }
    None
}
