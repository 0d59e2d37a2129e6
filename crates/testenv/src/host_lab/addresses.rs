//! Addresses of a lab of hosts. They are the same in each one: each is a world of its own.

use std::net::Ipv4Addr;

/// Where hosts reach the API server, on [`API_SERVER_PORT`].
pub const API_SERVER: Ipv4Addr = Ipv4Addr::new(172, 31, 0, 2);
/// As kubeadm has it.
pub const API_SERVER_PORT: u16 = 6443;
/// A further address of the gateway's name server, reached over the gateway.
pub(crate) const NAME_SERVER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 53);
/// The gateway's name server knows `gateway` and the hosts in this domain, and nothing else but
/// `root-servers.net`.
pub(crate) const DOMAIN: &str = "lab.test";

/// Of the gateway, on the network of this card (0: `eth0`): it answers to ping, DNS and DHCP
/// (`.100` to `.199`, an hour).
pub(crate) fn gateway(card: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 31, card, 1)
}

/// Of `eth0` of a host, counted from 1. By DHCP there, it gets the same one.
pub(crate) fn host(index: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 31, 0, 10 + index)
}

/// Of a card of a host.
pub(crate) fn mac(index: u8, card: u8) -> String {
    format!("02:00:00:00:{index:02x}:{card:02x}")
}
