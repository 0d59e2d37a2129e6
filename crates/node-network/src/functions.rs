//! Virtual functions (SR-IOV) that a desired state makes and uses.
//!
//! nmstate makes the functions first, reads the host again, and judges the rest of the state by that
//! (`NetworkState::apply_with_nm_backend` of `query_apply/net_state.rs`). Nobody knows their names
//! before, so a name that is missing may be one of theirs.

use std::borrow::Cow;

use nmstate::{EthernetInterface, Interface, InterfaceType, NetworkState, SrIovVfConfig};

/// Returns the host as it may be once the functions of a desired state exist. It is the host as it is
/// where nmstate makes none before it judges (`NetworkState::has_sriov_and_missing_eth` of
/// `query_apply/ethernet.rs`).
pub(crate) fn with_functions<'a>(
    desired: &NetworkState,
    host: &'a NetworkState,
) -> Cow<'a, NetworkState> {
    let cards: Vec<(&str, u32)> = desired
        .interfaces
        .iter()
        .filter_map(|wanted| Some((wanted.name(), functions_of(wanted)?)))
        .filter(|(name, _)| functions_can_be_made(host, name))
        .collect();
    let is_there = |state: &NetworkState, name: &str| {
        let mut all = state.interfaces.iter();
        all.any(|interface| interface.name() == name)
    };
    let mut missing = desired.interfaces.iter().filter(|wanted| {
        let kind = wanted.iface_type();
        wanted.is_up()
            && matches!(kind, InterfaceType::Ethernet | InterfaceType::Unknown)
            && !is_there(host, wanted.name())
    });
    if cards.is_empty() || missing.next().is_none() {
        return Cow::Borrowed(host);
    }
    let mut extended = host.clone();
    let ports = desired.interfaces.iter();
    let ports = ports.flat_map(|wanted| wanted.ports().unwrap_or_default());
    let wanted = desired.interfaces.iter().filter(|wanted| {
        let kind = wanted.iface_type();
        matches!(kind, InterfaceType::Ethernet | InterfaceType::Unknown)
    });
    for name in wanted.map(Interface::name).chain(ports) {
        match reference(name) {
            Some((card, id)) => {
                let makes = |(other, count): &(&str, u32)| *other == card && id < *count;
                if cards.iter().any(makes) {
                    add_function(&mut extended, card, id);
                }
            }
            None if is_there(&extended, name) || is_made(desired, name) => {}
            None => add_card(&mut extended, name),
        }
    }
    Cow::Owned(extended)
}

/// How many functions a desired card asks for. `None` if that is not a number above zero.
fn functions_of(wanted: &Interface) -> Option<u32> {
    let Interface::Ethernet(card) = wanted else {
        return None;
    };
    let settings = card.ethernet.as_ref()?.sr_iov.as_ref()?;
    settings.total_vfs.filter(|count| *count > 0)
}

fn functions_can_be_made(host: &NetworkState, name: &str) -> bool {
    let card = host.interfaces.get_iface(name, InterfaceType::Ethernet);
    matches!(card, Some(Interface::Ethernet(_)))
}

/// Reports whether the state itself makes an interface of this name that is no card.
fn is_made(desired: &NetworkState, name: &str) -> bool {
    desired.interfaces.iter().any(|wanted| {
        let is_card = matches!(
            wanted.iface_type(),
            InterfaceType::Ethernet | InterfaceType::Unknown
        );
        wanted.name() == name && !is_card
    })
}

/// The card and the number of a function in a name such as `sriov:eth1:0`.
fn reference(name: &str) -> Option<(&str, u32)> {
    let (card, id) = name.strip_prefix("sriov:")?.split_once(':')?;
    Some((card, id.parse().ok()?))
}

/// Adds a function with the name that Linux usually gives it.
fn add_function(state: &mut NetworkState, card: &str, id: u32) {
    let name = format!("{card}v{id}");
    let found = state
        .interfaces
        .iter_mut()
        .find(|interface| interface.name() == card);
    let Some(Interface::Ethernet(card)) = found else {
        return;
    };
    let settings = card.ethernet.get_or_insert_default();
    let settings = settings.sr_iov.get_or_insert_default();
    let functions = settings.vfs.get_or_insert_default();
    if functions
        .iter()
        .any(|function| function.id == id && !function.iface_name.is_empty())
    {
        return;
    }
    functions.retain(|function| function.id != id);
    let mut function = SrIovVfConfig::default();
    (function.id, function.iface_name) = (id, name.clone());
    functions.push(function);
    add_card(state, &name);
}

fn add_card(state: &mut NetworkState, name: &str) {
    let mut card = EthernetInterface::default();
    name.clone_into(&mut card.base.name);
    state.interfaces.push(Interface::Ethernet(Box::new(card)));
}
