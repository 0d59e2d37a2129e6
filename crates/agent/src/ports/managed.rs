//! NetworkManager is told to leave pods' ports alone.

use futures::future::join_all;
use zbus::{Connection, proxy, zvariant::OwnedObjectPath};

#[proxy(
    interface = "org.freedesktop.NetworkManager",
    default_service = "org.freedesktop.NetworkManager",
    default_path = "/org/freedesktop/NetworkManager"
)]
trait NetworkManager {
    fn get_device_by_ip_iface(&self, iface: &str) -> zbus::Result<OwnedObjectPath>;
}

#[proxy(interface = "org.freedesktop.NetworkManager.Device", default_service = "org.freedesktop.NetworkManager")]
trait Device {
    #[zbus(property)]
    fn managed(&self) -> zbus::Result<bool>;
    #[zbus(property)]
    fn set_managed(&self, managed: bool) -> zbus::Result<()>;
}

/// Makes devices unmanaged until NetworkManager or the device starts anew; no file is written. Where udev or the configuration of
/// NetworkManager do not say so already (Debian's udev rules do), a port that a CNI plugin has attached counts as one that somebody may
/// configure: a change of its bridge detaches it, and leaves a profile of it in `/etc` for ever. A device that NetworkManager does not know
/// is none of its business, so that is no error.
pub async fn leave_alone(bus: &Connection, names: &[String]) -> zbus::Result<()> {
    let manager = NetworkManagerProxy::new(bus).await?;
    join_all(names.iter().map(|name| unmanage(bus, &manager, name))).await.into_iter().collect()
}

async fn unmanage(bus: &Connection, manager: &NetworkManagerProxy<'_>, name: &str) -> zbus::Result<()> {
    let Ok(path) = manager.get_device_by_ip_iface(name).await else { return Ok(()) };
    let device = DeviceProxy::builder(bus).path(path)?.cache_properties(zbus::proxy::CacheProperties::No).build().await?;
    if device.managed().await? {
        device.set_managed(false).await?;
    }
    Ok(())
}
