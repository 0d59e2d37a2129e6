//! Ports as NetworkManager knows them, and its order to ignore ports of pods.

use std::collections::BTreeSet;

use futures::future::join_all;
use zbus::{Connection, proxy, proxy::CacheProperties};

use super::{
    HostError,
    device::{self, NetworkManagerProxy},
};

#[proxy(
    interface = "org.freedesktop.NetworkManager.Connection.Active",
    default_service = "org.freedesktop.NetworkManager"
)]
trait ActiveConnection {
    #[zbus(property)]
    fn state_flags(&self) -> zbus::Result<u32>;
}

/// `NM_ACTIVATION_STATE_FLAG_EXTERNAL`: the connection only describes how another program has set
/// up the device.
const EXTERNAL: u32 = 0x80;

/// Those of the devices that NetworkManager has set up by a profile: a policy's or a person's, and
/// no CNI plugin's.
pub async fn configured(bus: &Connection, names: &[String]) -> Result<BTreeSet<String>, HostError> {
    let manager = NetworkManagerProxy::new(bus).await?;
    let asked = names.iter().map(async |name| {
        Ok::<_, zbus::Error>(
            is_configured(bus, &manager, name)
                .await?
                .then(|| name.clone()),
        )
    });
    let found: Result<Vec<_>, _> = join_all(asked).await.into_iter().collect();
    Ok(found?.into_iter().flatten().collect())
}

async fn is_configured(
    bus: &Connection,
    manager: &NetworkManagerProxy<'_>,
    name: &str,
) -> zbus::Result<bool> {
    let Some(device) = device::find(bus, manager, name).await? else {
        return Ok(false);
    };
    let active = device.active_connection().await?;
    if active.as_str() == "/" {
        return Ok(false);
    }
    let active = ActiveConnectionProxy::builder(bus)
        .path(active)?
        .cache_properties(CacheProperties::No)
        .build()
        .await?;
    // Gone in between, it configures nothing.
    Ok(active
        .state_flags()
        .await
        .is_ok_and(|flags| flags & EXTERNAL == 0))
}

/// Makes devices unmanaged until NetworkManager or the device starts anew. No file is written.
/// Where udev or the configuration of NetworkManager do not say so already (Debian's udev rules
/// do), a port that a CNI plugin has attached counts as one that somebody may configure: a change
/// of its bridge detaches it, and leaves a profile of it in `/etc` for ever. A device that
/// NetworkManager does not know is none of its business, so that is no error.
pub async fn leave_alone(bus: &Connection, names: &[String]) -> Result<(), HostError> {
    let manager = NetworkManagerProxy::new(bus).await?;
    let told: zbus::Result<()> = join_all(names.iter().map(|name| unmanage(bus, &manager, name)))
        .await
        .into_iter()
        .collect();
    Ok(told?)
}

async fn unmanage(
    bus: &Connection,
    manager: &NetworkManagerProxy<'_>,
    name: &str,
) -> zbus::Result<()> {
    if let Some(device) = device::find(bus, manager, name).await?
        && device.managed().await?
    {
        device.set_managed(false).await?;
    }
    Ok(())
}
