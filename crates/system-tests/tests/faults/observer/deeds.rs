//! The resources of the test, and how users change them.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use weft_plan::{ObjectKey, PAUSE_ANNOTATION, kinds};
use weft_system_tests::Cluster;

use super::{
    actions::Action,
    policies,
    troubles::delete_if_there,
    world::{ADD_ONS, NETWORK, NMSTATE, PLACEMENT, World},
};

/// The values of `imagePullPolicy`.
pub const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
/// The Secret that the PlacementAPI names.
pub const DATABASE: &str = "placement-db";

/// The specification that a resource begins with. It leaves nothing open that Weft would draw or
/// keep from before.
pub fn base(index: usize) -> Value {
    match index {
        ADD_ONS => json!({
            "multus": {}, "linuxBridge": {}, "ovs": {}, "kubevirtIpamController": {},
            "kubeMacPool": range(0), "imagePullPolicy": "Always",
        }),
        NETWORK => json!({
            "serviceNetwork": "10.96.0.0/16",
            "clusterNetworks": [{"cidr": "10.244.0.0/16", "hostSubnetLength": 8}],
            "defaultNetwork": {"type": "None"}, "deployKubeProxy": true,
            "kubeProxyConfig": {"iptablesSyncPeriod": "1m"},
        }),
        NMSTATE => json!({"logLevel": "info"}),
        PLACEMENT => json!({
            "auth": {"strategy": "noauth2"}, "database": {"urlSecret": {"name": DATABASE}},
            "replicas": 1,
        }),
        _ => unreachable!("there are four resources"),
    }
}

/// A range of MAC addresses.
pub fn range(number: u8) -> Value {
    let end = |last: &str| format!("02:00:0{number}:{last}");
    json!({"rangeStart": end("00:00:00"), "rangeEnd": end("FF:FF:FF")})
}

/// The merge patch that takes a resource back to its first specification.
fn reset(index: usize) -> Value {
    let mut spec = base(index);
    if index == ADD_ONS {
        for left_out in [
            "images",
            "resources",
            "imageRegistry",
            "driftPolicy",
            "operatorLogLevel",
        ] {
            spec[left_out] = Value::Null;
        }
    }
    json!({"metadata": {"annotations": {PAUSE_ANNOTATION: null}}, "spec": spec})
}

/// The Secret of the PlacementAPI, with what Weft reads or without.
pub async fn database(cluster: &Cluster, is_usable: bool) {
    let url = "mysql+pymysql://placement:secret@db.example/placement";
    let (key, other) = if is_usable {
        ("url", "uri")
    } else {
        ("uri", "url")
    };
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": DATABASE, "namespace": "openstack"}, "stringData": {key: url},
    });
    cluster.apply(&secret.to_string()).await;
    let secret = ObjectKey::new(kinds::SECRET, "openstack", DATABASE);
    patch_if_there(cluster, &secret, &json!({"data": {other: null}})).await;
}

/// Creates a resource.
pub async fn create(world: &World, index: usize) {
    let key = world.subjects[index].key();
    let mut resource = json!({
        "apiVersion": key.kind.api_version(), "kind": key.kind.kind,
        "metadata": {"name": key.name}, "spec": base(index),
    });
    if let Some(namespace) = &key.namespace {
        resource["metadata"]["namespace"] = namespace.clone().into();
    }
    world.cluster.apply(&resource.to_string()).await;
}

/// Everything is as at the beginning.
pub async fn restore(world: &World) {
    database(&world.cluster, true).await;
    for index in 0..world.subjects.len() {
        match world.live(index).await {
            Some(_) => {
                let key = world.subjects[index].key();
                patch_if_there(&world.cluster, &key, &reset(index)).await;
            }
            None => create(world, index).await,
        }
    }
    policies::apply(&world.cluster, &policies::bridge(1500)).await;
}

/// A change by a merge patch (RFC 7386), as somebody called `somebody`.
async fn patch(cluster: &Cluster, key: &ObjectKey, patch: &Value) -> Result<(), (u16, String)> {
    let params = PatchParams {
        field_manager: Some("somebody".to_owned()),
        ..PatchParams::default()
    };
    let api = cluster.api(key.kind, key.namespace.as_deref().unwrap_or_default());
    match api.patch(&key.name, &params, &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(error) => panic!("patch {}: {error}", key.human()),
    }
}

/// Changes an object if it is there.
pub async fn patch_if_there(cluster: &Cluster, key: &ObjectKey, change: &Value) {
    match patch(cluster, key, change).await {
        Ok(()) | Err((404, _)) => {}
        Err((code, message)) => panic!("patch {} {change}: {code} {message}", key.human()),
    }
}

/// Another client applies a field as its own, by force.
async fn take(cluster: &Cluster, key: &ObjectKey) {
    let api = cluster.api(key.kind, key.namespace.as_deref().unwrap_or_default());
    let spec = json!({"template": {"spec": {"terminationGracePeriodSeconds": 77}}});
    let object = json!({
        "apiVersion": key.kind.api_version(), "kind": key.kind.kind,
        "metadata": {"name": key.name, "namespace": key.namespace}, "spec": spec,
    });
    // Applied where it is not there, it would be created, and lack what it needs.
    if api.get_opt(&key.name).await.unwrap().is_none() {
        return;
    }
    let params = PatchParams::apply("rival").force();
    match api.patch(&key.name, &params, &Patch::Apply(&object)).await {
        Ok(_) => {}
        // It was deleted meanwhile.
        Err(kube::Error::Api(status)) if status.code == 422 => {}
        Err(error) => panic!("apply {}: {error}", key.human()),
    }
}

impl Action {
    /// Takes it. Does not wait for what comes of it.
    pub async fn take(&self, world: &mut World) {
        let resource = |index: usize| world.subjects[index].key();
        match self {
            Self::Change(index, change) => {
                patch_if_there(&world.cluster, &resource(*index), change).await;
            }
            Self::Wrong(index, change) => {
                let refused = patch(&world.cluster, &resource(*index), change).await;
                let is_refused = matches!(refused, Err((404 | 422, _)));
                assert!(is_refused, "the API server takes {change}: {refused:?}");
            }
            Self::Typo => {
                let wrong = json!({
                    "apiVersion": kinds::NETWORK_ADDONS_CONFIG.api_version(),
                    "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"},
                    "spec": {"multsu": {}},
                });
                let applied = world
                    .cluster
                    .control_plane
                    .kubectl_with_input(&["apply", "-f", "-"], &wrong.to_string())
                    .await;
                let error = format!("{:#}", applied.expect_err("kubectl refuses a typo"));
                assert!(error.contains("multsu"), "{error}");
            }
            Self::Delete(index) => delete_if_there(&world.cluster, &resource(*index)).await,
            Self::Create(index) => create(world, *index).await,
            Self::DeleteOperand(key) => delete_if_there(&world.cluster, key).await,
            Self::Edit(key, change) => patch_if_there(&world.cluster, key, change).await,
            Self::Add(key, change, pointer) => {
                patch_if_there(&world.cluster, key, change).await;
                world.added.insert((key.clone(), *pointer));
            }
            Self::Take(key) => take(&world.cluster, key).await,
            Self::Begin(trouble) => {
                trouble.begin(world).await;
                world.troubles.push(trouble.clone());
            }
            Self::Lift(trouble) => {
                trouble.lift(world).await;
                world.troubles.retain(|one| one != trouble);
            }
            Self::Database(is_usable) => database(&world.cluster, *is_usable).await,
            Self::Policy(Some(spec)) => policies::apply(&world.cluster, spec).await,
            Self::Policy(None) => delete_if_there(&world.cluster, &policies::key()).await,
            Self::Agents(fail) => world.agents_fail = *fail,
        }
    }
}
