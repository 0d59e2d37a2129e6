//! Name servers, asked one by one over UDP: the system's resolver would mix in its own
//! configuration, caches and search domains.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use rustix::net::{AddressFamily, SocketType, netdevice::name_to_index, socket};
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use tokio::{net::UdpSocket, time::timeout};

use super::{DNS_HOST, Silence};

/// How long a server may take to answer a question, before it is asked again: datagrams get lost.
const ANSWER: Duration = Duration::from_millis(1500);
/// How often a server is asked. Together less than a probe may take.
const TRIES: usize = 2;

/// The address of a name server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Server(SocketAddr);

impl Server {
    pub(super) fn at(address: IpAddr) -> Self {
        Self((address, 53).into())
    }

    /// Those of them that are addresses on this host.
    pub(super) fn all(servers: &[String]) -> Vec<Self> {
        servers
            .iter()
            .filter_map(|server| Self::parse(server))
            .collect()
    }

    /// `192.0.2.1`, `2001:db8::1`, or with its interface `fe80::1%eth1`.
    fn parse(text: &str) -> Option<Self> {
        match text.split_once('%') {
            None => Some(Self::at(text.parse().ok()?)),
            Some((address, interface)) => {
                let any = socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?;
                let scope = name_to_index(&any, interface).ok()?;
                Some(Self(
                    SocketAddrV6::new(address.parse().ok()?, 53, 0, scope).into(),
                ))
            }
        }
    }
}

/// Succeeds if one of the servers knows the name. Asks all of them at once.
pub(super) async fn any_knows(servers: &[Server], name: &str) -> Result<(), Silence> {
    // The default name has name servers, but no address.
    let types: &[TYPE] = if name == DNS_HOST {
        &[TYPE::NS]
    } else {
        &[TYPE::A, TYPE::AAAA]
    };
    let asked = servers
        .iter()
        .flat_map(|server| types.iter().map(move |kind| knows(*server, name, *kind)));
    let mut asked: FuturesUnordered<_> = asked.collect();
    let mut silence = Silence::NoWay("the node has no name server".to_owned());
    while let Some(answer) = asked.next().await {
        match answer {
            Ok(()) => return Ok(()),
            // A server that may answer later counts for more.
            Err(Silence::NoWay(_)) if matches!(silence, Silence::NoAnswer(_)) => {}
            Err(error) => silence = error,
        }
    }
    Err(silence)
}

async fn knows(Server(server): Server, name: &str, kind: TYPE) -> Result<(), Silence> {
    let at = |what: &str| format!("name server {}: {what}", server.ip());
    let failed = |error: io::Error| Silence::of(&error, at(&error.to_string()));
    let id = std::process::id() as u16;
    let mut query = Packet::new_query(id);
    query.set_flags(PacketFlag::RECURSION_DESIRED);
    let question = Name::new(name).map_err(|error| format!("{name} is no name: {error}"))?;
    query.questions.push(Question::new(
        question,
        QTYPE::TYPE(kind),
        QCLASS::CLASS(CLASS::IN),
        false,
    ));
    let query = query
        .build_bytes_vec()
        .map_err(|error| at(&error.to_string()))?;

    let any: SocketAddr = if server.is_ipv4() {
        (Ipv4Addr::UNSPECIFIED, 0).into()
    } else {
        (Ipv6Addr::UNSPECIFIED, 0).into()
    };
    let socket = UdpSocket::bind(any)
        .await
        .map_err(|error| at(&error.to_string()))?;
    // A connected socket takes datagrams of the server only, and hears that there is none.
    socket.connect(server).await.map_err(failed)?;
    let mut answer = vec![0; 4096];
    for _ in 0..TRIES {
        socket.send(&query).await.map_err(failed)?;
        match timeout(ANSWER, socket.recv(&mut answer)).await {
            Ok(Ok(length)) => {
                return is_known(&answer[..length], id, name)
                    .map_err(|what| Silence::NoAnswer(at(&what)));
            }
            Ok(Err(error)) => return Err(failed(error)),
            Err(_) => {}
        }
    }
    Err(Silence::NoAnswer(at("no answer")))
}

fn is_known(answer: &[u8], id: u16, name: &str) -> Result<(), String> {
    let answer = Packet::parse(answer).map_err(|error| format!("no answer of DNS: {error}"))?;
    if answer.id() != id || !answer.has_flags(PacketFlag::RESPONSE) {
        return Err("the answer is to another question".to_owned());
    }
    match answer.rcode() {
        // An answer that does not fit a datagram counts as an answer, too.
        RCODE::NoError
            if !answer.answers.is_empty() || answer.has_flags(PacketFlag::TRUNCATION) =>
        {
            Ok(())
        }
        RCODE::NoError => Err(format!("{name} has no address")),
        code => Err(format!("{name}: {code:?}")),
    }
}

#[cfg(test)]
mod tests {
    use nmstate::NetworkState;
    use simple_dns::{
        ResourceRecord,
        rdata::{A, RData},
    };

    use super::*;

    /// Starts a name server that knows only `here.example.`.
    async fn name_server() -> Server {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let server = Server(socket.local_addr().unwrap());
        tokio::spawn(async move {
            let mut question = vec![0; 512];
            while let Ok((length, peer)) = socket.recv_from(&mut question).await {
                let mut answer = Packet::parse(&question[..length]).unwrap().into_reply();
                let asked = answer.questions[0].clone();
                if asked.qname.to_string() != "here.example" {
                    *answer.rcode_mut() = RCODE::NameError;
                } else if asked.qtype == QTYPE::TYPE(TYPE::A) {
                    let data = RData::A(A {
                        address: Ipv4Addr::LOCALHOST.into(),
                    });
                    answer
                        .answers
                        .push(ResourceRecord::new(asked.qname, CLASS::IN, 1, data));
                }
                socket
                    .send_to(&answer.build_bytes_vec().unwrap(), peer)
                    .await
                    .unwrap();
            }
        });
        server
    }

    #[tokio::test]
    async fn one_server_that_knows_the_name_is_enough() {
        let dead = {
            let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            Server(socket.local_addr().unwrap())
        };
        let alive = name_server().await;
        any_knows(&[dead, alive], "here.example").await.unwrap();
        assert!(
            any_knows(&[dead], "here.example")
                .await
                .unwrap_err()
                .to_string()
                .contains("refused")
        );
        assert!(
            any_knows(&[alive], "nowhere.example")
                .await
                .unwrap_err()
                .to_string()
                .contains("NameError")
        );
        assert_eq!(
            any_knows(&[], "here.example").await.unwrap_err(),
            Silence::NoWay("the node has no name server".to_owned())
        );
    }

    #[test]
    fn servers_are_those_of_the_node() {
        let state =
            NetworkState::new_from_yaml("dns-resolver: {running: {server: [192.0.2.1, '2001:db8::1', 'fe80::1%lo', 'fe80::1%nowhere']}}")
                .unwrap();
        let found = Server::all(&crate::host::peer::name_servers(&state));
        assert_eq!(
            found[..2],
            [
                Server::at("192.0.2.1".parse().unwrap()),
                Server::at("2001:db8::1".parse().unwrap())
            ]
        );
        assert_eq!(
            found[2],
            Server(SocketAddrV6::new("fe80::1".parse().unwrap(), 53, 0, 1).into())
        );
        assert_eq!(found.len(), 3);
    }
}
