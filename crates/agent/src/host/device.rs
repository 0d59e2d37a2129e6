//! The devices of NetworkManager on D-Bus.

use std::collections::HashMap;

use zbus::{
    Connection, proxy,
    proxy::CacheProperties,
    zvariant::{OwnedObjectPath, OwnedValue},
};

#[proxy(
    interface = "org.freedesktop.NetworkManager",
    default_service = "org.freedesktop.NetworkManager",
    default_path = "/org/freedesktop/NetworkManager"
)]
pub trait NetworkManager {
    fn get_device_by_ip_iface(&self, iface: &str) -> zbus::Result<OwnedObjectPath>;
}

#[proxy(
    interface = "org.freedesktop.NetworkManager.Device",
    default_service = "org.freedesktop.NetworkManager"
)]
pub trait Device {
    #[zbus(property)]
    fn interface(&self) -> zbus::Result<String>;
    #[zbus(property)]
    fn managed(&self) -> zbus::Result<bool>;
    #[zbus(property)]
    fn set_managed(&self, managed: bool) -> zbus::Result<()>;
    #[zbus(property)]
    fn active_connection(&self) -> zbus::Result<OwnedObjectPath>;
    #[zbus(property)]
    fn lldp_neighbors(&self) -> zbus::Result<Vec<HashMap<String, OwnedValue>>>;
}

/// Returns the device of this name. `None` if NetworkManager does not know it.
pub async fn find<'a>(
    bus: &'a Connection,
    manager: &NetworkManagerProxy<'_>,
    name: &str,
) -> zbus::Result<Option<DeviceProxy<'a>>> {
    let Ok(path) = manager.get_device_by_ip_iface(name).await else {
        return Ok(None);
    };
    DeviceProxy::builder(bus)
        .path(path)?
        .cache_properties(CacheProperties::No)
        .build()
        .await
        .map(Some)
}
