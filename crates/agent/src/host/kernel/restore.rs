//! Puts the kernel's network back to a snapshot, as far as the change could touch it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rtnetlink::{
    LinkUnspec,
    packet_core::DefaultNla,
    packet_route::{
        address::AddressMessage,
        link::{InfoBridge, InfoData, InfoKind, InfoVlan, LinkAttribute, LinkInfo, LinkMessage},
    },
};

use tokio::time::{Instant, sleep};

use super::{
    super::{HostError, links::Links},
    settings,
    snapshot::{self, Link, Snapshot},
};

/// Attributes of a bridge that only the kernel computes, or that mark a value as set by hand
/// (linux/if_link.h, `IFLA_BR_*`): identifiers, timers, the group's address, the flush of the
/// table, and counters.
const COMPUTED_OF_BRIDGE: [u16; 14] = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 47, 48];

/// How long the kernel may look for duplicates of an IPv6 address, before a route can have it as its
/// source.
const USABLE: Duration = Duration::from_secs(4);
/// The time between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// Restores the snapshot. It continues after an error, to bring back as much as it can.
///
/// # Errors
/// The first error. The rest is done.
pub async fn restore(before: &Snapshot) -> Result<(), HostError> {
    let kernel = Links::open()?;
    let mut restore = Restore {
        kernel: &kernel,
        before,
        first: None,
    };
    restore.remove_links().await?;
    restore.make_links().await?;
    restore.settings().await?;
    restore.addresses().await?;
    restore.routes().await?;
    restore.first.map_or(Ok(()), Err)
}

struct Restore<'a> {
    kernel: &'a Links,
    before: &'a Snapshot,
    first: Option<HostError>,
}

impl Restore<'_> {
    fn note(&mut self, what: &str, done: Result<(), impl Into<HostError>>) {
        if let Err(error) = done.map_err(Into::into) {
            tracing::warn!(%error, what, "failed to bring back a part of the network");
            self.first.get_or_insert_with(|| {
                HostError::Links(format!("{what} cannot be brought back: {error}"))
            });
        }
    }

    /// Removes the links that the change has made. A link with another index is another link.
    async fn remove_links(&mut self) -> Result<(), HostError> {
        let now = snapshot::links(self.kernel).await?;
        let is_new = |link: &&Link| {
            self.before.named.contains(&link.name)
                && ["bridge", "vlan"].contains(&link.kind.as_str())
                && self
                    .before
                    .links
                    .get(&link.index)
                    .is_none_or(|old| old.name != link.name)
        };
        let mut new: Vec<&Link> = now.values().filter(is_new).collect();
        // A link that is built on another one goes first.
        new.sort_by_key(|link| std::cmp::Reverse(settings::height(&now, link.index)));
        for link in new {
            let removed = self.kernel.handle().link().del(link.index).execute().await;
            self.note(&link.name, removed);
        }
        Ok(())
    }

    /// Makes the links again that the change has removed, with the index that they had.
    async fn make_links(&mut self) -> Result<(), HostError> {
        let now = snapshot::links(self.kernel).await?;
        let mut gone: Vec<&Link> = self
            .before
            .links
            .values()
            .filter(|link| !now.contains_key(&link.index))
            .collect();
        gone.sort_by_key(|link| settings::height(&self.before.links, link.index));
        for link in gone {
            match self.to_make(link) {
                Some(message) => {
                    let made = self.kernel.handle().link().add(message).execute().await;
                    self.note(&link.name, made);
                    self.bridge_options(link).await?;
                }
                None => tracing::warn!(
                    link = link.name,
                    kind = link.kind,
                    "a link has gone during the change, and not by it"
                ),
            }
        }
        Ok(())
    }

    fn to_make(&self, link: &Link) -> Option<LinkMessage> {
        let (kind, data) = match link.kind.as_str() {
            "bridge" => (InfoKind::Bridge, InfoData::Bridge(Vec::new())),
            "vlan" => {
                let data = link
                    .data
                    .iter()
                    .map(|(kind, bytes)| InfoVlan::Other(raw(&(*kind, vlan_option(*kind, bytes)))));
                (InfoKind::Vlan, InfoData::Vlan(data.collect()))
            }
            _ => return None,
        };
        let mut make = LinkUnspec::new_with_index(link.index).name(&link.name);
        // A bridge takes the address of a port by itself, and another one later.
        let is_of_port = self
            .before
            .links
            .values()
            .any(|port| port.controller == Some(link.index) && port.mac == link.mac);
        if !is_of_port {
            make = make.address(link.mac.clone());
        }
        if let Some(base) = link.base {
            make = make.link(base);
        }
        let info = vec![LinkInfo::Kind(kind), LinkInfo::Data(data)];
        Some(
            make.append_extra_attribute(LinkAttribute::LinkInfo(info))
                .build(),
        )
    }

    /// Sets the options in which a new bridge differs, one by one: the kernel refuses to set some
    /// that it reports, such as those of VLANs where it has none.
    async fn bridge_options(&mut self, link: &Link) -> Result<(), HostError> {
        let now = snapshot::links(self.kernel).await?;
        let Some(now) = now.get(&link.index) else {
            return Ok(());
        };
        let differing = link.data.iter().filter(|option| {
            link.kind == "bridge"
                && !COMPUTED_OF_BRIDGE.contains(&option.0)
                && !now.data.contains(option)
        });
        for option in differing {
            let info = vec![
                LinkInfo::Kind(InfoKind::Bridge),
                LinkInfo::Data(InfoData::Bridge(vec![InfoBridge::Other(raw(option))])),
            ];
            let set = LinkUnspec::new_with_index(link.index)
                .append_extra_attribute(LinkAttribute::LinkInfo(info));
            let set = self
                .kernel
                .handle()
                .link()
                .change(set.build())
                .execute()
                .await;
            self.note(&format!("option {} of {}", option.0, link.name), set);
        }
        Ok(())
    }

    /// Ports, MTU, and up or down.
    async fn settings(&mut self) -> Result<(), HostError> {
        let now = snapshot::links(self.kernel).await?;
        let both = || {
            self.before
                .links
                .iter()
                .filter_map(|(index, old)| Some((old, now.get(index)?)))
        };
        let moved: Vec<&Link> = both()
            .filter(|(old, new)| old.controller != new.controller)
            .map(|(old, _)| old)
            .collect();
        for link in moved {
            let set = settings::set_controller(self.kernel, link, link.controller).await;
            self.note(&format!("{} as a port", link.name), set);
        }
        let mtus: BTreeMap<u32, u32> = self
            .before
            .links
            .values()
            .filter(|link| now.contains_key(&link.index))
            .map(|link| (link.index, link.mtu))
            .collect();
        // A bridge follows the MTU of its ports.
        let now = snapshot::links(self.kernel).await?;
        let set = settings::set_mtus(self.kernel, &now, &mtus).await;
        self.note("the MTU", set);
        for (index, old) in &self.before.links {
            if now.get(index).is_some_and(|new| new.up != old.up) {
                let set = settings::set_up(self.kernel, *index, old.up).await;
                self.note(&old.name, set);
            }
        }
        Ok(())
    }

    async fn addresses(&mut self) -> Result<(), HostError> {
        let now = snapshot::addresses(self.kernel).await?;
        let known: BTreeSet<_> = self
            .before
            .addresses
            .iter()
            .map(snapshot::identity)
            .collect();
        // A client of DHCP may have got an address meanwhile, which has an end.
        for new in now.iter().filter(|address| {
            self.before.links.contains_key(&address.header.index)
                && snapshot::is_permanent(address)
                && !known.contains(&snapshot::identity(address))
        }) {
            let removed = self
                .kernel
                .handle()
                .address()
                .del(new.clone())
                .execute()
                .await;
            self.note("an address", removed);
        }
        // The kernel drops the secondary addresses of a subnet with the first one.
        let as_it_is = |address: &AddressMessage| {
            (snapshot::identity(address), snapshot::is_permanent(address))
        };
        let now: BTreeSet<_> = snapshot::addresses(self.kernel)
            .await?
            .iter()
            .map(as_it_is)
            .collect();
        for old in &self.before.addresses {
            let (index, local, length) = snapshot::identity(old);
            let Some(local) = local.filter(|_| !now.contains(&as_it_is(old))) else {
                continue;
            };
            let mut add = self
                .kernel
                .handle()
                .address()
                .add(index, local, length)
                .replace();
            *add.message_mut() = old.clone();
            let added = add.execute().await;
            self.note("an address", added);
        }
        Ok(())
    }

    async fn routes(&mut self) -> Result<(), HostError> {
        let now = snapshot::routes(self.kernel).await?;
        for new in now.iter().filter(|route| {
            snapshot::is_configured(route)
                && snapshot::outputs(route).any(|index| self.before.links.contains_key(&index))
                && !self.before.routes.contains(route)
        }) {
            let removed = self
                .kernel
                .handle()
                .route()
                .del(new.clone())
                .execute()
                .await;
            self.note("a route", removed);
        }
        // A gateway must be reachable before a route leads to it, by the prefix of an address or by
        // another route.
        self.announced_routes().await?;
        let (through, direct): (Vec<_>, Vec<_>) = self
            .before
            .routes
            .iter()
            .filter(|route| !now.contains(route))
            .partition(|route| snapshot::has_gateway(route));
        let deadline = Instant::now() + USABLE;
        for old in direct.into_iter().chain(through) {
            let added = loop {
                let add = self.kernel.handle().route().add(old.clone()).replace();
                let added = add.execute().await;
                let can_come = snapshot::source(old).is_some_and(|source| source.is_ipv6());
                if added.is_ok() || !can_come || Instant::now() > deadline {
                    break added;
                }
                sleep(PAUSE).await;
            };
            self.note("a route", added);
        }
        Ok(())
    }

    /// Routers announce their routes again after minutes. A router that has done so meanwhile is
    /// heard, and the kernel drops routes that have come to their end.
    async fn announced_routes(&mut self) -> Result<(), HostError> {
        let now = snapshot::announced(self.kernel).await?;
        let now: Vec<_> = now.iter().map(snapshot::without_end).collect();
        let lost = self.before.announced.iter();
        for old in lost.filter(|route| !now.contains(&snapshot::without_end(route))) {
            let added = self
                .kernel
                .handle()
                .route()
                .add(old.clone())
                .execute()
                .await;
            if let Err(error) = added {
                tracing::warn!(%error, route = ?old, "a route of a router is away until the router announces it again");
            }
        }
        Ok(())
    }
}

/// The kernel reports the flags of a VLAN with a mask of all bits, and takes only those that it
/// knows (linux/if_vlan.h, `struct ifla_vlan_flags`). It sets the first flag by itself.
fn vlan_option(kind: u16, bytes: &[u8]) -> Vec<u8> {
    const FLAGS: u16 = 2;
    const REORDER_HEADERS: u32 = 1;
    match bytes.first_chunk::<4>() {
        Some(flags) if kind == FLAGS => {
            let mask = u32::from_ne_bytes(*flags) | REORDER_HEADERS;
            [*flags, mask.to_ne_bytes()].concat()
        }
        _ => bytes.to_vec(),
    }
}

fn raw((kind, bytes): &(u16, Vec<u8>)) -> DefaultNla {
    DefaultNla::new(*kind, bytes.clone())
}
