//! `weft status`: the tree, the cause, waiting, and the terminal.

use serde_json::json;
use weft_plan::kinds;
use weft_testenv::{Pods, Stage, Stuck};

use crate::commands::{harness::*, user::*};

#[tokio::test]
async fn the_tree_from_nothing_to_available() {
    let cluster = Cluster::start_default().await;
    let nothing = weft(&cluster, &["status"]).await.ended(1);
    assert!(
        nothing.stdout.contains("there is no NetworkAddonsConfig"),
        "{}",
        nothing.stdout
    );
    assert!(
        nothing.stdout.contains("no leader: no operator is at work"),
        "{}",
        nothing.stdout
    );
    weft(&cluster, &["status", "--wait"]).await.ended(1);

    let _operator = Operator::start_lasting(&cluster).await;
    cluster.apply(&example("network-addons-config.yaml")).await;
    // The Secret that a workload waits for is not there.
    cluster
        .wait_condition("Progressing", "True", "Deploying", "waits for Secret")
        .await;
    let cause = "Deployment kubemacpool-mac-controller-manager 1/1 ready: waits for Secret cluster-network-addons/kubemacpool-service (does not exist)";
    wait_until(
        "its pod is ready, and the Secret is all that it waits for",
        async || match weft(&cluster, &["status"]).await {
            shown if shown.stdout.contains(cause) => Ok(()),
            shown => Err(shown.stdout),
        },
    )
    .await;
    let late = weft(&cluster, &["status", "--wait", "--timeout", "1s"])
        .await
        .ended(1);
    assert!(
        late.stderr.contains("not Available within 1s") && late.stdout.contains(cause),
        "{late:?}"
    );

    // A wait that is already running ends when it comes: by a watch, long before any timeout.
    let mut waits = Running::weft(cluster.control_plane.kubeconfig(), &["status", "--wait"]);
    cluster.play_kubemacpool().await;
    let tree = waits.stdout().rest().await;
    assert_eq!(waits.ended().await, Some(0), "{tree}");
    for line in [
        "NetworkAddonsConfig cluster: Available (version",
        "├─ multus Available",
        "│  └─ DaemonSet multus 2/2 ready",
        "├─ kubeMacPool Available (rangeEnd 02:00:00:FF:FF:FF, rangeStart 02:00:00:00:00:00)",
        "led by cluster-network-addons-operator_",
    ] {
        assert!(tree.contains(line), "{line}\n{tree}");
    }
    assert!(!tree.contains('\x1b'), "{tree:?}");

    let json = weft(&cluster, &["status", "-o", "json"])
        .await
        .ended(0)
        .json();
    let domain = &json["domains"][0];
    assert_eq!(
        (
            &domain["domain"],
            &domain["available"],
            &domain["operator"]["alive"]
        ),
        (&json!("addons"), &json!(true), &json!(true))
    );
    let multus = domain["resources"][0]["components"]
        .as_array()
        .unwrap()
        .iter()
        .find(|component| component["name"] == "multus")
        .unwrap();
    let workload = json!({
        "kind": "DaemonSet", "namespace": NAMESPACE, "name": "multus", "ready": 2, "desired": 2,
        "state": "ready", "message": null
    });
    assert_eq!(multus["workloads"], json!([workload]));

    // One resource, by another name of its kind.
    let one = weft(&cluster, &["status", "NAC/cluster"]).await.ended(0);
    assert!(one.stdout.contains("cluster: Available"), "{one:?}");
    // A user with `view` sees it all, except Secrets.
    let viewer = viewer(&cluster).await;
    wait_until("Kubernetes has added the roles to view", async || {
        let unread = format!("not shown, since you may not read it: secrets in {NAMESPACE}");
        match run(&viewer, &["status"], "").await {
            run if run.code == 0 && run.stdout.lines().next_back() == Some(unread.as_str()) => {
                assert!(run.stdout.contains("led by"), "{run:?}");
                assert!(run.stdout.contains("multus 2/2 ready"), "{run:?}");
                Ok(())
            }
            run => Err(format!("{run:?}")),
        }
    })
    .await;

    // KubeMacPool reports an address that two machines use.
    let collision = "MAC 02:00:00:00:00:07: Collision between vmi/default/a, vmi/default/b";
    for name in ["a", "b"] {
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{name}.1"), "namespace": "default"},
            "involvedObject": {
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance",
                "namespace": "default", "name": name
            },
            "type": "Warning", "reason": "MACCollision", "message": collision,
            "source": {"component": "kubemacpool"}
        });
        cluster.apply(&event.to_string()).await;
    }
    let problems = run(&viewer, &["status", "--problems"], "").await.ended(0);
    assert_eq!(
        problems.stdout.matches(collision).count(),
        1,
        "{problems:?}"
    );
    assert!(
        problems
            .stdout
            .contains("KubeMacPool: events of KubeMacPool name"),
        "{problems:?}"
    );

    // Not installed at all.
    cluster
        .kubectl(&[
            "delete",
            "crd",
            "networkaddonsconfigs.networkaddonsoperator.network.kubevirt.io",
            "--wait=false",
        ])
        .await;
    wait_until("the definition is gone", async || {
        let run = weft(&cluster, &["status"]).await;
        if run.code == 1
            && run.stdout.contains("Weft is not installed for addons")
            && run
                .stdout
                .contains("weft manifests --split --domains addons | kubectl apply -f -")
        {
            Ok(())
        } else {
            Err(format!("{run:?}"))
        }
    })
    .await;
}

/// A Lease that another user has written: its holder is neither an operator of Weft nor a pod.
#[tokio::test]
async fn a_lease_whose_holder_is_no_pod_is_a_problem() {
    let cluster = Cluster::start_default().await;
    cluster.apply(&example("network-addons-config.yaml")).await;
    cluster.apply(&ghost_lease()).await;
    let fix = ["delete", "lease", "weft-addons", "-n", NAMESPACE];
    let problem = format!(
        "no leader: {}; delete it: kubectl {}",
        held_by_ghost(),
        fix.join(" ")
    );
    for arguments in [
        &["status"][..],
        &["status", "--problems"][..],
        &["status", "--installation"][..],
    ] {
        let run = weft(&cluster, arguments).await.ended(3);
        assert!(run.stdout.contains(&problem), "{arguments:?}: {run:?}");
    }
    let json = weft(&cluster, &["status", "-o", "json"])
        .await
        .ended(3)
        .json();
    let operator = &json["domains"][0]["operator"];
    assert_eq!(
        (&json["verdict"], &operator["leader"], &operator["alive"]),
        (&json!("Unhealthy"), &json!("ghost"), &json!(false))
    );
    let problems = json["problems"].as_array().unwrap();
    let is_reported = problems.iter().any(|one| {
        one["about"] == "addons"
            && one["state"] == "Unhealthy"
            && one["message"].as_str().unwrap().contains(&problem)
    });
    assert!(is_reported, "{json:#}");

    // The Lease may lack the time, too.
    let timeless = json!({"spec": {"renewTime": null}});
    cluster
        .patch(kinds::LEASE, NAMESPACE, "weft-addons", timeless)
        .await;
    let timeless = weft(&cluster, &["status"]).await.ended(3);
    assert!(timeless.stdout.contains(&problem), "{timeless:?}");
    cluster.apply(&ghost_lease()).await;

    // A user who may not read pods cannot know it, and gets no alarm.
    let podless = podless(&cluster).await;
    wait_until("the user may read the Lease", async || {
        match run(&podless, &["status"], "").await {
            run if run.stdout.contains("led by ghost") => Ok(()),
            run => Err(format!("{run:?}")),
        }
    })
    .await;

    // A pod may have an identity that this version of Weft does not write.
    let of_operator = format!("pod/{OPERATOR}-");
    let pod = wait_until("the Deployment has a pod", async || {
        let pods = cluster
            .kubectl(&["-n", NAMESPACE, "get", "pods", "-o", "name"])
            .await;
        let mut pods = pods.lines();
        let pod = pods.find(|pod| pod.starts_with(&of_operator));
        let pod = pod.and_then(|pod| pod.strip_prefix("pod/"));
        pod.map(str::to_owned)
            .ok_or_else(|| "there is none".to_owned())
    })
    .await;
    let holder = json!({"spec": {"holderIdentity": format!("{pod}_1")}});
    cluster
        .patch(kinds::LEASE, NAMESPACE, "weft-addons", holder)
        .await;
    let led = weft(&cluster, &["status"]).await.ended(0);
    assert!(led.stdout.contains(&format!("led by {pod}_1")), "{led:?}");

    // The command in the message frees the Lease at once.
    cluster.kubectl(&fix).await;
    let operator = Operator::start_default(&cluster).await;
    operator.wait_leading().await;
    let led = weft(&cluster, &["status"]).await;
    assert!(
        led.stdout.contains(&format!("led by {OPERATOR}_")),
        "{led:?}"
    );
}

/// The kubeconfig of a user who may read the installation and the resource, and no pod.
async fn podless(cluster: &Cluster) -> std::path::PathBuf {
    cluster
        .kubectl(&["create", "serviceaccount", "podless"])
        .await;
    cluster
        .kubectl(&[
            "create",
            "clusterrole",
            "podless",
            "--verb=get,list",
            "--resource=networkaddonsconfigs.networkaddonsoperator.network.kubevirt.io,leases.coordination.k8s.io,deployments.apps,daemonsets.apps,configmaps",
        ])
        .await;
    cluster
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "podless",
            "--clusterrole=podless",
            "--serviceaccount=default:podless",
        ])
        .await;
    cluster
        .control_plane
        .service_account_kubeconfig("default", "podless")
        .await
        .unwrap()
}

#[tokio::test]
async fn a_watch_reports_the_cause_of_a_pod_and_continues() {
    let stuck = Stage::stuck(Pods::with_image("multus"), Stuck::ImagePullBackOff);
    let cluster = Cluster::start(ClusterOptions {
        stages: vec![stuck],
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    let mut watch = Running::weft(cluster.control_plane.kubeconfig(), &["status", "--watch"]);
    let mut shown = watch.stdout();
    shown.wait("there is no NetworkAddonsConfig").await;
    cluster
        .apply(
            &example("network-addons-config.yaml")
                .replace("  kubeMacPool:", "  _kubeMacPool:")
                .lines()
                .filter(|line| !line.contains("_kubeMacPool") && !line.contains("range"))
                .collect::<Vec<_>>()
                .join("\n"),
        )
        .await;
    shown.wait("ImagePullBackOff").await;
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster", "--wait=false"])
        .await;
    shown.wait("there is no NetworkAddonsConfig").await;
}

/// The last words of a container, and a value that somebody has put into an object of Weft: a
/// terminal obeys neither.
#[tokio::test]
async fn control_characters_from_the_cluster_are_shown_escaped() {
    // In JSON's escapes, which kwok's YAML knows, too.
    let stage = r#"
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: last-words}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: DoesNotExist}
    - {key: '.spec.containers[0].image | test("multus")', operator: In, values: ["true"]}
    - {key: '.status.containerStatuses[0].lastState.terminated.message', operator: DoesNotExist}
  next:
    statusTemplate: |
      phase: Running
      conditions:
      - {type: Ready, status: "False"}
      containerStatuses:
      - name: {{ (index .spec.containers 0).name }}
        image: multus
        ready: false
        restartCount: 4
        state: {waiting: {reason: CrashLoopBackOff}}
        lastState: {terminated: {exitCode: 1, message: "\u001b[2J\u001b]0;title\u0007\u009b31m\u202e"}}
"#;
    let stages = vec![
        Stage::yaml(stage),
        Stage::stuck(Pods::with_image("multus"), Stuck::CrashLoopBackOff),
    ];
    let cluster = Cluster::start(ClusterOptions {
        stages,
        ..Default::default()
    })
    .await;
    let _operator = Operator::start_lasting(&cluster).await;
    cluster.apply(&example("network-addons-config.yaml")).await;
    let shown = "last exit code 1 ^[[2J^[]0;title^G\\u009b31m\\u202e";
    let status = cluster
        .wait_condition("Progressing", "True", "Deploying", shown)
        .await;
    let is_plain = |text: &str| {
        text.chars()
            .all(|c| c == '\n' || !c.is_control() && c != '\u{202e}')
    };
    let mut escaped = status.clone();
    weft_plan::escape::strings(&mut escaped);
    assert_eq!(status, escaped, "the components say it, too");

    let tree = weft(&cluster, &["status"]).await.ended(0);
    assert!(
        tree.stdout.contains(shown) && is_plain(&tree.stdout),
        "{tree:?}"
    );
    let json = weft(&cluster, &["status", "-o", "json"]).await.ended(0);
    assert!(is_plain(&json.stdout), "{json:?}");
    let workloads = &json.json()["domains"][0]["resources"][0]["components"];
    assert!(
        workloads.to_string().contains("\\u001b[2J"),
        "JSON has what the pod says as it is: {workloads}"
    );

    cluster
        .patch_resource(json!({"metadata": {"annotations": {"weft.network/pause": "true\u{9b}"}}}))
        .await;
    cluster
        .wait_condition("Paused", "True", "Annotated", "")
        .await;
    let edit = json!({"data": {"k": "\u{9b}31m"}});
    cluster
        .patch(kinds::CONFIG_MAP, NAMESPACE, "multus-daemon-config", edit)
        .await;
    let plan = weft_reading(
        &cluster,
        &["plan", "-f", "-"],
        &example("network-addons-config.yaml"),
    )
    .await
    .ended(1);
    assert!(
        plan.stdout.contains("\\u009b31m") && is_plain(&plan.stdout) && is_plain(&plan.stderr),
        "{plan:?}"
    );
}

/// On a terminal the tree is drawn in place, with colour.
#[tokio::test]
async fn a_terminal_is_redrawn_in_place() {
    let cluster = Cluster::start_default().await;
    let _operator = Operator::start_lasting(&cluster).await;
    cluster.apply(&example("network-addons-config.yaml")).await;
    cluster
        .wait_condition("Progressing", "True", "Deploying", "waits for Secret")
        .await;
    let (kubeconfig, folder) = (
        cluster.control_plane.kubeconfig(),
        cluster.control_plane.dir(),
    );
    let mut terminal = Terminal::start(kubeconfig, folder, "status --wait");
    terminal.wait("(does not exist)").await;
    cluster.play_kubemacpool().await;
    assert_eq!(terminal.ended().await, Some(0));
    let text = terminal.shown();
    assert!(
        text.contains("\x1b[33mProgressing\x1b[0m") && text.contains("\x1b[32mAvailable\x1b[0m"),
        "{text:?}"
    );
    // Up to the first line of the tree, and over it.
    assert!(text.contains("A\r\x1b[2K"), "{text:?}");
    let last = text.rsplit("NetworkAddonsConfig cluster").next().unwrap();
    assert!(last.contains("led by"), "the last tree is whole: {last:?}");
    assert!(
        cluster
            .get(kinds::SECRET, NAMESPACE, "kubemacpool-service")
            .await
            .is_some()
    );
}
