//! Two questions to the kernel, by rtnetlink(7): which default routes there are, and what a link is
//! like.
//!
//! Of all other messages and attributes nothing is read: a kernel that is newer than the library
//! may say things in them that it does not understand, and that must not matter.

use std::{ffi::CStr, io};

use netlink_packet_core::{
    DecodeError, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable, NlasIterator, Parseable,
};
use netlink_packet_route::{
    AddressFamily,
    route::{RouteAttribute, RouteHeader, RouteMessage, RouteType},
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

/// Message types and attributes of `linux/rtnetlink.h` and `linux/if_link.h`.
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWROUTE: u16 = 24;
const RTM_GETROUTE: u16 = 26;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
/// The sizes of `struct rtmsg` and `struct ifinfomsg`.
const RTMSG: usize = 12;
const IFINFOMSG: usize = 16;

/// Why the kernel could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The socket.
    #[error("the kernel's routes and links cannot be read (rtnetlink): {0}")]
    Socket(#[from] io::Error),
    /// An answer that the library does not understand.
    #[error("the kernel's answer about routes and links is not understood: {0}")]
    Decode(#[from] DecodeError),
    /// Routes came or went while they were listed: the list may be of no moment at all.
    #[error("routes changed while they were listed")]
    Interrupted,
}

/// A network link of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The name of the link, for example `eth0`.
    pub name: String,
    /// In bytes. 0 if it has none.
    pub mtu: u32,
}

/// The kernel, in the network namespace that the calling thread is in.
pub struct Rtnetlink {
    socket: Socket,
}

impl Rtnetlink {
    /// Opens a socket.
    pub fn open() -> Result<Self, Error> {
        let socket = Socket::new(NETLINK_ROUTE)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket })
    }

    /// The default routes of IPv4 and IPv6 in the main table, those aside that lead nowhere
    /// (`unreachable` and the like).
    pub fn default_routes(&mut self) -> Result<Vec<RouteMessage>, Error> {
        let mut routes = Vec::new();
        self.ask(Question::Routes, |answer| {
            if let Answer::DefaultRoute(route) = answer {
                routes.push(*route);
            }
        })?;
        routes.retain(|route| table(route) == u32::from(RouteHeader::RT_TABLE_MAIN));
        Ok(routes)
    }

    /// The link of this index. `None` if it is gone.
    pub fn link(&mut self, index: u32) -> Result<Option<Link>, Error> {
        let mut link = None;
        let asked = self.ask(Question::Link(index), |answer| {
            if let Answer::Link(found) = answer {
                link = Some(found);
            }
        });
        match asked {
            Err(Error::Socket(error))
                if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) =>
            {
                Ok(None)
            }
            asked => asked.map(|()| link),
        }
    }

    fn ask(&mut self, question: Question, mut take: impl FnMut(Answer)) -> Result<(), Error> {
        let is_list = question == Question::Routes;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | if is_list { NLM_F_DUMP } else { 0 };
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(question));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut interrupted = false;
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = &*datagram;
            while !rest.is_empty() {
                let message = NetlinkMessage::<Answer>::deserialize(rest)?;
                rest = rest
                    .get((message.header.length as usize).next_multiple_of(4)..)
                    .unwrap_or_default();
                interrupted |= message.header.flags & NLM_F_DUMP_INTR != 0;
                match message.payload {
                    NetlinkPayload::Done(_) if interrupted => return Err(Error::Interrupted),
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(error.to_io().into());
                    }
                    NetlinkPayload::InnerMessage(answer) => take(answer),
                    _ => {}
                }
            }
            if !is_list {
                return Ok(());
            }
        }
    }
}

/// Numbers of tables above 255 are in an attribute only.
fn table(route: &RouteMessage) -> u32 {
    let attribute = route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Table(table) => Some(*table),
            _ => None,
        });
    attribute.unwrap_or(route.header.table.into())
}

#[derive(Debug, PartialEq)]
enum Question {
    Routes,
    Link(u32),
}

impl NetlinkSerializable for Question {
    fn message_type(&self) -> u16 {
        match self {
            Self::Routes => RTM_GETROUTE,
            Self::Link(_) => RTM_GETLINK,
        }
    }

    fn buffer_len(&self) -> usize {
        match self {
            Self::Routes => RTMSG,
            Self::Link(_) => IFINFOMSG,
        }
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.fill(0);
        if let Self::Link(index) = self {
            // `ifi_index`, after family, padding and type.
            buffer[4..8].copy_from_slice(&index.to_ne_bytes());
        }
    }
}

#[derive(Debug)]
enum Answer {
    DefaultRoute(Box<RouteMessage>),
    Link(Link),
    Other,
}

impl NetlinkDeserializable for Answer {
    type Error = DecodeError;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        match header.message_type {
            RTM_NEWROUTE => {
                let route = RouteHeader::parse(payload)?;
                let counts = matches!(
                    route.address_family,
                    AddressFamily::Inet | AddressFamily::Inet6
                ) && route.kind == RouteType::Unicast
                    && route.destination_prefix_length == 0;
                if counts {
                    Ok(Self::DefaultRoute(Box::new(RouteMessage::parse(payload)?)))
                } else {
                    Ok(Self::Other)
                }
            }
            RTM_NEWLINK => link(payload).map(Self::Link),
            _ => Ok(Self::Other),
        }
    }
}

fn link(payload: &[u8]) -> Result<Link, DecodeError> {
    let mut link = Link {
        name: String::new(),
        mtu: 0,
    };
    for attribute in NlasIterator::new(payload.get(IFINFOMSG..).unwrap_or_default()) {
        let attribute = attribute?;
        let value = attribute.value();
        match attribute.kind() {
            IFLA_IFNAME => {
                link.name = CStr::from_bytes_until_nul(value)
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default()
            }
            IFLA_MTU => link.mtu = value.try_into().map(u32::from_ne_bytes).unwrap_or_default(),
            _ => {}
        }
    }
    Ok(link)
}
