//! Connections that end soon after their own address has left the host.
//!
//! A connection over TCP keeps its own address for ever. When a policy gives the node another
//! address, the kernel still sends from the old one, and only a timeout of half a minute ends
//! that. So each connection is asked, whenever an address of the host is different, whether its own
//! one is still there.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use netlink_sys::{
    AsyncSocket, AsyncSocketExt, SocketAddr as NetlinkAddress, TokioSocket,
    protocols::NETLINK_ROUTE,
};
use rustix::io::Errno;
use tokio::{net::TcpStream, sync::watch};
use tower::Service;

/// `RTNLGRP_IPV4_IFADDR` and `RTNLGRP_IPV6_IFADDR` of `linux/rtnetlink.h`.
const GROUPS: [u32; 2] = [5, 9];

/// An address that moves from one link to another, such as from a card to a bridge, is away for a
/// moment.
const MOVES: Duration = Duration::from_secs(2);

/// Signals that the addresses of the host may be different.
pub type Addresses = watch::Receiver<()>;

/// Follows the addresses in the network namespace of this thread.
///
/// # Errors
/// The kernel opens no socket of rtnetlink(7).
pub fn follow() -> io::Result<Addresses> {
    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    socket.socket_mut().bind(&NetlinkAddress::new(0, 0))?;
    for group in GROUPS {
        socket.socket_ref().add_membership(group)?;
    }
    let (tell, addresses) = watch::channel(());
    tokio::spawn(async move {
        let mut datagram = Vec::with_capacity(1 << 13);
        loop {
            datagram.clear();
            tokio::select! {
                () = tell.closed() => return,
                heard = socket.recv(&mut datagram) => match heard {
                    Ok(()) => {}
                    // Events were lost, and may have been about an address.
                    Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => {
                        tracing::error!(%error, "changes of addresses cannot be read; a connection from an old one ends by a timeout");
                        return;
                    }
                },
            }
            tell.send_replace(());
        }
    });
    Ok(addresses)
}

/// Makes connections that end when their own address is gone.
#[derive(Clone)]
pub struct Connector {
    tcp: HttpConnector,
    addresses: Addresses,
}

impl Connector {
    /// A connector over another one.
    pub fn new(tcp: HttpConnector, addresses: Addresses) -> Self {
        Self { tcp, addresses }
    }
}

impl Service<Uri> for Connector {
    type Response = Bound;
    type Error = <HttpConnector as Service<Uri>>::Error;
    type Future = BoxFuture<'static, Result<Bound, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.tcp.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let mut addresses = self.addresses.clone();
        // A change counts from here on, also one during the connection.
        addresses.mark_unchanged();
        let connected = self.tcp.call(uri);
        async move {
            let stream = connected.await?;
            let own = stream.inner().local_addr().ok();
            Ok(Bound {
                stream,
                gone: gone(own, addresses).boxed(),
            })
        }
        .boxed()
    }
}

/// Ends with the address of a connection once the host does not have it any more.
async fn gone(own: Option<SocketAddr>, mut addresses: Addresses) -> SocketAddr {
    if let Some(own) = own {
        while addresses.changed().await.is_ok() {
            tokio::time::sleep(MOVES).await;
            addresses.mark_unchanged();
            if !is_there(own) {
                return own;
            }
        }
    }
    std::future::pending().await
}

/// Reports whether the host has an address. The kernel gives a socket only addresses of the host
/// (ip(7), `EADDRNOTAVAIL`).
fn is_there(mut address: SocketAddr) -> bool {
    address.set_port(0);
    let bound = UdpSocket::bind(address);
    !bound.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// A connection that knows whether its own address is there.
pub struct Bound {
    stream: TokioIo<TcpStream>,
    gone: BoxFuture<'static, SocketAddr>,
}

impl Bound {
    /// An error if the address is gone.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.gone.poll_unpin(context) {
            Poll::Ready(own) => {
                // A future that has ended must not be asked again.
                self.gone = std::future::ready(own).boxed();
                let why =
                    format!("the connection began at {own}, and the host has this address no more");
                Err(io::Error::new(io::ErrorKind::ConnectionAborted, why))
            }
            Poll::Pending => Ok(()),
        }
    }
}

impl Read for Bound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for Bound {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Connection for Bound {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Instant;

    use futures::StreamExt;
    use kube::Config;
    use tokio::net::TcpListener;
    use weft_runtime::api_server::{client, fence::Fence};
    use weft_testenv::namespace::{in_namespace, ip};

    use super::*;

    /// The API server reads a request, and does not answer any more: the node has another address.
    #[test]
    fn a_request_from_an_address_that_is_gone_ends_at_once() {
        in_namespace(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            ip("link set lo up");
            ip("link add eth1 type veth peer name eth2");
            ip("link set eth1 up");
            ip("addr add 192.0.2.1/24 dev eth1");
            ip("addr add 198.51.100.1/24 dev eth1");
            ip("addr add 203.0.113.1/32 dev lo");
            // Else the kernel answers an address of its own from the same one.
            ip("route replace local 203.0.113.1 dev lo table local src 192.0.2.1");
            runtime.block_on(async {
                let listener = TcpListener::bind("203.0.113.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                let config = Config::new(format!("http://{address}").parse().unwrap());
                let connector = Connector::new(client::tcp(), follow().unwrap());
                let client = client::connect_by(&config, &Fence::open(), connector).unwrap();
                let mut asked = tokio::spawn(async move {
                    let request = http::Request::get("/version").body(Vec::new()).unwrap();
                    client.request_text(request).await
                });
                let (_server, own) = listener.accept().await.unwrap();
                let since = Instant::now();
                ip(&format!("addr del {}/24 dev eth1", own.ip()));
                let ended = tokio::time::timeout(Duration::from_secs(15), &mut asked).await;
                let error = ended
                    .expect("it ends long before the kernel's timeout")
                    .unwrap();
                let error = format!("{:?}", error.unwrap_err());
                assert!(error.contains("has this address no more"), "{error}");
                assert!(since.elapsed() >= MOVES, "an address may come back");
            });
        });
    }

    #[test]
    fn other_addresses_and_one_that_comes_back_end_nothing() {
        in_namespace(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            ip("link add eth1 type veth peer name eth2");
            ip("link set eth1 up");
            ip("addr add 192.0.2.1/24 dev eth1");
            runtime.block_on(async {
                let mut addresses = follow().unwrap();
                let own = "192.0.2.1:1".parse().unwrap();
                let mut gone = gone(Some(own), addresses.clone()).into_stream().boxed();
                ip("addr add 192.0.2.2/24 dev eth1");
                ip("addr del 192.0.2.1/24 dev eth1");
                addresses.changed().await.unwrap();
                ip("addr add 192.0.2.1/24 dev eth1");
                let ended = tokio::time::timeout(2 * MOVES, gone.next()).await;
                assert!(ended.is_err(), "{ended:?}");
            });
        });
    }
}
