//! Events of the kernel, by the multicast groups of rtnetlink(7).

use std::io;

use netlink_packet_core::NetlinkBuffer;
use netlink_packet_route::route::{RouteHeader, RouteProtocol};
use netlink_sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket, protocols::NETLINK_ROUTE};
use rustix::io::Errno;
use tokio::sync::mpsc;

use super::Change;

/// Groups of `linux/rtnetlink.h`: links, addresses, routes and rules of both families, and what
/// sysctls such as `forwarding` say. Not neighbours: they come and go with each connection, and
/// nothing of them is reported.
const GROUPS: [u32; 9] = [1, 5, 7, 8, 9, 11, 19, 24, 25];
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
/// The size of a buffer, in bytes, that holds what some thousand links have to say at once.
const BUFFER: i32 = 1 << 20;

/// An open socket that hears of changes in the network namespace of the thread that opened it.
pub struct Events(TokioSocket);

impl Events {
    /// From now on nothing is missed. To be called inside a runtime.
    pub fn open() -> io::Result<Self> {
        let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
        socket.socket_mut().bind(&SocketAddr::new(0, 0))?;
        for group in GROUPS {
            socket.socket_ref().add_membership(group)?;
        }
        // The kernel may grant less (net.core.rmem_max), and reports ENOBUFS when the buffer was
        // too small.
        let _ = socket.socket_ref().set_rx_buf_sz(BUFFER);
        Ok(Self(socket))
    }

    /// Sends a change for each event that matters, for ever. A change that waits in the queue
    /// covers later events, too.
    pub async fn tell(self, changes: mpsc::Sender<Change>) {
        let mut datagram = Vec::with_capacity(1 << 16);
        loop {
            datagram.clear();
            let change = match self.0.recv(&mut datagram).await {
                Ok(()) if matters(&datagram) => Change::Kernel,
                Ok(()) => continue,
                Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {
                    Change::Lost
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::error!(%error, "the kernel's changes cannot be read; only the regular full look is left");
                    return;
                }
            };
            let _ = changes.try_send(change);
        }
    }
}

/// Returns true if the events of a datagram can change the report. Routes of routing daemons
/// cannot: nmstate does not read them, and on a router they change all the time.
fn matters(datagram: &[u8]) -> bool {
    let mut rest = datagram;
    while let Ok(message) = NetlinkBuffer::new_checked(rest) {
        match message.message_type() {
            RTM_NEWROUTE | RTM_DELROUTE => {
                let route = RouteHeader::parse(message.payload());
                if !route.is_ok_and(|route| is_of_a_daemon(route.protocol)) {
                    return true;
                }
            }
            _ => return true,
        }
        rest = rest
            .get((message.length() as usize).next_multiple_of(4)..)
            .unwrap_or_default();
    }
    false
}

fn is_of_a_daemon(protocol: RouteProtocol) -> bool {
    matches!(
        protocol,
        RouteProtocol::Bgp
            | RouteProtocol::Bird
            | RouteProtocol::Zebra
            | RouteProtocol::Ospf
            | RouteProtocol::Isis
            | RouteProtocol::Rip
            | RouteProtocol::Eigrp
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use weft_testenv::namespace::{in_namespace, ip};

    #[test]
    fn a_buffer_that_was_too_small_is_told() {
        in_namespace(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let events = Events::open().unwrap();
                // The kernel makes it as small as it can, some kilobytes.
                events.0.socket_ref().set_rx_buf_sz(1).unwrap();
                ip("link add eth1 type veth peer name eth2");
                for mtu in 1400..1450 {
                    ip(&format!("link set eth1 mtu {mtu}"));
                }
                let (tell, mut told) = mpsc::channel(1000);
                tokio::spawn(events.tell(tell));
                let mut seen = Vec::new();
                while !seen.contains(&Change::Lost) {
                    seen.push(told.recv().await.unwrap());
                }
                // And what comes afterwards is heard again.
                while told.try_recv().is_ok() {}
                ip("link set eth1 mtu 1500");
                assert_eq!(told.recv().await, Some(Change::Kernel), "after {seen:?}");
            });
        });
    }
}
