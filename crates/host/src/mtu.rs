//! The MTU that packets of this host may have, wherever they leave it: the smallest of all its
//! default routes.
//!
//! All address families count, and every next hop of a multipath route. Only the main table is
//! looked at, as the operator that Weft replaces does: other tables belong to VPNs, VRFs and
//! policies that the pod network does not follow.

use std::{fmt, net::IpAddr};

use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteVia,
};

use crate::rtnetlink::{Error, Rtnetlink};

/// How often the kernel is asked anew because routes or links changed meanwhile.
const ATTEMPTS: usize = 20;

/// Why the MTU of the host cannot be known.
#[derive(Debug, thiserror::Error)]
pub enum MtuError {
    /// There is no default route, neither of IPv4 nor of IPv6.
    #[error("the host has no default route")]
    NoDefaultRoute,
    /// Every link has the MTU 0: there are such, for example some tunnels.
    #[error("no link with a default route has an MTU")]
    NoMtu,
    /// It did not become quiet long enough to be read.
    #[error("the host's default routes keep changing")]
    Unstable,
    /// The kernel could not be asked.
    #[error(transparent)]
    Kernel(Error),
}

/// The smallest MTU of the host's default routes, and the route that it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultMtu {
    /// The MTU in bytes.
    pub mtu: u32,
    /// As people write it, for example `default via 192.0.2.1 dev eth0`.
    pub route: String,
}

/// Asks the kernel, in the network namespace that the calling thread is in.
///
/// # Errors
/// There is no default route with an MTU, or the kernel cannot be asked.
pub fn default_mtu() -> Result<DefaultMtu, MtuError> {
    let mut kernel = Rtnetlink::open().map_err(MtuError::Kernel)?;
    for _ in 0..ATTEMPTS {
        match look(&mut kernel) {
            Ok(Some(found)) => return found,
            // Something went while it was looked at.
            Ok(None) | Err(Error::Interrupted) => {}
            Err(error) => return Err(MtuError::Kernel(error)),
        }
    }
    Err(MtuError::Unstable)
}

/// `Ok(None)`: a link has gone since its route was listed, and its routes with it. There may be
/// others now.
fn look(kernel: &mut Rtnetlink) -> Result<Option<Result<DefaultMtu, MtuError>>, Error> {
    let hops: Vec<_> = kernel.default_routes()?.iter().flat_map(hops).collect();
    let mut smallest: Option<DefaultMtu> = None;
    for hop in &hops {
        let Some(link) = kernel.link(hop.link)? else {
            return Ok(None);
        };
        let Some(mtu) = [Some(link.mtu), hop.mtu]
            .into_iter()
            .flatten()
            .filter(|mtu| *mtu > 0)
            .min()
        else {
            continue;
        };
        if smallest.as_ref().is_none_or(|smallest| mtu < smallest.mtu) {
            smallest = Some(DefaultMtu {
                mtu,
                route: hop.text(&link.name),
            });
        }
    }
    Ok(Some(smallest.ok_or(if hops.is_empty() {
        MtuError::NoDefaultRoute
    } else {
        MtuError::NoMtu
    })))
}

/// A way that packets take: a default route, or one of its next hops.
#[derive(Debug, PartialEq, Eq)]
struct Hop {
    gateway: Option<IpAddr>,
    /// Index of the link.
    link: u32,
    /// The route's own MTU (`ip route … mtu 1400`; IPv6 routers may announce one, RFC 4861 4.6.4).
    mtu: Option<u32>,
}

impl Hop {
    fn text(&self, link: &str) -> String {
        let via = self
            .gateway
            .map(|gateway| format!("via {gateway} "))
            .unwrap_or_default();
        let mtu = self
            .mtu
            .map(|mtu| format!(" mtu {mtu}"))
            .unwrap_or_default();
        format!("default {via}dev {link}{mtu}")
    }
}

impl fmt::Display for DefaultMtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.mtu, self.route)
    }
}

fn hops(route: &RouteMessage) -> Vec<Hop> {
    let mtu = route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Metrics(metrics) => metrics.iter().find_map(|metric| match metric {
                RouteMetric::Mtu(mtu) => Some(*mtu),
                _ => None,
            }),
            _ => None,
        });
    let single = route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Oif(link) => Some(Hop {
                gateway: gateway(&route.attributes),
                link: *link,
                mtu,
            }),
            _ => None,
        });
    let several = route
        .attributes
        .iter()
        .filter_map(|attribute| match attribute {
            RouteAttribute::MultiPath(hops) => Some(hops),
            _ => None,
        });
    let several = several.flatten().map(|hop| Hop {
        gateway: gateway(&hop.attributes),
        link: hop.interface_index,
        mtu,
    });
    single.into_iter().chain(several).collect()
}

/// The address of the next hop. (`Via`: of the other family, RFC 5549.)
fn gateway(attributes: &[RouteAttribute]) -> Option<IpAddr> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(address))
        | RouteAttribute::Via(RouteVia::Inet(address)) => Some((*address).into()),
        RouteAttribute::Gateway(RouteAddress::Inet6(address))
        | RouteAttribute::Via(RouteVia::Inet6(address)) => Some((*address).into()),
        _ => None,
    })
}
