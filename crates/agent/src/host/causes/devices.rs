//! Devices whose activation NetworkManager has accepted and which fail then, by its signals.
//!
//! nmstate 2.2.62 does not read the reason of a device's state.

use std::{collections::BTreeSet, convert::Infallible};

use futures::StreamExt;
use zbus::{
    Connection, MatchRule, MessageStream, message::Type, proxy::CacheProperties,
    zvariant::ObjectPath,
};

use super::Heard;
use crate::host::device::DeviceProxy;

/// `NM_DEVICE_STATE_FAILED` of NetworkManager's D-Bus API.
const FAILED: u32 = 120;

/// Adds the reason of each of these interfaces whose device fails from now on, for ever.
pub(in crate::host) async fn record(heard: &Heard, interfaces: &BTreeSet<String>) -> Infallible {
    match listen(heard, interfaces).await {
        Ok(()) => tracing::debug!("the system's D-Bus has closed the connection"),
        Err(error) => tracing::debug!(%error, "failed to listen to NetworkManager's devices"),
    }
    std::future::pending().await
}

/// Listens until the connection ends.
async fn listen(heard: &Heard, interfaces: &BTreeSet<String>) -> zbus::Result<()> {
    let bus = Connection::system().await?;
    // On the same connection, the response would queue behind signals that this loop has not read yet.
    let questions = Connection::system().await?;
    let states = MatchRule::builder()
        .msg_type(Type::Signal)
        .sender("org.freedesktop.NetworkManager")?
        .interface("org.freedesktop.NetworkManager.Device")?
        .member("StateChanged")?
        .build();
    let mut states = MessageStream::for_match_rule(states, &bus, None).await?;
    while let Some(signal) = states.next().await {
        let signal = signal?;
        let (state, _before, reason): (u32, u32, u32) = signal.body().deserialize()?;
        if state != FAILED {
            continue;
        }
        let (Some(reason), Some(path)) = (name(reason), signal.header().path().cloned()) else {
            continue;
        };
        // The device may be gone.
        let Ok(interface) = interface(&questions, path.into_owned()).await else {
            continue;
        };
        if interfaces.contains(&interface) {
            heard.add(&format!("the activation of {interface} failed: {reason}"));
        }
    }
    Ok(())
}

/// Returns the name of a device's interface.
async fn interface(bus: &Connection, device: ObjectPath<'static>) -> zbus::Result<String> {
    let device = DeviceProxy::builder(bus)
        .path(device)?
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    device.interface().await
}

/// Returns the name of an `NMDeviceStateReason` of NetworkManager's D-Bus API, as NetworkManager
/// logs it. Those of modems and of Wi-Fi are left out. `None` for a reason that says nothing.
fn name(reason: u32) -> Option<String> {
    let name = match reason {
        0 | 1 => return None,
        2 => "managed",
        3 => "unmanaged",
        4 => "config-failed",
        5 => "ip-config-unavailable",
        6 => "ip-config-expired",
        7 => "no-secrets",
        8 => "supplicant-disconnect",
        9 => "supplicant-config-failed",
        10 => "supplicant-failed",
        11 => "supplicant-timeout",
        15 => "dhcp-start-failed",
        16 => "dhcp-error",
        17 => "dhcp-failed",
        20 => "autoip-start-failed",
        21 => "autoip-error",
        22 => "autoip-failed",
        35 => "firmware-missing",
        36 => "removed",
        38 => "connection-removed",
        39 => "user-requested",
        40 => "carrier-changed",
        49 => "infiniband-mode",
        50 => "dependency-failed",
        54 => "secondary-connection-failed",
        55 => "dcb-fcoe-failed",
        56 => "teamd-control-failed",
        60 => "new-activation",
        61 => "parent-changed",
        62 => "parent-managed-changed",
        63 => "ovsdb-failed",
        64 => "ip-address-duplicate",
        65 => "ip-method-unsupported",
        66 => "sriov-configuration-failed",
        67 => "peer-not-found",
        other => return Some(format!("reason {other} of NMDeviceStateReason")),
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_its_name_or_its_number_or_says_nothing() {
        for (reason, expected) in [
            (0, None),
            (1, None),
            (4, Some("config-failed")),
            (67, Some("peer-not-found")),
            (999, Some("reason 999 of NMDeviceStateReason")),
        ] {
            assert_eq!(name(reason).as_deref(), expected);
        }
    }
}
