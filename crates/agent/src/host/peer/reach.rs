//! Hosts, ports and web addresses.

use std::{net::IpAddr, time::Duration};

use http::{Request, Uri};
use kube::{Client, Config, client::Body};
use surge_ping::{
    Client as Icmp, Config as IcmpConfig, ICMP, IcmpPacket, PingIdentifier, PingSequence,
};
use tokio::net::{TcpStream, lookup_host};

use super::{Silence, TRY, causes};

/// The type of an echo reply: RFC 792.
const ECHO_REPLY: u8 = 0;
/// The type of an echo reply over IPv6: RFC 4443, section 4.2.
const ECHO_REPLY_V6: u8 = 129;

/// Sends one echo request and waits for the reply. `device` is the index and name of the interface
/// that it must leave by.
pub(super) async fn ping(
    address: IpAddr,
    device: Option<(u32, &str)>,
    limit: Duration,
) -> Result<(), Silence> {
    let mut config = IcmpConfig::builder().kind(if address.is_ipv4() {
        ICMP::V4
    } else {
        ICMP::V6
    });
    if let Some((_, name)) = device {
        config = config.interface(name);
    }
    let client = Icmp::new(&config.build()).map_err(|error| format!("no ICMP socket: {error}"))?;
    // A raw socket also gets the late reply to an earlier request, so each has an identifier of its
    // own.
    let identifier = PingIdentifier(rand::random());
    let mut pinger = client.pinger(address, identifier).await;
    if let Some((index, _)) = device {
        pinger.scope_id(index);
    }
    pinger.timeout(limit);
    let (packet, _) = pinger
        .ping(PingSequence(0), b"weft")
        .await
        .map_err(|error| Silence::of(&error, format!("{address}: {error}")))?;
    expect_reply(&packet).map_err(|error| Silence::NoAnswer(format!("{address}: {error}")))
}

/// Accepts an echo reply, and refuses an ICMP error. A raw socket gets both: a router sends
/// "destination unreachable", and so does the kernel of this host when ARP gets no answer.
fn expect_reply(packet: &IcmpPacket) -> Result<(), String> {
    let (reply, kind, code, source) = match packet {
        IcmpPacket::V4(packet) => (
            ECHO_REPLY,
            packet.get_icmp_type().0,
            packet.get_icmp_code().0,
            IpAddr::from(packet.get_source()),
        ),
        IcmpPacket::V6(packet) => (
            ECHO_REPLY_V6,
            packet.get_icmpv6_type().0,
            packet.get_icmpv6_code().0,
            IpAddr::from(packet.get_source()),
        ),
    };
    if kind == reply {
        return Ok(());
    }
    Err(format!(
        "{source} sent an ICMP error of type {kind} and code {code} instead of an echo reply"
    ))
}

pub(super) async fn icmp(host: &str) -> Result<(), Silence> {
    let mut addresses = lookup_host((host, 0))
        .await
        .map_err(|error| format!("{host}: {error}"))?;
    let address = addresses
        .next()
        .ok_or_else(|| format!("{host} has no address"))?;
    ping(address.ip(), None, TRY / 2).await
}

pub(super) async fn tcp(host: &str, port: u16) -> Result<(), Silence> {
    TcpStream::connect((host, port))
        .await
        .map(|_| ())
        .map_err(|error| Silence::of(&error, format!("{host}:{port}: {error}")))
}

/// The client of the API server is an HTTP client with TLS like any other. The identity of the
/// server does not matter here, so certificates do not.
pub(super) async fn http(url: &str) -> Result<(), Silence> {
    let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
    let path = uri
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    let mut config = Config::new(uri);
    config.accept_invalid_certs = true;
    config.default_retry = false;
    config.cluster_url = {
        let mut parts = config.cluster_url.into_parts();
        parts.path_and_query = None;
        // Without a path there is no scheme either, says the type.
        parts
            .path_and_query
            .get_or_insert(http::uri::PathAndQuery::from_static("/"));
        Uri::from_parts(parts).map_err(|error| format!("{url}: {error}"))?
    };
    let client = Client::try_from(config).map_err(|error| format!("{url}: {}", causes(&error)))?;
    let request = Request::get(path)
        .body(Body::empty())
        .map_err(|error| format!("{url}: {error}"))?;
    let response = client
        .send(request)
        .await
        .map_err(|error| Silence::of(&error, format!("{url}: {}", causes(&error))))?;
    if response.status().as_u16() < 400 {
        Ok(())
    } else {
        Err(Silence::NoAnswer(format!("{url}: {}", response.status())))
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpSocket},
    };

    use super::*;

    async fn web_server(answer: &'static str) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 1024];
                let read = stream.read(&mut request).await.unwrap();
                assert!(
                    request[..read].starts_with(b"GET /health?deep=1 "),
                    "{}",
                    String::from_utf8_lossy(&request[..read])
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        port
    }

    #[tokio::test]
    async fn a_web_address_must_answer_below_400() {
        let good =
            web_server("HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n").await;
        http(&format!("http://127.0.0.1:{good}/health?deep=1"))
            .await
            .unwrap();
        let bad = web_server("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n").await;
        let error = http(&format!("http://127.0.0.1:{bad}/health?deep=1"))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("503"), "{error}");
    }

    #[tokio::test]
    async fn a_port_must_be_open() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        tcp("127.0.0.1", listener.local_addr().unwrap().port())
            .await
            .unwrap();
        // Held, so that nobody else gets it. Without `listen` nothing is open.
        let held = TcpSocket::new_v4().unwrap();
        held.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = held.local_addr().unwrap().port();
        assert!(
            tcp("127.0.0.1", port)
                .await
                .unwrap_err()
                .to_string()
                .contains("refused")
        );
        assert!(
            http(&format!("http://127.0.0.1:{port}/"))
                .await
                .unwrap_err()
                .to_string()
                .contains("refused")
        );
    }
}
