//! Peers that a host must reach over its own network, and the requests to them.

mod dns;
mod gateway;
mod reach;

use std::{error::Error, fmt, io, net::IpAddr, time::Duration};

use nmstate::NetworkState;
use serde::{Deserialize, Serialize};
use weft_api::node_network::Probe;

/// How long one try may take. A lost packet must not cost the whole window.
pub(crate) const TRY: Duration = Duration::from_secs(4);
/// The name that is looked up to see whether name servers answer, unless set otherwise: as in
/// kubernetes-nmstate.
pub const DNS_HOST: &str = "root-servers.net";

/// Why a peer has not answered, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silence {
    /// The host has no way to the peer, so waiting does not help: it has no route, no default
    /// gateway or no name server.
    NoWay(String),
    /// It was asked, or could not be asked for another reason.
    NoAnswer(String),
}

impl Silence {
    /// The silence of a peer because of this error, in these words.
    fn of(error: &(dyn Error + 'static), words: String) -> Self {
        let mut cause = Some(error);
        while let Some(error) = cause {
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            if kind == Some(io::ErrorKind::NetworkUnreachable) {
                return Self::NoWay(words);
            }
            cause = error.source();
        }
        Self::NoAnswer(words)
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::NoWay(words) | Self::NoAnswer(words)) = self;
        formatter.write_str(words)
    }
}

impl From<String> for Silence {
    fn from(words: String) -> Self {
        Self::NoAnswer(words)
    }
}

/// How a gateway answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Means {
    /// An echo request of ICMP.
    Icmp,
    /// ARP or neighbour discovery. Many gateways answer nothing else. The answer proves that the link
    /// works. It does not prove that packets come back: a host with an address of a wrong subnet gets
    /// this answer as well.
    Neighbour,
}

/// A peer that must answer over the host's network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Peer {
    /// The next hop of the default route answers.
    Gateway(Means),
    /// One of the node's name servers knows a name.
    NameServers {
        /// The name to look up.
        host: String,
    },
    /// A host answers ICMP.
    Icmp {
        /// Its address or name.
        host: String,
    },
    /// A TCP port accepts connections.
    Tcp {
        /// The address or name of its host.
        host: String,
        /// The number of the port.
        port: u16,
    },
    /// A web address answers with a status below 400.
    Http {
        /// The URL to request.
        url: String,
    },
    /// A name is known.
    Dns {
        /// The name to look up.
        name: String,
        /// The name server that is asked. Else those of the node.
        server: Option<IpAddr>,
    },
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway(Means::Icmp) => write!(formatter, "default gateway"),
            Self::Gateway(Means::Neighbour) => {
                write!(formatter, "link address of the default gateway")
            }
            Self::NameServers { host } => write!(formatter, "DNS of {host}"),
            Self::Icmp { host } => write!(formatter, "icmp {host}"),
            Self::Tcp { host, port } => write!(formatter, "tcp {host}:{port}"),
            Self::Http { url } => write!(formatter, "http {url}"),
            Self::Dns {
                name,
                server: Some(server),
            } => write!(formatter, "dns {name} at {server}"),
            Self::Dns { name, server: None } => write!(formatter, "dns {name}"),
        }
    }
}

impl Peer {
    /// Reads a policy's probe. `None` if it holds nothing known, which validation refuses before.
    pub(crate) fn of(probe: &Probe) -> Option<Self> {
        match probe {
            Probe {
                icmp: Some(icmp), ..
            } => Some(Self::Icmp {
                host: icmp.host.clone(),
            }),
            Probe { tcp: Some(tcp), .. } => Some(Self::Tcp {
                host: tcp.host.clone(),
                port: tcp.port.try_into().ok()?,
            }),
            Probe {
                http: Some(http), ..
            } => Some(Self::Http {
                url: http.url.clone(),
            }),
            Probe { dns: Some(dns), .. } => {
                let server = dns.server.as_deref().map(str::parse).transpose().ok()?;
                Some(Self::Dns {
                    name: dns.name.clone(),
                    server,
                })
            }
            _ => None,
        }
    }

    /// Reports whether the name servers of the node are asked.
    pub(crate) fn asks_the_nodes_servers(&self) -> bool {
        matches!(
            self,
            Self::NameServers { .. } | Self::Dns { server: None, .. }
        )
    }

    /// Asks once, in the network namespace of the process. `servers` are the name servers of the
    /// node.
    ///
    /// # Errors
    /// The failure in words.
    pub async fn ask(&self, servers: &[String]) -> Result<(), Silence> {
        match self {
            Self::Gateway(means) => gateway::answers(*means).await,
            Self::NameServers { host } => dns::any_knows(&dns::Server::all(servers), host).await,
            Self::Dns {
                name,
                server: Some(server),
            } => dns::any_knows(&[dns::Server::at(*server)], name).await,
            Self::Dns { name, server: None } => {
                dns::any_knows(&dns::Server::all(servers), name).await
            }
            Self::Icmp { host } => reach::icmp(host).await,
            Self::Tcp { host, port } => reach::tcp(host, *port).await,
            Self::Http { url } => reach::http(url).await,
        }
    }
}

/// An error with what caused it: the outermost alone often says no more than that something went
/// wrong.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// The name servers that a node uses, in its own words.
pub(crate) fn name_servers(state: &NetworkState) -> Vec<String> {
    let running = state
        .dns
        .as_ref()
        .and_then(|dns| dns.running.as_ref())
        .and_then(|running| running.server.clone());
    running.unwrap_or_default()
}
