//! Links as rtnetlink(7) shows and changes them: bridges, the host's ends of pods' veth pairs, and
//! what a bridge keeps of a port.

use std::{collections::BTreeMap, io};

use futures::TryStreamExt;
use rtnetlink::{
    Error, Handle, LinkBridgePort, LinkBridgeVlan, LinkUnspec, new_connection,
    packet_core::{DefaultNla, Nla},
    packet_route::{
        AddressFamily,
        link::{
            AfSpecBridge, BridgeVlanInfoFlags, InfoBridgePort, InfoKind, InfoPortData,
            LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkMessage,
        },
    },
};
use serde::{Deserialize, Serialize};
use weft_node_network::ports::is_card_name;

/// Settings of a port that a bridge keeps, and loses with the port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// VLANs with their flags, as `struct bridge_vlan_info` has them.
    vlans: Vec<(u16, u16)>,
    /// Attributes of `IFLA_INFO_SLAVE_DATA` (linux/if_link.h, `IFLA_BRPORT_*`) that can be set,
    /// with their bytes: cost, isolation, hairpin and so on.
    options: Vec<(u16, Vec<u8>)>,
}

/// A pod's port, and how it is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// The index of its link. Together with the name it distinguishes a port from a later one of
    /// the same name.
    pub index: u32,
    /// For example `veth1a2b3c`.
    pub name: String,
    /// The name of its bridge.
    pub bridge: String,
    /// True if it is set up.
    pub up: bool,
    /// Settings that the bridge keeps for it.
    pub settings: Settings,
}

/// A link, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub index: u32,
    pub name: String,
    pub is_bridge: bool,
    /// True if it can be the host's end of a pod's veth pair.
    pub is_pod_end: bool,
    pub up: bool,
    pub master: Option<u32>,
    pub settings: Settings,
}

/// All links at one time.
#[derive(Clone, Debug, Default)]
pub struct Seen(BTreeMap<u32, Link>);

impl Seen {
    pub(crate) fn new(links: impl IntoIterator<Item = Link>) -> Self {
        Self(links.into_iter().map(|link| (link.index, link)).collect())
    }

    pub(crate) fn name(&self, index: u32) -> Option<&str> {
        self.0.get(&index).map(|link| link.name.as_str())
    }

    pub(crate) fn is_there(&self, name: &str) -> bool {
        self.0.values().any(|link| link.name == name)
    }

    /// The settings that its bridge keeps of a port.
    pub(super) fn settings(&self, index: u32) -> Settings {
        self.0
            .get(&index)
            .map(|link| link.settings.clone())
            .unwrap_or_default()
    }

    /// Returns true if the link of this name is set up, with a carrier or without.
    pub(super) fn is_up(&self, name: &str) -> bool {
        self.0.values().any(|link| link.name == name && link.up)
    }

    pub(crate) fn bridge(&self, name: &str) -> Option<&Link> {
        self.0
            .values()
            .find(|link| link.is_bridge && link.name == name)
    }

    pub(crate) fn pod_end(&self, index: u32, name: &str) -> Option<&Link> {
        self.0
            .get(&index)
            .filter(|link| link.is_pod_end && link.name == name)
    }

    /// The host's ends of pods' veth pairs.
    pub fn pod_ends(&self) -> impl Iterator<Item = &Link> {
        self.0.values().filter(|link| link.is_pod_end)
    }
}

/// A connection to the kernel, in the network namespace that the process is in.
pub struct Links {
    handle: Handle,
    connection: tokio::task::JoinHandle<()>,
}

impl Drop for Links {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Links {
    /// Opens a socket. Must be called inside a tokio runtime.
    pub fn open() -> io::Result<Self> {
        let (connection, handle, _) = new_connection()?;
        Ok(Self {
            handle,
            connection: tokio::spawn(connection),
        })
    }

    /// Sends requests over this connection.
    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// All links, with what bridges keep of their ports.
    pub async fn list(&self) -> Result<Seen, Error> {
        let links = self.handle.link().get().execute();
        let mut seen = Seen::new(
            links
                .try_filter_map(|message| async move { Ok(link(message)) })
                .try_collect::<Vec<_>>()
                .await?,
        );
        // The kernel lists VLANs in an answer of its own, for bridges' ports only.
        let mut ports = Box::pin(
            self.handle
                .link()
                .get()
                .set_filter_mask(AddressFamily::Bridge, vec![LinkExtentMask::Brvlan])
                .execute(),
        );
        while let Some(message) = ports.try_next().await? {
            if let Some(link) = seen.0.get_mut(&message.header.index) {
                link.settings.vlans = vlans(&message);
            }
        }
        Ok(seen)
    }

    /// Attaches a port to a bridge as it was attached.
    pub async fn attach(&self, port: &Port, bridge: u32) -> Result<(), Error> {
        let mut attach = LinkUnspec::new_with_index(port.index).controller(bridge);
        if port.up {
            attach = attach.up();
        }
        self.handle.link().change(attach.build()).execute().await?;
        if !port.settings.options.is_empty() {
            let mut options = LinkBridgePort::new(port.index);
            for (kind, bytes) in &port.settings.options {
                options = options
                    .append_info_data(InfoBridgePort::Other(DefaultNla::new(*kind, bytes.clone())));
            }
            self.handle.link().change(options.build()).execute().await?;
        }
        self.set_vlans(port).await
    }

    /// The bridge gives a new port its default VLAN. The earlier values of the port take their
    /// place.
    async fn set_vlans(&self, port: &Port) -> Result<(), Error> {
        let wanted = &port.settings.vlans;
        if wanted.is_empty() {
            return Ok(());
        }
        let mut add = LinkBridgeVlan::new(port.index);
        for (vlan, flags) in wanted {
            add = add.vlan(*vlan, BridgeVlanInfoFlags::from_bits_retain(*flags));
        }
        self.handle.link().set(add.build()).execute().await?;
        let now = self.list().await?;
        let Some(link) = now.0.get(&port.index) else {
            return Ok(());
        };
        let surplus: Vec<_> = link
            .settings
            .vlans
            .iter()
            .filter(|(vlan, _)| !wanted.iter().any(|(kept, _)| kept == vlan))
            .collect();
        if surplus.is_empty() {
            return Ok(());
        }
        let mut remove = LinkBridgeVlan::new(port.index);
        for (vlan, _) in surplus {
            remove = remove.vlan(*vlan, BridgeVlanInfoFlags::empty());
        }
        self.handle
            .link()
            .del_with_message(remove.build())
            .execute()
            .await
    }
}

fn link(message: LinkMessage) -> Option<Link> {
    let mut link = Link {
        index: message.header.index,
        name: String::new(),
        is_bridge: false,
        is_pod_end: false,
        up: message.header.flags.contains(LinkFlags::Up),
        master: None,
        settings: Settings::default(),
    };
    let (mut is_veth, mut peer_is_elsewhere) = (false, false);
    for attribute in message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name = name,
            LinkAttribute::Controller(master) => link.master = Some(master),
            LinkAttribute::LinkNetNsId(_) => peer_is_elsewhere = true,
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    match info {
                        LinkInfo::Kind(InfoKind::Bridge) => link.is_bridge = true,
                        LinkInfo::Kind(InfoKind::Veth) => is_veth = true,
                        LinkInfo::PortData(InfoPortData::BridgePort(options)) => {
                            link.settings.options = options
                                .iter()
                                .filter(|option| can_be_set(option))
                                .map(bytes)
                                .collect();
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    link.is_pod_end = is_veth && is_pod_end(&link.name, peer_is_elsewhere);
    (!link.name.is_empty()).then_some(link)
}

/// Reports whether a veth can be the host's end of a pod's pair: its other end is in another network
/// namespace, and it is not the card of a host that is itself a container.
pub(super) fn is_pod_end(name: &str, peer_is_elsewhere: bool) -> bool {
    peer_is_elsewhere && !is_card_name(name)
}

/// The list omits values that the bridge or a protocol computes, and those of newer kernels: one
/// value that cannot be set makes the kernel refuse all of them.
fn can_be_set(option: &InfoBridgePort) -> bool {
    use InfoBridgePort as Option;
    matches!(
        option,
        Option::Priority(_)
            | Option::Cost(_)
            | Option::HairpinMode(_)
            | Option::Guard(_)
            | Option::Protect(_)
            | Option::FastLeave(_)
            | Option::Learning(_)
            | Option::UnicastFlood(_)
            | Option::ProxyARP(_)
            | Option::ProxyARPWifi(_)
            | Option::MulticastFlood(_)
            | Option::MulticastToUnicast(_)
            | Option::VlanTunnel(_)
            | Option::BroadcastFlood(_)
            | Option::NeighSupress(_)
            | Option::Isolated(_)
            | Option::Locked(_)
    )
}

fn bytes(option: &InfoBridgePort) -> (u16, Vec<u8>) {
    let mut bytes = vec![0; option.value_len()];
    option.emit_value(&mut bytes);
    (option.kind(), bytes)
}

fn vlans(message: &LinkMessage) -> Vec<(u16, u16)> {
    let specs = message
        .attributes
        .iter()
        .filter_map(|attribute| match attribute {
            LinkAttribute::AfSpecBridge(specs) => Some(specs),
            _ => None,
        });
    let of_port = specs.flatten().filter_map(|spec| match spec {
        AfSpecBridge::VlanInfo(vlan) => Some((vlan.vid, vlan.flags.bits())),
        _ => None,
    });
    of_port.collect()
}
