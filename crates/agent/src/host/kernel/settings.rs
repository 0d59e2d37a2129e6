//! Settings of links that nmstate's kernel-only mode leaves out or carries out too roughly: MTU,
//! the state down, and ports. nmstate sets a link down for a new controller, and the kernel drops
//! all routes through it then.

use std::collections::BTreeMap;

use rtnetlink::LinkUnspec;

use super::{
    super::{
        HostError,
        links::{Links, Port},
    },
    snapshot::Link,
};

/// Sets the MTU of links, by index. A VLAN cannot have more than its base, so bases grow first and
/// shrink last.
pub async fn set_mtus(
    kernel: &Links,
    links: &BTreeMap<u32, Link>,
    wanted: &BTreeMap<u32, u32>,
) -> Result<(), HostError> {
    let now = |index: &u32| links.get(index).map_or(0, |link| link.mtu);
    let mut grow: Vec<u32> = wanted.keys().copied().collect();
    grow.sort_by_key(|index| height(links, *index));
    let (grow, mut shrink): (Vec<u32>, Vec<u32>) = grow
        .into_iter()
        .partition(|index| wanted[index] > now(index));
    shrink.reverse();
    for index in grow.into_iter().chain(shrink) {
        if wanted[&index] != now(&index) {
            let set = LinkUnspec::new_with_index(index).mtu(wanted[&index]);
            kernel
                .handle()
                .link()
                .change(set.build())
                .execute()
                .await
                .map_err(|error| {
                    about(links, index, &format!("the MTU {}", wanted[&index]), &error)
                })?;
        }
    }
    Ok(())
}

/// The number of links that a link is built on.
pub fn height(links: &BTreeMap<u32, Link>, index: u32) -> usize {
    let mut bases = std::iter::successors(Some(index), |index| links.get(index)?.base);
    // A loop is impossible, and must not become one here.
    bases.by_ref().take(links.len() + 1).count()
}

/// Makes a link a port of a bridge with these settings, or of none.
pub async fn set_controller(
    kernel: &Links,
    link: &Link,
    controller: Option<u32>,
) -> Result<(), HostError> {
    match controller {
        Some(bridge) => {
            let port = Port {
                index: link.index,
                name: link.name.clone(),
                bridge: String::new(),
                up: link.up,
                settings: link.port.clone(),
            };
            Ok(kernel.attach(&port, bridge).await?)
        }
        None => {
            let detach = LinkUnspec::new_with_index(link.index).nocontroller();
            Ok(kernel
                .handle()
                .link()
                .change(detach.build())
                .execute()
                .await?)
        }
    }
}

/// Sets a link up or down.
pub async fn set_up(kernel: &Links, index: u32, up: bool) -> Result<(), HostError> {
    let set = LinkUnspec::new_with_index(index);
    let set = if up { set.up() } else { set.down() };
    Ok(kernel.handle().link().change(set.build()).execute().await?)
}

fn about(
    links: &BTreeMap<u32, Link>,
    index: u32,
    what: &str,
    error: &rtnetlink::Error,
) -> HostError {
    let name = links.get(&index).map_or("?", |link| link.name.as_str());
    HostError::Links(format!("{name} does not take {what}: {error}"))
}
