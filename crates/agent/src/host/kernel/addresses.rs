//! Static addresses of a link.

use std::net::IpAddr;

use rtnetlink::packet_route::{AddressFamily, address::AddressMessage};
use serde_json::Value;

use super::{
    super::{HostError, links::Links},
    snapshot::{self, identity, is_permanent},
};

/// The wanted addresses of a family.
struct Wanted {
    family: AddressFamily,
    addresses: Vec<(IpAddr, u8)>,
    /// True if addresses with an end go too: those that DHCP or a router has brought.
    without_automatic: bool,
}

/// Gives a link the addresses that an interface lists in nmstate's form, and no others of that
/// family. A family without a list stays as it is.
pub async fn set(kernel: &Links, link: u32, interface: &Value) -> Result<(), HostError> {
    let families = [
        ("ipv4", "dhcp", AddressFamily::Inet),
        ("ipv6", "autoconf", AddressFamily::Inet6),
    ];
    for (key, automatic, family) in families {
        let section = &interface[key];
        let is_off = section["enabled"] == false;
        if !is_off && !section["address"].is_array() {
            continue;
        }
        let listed = section["address"].as_array().filter(|_| !is_off);
        let wanted = Wanted {
            family,
            addresses: listed.into_iter().flatten().filter_map(address).collect(),
            without_automatic: is_off || section[automatic] == false,
        };
        wanted.set(kernel, link).await?;
    }
    Ok(())
}

/// Takes all addresses of a link away, also those that DHCP or a router has brought. The kernel
/// itself gives and takes the link-local one.
pub async fn clear(kernel: &Links, link: u32) -> Result<(), HostError> {
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let nothing = Wanted {
            family,
            addresses: Vec::new(),
            without_automatic: true,
        };
        nothing.set(kernel, link).await?;
    }
    Ok(())
}

/// A state from before lists addresses of DHCP, too. Their client brings them, with their end.
fn address(entry: &Value) -> Option<(IpAddr, u8)> {
    if !entry["valid-life-time"].is_null() {
        return None;
    }
    let ip: IpAddr = entry["ip"].as_str()?.parse().ok()?;
    let length = u8::try_from(entry["prefix-length"].as_u64()?).ok()?;
    (!is_link_local(&ip)).then_some((ip, length))
}

/// The kernel itself gives and takes these.
fn is_link_local(ip: &IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

impl Wanted {
    async fn set(&self, kernel: &Links, link: u32) -> Result<(), HostError> {
        // New ones come first, as the kernel drops all routes with the last address. It drops
        // the others of a subnet with the first one, so they may have to come again.
        self.add(kernel, link).await?;
        for surplus in self.now(kernel, link).await? {
            let (_, ip, length) = identity(&surplus);
            let Some(ip) = ip.filter(|ip| !is_link_local(ip)) else {
                continue;
            };
            let is_ours = is_permanent(&surplus) || self.without_automatic;
            if is_ours && !self.addresses.contains(&(ip, length)) {
                remove(kernel, surplus).await?;
            }
        }
        self.add(kernel, link).await
    }

    async fn add(&self, kernel: &Links, link: u32) -> Result<(), HostError> {
        let now = self.now(kernel, link).await?;
        for (ip, length) in &self.addresses {
            let is_there = |address: &&AddressMessage| {
                is_permanent(address) && identity(address) == (link, Some(*ip), *length)
            };
            if now.iter().find(is_there).is_none() {
                let add = kernel.handle().address().add(link, *ip, *length).replace();
                add.execute().await?;
            }
        }
        Ok(())
    }

    async fn now(&self, kernel: &Links, link: u32) -> Result<Vec<AddressMessage>, HostError> {
        let mut now = snapshot::addresses(kernel).await?;
        now.retain(|address| address.header.index == link && address.header.family == self.family);
        Ok(now)
    }
}

async fn remove(kernel: &Links, address: AddressMessage) -> Result<(), HostError> {
    match kernel.handle().address().del(address).execute().await {
        // It went with the first one of its subnet.
        Err(rtnetlink::Error::NetlinkError(error))
            if error.raw_code() == -rustix::io::Errno::ADDRNOTAVAIL.raw_os_error() =>
        {
            Ok(())
        }
        done => Ok(done?),
    }
}
