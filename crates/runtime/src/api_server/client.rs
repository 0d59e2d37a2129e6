//! The connection to the API server.
//!
//! kube's own client leaves Nagle's algorithm on. Each connection is new to TLS once, and there it
//! meets the API server's delayed acknowledgement: the first request waits 40 ms. An installation
//! opens a dozen connections at once, so Weft puts the same parts together itself, with
//! `TCP_NODELAY`.
//!
//! Nor does kube's client notice that packets vanish. A watch on a dead connection looks like one
//! without events, for minutes. A change of a node's network can do that to its agent. So Weft sets
//! `SO_KEEPALIVE` (tcp(7)), as client-go does, and the kernel asks for the other end.

use std::time::Duration;

use http::Uri;
use hyper::rt::{Read, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{
        Client as Http,
        connect::{Connection, HttpConnector},
    },
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{ClientBuilder, ConfigExt},
};
use tower::{BoxError, Service, ServiceBuilder, util::MapResponseLayer};

use crate::api_server::{
    clock,
    fence::{self, Fence},
};

/// How long a connection may lie idle and be used again. The API server closes it after 90 s, which
/// is hyper's own limit too: a request sent just then would be lost.
const IDLE: Duration = Duration::from_secs(60);

/// After so much silence the kernel asks whether the other end is there.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// How long it waits for an answer before it asks again.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// How often it asks before it ends the connection.
const KEEPALIVE_RETRIES: u32 = 3;
/// How long data may be without an acknowledgement before the kernel ends the connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// A client whose writes pass only while the fence is open.
///
/// # Errors
/// The configuration's certificates, tokens or headers cannot be used, or it asks for a proxy.
pub fn connect(config: &Config, fence: &Fence) -> kube::Result<Client> {
    connect_by(config, fence, tcp())
}

/// Returns what makes connections over TCP for a client.
pub fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEPALIVE_RETRIES));
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    tcp
}

/// The same as [`connect`] over the connections of this connector, except where a proxy is set.
///
/// # Errors
/// As [`connect`].
pub fn connect_by<C>(config: &Config, fence: &Fence, connector: C) -> kube::Result<Client>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    if config.proxy_url.is_some() {
        // Proxies are left to kube.
        return Ok(ClientBuilder::try_from(config.clone())?
            .with_layer(fence)
            .with_layer(&MapResponseLayer::new(clock::read))
            .build());
    }
    let mut connector =
        TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let http: Http<_, fence::Guarded<kube::client::Body>> = Http::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .map_request({
            let fence = fence.clone();
            move |request| fence.guard(request)
        })
        .service(http);
    Ok(
        ClientBuilder::new(service, config.default_namespace.clone())
            .with_layer(fence)
            .with_layer(&MapResponseLayer::new(clock::read))
            .build(),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;

    use tokio::net::TcpListener;
    use weft_testenv::wait::wait_until;

    use super::*;

    /// The kernel's timer of a connection between these ports, as /proc/net/tcp has it (proc(5)): 2
    /// for keepalive, 0 for none, and its time in hundredths of a second. Connections to other ports
    /// can have the same local one.
    fn timer(local: u16, remote: u16) -> Option<(String, u64)> {
        let table = fs::read_to_string("/proc/net/tcp").unwrap();
        let line = table.lines().find(|line| {
            let mut addresses = line.split_whitespace().skip(1);
            let mut is_at = |port: u16| {
                let address = addresses.next().unwrap_or_default();
                address.ends_with(&format!(":{port:04X}"))
            };
            is_at(local) && is_at(remote)
        })?;
        let (kind, time) = line.split_whitespace().nth(5)?.split_once(':')?;
        Some((kind.to_owned(), u64::from_str_radix(time, 16).ok()?))
    }

    #[tokio::test]
    async fn the_kernel_asks_whether_a_silent_api_server_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let client = connect(&config, &Fence::default()).unwrap();
        let asking = tokio::spawn(async move { client.apiserver_version().await });
        let (mut connection, peer) = listener.accept().await.unwrap();
        // The request is acknowledged with the answer that never comes.
        tokio::io::AsyncReadExt::read(&mut connection, &mut [0; 1024])
            .await
            .unwrap();
        wait_until("the keepalive timer runs", async || {
            match timer(peer.port(), address.port()) {
                Some((kind, time)) if kind == "02" && time <= KEEPALIVE.as_secs() * 100 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        asking.abort();
    }
}
