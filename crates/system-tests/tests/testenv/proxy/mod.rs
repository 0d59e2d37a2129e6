//! Each fault is seen by real clients, and the record is what the API server's audit log says.

mod bodies;
mod kills;
mod record;
mod requests;
mod watches;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::{Stream, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use weft_testenv::proxy::{Events, Fault, Framing, Match, Proxy, Stranger, When};
use weft_testenv::{ADMIN, ControlPlane, Victim, wait::wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

struct Setup {
    /// Straight to the API server.
    direct: Api<ConfigMap>,
    /// Through the proxy.
    maps: Api<ConfigMap>,
    proxy: Proxy,
    control_plane: ControlPlane,
}

async fn setup() -> Setup {
    let control_plane = ControlPlane::builder()
        .api_only()
        .audit(true)
        .start()
        .await
        .unwrap();
    let proxy = Proxy::start(&control_plane).await.unwrap();
    Setup {
        direct: Api::namespaced(control_plane.client(), "default"),
        maps: Api::namespaced(proxy.client().await.unwrap(), "default"),
        proxy,
        control_plane,
    }
}

fn map(name: &str, value: &str) -> ConfigMap {
    let mut map = ConfigMap {
        data: Some(BTreeMap::from([("key".to_owned(), value.to_owned())])),
        ..Default::default()
    };
    map.metadata.name = Some(name.into());
    map
}

async fn create(maps: &Api<ConfigMap>, name: &str) -> Result<ConfigMap, kube::Error> {
    maps.create(&PostParams::default(), &map(name, "1")).await
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
