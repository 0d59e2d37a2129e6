//! Failures that end by themselves after a repair.

use serde_json::json;
use weft_plan::kinds;
use weft_testenv::{
    Pods, Stage, Stuck,
    proxy::{Fault, Match, Proxy},
};

use super::*;
use crate::system::resistance;

#[tokio::test]
async fn a_job_that_only_fails_says_why_and_makes_way_for_one_that_can_work() {
    // (kwok ends the pods of Jobs well as soon as they run.)
    let stages = vec![Stage::stuck(
        Pods::named("db-sync"),
        Stuck::ImagePullBackOff,
    )];
    let cluster = Cluster::start(ClusterOptions {
        stages,
        ..options()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    database(&cluster, "wrong").await;
    cluster
        .apply(&placement_api("placement", &standalone()))
        .await;
    let told = wait_condition(
        &cluster,
        "placement",
        "DBSyncReady",
        "False",
        "ImagePullBackOff",
    )
    .await;
    let told = condition(&told["status"], "DBSyncReady");
    assert_eq!(
        (&told["reason"], &told["severity"]),
        (&json!("Requested"), &json!("Info")),
        "it is tried again: {told}"
    );
    assert!(
        get(&cluster, kinds::DEPLOYMENT, "placement")
            .await
            .is_none(),
        "nothing runs on a database that is not prepared"
    );
    let jobs = async || {
        cluster
            .kubectl(&[
                "-n",
                NAMESPACE,
                "get",
                "jobs",
                "-o",
                "jsonpath={.items[*].metadata.uid}",
            ])
            .await
    };
    let first = jobs().await;

    // Another password changes nothing of what the Job does, another host does.
    cluster.control_plane.set_stages(&[]).await.unwrap();
    secret(
        &cluster,
        "placement-db",
        &[(
            "url",
            "mysql+pymysql://placement:right@other.example/placement",
        )],
    )
    .await;
    wait_ready(&cluster, "placement").await;
    let second = jobs().await;
    assert!(
        second.split_whitespace().count() == 1 && second != first,
        "{first} -> {second}"
    );
}

#[tokio::test]
async fn only_the_oldest_of_a_namespace_counts_and_the_next_takes_its_place() {
    let cluster = start().await;
    let _operator = Operator::start_default(&cluster).await;
    database(&cluster, "first").await;
    cluster
        .apply(&placement_api("placement", &standalone()))
        .await;
    wait_ready(&cluster, "placement").await;
    let owner = async || {
        get(&cluster, kinds::SERVICE, "placement-public")
            .await
            .unwrap_or_default()["spec"]["selector"]["owner"]
            .clone()
    };

    cluster
        .apply(&placement_api("another", &standalone()))
        .await;
    let told = wait_condition(
        &cluster,
        "another",
        "InputReady",
        "False",
        "only the oldest PlacementAPI of a namespace counts, which is \"placement\"",
    )
    .await;
    assert_eq!(
        condition(&told["status"], "InputReady")["severity"],
        "Warning"
    );
    assert_eq!(owner().await, "placement");
    assert!(get(&cluster, kinds::DEPLOYMENT, "another").await.is_none());

    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "delete",
            "placementapi",
            "placement",
            "--timeout=60s",
        ])
        .await;
    wait_ready(&cluster, "another").await;
    assert_eq!(owner().await, "another");
}

#[tokio::test]
async fn while_another_operator_runs_condition_and_event_say_so() {
    let cluster = start().await;
    let labels = json!({"app": "another"});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager", "image": "example/nova-operator",
    "env": [
        {"name": "RELATED_IMAGE_PLACEMENT_API_IMAGE_URL_DEFAULT", "value": "example/placement"}
    ]}]}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "nova-operator-controller-manager", "namespace": "openstack-operators"
        },
        "spec": {"selector": {"matchLabels": labels}, "template": pod}});
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openstack-operators"}
    });
    cluster
        .apply(&format!("{namespace}\n---\n{deployment}"))
        .await;
    let operator = Operator::start_default(&cluster).await;
    database(&cluster, "first").await;
    cluster
        .apply(&placement_api("placement", &standalone()))
        .await;
    wait_until("an event says so", async || {
        let events = cluster
            .kubectl(&[
                "-n",
                NAMESPACE,
                "get",
                "events",
                "-o",
                "custom-columns=:.reason,:.message",
                "--no-headers",
            ])
            .await;
        let said = events.contains("OtherOperatorRunning")
            && events.contains("openstack-operators/nova-operator-controller-manager");
        if said { Ok(()) } else { Err(events) }
    })
    .await;
    let status = async || {
        get(&cluster, kinds::PLACEMENT_API, "placement")
            .await
            .unwrap_or_default()["status"]
            .clone()
    };
    wait_until("a condition says so", async || {
        let (status, way_out) = (
            status().await,
            "kubectl -n openstack-operators delete deployment nova-operator-controller-manager",
        );
        let ready = condition(&status, "Ready");
        let said = ready["reason"] == "OtherOperatorRunning"
            && ready["message"]
                .as_str()
                .unwrap_or_default()
                .ends_with(way_out);
        if said && ready["status"] == "Unknown" {
            Ok(())
        } else {
            Err(format!("{status:#}"))
        }
    })
    .await;
    assert!(
        get(&cluster, kinds::SERVICE_ACCOUNT, "placement-placement")
            .await
            .is_none()
    );

    // Once that operator has said something itself, its words stay.
    let time = "2026-01-01T00:00:00Z";
    let theirs = json!({
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "Requested", "lastTransitionTime": time}
        ]
    });
    let said = json!({"status": theirs}).to_string();
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "patch",
            "placementapi",
            "placement",
            "--subresource=status",
            "--type=merge",
            "-p",
            &said,
        ])
        .await;
    let before = operator.metric("weft_passes_total").await;
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "annotate",
            "placementapi",
            "placement",
            "a=b",
        ])
        .await;
    operator.wait_passes_beyond(before).await;
    let mut kept = theirs.clone();
    kept["observedGeneration"] = 1.into(); // Weft's, from before.
    assert_eq!(status().await, kept);

    cluster
        .kubectl(&[
            "-n",
            "openstack-operators",
            "scale",
            "deployment",
            "nova-operator-controller-manager",
            "--replicas=0",
        ])
        .await;
    wait_ready(&cluster, "placement").await;
}

/// It sees them wherever they are, not only where Weft itself is usually installed, and what they
/// have left.
#[tokio::test]
async fn a_single_operator_sees_another_one_and_its_webhooks_too() {
    let cluster = Cluster::start(ClusterOptions {
        manifests: &["--domains", "placement"],
        ..options()
    })
    .await;
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}});
    let labels = json!({"app": "another"});
    let pod = json!({
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "manager", "image": "example/placement-operator"}]}
    });
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "placement-operator-controller-manager", "namespace": "elsewhere"},
        "spec": {"selector": {"matchLabels": labels}, "template": pod}});
    // Where nobody answers any more. The test itself checks the result.
    let name = "placement-operator-validating-webhook-configuration";
    let webhooks = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name},
        "webhooks": [{"name": "vplacementapi.kb.io", "clientConfig": {"url": "https://127.0.0.1:1/"}, "failurePolicy": "Ignore", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "rules": [{"apiGroups": ["placement.openstack.org"], "apiVersions": ["v1beta1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["placementapis"]}]}]});
    cluster
        .apply(&format!("{namespace}\n---\n{deployment}\n---\n{webhooks}"))
        .await;
    let _operator = Operator::start_default(&cluster).await;
    database(&cluster, "first").await;
    cluster
        .apply(&placement_api("placement", &standalone()))
        .await;
    let told = async |reason: &str, message: &str| {
        wait_until(message, async || {
            let events = cluster
                .kubectl(&[
                    "-n",
                    NAMESPACE,
                    "get",
                    "events",
                    "-o",
                    "custom-columns=:.reason,:.message",
                    "--no-headers",
                ])
                .await;
            if events.contains(reason) && events.contains(message) {
                Ok(())
            } else {
                Err(events)
            }
        })
        .await;
    };
    told(
        "OtherOperatorRunning",
        "kubectl -n elsewhere delete deployment placement-operator-controller-manager",
    )
    .await;
    cluster
        .delete(
            kinds::DEPLOYMENT,
            "elsewhere",
            "placement-operator-controller-manager",
        )
        .await;
    told(
        "OtherWebhooks",
        &format!("kubectl delete validatingwebhookconfiguration {name}"),
    )
    .await;
    assert!(
        get(&cluster, kinds::SERVICE_ACCOUNT, "placement-placement")
            .await
            .is_none()
    );
    cluster
        .delete(kinds::VALIDATING_WEBHOOK_CONFIGURATION, "", name)
        .await;
    wait_ready(&cluster, "placement").await;
}

#[tokio::test]
async fn a_job_that_failed_is_tried_again_by_the_annotation() {
    let stages = vec![Stage::stuck(
        Pods::named("db-sync"),
        Stuck::ImagePullBackOff,
    )];
    let cluster = Cluster::start(ClusterOptions {
        stages,
        ..options()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    database(&cluster, "first").await;
    cluster
        .apply(&placement_api("placement", &standalone()))
        .await;
    wait_condition(
        &cluster,
        "placement",
        "DBSyncReady",
        "False",
        "ImagePullBackOff",
    )
    .await;
    let job = async || {
        cluster
            .kubectl(&["-n", NAMESPACE, "get", "jobs", "-o", "name"])
            .await
            .trim()
            .trim_start_matches("job.batch/")
            .to_owned()
    };
    let name = job().await;
    let uid = async || {
        get(&cluster, kinds::JOB, &name)
            .await
            .map(|job| job["metadata"]["uid"].clone())
    };
    let first = uid().await;
    // Not the six tries, which take minutes.
    cluster
        .patch(
            kinds::JOB,
            NAMESPACE,
            &name,
            json!({"spec": {"activeDeadlineSeconds": 1}}),
        )
        .await;
    let told = wait_condition(
        &cluster,
        "placement",
        "DBSyncReady",
        "False",
        "weft.network/retry",
    )
    .await;
    assert_eq!(
        condition(&told["status"], "DBSyncReady")["reason"],
        "Error",
        "{told}"
    );
    assert_eq!(
        uid().await,
        first,
        "it stays until somebody wants it otherwise"
    );

    cluster.control_plane.set_stages(&[]).await.unwrap();
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "annotate",
            "placementapi",
            "placement",
            "weft.network/retry=1",
        ])
        .await;
    wait_ready(&cluster, "placement").await;
    let second = uid().await;
    assert!(
        second.is_some() && second != first,
        "{first:?} -> {second:?}"
    );
}

/// The Job of an earlier configuration has the name that the next one needs.
#[tokio::test]
async fn a_job_that_cannot_be_deleted_shows_in_status_event_and_metric() {
    let cluster = start().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    database(&cluster, "first").await;
    let mut spec = standalone();
    spec["preserveJobs"] = true.into();
    cluster.apply(&placement_api("placement", &spec)).await;
    wait_ready(&cluster, "placement").await;
    let failed = async || {
        let (_, _, text) = operator.http("/metrics").await;
        let line = "weft_passes_total{domain=\"placement\",outcome=\"failed\"} ";
        let count = text.lines().find_map(|sample| sample.strip_prefix(line));
        count.map_or(0.0, |count| count.parse::<f64>().unwrap())
    };
    let before = failed().await;

    let deletions = Match::any()
        .user(&cluster.operator_user())
        .verb("delete")
        .resource("jobs");
    let refused = proxy.inject(deletions, Fault::status(403));
    let image = json!({"spec": {"containerImage": "registry.test/placement:2"}});
    cluster
        .patch(kinds::PLACEMENT_API, NAMESPACE, "placement", image)
        .await;
    let message = "the deletion of Job openstack/placement-db-sync: ";
    let live = wait_condition(&cluster, "placement", "DBSyncReady", "False", message).await;
    let said = condition(&live["status"], "DBSyncReady");
    assert_eq!(
        (&said["reason"], &said["severity"]),
        (&json!("Error"), &json!("Warning")),
        "{said}"
    );
    assert_eq!(condition(&live["status"], "Ready")["status"], "False");
    wait_until("an event says so", async || {
        let events = ["get", "events", "-o", "custom-columns=:.reason,:.message"];
        let events = cluster
            .kubectl(&[&["-n", NAMESPACE][..], &events].concat())
            .await;
        let mut lines = events.lines();
        if lines.any(|line| line.starts_with("DBSyncReady") && line.contains(message)) {
            Ok(())
        } else {
            Err(events)
        }
    })
    .await;
    assert!(failed().await > before);

    refused.remove();
    wait_ready(&cluster, "placement").await;
}

/// The finalizer of a PlacementAPI that is being deleted keeps it, and status says why.
#[tokio::test]
async fn a_finalizer_that_cannot_be_taken_off_shows_in_status() {
    let cluster = start().await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let _operator = Operator::start_via(&cluster, &proxy).await;
    database(&cluster, "first").await;
    cluster
        .apply(&placement_api("placement", &standalone()))
        .await;
    wait_ready(&cluster, "placement").await;
    let held = json!({"metadata": {"finalizers": [super::site::FINALIZER]}});
    cluster
        .patch(kinds::PLACEMENT_API, NAMESPACE, "placement", held)
        .await;
    let finalizer = Match::any()
        .user(&cluster.operator_user())
        .verb("patch")
        .resource("placementapis")
        .subresource("");
    let refused = proxy.inject(finalizer, Fault::status(403));
    cluster
        .delete(kinds::PLACEMENT_API, NAMESPACE, "placement")
        .await;
    let message = "the finalizer of PlacementAPI openstack/placement: ";
    wait_condition(&cluster, "placement", "InputReady", "False", message).await;
    refused.remove();
    wait_until("it is gone", async || {
        match get(&cluster, kinds::PLACEMENT_API, "placement").await {
            None => Ok(()),
            Some(live) => Err(format!("{:#}", live["metadata"])),
        }
    })
    .await;
}

/// Weft reads one version of a kind. Where it is not served any more, nothing can be released, and
/// nothing has to be.
#[tokio::test]
async fn a_definition_that_serves_another_version_holds_up_no_deletion() {
    let cluster = start().await;
    cluster.apply(weft_testenv::played::TOPOLOGY).await;
    let operator = Operator::start_default(&cluster).await;
    database(&cluster, "first").await;
    let topology = json!({
        "apiVersion": "topology.openstack.org/v1beta1", "kind": "Topology",
        "metadata": {"name": "zones", "namespace": NAMESPACE}, "spec": {}
    });
    cluster.apply(&topology.to_string()).await;
    let mut spec = standalone();
    spec["topologyRef"] = json!({"name": "zones"});
    cluster.apply(&placement_api("placement", &spec)).await;
    wait_ready(&cluster, "placement").await;
    operator.terminate().await;

    let name = "topologies.topology.openstack.org";
    let definition = cluster
        .get(kinds::CUSTOM_RESOURCE_DEFINITION, "", name)
        .await
        .unwrap();
    let mut old = definition["spec"]["versions"][0].clone();
    let mut new = old.clone();
    (old["served"], new["name"], new["storage"]) = (false.into(), "v1".into(), false.into());
    cluster
        .patch(
            kinds::CUSTOM_RESOURCE_DEFINITION,
            "",
            name,
            json!({"spec": {"versions": [old, new]}}),
        )
        .await;
    wait_until("the version is not served", async || {
        let listed = cluster
            .api(kinds::TOPOLOGY, NAMESPACE)
            .list(&Default::default())
            .await;
        if listed.is_err() {
            Ok(())
        } else {
            Err("it is".to_owned())
        }
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    cluster
        .kubectl(&[
            "-n",
            NAMESPACE,
            "delete",
            "placementapi",
            "placement",
            "--timeout=60s",
        ])
        .await;
}

#[tokio::test]
async fn pods_that_do_not_start_say_why() {
    let of_service = |state| Stage::stuck(Pods::labelled("service", "placement"), state);
    let of_job = Stage::stuck(Pods::named("db-sync"), Stuck::Pending);
    let cluster = Cluster::start(ClusterOptions {
        stages: vec![of_job, of_service(Stuck::Pending)],
        ..options()
    })
    .await;
    let _operator = Operator::start_default(&cluster).await;
    database(&cluster, "first").await;
    cluster
        .apply(&placement_api("placement", &standalone()))
        .await;

    // Why a volume or the network of a pod is not there is in the kubelet's events alone.
    let pod = cluster.wait_creating(NAMESPACE, "placement-db-sync-").await;
    let mount = "MountVolume.SetUp failed for volume \"config-data\" : secret \"placement-config-data\" not found";
    let last = "2026-01-01T00:00:10Z";
    cluster
        .kubelet_warns(&pod, "FailedMount", mount, last)
        .await;
    let name = pod["metadata"]["name"].as_str().unwrap();
    let message = format!("DBsync job still running: pod {name} on node-1: FailedMount: {mount}");
    wait_condition(&cluster, "placement", "DBSyncReady", "False", &message).await;

    // It makes way for the Job of another host.
    let job = async || {
        let live = get(&cluster, kinds::JOB, "placement-db-sync").await;
        live.map(|job| job["metadata"]["uid"].clone())
    };
    let first = job().await;
    secret(
        &cluster,
        "placement-db",
        &[(
            "url",
            "mysql+pymysql://placement:first@other.example/placement",
        )],
    )
    .await;
    wait_until("another Job", async || match job().await {
        Some(uid) if Some(&uid) != first.as_ref() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    cluster
        .control_plane
        .set_stages(&[of_service(Stuck::Pending)])
        .await
        .unwrap();
    // The operator makes another one, unless this one is done already.
    cluster
        .kubectl(&["-n", NAMESPACE, "delete", "job", "placement-db-sync"])
        .await;
    wait_condition(
        &cluster,
        "placement",
        "DBSyncReady",
        "True",
        "DBsync completed",
    )
    .await;

    let pod = cluster.wait_creating(NAMESPACE, "placement-").await;
    let network = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to find plugin \"bridge\" in path [/opt/cni/bin]";
    cluster
        .kubelet_warns(&pod, "FailedCreatePodSandBox", network, last)
        .await;
    let name = pod["metadata"]["name"].as_str().unwrap();
    let message = format!("pod {name} on node-1: FailedCreatePodSandBox: {network}");
    for condition in ["DeploymentReady", "Ready"] {
        wait_condition(&cluster, "placement", condition, "False", &message).await;
    }
    let mut lists = cluster.audit();
    lists.retain(|request| request.resource == "events" && request.verb == "list");
    assert!(!lists.is_empty(), "the causes are in events");
    for request in lists {
        assert!(
            request.namespace == NAMESPACE
                && request.uri.contains("fieldSelector=involvedObject.uid%3D"),
            "{request:?}"
        );
    }

    cluster
        .control_plane
        .set_stages(&[of_service(Stuck::ImagePullBackOff)])
        .await
        .unwrap();
    let told = wait_condition(
        &cluster,
        "placement",
        "DeploymentReady",
        "False",
        "ImagePullBackOff",
    )
    .await;
    assert!(
        condition(&told["status"], "DeploymentReady")["message"]
            .as_str()
            .unwrap()
            .starts_with("Deployment in progress: ")
    );
    assert_eq!(told["status"]["readyCount"], 0);
    cluster.control_plane.set_stages(&[]).await.unwrap();
    wait_ready(&cluster, "placement").await;
}

#[tokio::test]
async fn a_namespace_goes_with_all_that_is_in_it_also_without_an_operator() {
    let cluster = start().await;
    let operator = Operator::start_default(&cluster).await;
    database(&cluster, "first").await;
    cluster
        .apply(&placement_api("placement", &standalone()))
        .await;
    wait_ready(&cluster, "placement").await;
    operator.terminate().await;
    cluster
        .kubectl(&["delete", "namespace", NAMESPACE, "--timeout=60s"])
        .await;
}

#[tokio::test]
async fn the_examples_of_the_page_work_as_they_stand() {
    let page = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/placement.md"
    ))
    .unwrap();
    let examples: Vec<_> = page
        .split("```yaml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let [alone, registered] = examples
        .try_into()
        .expect("two examples; does this test still read the page?");
    let cluster = start().await;
    let _operator = Operator::start_default(&cluster).await;
    cluster.apply(alone).await;
    wait_ready(&cluster, "placement").await;
    let conf = file(&cluster, "placement", "placement.conf").await;
    assert!(
        conf.contains("any%20%24text%20%2541%20works@db.example.com/placement"),
        "{conf}"
    );
    assert!(
        conf.contains("auth_url = https://keystone.example.com:5000"),
        "{conf}"
    );

    // The same service, to be registered: what is missing for that is said.
    cluster.apply(registered).await;
    wait_condition(
        &cluster,
        "placement",
        "InputReady",
        "False",
        "secret/keystone-admin",
    )
    .await;
}

#[tokio::test]
async fn an_object_that_a_policy_changes_has_a_condition_and_is_counted() {
    let cluster = start().await;
    let test = "an_object_that_a_policy_changes_has_a_condition_and_is_counted";
    if !resistance::serves_policies(&cluster, test).await {
        return;
    }
    let operator = Operator::start_default(&cluster).await;
    database(&cluster, "p").await;
    cluster
        .apply(&placement_api("placement", &standalone()))
        .await;
    wait_ready(&cluster, "placement").await;
    let wanted = image(&cluster).await;

    // A mirror leaves the task of the Deployment as it is.
    let policy = resistance::policy_about(kinds::DEPLOYMENT, resistance::MIRROR);
    resistance::enforce_about(kinds::DEPLOYMENT, &cluster, &policy).await;
    let change = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}});
    cluster
        .patch(kinds::DEPLOYMENT, NAMESPACE, "placement", change)
        .await;
    let says = format!("instead of \"{wanted}\"; MutatingAdmissionPolicy \"images\" may do it");
    let live = wait_condition(&cluster, "placement", "Drifted", "True", &says).await;
    let drifted = condition(&live["status"], "Drifted");
    assert_eq!(drifted["reason"], "Altered", "{drifted}");
    operator.wait_metric("weft_drifted_objects", 1.0).await;
    let live = wait_ready(&cluster, "placement").await;
    assert_eq!(condition(&live["status"], "Drifted"), drifted);
    wait_until("an event names the object", async || {
        let path = r#"jsonpath={range .items[?(@.reason=="Drifted")]}{.type} {.note}{"\n"}{end}"#;
        let events = [
            "get",
            "events.v1.events.k8s.io",
            "-n",
            NAMESPACE,
            "-o",
            path,
        ];
        let notes = cluster.kubectl(&events).await;
        let is_named = notes.starts_with("Warning ") && notes.contains(&says);
        is_named.then_some(()).ok_or(notes)
    })
    .await;

    let kinds = "mutatingadmissionpolicybinding,mutatingadmissionpolicy";
    cluster.kubectl(&["delete", kinds, "images"]).await;
    wait(&cluster, "placement", "is not altered any more", |live| {
        condition(&live["status"], "Drifted").is_null()
    })
    .await;
    assert_eq!(image(&cluster).await, wanted);
    operator.wait_metric("weft_drifted_objects", 0.0).await;
    wait_ready(&cluster, "placement").await;
}

/// The image of the first container of the Deployment.
async fn image(cluster: &Cluster) -> String {
    let deployment = get(cluster, kinds::DEPLOYMENT, "placement").await;
    let deployment = deployment.unwrap_or_default();
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    image.as_str().unwrap_or_default().to_owned()
}
