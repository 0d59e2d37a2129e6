//! NetworkManager on D-Bus: its presence and version, its checkpoints, and its changes.

use std::{io, time::Duration};

use futures::StreamExt;
use tokio::sync::mpsc;
use zbus::{
    Connection, MatchRule, MessageStream, Proxy, fdo::DBusProxy, message::Type,
    zvariant::OwnedObjectPath,
};

use super::{Change, HostError};
use crate::pause::Pause;

const NAME: &str = "org.freedesktop.NetworkManager";
/// How the names of NetworkManager's helpers begin, such as `org.freedesktop.nm_dispatcher`.
const HELPERS: &str = "org.freedesktop.nm_";
const PATH: &str = "/org/freedesktop/NetworkManager";
/// How long a bus that accepts connections may take to answer.
const LIMIT: Duration = Duration::from_secs(10);
const WAY_OUT: &str =
    "start NetworkManager on the host, and see that the agent's pod mounts the host's /run/dbus";

/// The result of a look for NetworkManager.
pub enum Presence {
    /// It runs, in this version.
    Running(String),
    /// It does not run now. It may run later, or it runs out of the agent's sight.
    Away(String),
    /// Nothing on this host starts it.
    Absent(String),
}

/// Looks for NetworkManager. A bus starts it for any client that calls it, so the agent looks for its
/// name first.
pub async fn look() -> Presence {
    match tokio::time::timeout(LIMIT, presence()).await {
        Ok(Ok(presence)) => presence,
        Ok(Err(error)) => {
            let why = format!("the system's D-Bus cannot be reached ({error}): {WAY_OUT}");
            // A bus that does not answer may be that of a NetworkManager. Without a socket there
            // is no bus.
            if has_no_socket(&error) {
                Presence::Absent(why)
            } else {
                Presence::Away(why)
            }
        }
        Err(_) => Presence::Away(format!(
            "the system's D-Bus has not answered within {} s: {WAY_OUT}",
            LIMIT.as_secs()
        )),
    }
}

fn has_no_socket(error: &zbus::Error) -> bool {
    matches!(error, zbus::Error::Connection(error, _) if error.kind() == io::ErrorKind::NotFound)
}

async fn presence() -> zbus::Result<Presence> {
    let bus = Connection::system().await?;
    if is_there(&bus).await? {
        let version = manager(&bus).await?.get_property("Version").await?;
        return Ok(Presence::Running(version));
    }
    let why = format!("NetworkManager is not on the system's D-Bus: {WAY_OUT}");
    Ok(if is_installed(&bus).await? {
        Presence::Away(why)
    } else {
        Presence::Absent(why)
    })
}

/// Returns true if the bus can start NetworkManager or one of the helpers that are installed with
/// it.
async fn is_installed(bus: &Connection) -> zbus::Result<bool> {
    let names = DBusProxy::new(bus).await?.list_activatable_names().await?;
    Ok(names
        .iter()
        .any(|name| name.as_str() == NAME || name.as_str().starts_with(HELPERS)))
}

/// Returns true if NetworkManager has not done all that it does at its start. False if it cannot be
/// asked.
pub async fn is_starting() -> bool {
    let asked = async {
        let manager = manager(&Connection::system().await?).await?;
        manager.get_property::<bool>("Startup").await
    };
    match tokio::time::timeout(LIMIT, asked).await {
        Ok(Ok(is_starting)) => is_starting,
        Ok(Err(_)) | Err(_) => false,
    }
}

async fn is_there(bus: &Connection) -> zbus::Result<bool> {
    Ok(DBusProxy::new(bus)
        .await?
        .name_has_owner(NAME.try_into()?)
        .await?)
}

async fn manager(bus: &Connection) -> zbus::Result<Proxy<'static>> {
    let proxy = zbus::proxy::Builder::new(bus)
        .destination(NAME)?
        .path(PATH)?
        .interface(NAME)?;
    proxy
        .cache_properties(zbus::proxy::CacheProperties::No)
        .build()
        .await
}

/// See [`super::Host::checkpoints`].
pub async fn checkpoints() -> Result<Vec<String>, HostError> {
    let paths = async { held(&manager(&Connection::system().await?).await?).await };
    let paths = paths
        .await
        .map_err(|error| HostError::Bus(error.to_string()))?;
    Ok(paths.into_iter().map(|path| path.to_string()).collect())
}

async fn held(manager: &Proxy<'_>) -> zbus::Result<Vec<OwnedObjectPath>> {
    manager.get_property("Checkpoints").await
}

/// See [`super::Host::renew`].
pub async fn renew(lease: Duration) -> Result<(), HostError> {
    let renewed = async {
        let bus = Connection::system().await?;
        if !is_there(&bus).await? {
            return Ok(());
        }
        let manager = manager(&bus).await?;
        let seconds = u32::try_from(lease.as_secs()).unwrap_or(u32::MAX);
        for checkpoint in held(&manager).await? {
            // The seconds count from now, not from the time that was left.
            manager
                .call_method("CheckpointAdjustRollbackTimeout", &(checkpoint, seconds))
                .await?;
        }
        zbus::Result::Ok(())
    };
    match tokio::time::timeout(LIMIT, renewed).await {
        Ok(renewed) => renewed.map_err(|error| HostError::Bus(error.to_string())),
        Err(_) => Err(HostError::TimedOut(LIMIT)),
    }
}

/// Sends a change for each signal of NetworkManager, and when it comes or goes, for ever. Looks for
/// a missing bus with growing pauses, up to half a minute.
pub async fn tell(changes: mpsc::Sender<Change>) {
    let mut pause = Pause::new(Duration::from_millis(100), Duration::from_secs(30));
    loop {
        match listen(&changes, &mut pause).await {
            Ok(()) => tracing::info!("the system's D-Bus has closed the connection"),
            Err(error) => tracing::debug!(%error, "the system's D-Bus cannot be listened to"),
        }
        tokio::time::sleep(pause.next()).await;
    }
}

/// Listens until the connection ends.
async fn listen(tell: &mpsc::Sender<Change>, pause: &mut Pause) -> zbus::Result<()> {
    let bus = Connection::system().await?;
    let signals = MatchRule::builder()
        .msg_type(Type::Signal)
        .sender(NAME)?
        .path_namespace(PATH)?
        .build();
    let mut signals = MessageStream::for_match_rule(signals, &bus, None).await?;
    let mut owner = DBusProxy::new(&bus)
        .await?
        .receive_name_owner_changed_with_args(&[(0, NAME)])
        .await?;
    pause.reset();
    // Earlier events are unknown.
    let _ = tell.try_send(Change::Backend);
    loop {
        let change = tokio::select! {
            signal = signals.next() => match signal {
                Some(signal) => {
                    if !matters(&signal?) {
                        continue;
                    }
                    Change::NetworkManager
                }
                None => break,
            },
            owner = owner.next() => match owner {
                Some(_) => Change::Backend,
                None => break,
            },
        };
        let _ = tell.try_send(change);
    }
    let _ = tell.try_send(Change::Backend);
    Ok(())
}

/// Returns true if a signal can change the report. Signals about radio and traffic counters cannot,
/// and come all the time.
fn matters(signal: &zbus::Message) -> bool {
    let header = signal.header();
    let about = if header
        .member()
        .is_some_and(|member| member == "PropertiesChanged")
    {
        signal
            .body()
            .deserialize::<(String, zbus::zvariant::Value<'_>, Vec<String>)>()
            .map(|(about, ..)| about)
            .unwrap_or_default()
    } else {
        header
            .interface()
            .map(ToString::to_string)
            .unwrap_or_default()
    };
    !["AccessPoint", "Device.Statistics", "Device.Wireless"]
        .iter()
        .any(|quiet| about.ends_with(quiet))
}
