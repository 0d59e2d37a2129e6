//! The control plane does what a cluster does: workloads roll out or get stuck, RBAC is real, and
//! requests are audited.

use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use weft_testenv::{ControlPlane, Pods, Stage, Stuck, client_from, wait::wait_until};

fn daemon_set(name: &str, image: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: {name}, namespace: default}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      hostNetwork: true
      containers:
      - name: main
        image: {image}
        securityContext: {{privileged: true}}
---
"
    )
}

/// Waits until kubectl prints exactly this.
async fn wait_output(control_plane: &ControlPlane, args: &[&str], expected: &str) {
    let deadline = Instant::now() + weft_testenv::wait::PATIENCE;
    loop {
        let output = control_plane.kubectl(args).await.unwrap();
        if output == expected {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "kubectl {args:?} printed {output:?}, not {expected:?}"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Reasons of the waiting containers of the pods of an app, each once.
async fn wait_reason(control_plane: &ControlPlane, app: &str, reason: &str) {
    let label = format!("app={app}");
    let path = "jsonpath={.items[*].status.containerStatuses[*].state.waiting.reason}";
    wait_output(
        control_plane,
        &["get", "pods", "-l", &label, "-o", path],
        reason,
    )
    .await;
}

#[tokio::test]
async fn workloads_roll_out_or_get_stuck_as_told() {
    let control_plane = ControlPlane::builder()
        .nodes(2)
        .stage(Stage::stuck(
            Pods::with_image("missing"),
            Stuck::ImagePullBackOff,
        ))
        .stage(Stage::stuck(
            Pods::labelled("app", "crashing"),
            Stuck::CrashLoopBackOff,
        ))
        .stage(Stage::stuck(Pods::named("^waiting-"), Stuck::Pending))
        .stage(Stage::ready_after(
            Pods::labelled("app", "slow"),
            Duration::from_millis(1500),
        ))
        .start()
        .await
        .unwrap();
    let names = [
        ("good", "img:1"),
        ("pulling", "missing:1"),
        ("crashing", "img:1"),
        ("waiting", "img:1"),
        ("slow", "img:1"),
    ];
    let manifests: String = names
        .iter()
        .map(|(name, image)| daemon_set(name, image))
        .collect();
    let applied = Instant::now();
    control_plane
        .kubectl_with_input(&["apply", "-f", "-"], &manifests)
        .await
        .unwrap();
    control_plane
        .kubectl(&["rollout", "status", "ds/good", "--timeout=120s"])
        .await
        .unwrap();
    control_plane
        .kubectl(&["rollout", "status", "ds/slow", "--timeout=120s"])
        .await
        .unwrap();
    assert!(
        applied.elapsed() >= Duration::from_millis(1500),
        "the pods of `slow` were Ready too early"
    );
    wait_reason(
        &control_plane,
        "pulling",
        "ImagePullBackOff ImagePullBackOff",
    )
    .await;
    wait_reason(
        &control_plane,
        "crashing",
        "CrashLoopBackOff CrashLoopBackOff",
    )
    .await;
    wait_reason(
        &control_plane,
        "waiting",
        "ContainerCreating ContainerCreating",
    )
    .await;
    let ready = [
        "get",
        "ds",
        "-o",
        "jsonpath={range .items[*]}{.metadata.name}={.status.numberReady} {end}",
    ];
    wait_output(
        &control_plane,
        &ready,
        "crashing=0 good=2 pulling=0 slow=2 waiting=0 ",
    )
    .await;

    // A new image ends the cause, as in life.
    control_plane
        .kubectl(&["set", "image", "ds/pulling", "main=img:2"])
        .await
        .unwrap();
    wait_output(
        &control_plane,
        &ready,
        "crashing=0 good=2 pulling=2 slow=2 waiting=0 ",
    )
    .await;

    // Pods that were Ready lose it, and those that crashed are released.
    control_plane
        .set_stages(&[Stage::stuck(Pods::labelled("app", "good"), Stuck::Unready)])
        .await
        .unwrap();
    wait_output(
        &control_plane,
        &ready,
        "crashing=2 good=0 pulling=2 slow=2 waiting=2 ",
    )
    .await;
    control_plane.set_stages(&[]).await.unwrap();
    wait_output(
        &control_plane,
        &ready,
        "crashing=2 good=2 pulling=2 slow=2 waiting=2 ",
    )
    .await;

    control_plane
        .add_node("extra", &[("node-role.kubernetes.io/control-plane", "")])
        .await
        .unwrap();
    wait_output(
        &control_plane,
        &ready,
        "crashing=3 good=3 pulling=3 slow=3 waiting=3 ",
    )
    .await;

    // The garbage collector takes the pods of a deleted owner.
    control_plane
        .kubectl(&["delete", "ds", "--all", "--wait=false"])
        .await
        .unwrap();
    wait_output(&control_plane, &["get", "pods", "-o", "name"], "").await;
}

#[tokio::test]
async fn service_accounts_have_the_rights_of_rbac_and_requests_are_audited() {
    let control_plane = ControlPlane::builder()
        .api_only()
        .audit(true)
        .start()
        .await
        .unwrap();
    // No controller manager, so nobody makes the namespace's ServiceAccounts.
    control_plane
        .kubectl_with_input(
            &["apply", "-f", "-"],
            "apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: default}
rules: [{apiGroups: [''], resources: [configmaps], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
",
        )
        .await
        .unwrap();
    let kubeconfig = control_plane
        .service_account_kubeconfig("default", "reader")
        .await
        .unwrap();
    let user = "system:serviceaccount:default:reader";
    let who = control_plane
        .kubectl_as(
            &kubeconfig,
            &[
                "auth",
                "whoami",
                "-o",
                "jsonpath={.status.userInfo.username}",
            ],
            "",
        )
        .await;
    assert_eq!(who.unwrap(), user);

    let client = client_from(&kubeconfig).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.list(&ListParams::default()).await.unwrap();
    let refused = Api::<ConfigMap>::all(client)
        .list(&ListParams::default())
        .await
        .unwrap_err();
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused}"
    );
    let refused = control_plane
        .kubectl_as(&kubeconfig, &["create", "configmap", "a"], "")
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("cannot create resource \"configmaps\""),
        "{refused}"
    );
    let unknown = control_plane
        .service_account_kubeconfig("default", "nobody")
        .await
        .unwrap_err()
        .to_string();
    assert!(unknown.contains("default/nobody"), "{unknown}");

    let events = control_plane.audit_events().unwrap();
    let of_reader: Vec<_> = events
        .iter()
        .filter(|event| event.user == user && event.resource == "configmaps")
        .map(|event| (event.verb.as_str(), event.namespace.as_str(), event.code))
        .collect();
    assert_eq!(
        of_reader,
        [
            ("list", "default", 200),
            ("list", "", 403),
            ("create", "default", 403)
        ]
    );
    let token = events
        .iter()
        .find(|event| event.subresource == "token")
        .expect("the TokenRequest is audited");
    assert_eq!(
        (token.resource.as_str(), token.name.as_str(), token.code),
        ("serviceaccounts", "reader", 201)
    );

    // Without kwok nothing changes the pods.
    assert!(
        control_plane
            .set_stages(&[])
            .await
            .unwrap_err()
            .to_string()
            .contains("api_only")
    );
    let error = control_plane
        .kubectl(&["get", "nonsense"])
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("get nonsense") && error.contains("doesn't have a resource type"),
        "{error}"
    );
}

#[tokio::test]
async fn a_restored_snapshot_brings_back_the_past_with_its_versions() {
    let control_plane = ControlPlane::builder()
        .nodes(1)
        .stage(Stage::stuck(Pods::named("^waiting-"), Stuck::Pending))
        .start()
        .await
        .unwrap();
    for name in ["changed", "deleted"] {
        control_plane
            .kubectl(&["create", "configmap", name, "--from-literal=at=snapshot"])
            .await
            .unwrap();
    }
    control_plane
        .kubectl(&["create", "serviceaccount", "reader"])
        .await
        .unwrap();
    control_plane
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "reader",
            "--clusterrole=view",
            "--serviceaccount=default:reader",
        ])
        .await
        .unwrap();
    let reader = client_from(
        &control_plane
            .service_account_kubeconfig("default", "reader")
            .await
            .unwrap(),
    )
    .await
    .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(reader, "default");
    let snapshot = control_plane.snapshot().await.unwrap();

    control_plane
        .kubectl(&["create", "configmap", "made", "--from-literal=at=future"])
        .await
        .unwrap();
    control_plane
        .kubectl(&[
            "patch",
            "configmap",
            "changed",
            "--type=merge",
            "-p",
            r#"{"data": {"at": "future"}}"#,
        ])
        .await
        .unwrap();
    control_plane
        .kubectl(&["delete", "configmap", "deleted"])
        .await
        .unwrap();
    control_plane.spend_revisions(1000).await.unwrap();
    let lost = control_plane.revision().await.unwrap();
    assert!(
        lost >= snapshot.revision() + 1003,
        "{lost} is not long after {}",
        snapshot.revision()
    );

    control_plane.restore(&snapshot).await.unwrap();
    control_plane.check_running().unwrap();
    // The client of before, with its token.
    let list = maps.list(&ListParams::default()).await.unwrap();
    let now: u64 = list.metadata.resource_version.unwrap().parse().unwrap();
    assert!(
        (snapshot.revision()..lost).contains(&now),
        "{now} is not between {} and {lost}",
        snapshot.revision()
    );
    let at = |name: &str| {
        let map = list
            .items
            .iter()
            .find(|map| map.metadata.name.as_deref() == Some(name));
        map.map(|map| map.data.as_ref().unwrap()["at"].clone())
    };
    let past = Some("snapshot".to_owned());
    assert_eq!(
        (at("made"), at("changed"), at("deleted")),
        (None, past.clone(), past)
    );

    // A watch that continues where the lost future was gets no events: the API server assumes that
    // the client knows them.
    let from = |version: u64| {
        let maps = maps.clone();
        async move {
            // The server ends the watch.
            let watch = maps
                .watch(
                    &WatchParams::default().timeout(10).disable_bookmarks(),
                    &version.to_string(),
                )
                .await
                .unwrap();
            watch.map(|event| event.unwrap()).collect::<Vec<_>>().await
        }
    };
    let change = async {
        let mut later = ConfigMap::default();
        later.metadata.name = Some("later".to_owned());
        Api::<ConfigMap>::namespaced(control_plane.client(), "default")
            .create(&PostParams::default(), &later)
            .await
            .unwrap();
    };
    let (of_lost, of_now, ()) = tokio::join!(from(lost), from(now), change);
    assert!(of_lost.is_empty(), "{of_lost:?}");
    let is_later = |event: &WatchEvent<ConfigMap>| matches!(event, WatchEvent::Added(map) if map.metadata.name.as_deref() == Some("later"));
    assert!(of_now.iter().any(is_later), "{of_now:?}");

    // Its controllers, its nodes and what its pods do are there again.
    let manifests = daemon_set("good", "img:1") + &daemon_set("waiting", "img:1");
    control_plane
        .kubectl_with_input(&["apply", "-f", "-"], &manifests)
        .await
        .unwrap();
    control_plane
        .kubectl(&["rollout", "status", "ds/good", "--timeout=120s"])
        .await
        .unwrap();
    wait_reason(&control_plane, "waiting", "ContainerCreating").await;
    assert!(
        control_plane.revision().await.unwrap() < lost,
        "the lost future was long enough"
    );
}

#[tokio::test]
async fn all_objects_are_read_while_some_of_them_go() {
    let control_plane = ControlPlane::builder().nodes(0).start().await.unwrap();
    let api: Api<ConfigMap> = Api::default_namespaced(control_plane.client());
    let names = (0..300).map(|number| format!("gone-{number}"));
    let create = names.clone().map(|name| {
        let api = api.clone();
        async move {
            let mut object = ConfigMap::default();
            object.metadata.name = Some(name);
            api.create(&PostParams::default(), &object).await.unwrap();
        }
    });
    futures::stream::iter(create)
        .buffer_unordered(16)
        .collect::<()>()
        .await;

    let reads = async {
        wait_until("the deleted objects are gone", async || {
            let stored = control_plane.stored().await.unwrap();
            let maps = stored.iter().find(|kind| kind.plural == "configmaps");
            let maps = maps.unwrap().objects.iter();
            let mut names = maps.map(|object| object["metadata"]["name"].as_str().unwrap());
            let left = names.find(|name| name.starts_with("gone-"));
            left.map_or(Ok(()), |left| Err(left.to_owned()))
        })
        .await;
    };
    let deletions = async {
        for name in names {
            api.delete(&name, &DeleteParams::default()).await.unwrap();
        }
    };
    tokio::join!(reads, deletions);
}
