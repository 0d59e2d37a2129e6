//! The connection to the API server.
//!
//! kube's own client leaves Nagle's algorithm on. Each connection is new to TLS once, and there it
//! meets the API server's delayed acknowledgement: the first request waits 40 ms. An installation
//! opens a dozen connections at once, so Weft puts the same parts together itself, with
//! `TCP_NODELAY`.

use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client as Http, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{ClientBuilder, ConfigExt},
};
use tower::{BoxError, ServiceBuilder};

use crate::api_server::fence::{self, Fence};

/// How long a connection may lie idle and be used again. The API server closes it after 90 s, which
/// is hyper's own limit too: a request sent just then would be lost.
const IDLE: Duration = Duration::from_secs(60);

/// A client whose writes pass only while the fence is open.
///
/// # Errors
/// The configuration's certificates, tokens or headers cannot be used, or it asks for a proxy.
pub fn connect(config: &Config, fence: &Fence) -> kube::Result<Client> {
    if config.proxy_url.is_some() {
        // Proxies are left to kube.
        return Ok(ClientBuilder::try_from(config.clone())?
            .with_layer(fence)
            .build());
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
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
            .build(),
    )
}
