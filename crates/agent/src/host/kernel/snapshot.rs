//! The part of the kernel's network that a change may touch, as it was before.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use futures::{StreamExt, TryStreamExt};
use rtnetlink::{
    packet_core::{Emitable, Nla, Parseable},
    packet_route::{
        AddressFamily,
        address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage},
        link::{InfoData, InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage},
        route::{RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteProtocol},
    },
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::super::{
    HostError,
    links::{Links, Settings, is_pod_end},
};

/// Table 255 is the kernel's own (linux/rtnetlink.h, `RT_TABLE_LOCAL`).
const LOCAL_TABLE: u32 = 255;
/// How many ticks a second has where the kernel reports times (`USER_HZ`).
const TICKS: i32 = 100;
/// Flags of an address that the kernel computes (linux/if_addr.h).
const COMPUTED: AddressFlags = AddressFlags::Secondary
    .union(AddressFlags::Dadfailed)
    .union(AddressFlags::Deprecated)
    .union(AddressFlags::Tentative)
    .union(AddressFlags::Permanent);

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub index: u32,
    pub name: String,
    /// `bridge`, `vlan` and so on. Empty for a card.
    pub kind: String,
    pub mac: Vec<u8>,
    pub mtu: u32,
    pub up: bool,
    /// The index of the bridge or bond whose port it is.
    pub controller: Option<u32>,
    /// The index of the link that it is built on.
    pub base: Option<u32>,
    /// Attributes of `IFLA_INFO_DATA` (linux/if_link.h) with their bytes.
    pub data: Vec<(u16, Vec<u8>)>,
    /// The settings that its bridge keeps for it.
    pub port: Settings,
    /// True if it can be the host's end of a pod's veth pair.
    pub is_pod_end: bool,
}

/// Links with their addresses and routes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// The names of the interfaces that the change names.
    pub named: BTreeSet<String>,
    /// The names of those that the change wants as ports. A file of an earlier agent has none.
    #[serde(default)]
    pub ports: BTreeSet<String>,
    /// By index.
    pub links: BTreeMap<u32, Link>,
    #[serde(serialize_with = "write", deserialize_with = "read")]
    pub addresses: Vec<AddressMessage>,
    #[serde(serialize_with = "write", deserialize_with = "read")]
    pub routes: Vec<RouteMessage>,
    /// Routes over these links that routers have announced, with the time that they still last. A
    /// file of an earlier agent has none.
    #[serde(default, serialize_with = "write", deserialize_with = "read")]
    pub announced: Vec<RouteMessage>,
}

impl Snapshot {
    /// Reads the interfaces of these names, the ports that they have, all that is built on them,
    /// and the addresses and routes there.
    pub async fn take(kernel: &Links, named: BTreeSet<String>) -> Result<Self, HostError> {
        let links = links(kernel).await?;
        let mut chosen: BTreeSet<u32> = links
            .values()
            .filter(|link| named.contains(&link.name))
            .map(|link| link.index)
            .collect();
        // Until nothing is added: a VLAN is built on a VLAN, and a bridge has it as port.
        loop {
            let more: Vec<u32> = links
                .values()
                .filter(|link| {
                    [link.base, link.controller]
                        .into_iter()
                        .flatten()
                        .any(|other| other != link.index && chosen.contains(&other))
                })
                .map(|link| link.index)
                .filter(|index| !chosen.contains(index))
                .collect();
            if more.is_empty() {
                break;
            }
            chosen.extend(more);
        }
        let addresses: Vec<AddressMessage> = addresses(kernel)
            .await?
            .into_iter()
            .filter(|address| chosen.contains(&address.header.index))
            .collect();
        let own: BTreeSet<IpAddr> = addresses.iter().filter_map(local).collect();
        let routes = routes(kernel).await?;
        let mut announced = announced(kernel).await?;
        announced.retain(|route| outputs(route).any(|index| chosen.contains(&index)));
        Ok(Self {
            named,
            ports: BTreeSet::new(),
            announced,
            routes: routes
                .into_iter()
                .filter(|route| {
                    // The kernel drops a route with the address that is its source, too.
                    let leads_there = outputs(route).any(|index| chosen.contains(&index));
                    let comes_from_there =
                        source(route).is_some_and(|source| own.contains(&source));
                    leads_there || comes_from_there || is_configured(route)
                })
                .collect(),
            links: links
                .into_iter()
                .filter(|(index, _)| chosen.contains(index))
                .collect(),
            addresses,
        })
    }
}

/// All links by index.
pub async fn links(kernel: &Links) -> Result<BTreeMap<u32, Link>, HostError> {
    let messages: Vec<LinkMessage> = kernel.handle().link().get().execute().try_collect().await?;
    let seen = kernel.list().await?;
    let mut links: BTreeMap<u32, Link> = messages
        .into_iter()
        .map(link)
        .map(|link| (link.index, link))
        .collect();
    for link in links.values_mut() {
        link.port = seen.settings(link.index);
    }
    Ok(links)
}

fn link(message: LinkMessage) -> Link {
    let mut link = Link {
        index: message.header.index,
        up: message.header.flags.contains(LinkFlags::Up),
        ..Link::default()
    };
    let mut is_elsewhere = false;
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::Address(mac) => link.mac = mac,
            LinkAttribute::Mtu(mtu) => link.mtu = mtu,
            LinkAttribute::Controller(index) => link.controller = Some(index),
            LinkAttribute::Link(index) => link.base = Some(index),
            LinkAttribute::LinkNetNsId(_) => is_elsewhere = true,
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Kind(kind) => link.kind = kind_name(&kind),
                        LinkInfo::Data(InfoData::Bridge(data)) => link.data = bytes(&data),
                        LinkInfo::Data(InfoData::Vlan(data)) => link.data = bytes(&data),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    link.is_pod_end = link.kind == "veth" && is_pod_end(&link.name, is_elsewhere);
    // An index of another network namespace. And the ends of a veth pair are not built on each
    // other.
    if is_elsewhere || link.kind == "veth" {
        link.base = None;
    }
    link
}

fn kind_name(kind: &InfoKind) -> String {
    match kind {
        InfoKind::Bridge => "bridge".to_owned(),
        InfoKind::Vlan => "vlan".to_owned(),
        InfoKind::Veth => "veth".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn bytes<N: Nla>(attributes: &[N]) -> Vec<(u16, Vec<u8>)> {
    let one = |attribute: &N| {
        let mut bytes = vec![0; attribute.value_len()];
        attribute.emit_value(&mut bytes);
        (attribute.kind(), bytes)
    };
    attributes.iter().map(one).collect()
}

/// All addresses, as they are added.
pub async fn addresses(kernel: &Links) -> Result<Vec<AddressMessage>, HostError> {
    let found: Vec<AddressMessage> = kernel
        .handle()
        .address()
        .get()
        .execute()
        .try_collect()
        .await?;
    Ok(found.into_iter().map(to_add).collect())
}

fn to_add(mut address: AddressMessage) -> AddressMessage {
    address.header.flags &= AddressHeaderFlags::from_bits_retain(!(COMPUTED.bits() as u8));
    for attribute in &mut address.attributes {
        if let AddressAttribute::Flags(flags) = attribute {
            flags.remove(COMPUTED);
        }
    }
    address
}

/// The properties by which the kernel distinguishes addresses: the link, the address, the length of
/// its prefix.
pub fn identity(address: &AddressMessage) -> (u32, Option<IpAddr>, u8) {
    let header = &address.header;
    (header.index, local(address), header.prefix_len)
}

/// The address of the host itself. It has no attribute of its own for IPv6.
fn local(address: &AddressMessage) -> Option<IpAddr> {
    let of = |wanted: fn(&AddressAttribute) -> Option<IpAddr>| {
        address.attributes.iter().find_map(wanted)
    };
    of(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    })
    .or_else(|| {
        of(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}

/// Returns true if the address has no end: no DHCP client or router has brought it.
pub fn is_permanent(address: &AddressMessage) -> bool {
    !address.attributes.iter().any(|attribute| {
        matches!(attribute, AddressAttribute::CacheInfo(info) if info.ifa_valid != u32::MAX)
    })
}

/// All routes of both families that neither the kernel makes itself nor a router announces, as they
/// are added.
pub async fn routes(kernel: &Links) -> Result<Vec<RouteMessage>, HostError> {
    let mut routes = all_routes(kernel).await?;
    routes.retain(|route| !is_automatic(route));
    Ok(routes.into_iter().map(plain).collect())
}

/// All routes that routers have announced, and to the prefixes of addresses, as they are added.
pub async fn announced(kernel: &Links) -> Result<Vec<RouteMessage>, HostError> {
    let mut routes = all_routes(kernel).await?;
    routes.retain(|route| is_automatic(route) && !is_link_local(route));
    Ok(routes.into_iter().map(with_end).collect())
}

/// Returns true for a route that a router has announced, and for one to the prefix of an address.
/// The kernel does not take the latter away with an address that has an end.
fn is_automatic(route: &RouteMessage) -> bool {
    matches!(
        route.header.protocol,
        RouteProtocol::Ra | RouteProtocol::Kernel
    )
}

/// The kernel itself gives and takes these.
fn is_link_local(route: &RouteMessage) -> bool {
    route.attributes.iter().any(|attribute| {
        matches!(
            attribute,
            RouteAttribute::Destination(RouteAddress::Inet6(address))
                if address.is_unicast_link_local()
        )
    })
}

async fn all_routes(kernel: &Links) -> Result<Vec<RouteMessage>, HostError> {
    let of_family = |address_family| {
        let mut all = RouteMessage::default();
        all.header.address_family = address_family;
        kernel.handle().route().get(all).execute()
    };
    let mut found: Vec<RouteMessage> = of_family(AddressFamily::Inet)
        .chain(of_family(AddressFamily::Inet6))
        .try_collect()
        .await?;
    found.retain(|route| {
        let protocol = route.header.protocol;
        let is_cached = route.header.flags.contains(RouteFlags::Cloned);
        protocol != RouteProtocol::IcmpRedirect && !is_cached && table(route) != LOCAL_TABLE
    });
    Ok(found)
}

/// The kernel reports the rest of a route's time in ticks, and takes it in seconds (rtnetlink(7),
/// `RTA_CACHEINFO` and `RTA_EXPIRES`).
fn with_end(route: RouteMessage) -> RouteMessage {
    let end = route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            // Negative if the time is over and the kernel has not removed the route yet.
            RouteAttribute::CacheInfo(info) if info.expires != 0 => {
                let rest = i32::from_ne_bytes(info.expires.to_ne_bytes()) / TICKS;
                Some(u32::try_from(rest).unwrap_or_default().max(1))
            }
            _ => None,
        });
    let mut route = plain(route);
    route.attributes.extend(end.map(RouteAttribute::Expires));
    route
}

/// The same route, whatever its end.
pub fn without_end(route: &RouteMessage) -> RouteMessage {
    let mut route = route.clone();
    route
        .attributes
        .retain(|attribute| !matches!(attribute, RouteAttribute::Expires(_)));
    route
}

/// Without the values that the kernel computes.
fn plain(mut route: RouteMessage) -> RouteMessage {
    route.header.flags &= RouteFlags::Onlink;
    route
        .attributes
        .retain(|attribute| !matches!(attribute, RouteAttribute::CacheInfo(_)));
    route
}

/// Routes that a person, a program of the host or a policy has set, and no routing daemon.
pub fn is_configured(route: &RouteMessage) -> bool {
    matches!(
        route.header.protocol,
        RouteProtocol::Boot | RouteProtocol::Static
    )
}

fn table(route: &RouteMessage) -> u32 {
    let large = route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Table(table) => Some(*table),
            _ => None,
        });
    large.unwrap_or_else(|| route.header.table.into())
}

/// The links that a route leads to.
pub fn outputs(route: &RouteMessage) -> impl Iterator<Item = u32> {
    route
        .attributes
        .iter()
        .flat_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => vec![*index],
            RouteAttribute::MultiPath(hops) => hops.iter().map(|hop| hop.interface_index).collect(),
            _ => Vec::new(),
        })
}

/// Returns true if the route leads to a gateway, so that the route to the gateway must be there.
pub fn has_gateway(route: &RouteMessage) -> bool {
    route.attributes.iter().any(|attribute| {
        matches!(
            attribute,
            RouteAttribute::Gateway(_) | RouteAttribute::Via(_) | RouteAttribute::MultiPath(_)
        )
    })
}

/// The address that packets by this route have as their source.
pub fn source(route: &RouteMessage) -> Option<IpAddr> {
    route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::PrefSource(RouteAddress::Inet(address)) => Some((*address).into()),
            RouteAttribute::PrefSource(RouteAddress::Inet6(address)) => Some((*address).into()),
            _ => None,
        })
}

/// As the bytes of rtnetlink(7).
fn write<M: Emitable, S: Serializer>(messages: &[M], serializer: S) -> Result<S::Ok, S::Error> {
    let bytes = messages.iter().map(|message| {
        let mut bytes = vec![0; message.buffer_len()];
        message.emit(&mut bytes);
        bytes
    });
    serializer.collect_seq(bytes)
}

fn read<'de, M: Parseable<[u8]>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<M>, D::Error> {
    let messages = Vec::<Vec<u8>>::deserialize(deserializer)?;
    messages
        .iter()
        .map(|bytes| M::parse(bytes).map_err(D::Error::custom))
        .collect()
}
