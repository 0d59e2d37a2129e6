//! The switch from the real objects of cluster-network-addons-operator 0.102.0, back, and to the
//! other layout, by `weft manifests`, kustomize and Helm. With the images of its Deployment, the pods
//! restart that `docs/compatibility/network-addons-config.md` lists with a reason, and no others.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use serde_json::{Value, json};
use weft_addons::Image;
use weft_packages::{chart, files, kustomize};
use weft_plan::{ObjectKey, kinds};
use weft_testenv::{Pods, Programs, Stage, Stuck, helm};

use crate::{
    commands::{harness::*, user::*},
    packages::common,
};

const API: &str = "networkaddonsoperator.network.kubevirt.io/v1";
/// Prints the objects of that release.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/cnao-objects");
const PAGE: &str = include_str!("../../../../docs/compatibility/network-addons-config.md");
const GUIDE: &str = include_str!("../../../../docs/migrate-from-cnao.md");

/// The workloads in the page's table of restarts, but for those that restart only on some clusters.
fn listed() -> BTreeSet<String> {
    let (_, rest) = PAGE
        .split_once("A pod restarts when its template changes.")
        .expect("the section about restarts");
    let table = rest.split("\n#").next().unwrap().lines();
    let first_cell = table.filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let workloads = first_cell.filter(|cell| !cell.contains("only where"));
    workloads
        .filter_map(|cell| {
            cell.strip_prefix("DaemonSet `")
                .or(cell.strip_prefix("Deployment `"))?
                .strip_suffix('`')
        })
        .map(str::to_owned)
        .collect()
}

/// The program of KubeMacPool: of 0.102.0, it does not run as Weft deploys it.
const POOL: [&str; 2] = [
    "kubemacpool-cert-manager",
    "kubemacpool-mac-controller-manager",
];
const TLS_MIN_VERSION: &str = "VersionTLS12";
/// The profile Intermediate, by Go's names, in the order of OpenShift's API.
const TLS_CIPHERS: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256";
/// Its object for Prometheus that code of the operator makes, and no template.
const RULE: &str = "prometheus-rules-cluster-network-addons-operator";
/// A part of the text about what the other operator has left. A command follows.
const LEFT: &str = " has left. Delete them when you no longer want to go back: kubectl ";
const RECORD: &str = "cluster-networks-addons-operator-applied-cluster";
const OF_CNAO: &str = "registry.example/cnao/";

fn placement() -> Value {
    let term =
        json!({"matchExpressions": [{"key": "example.com/preferred", "operator": "Exists"}]});
    json!({
        "affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": term}]
        }},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    })
}

/// The default of the release for `placementConfiguration`: of Deployments, and of DaemonSets.
fn default_placement() -> (Value, Value) {
    let prefer = |weight: u32, label: &str| {
        let term = json!({"matchExpressions": [{"key": label, "operator": "Exists"}]});
        json!({"weight": weight, "preference": term})
    };
    let preferred = [
        prefer(10, "node-role.kubernetes.io/control-plane"),
        prefer(1, "node-role.kubernetes.io/master"),
    ];
    let infra = json!({
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    });
    let unschedulable = json!({
        "key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"
    });
    // The original writes an affinity always: its type is no pointer.
    let workloads = json!({
        "nodeSelector": {"kubernetes.io/os": "linux"}, "affinity": {},
        "tolerations": [unschedulable]
    });
    (infra, workloads)
}

fn configuration() -> Value {
    json!({"apiVersion": API, "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"}, "spec": {
        "multus": {}, "multusDynamicNetworks": {}, "linuxBridge": {}, "ovs": {}, "macvtap": {}, "kubeSecondaryDNS": {}, "kubevirtIpamController": {},
        "kubeMacPool": {"rangeStart": "02:00:00:00:00:00", "rangeEnd": "02:00:00:ff:ff:ff"},
        "placementConfiguration": {"infra": placement(), "workloads": placement()},
        "tlsSecurityProfile": {"type": "Intermediate", "intermediate": {}},
        "selfSignConfiguration": {
            "caRotateInterval": "168h0m0s", "caOverlapInterval": "24h0m0s",
            "certRotateInterval": "24h0m0s", "certOverlapInterval": "8h0m0s"
        },
    }})
}

/// The images of the other operator, by its variables. None is Weft's.
fn images() -> Vec<(&'static str, String)> {
    let image = |image: &Image| {
        let name = image.env().to_lowercase();
        (image.env(), format!("{OF_CNAO}{name}:0.102.0"))
    };
    Image::ALL.iter().map(image).collect()
}

/// The other operator's Deployment, account and roles, as far as the switch has to do with them.
fn operator() -> Value {
    let mut variables = vec![
        json!({"name": "OPERATOR_VERSION", "value": "0.102.0"}),
        json!({
            "name": "OPERAND_NAMESPACE",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}
        }),
    ];
    let images = images();
    variables.extend(
        images
            .iter()
            .map(|(name, image)| json!({"name": name, "value": image})),
    );
    let container = json!({
        "name": OPERATOR, "image": format!("{OF_CNAO}{OPERATOR}:v0.102.0"), "env": variables
    });
    let rbac = "rbac.authorization.k8s.io";
    let here = json!({"name": OPERATOR, "namespace": NAMESPACE});
    let everywhere = json!({"name": OPERATOR});
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let subjects = json!([{"kind": "ServiceAccount", "name": OPERATOR, "namespace": NAMESPACE}]);
    let role = |kind: &str, metadata: &Value| {
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": kind, "metadata": metadata, "rules": rules
        })
    };
    let binding = |kind: &str, role: &str, metadata: &Value| {
        json!({
            "apiVersion": format!("{rbac}/v1"), "kind": kind, "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": role, "name": OPERATOR}, "subjects": subjects
        })
    };
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": here, "spec": {
    "strategy": {"type": "Recreate"}, "selector": {"matchLabels": {"name": OPERATOR}},
    "template": {
        "metadata": {"labels": {"name": OPERATOR}},
        "spec": {"serviceAccountName": OPERATOR, "containers": [container]}
    }}});
    let items = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here}),
        role("ClusterRole", &everywhere),
        binding("ClusterRoleBinding", "ClusterRole", &everywhere),
        role("Role", &here),
        binding("RoleBinding", "Role", &here),
        deployment,
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

/// The objects of the release with this placement.
fn templates(placement: &Value) -> Vec<Value> {
    let output = Command::new(SCRIPT)
        .envs(images())
        .env("PLACEMENT", placement.to_string())
        .env("TLS_MIN_VERSION", TLS_MIN_VERSION)
        .env("TLS_CIPHERS", TLS_CIPHERS)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

/// The objects of the release with labels and owner, as its operator sets them. Namespace and
/// definitions have neither. Deployments have the placement `infra`.
fn objects(uid: &Value, infra: &Value, workloads: &Value) -> Vec<Value> {
    let is_deployment = |object: &Value| object["kind"] == "Deployment";
    let mut all = templates(infra);
    all.retain(is_deployment);
    let others = templates(workloads);
    all.extend(others.into_iter().filter(|object| !is_deployment(object)));
    all.push(json!({
        "apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
        "metadata": {"name": RULE, "namespace": NAMESPACE},
        "spec": {"groups": [{"name": "alerts.rules", "rules": [{
            "alert": "CnaoDown", "expr": "cluster:kubevirt_cnao_operator_up:sum == 0", "for": "5m"
        }]}]}
    }));
    let mut objects = BTreeMap::new();
    for mut object in all.into_iter().filter(Value::is_object) {
        let title = format!("{} {}", object["kind"], object["metadata"]["name"]);
        if is_owned(&object) {
            let is_manager =
                object["metadata"]["labels"]["control-plane"] == "mac-controller-manager";
            label(&mut object["metadata"], is_manager);
            object["metadata"]["labels"]["networkaddonsoperator.network.kubevirt.io/version"] =
                "0.102.0".into();
            object["metadata"]["ownerReferences"] = json!([
                {
                    "apiVersion": API, "kind": "NetworkAddonsConfig", "name": "cluster", "uid": uid,
                    "controller": true, "blockOwnerDeletion": true
                }
            ]);
            if object["spec"]["template"].is_object() {
                label(&mut object["spec"]["template"]["metadata"], is_manager);
            }
        }
        objects.insert(title, object);
    }
    objects.into_values().collect()
}

fn is_owned(object: &Value) -> bool {
    object["kind"] != "Namespace" && object["kind"] != "CustomResourceDefinition"
}

fn label(metadata: &mut Value, is_manager: bool) {
    metadata["labels"]["prometheus.cnao.io"] = (!is_manager).to_string().into();
    metadata["labels"]["app.kubernetes.io/component"] = "network".into();
    metadata["labels"]["app.kubernetes.io/managed-by"] = "cnao-operator".into();
}

/// Builds after 0.102.0 give KubeMacPool its TLS settings by arguments, and order the variables of
/// its certificate manager in another way.
fn as_of_a_later_build(objects: &mut [Value]) {
    for object in objects
        .iter_mut()
        .filter(|object| POOL.iter().any(|name| object["metadata"]["name"] == *name))
    {
        let is_manager = object["metadata"]["name"] == POOL[1];
        let container = &mut object["spec"]["template"]["spec"]["containers"][0];
        let variables = container["env"].as_array_mut().unwrap();
        match is_manager {
            false => variables.reverse(),
            true => {
                variables
                    .retain(|variable| !variable["name"].as_str().unwrap().starts_with("TLS_"));
                container["args"].as_array_mut().unwrap().extend([
                    Value::from(format!("--tls-min-version={TLS_MIN_VERSION}")),
                    Value::from(format!("--tls-cipher-suites={TLS_CIPHERS}")),
                ]);
            }
        }
    }
}

/// Installs the other operator, and its objects as it writes them: by update, as `manager`.
async fn install(cluster: &Cluster, objects: &[Value]) {
    cluster.apply(&operator().to_string()).await;
    let (mut missing, mut there) = (Vec::new(), Vec::new());
    for object in objects {
        let key = ObjectKey::of(object).unwrap();
        let namespace = key.namespace.as_deref().unwrap_or_default();
        match cluster.get(key.kind, namespace, &key.name).await {
            None => missing.push(object),
            Some(_) if is_owned(object) => there.push(object),
            // The operator changes labels of the namespace only.
            Some(_) => {}
        }
    }
    for (verb, items) in [("create", missing), ("replace", there)] {
        // Its templates have null where a text is empty, which kubectl would refuse.
        let arguments = [
            verb,
            "--validate=ignore",
            "--field-manager=manager",
            "-f",
            "-",
        ];
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        if !items.is_empty() {
            cluster
                .control_plane
                .kubectl_with_input(&arguments, &list.to_string())
                .await
                .unwrap();
        }
    }
    for secret in ["kubemacpool-service", "webhook-server-cert"] {
        cluster.play_certificate(secret).await;
    }
    // As cert-manager marks what it issues.
    let issued = json!({
        "metadata": {
            "annotations": {
                "cert-manager.io/certificate-name": "kubevirt-ipam-controller-serving-cert"
            }
        }
    });
    cluster
        .patch(kinds::SECRET, NAMESPACE, "webhook-server-cert", issued)
        .await;
}

/// The state of the add-ons by `weft migrate --check`.
async fn inspect(cluster: &Cluster) -> Value {
    let arguments = ["migrate", "--check", "--domains", "addons", "-o", "json"];
    weft(cluster, &arguments).await.ended(0).json()["domains"][0].clone()
}

/// The arguments of kubectl that delete what the other operator has left, if something is left. All
/// forms of `weft status` name the same, and call it no problem.
async fn left(cluster: &Cluster) -> Option<String> {
    let json = ["status", "--domains", "addons", "-o", "json"];
    let json = weft(cluster, &json).await.ended(0).json();
    let command = json["domains"][0]["leftovers"]["command"].as_str();
    let arguments = command.map(|command| command.strip_prefix("kubectl ").unwrap().to_owned());
    for form in [&["status"][..], &["status", "--installation"][..]] {
        let shown = weft(cluster, form).await.ended(0).stdout;
        let named = shown.lines().find_map(|line| line.split_once(LEFT));
        let named = named.map(|(_, named)| named.to_owned());
        assert_eq!(named, arguments, "{form:?}: {shown}");
    }
    let problems = weft(cluster, &["status", "--problems"]).await.ended(0);
    assert!(!problems.stdout.contains(LEFT), "{problems:?}");
    let problems = ["status", "--problems", "--domains", "addons", "-o", "json"];
    let problems = weft(cluster, &problems).await.ended(0).json();
    let domain = &problems["domains"][0];
    assert_eq!(domain["domain"], "addons", "{domain:#}");
    assert!(domain["leftovers"].is_null(), "{domain:#}");
    arguments
}

/// `weft ARGUMENTS | kubectl apply -f -`. Returns the notes.
async fn apply_printed(cluster: &Cluster, arguments: &[&str]) -> String {
    let printed = weft(cluster, arguments).await.ended(0);
    cluster.apply(&printed.stdout).await;
    printed.stderr
}

/// The workloads that restart by the inspection, each with the reason.
fn reasons(inspected: &Value) -> BTreeMap<String, String> {
    let restarts = inspected["resources"][0]["restarts"].as_array().unwrap();
    let text = |value: &Value| {
        value
            .as_str()
            .unwrap_or_else(|| panic!("{inspected:#}"))
            .to_owned()
    };
    restarts
        .iter()
        .map(|restart| (text(&restart["name"]), text(&restart["reason"])))
        .collect()
}

/// Waits until all workloads are Weft's.
async fn taken_over(cluster: &Cluster, workloads: &[String]) {
    wait_until("Weft has taken over", async || {
        for workload in workloads {
            let live = workload_of(cluster, workload).await?;
            if live["metadata"]["labels"]["weft.network/owner"].is_null()
                || live["status"]["observedGeneration"] != live["metadata"]["generation"]
            {
                return Err(format!("{workload}: {:#}", live["metadata"]));
            }
        }
        Ok(())
    })
    .await;
}

/// The objects of the operator's own monitoring that are there.
async fn monitoring(cluster: &Cluster) -> Vec<&'static str> {
    let mut there = Vec::new();
    for (kind, name) in [
        (
            kinds::SERVICE,
            "cluster-network-addons-operator-prometheus-metrics",
        ),
        (
            kinds::SERVICE_MONITOR,
            "service-monitor-cluster-network-addons-operator",
        ),
        (kinds::PROMETHEUS_RULE, RULE),
        (kinds::ROLE, "cluster-network-addons-operator-monitoring"),
        (
            kinds::ROLE_BINDING,
            "cluster-network-addons-operator-monitoring",
        ),
    ] {
        if cluster.get(kind, NAMESPACE, name).await.is_some() {
            there.push(name);
        }
    }
    there
}

/// The pods of each workload by their uids, once each has the pods that it wants, by its present
/// template.
async fn pods(cluster: &Cluster, workloads: &[String]) -> BTreeMap<String, BTreeSet<String>> {
    wait_until("each workload has its pods", async || {
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for pod in cluster
            .api(kinds::POD, NAMESPACE)
            .list(&Default::default())
            .await
            .unwrap()
        {
            let pod = serde_json::to_value(pod).unwrap();
            let name = pod["metadata"]["name"].as_str().unwrap();
            let is_there = pod["metadata"]["deletionTimestamp"].is_null();
            // No workload's name begins with another one and a hyphen.
            for workload in workloads
                .iter()
                .filter(|workload| is_there && name.starts_with(&format!("{workload}-")))
            {
                found
                    .entry(workload.clone())
                    .or_default()
                    .insert(pod["metadata"]["uid"].to_string());
            }
        }
        for workload in workloads {
            let live = workload_of(cluster, workload).await?;
            let wanted = live["spec"]["replicas"].as_u64().unwrap_or(1);
            let status = &live["status"];
            let updated = match live["kind"] == "DaemonSet" {
                true => &status["updatedNumberScheduled"],
                false => &status["updatedReplicas"],
            };
            if status["observedGeneration"] != live["metadata"]["generation"]
                || *updated != wanted
                || found.get(workload).map_or(0, |pods| pods.len() as u64) != wanted
            {
                return Err(format!(
                    "{workload} wants {wanted} pods: {found:#?}, {status:#}"
                ));
            }
        }
        Ok(found)
    })
    .await
}

/// The DaemonSet or Deployment of this name.
async fn workload_of(cluster: &Cluster, name: &str) -> Result<Value, String> {
    let daemon_set = cluster.get(kinds::DAEMON_SET, NAMESPACE, name).await;
    match daemon_set {
        Some(live) => Ok(live),
        None => cluster
            .get(kinds::DEPLOYMENT, NAMESPACE, name)
            .await
            .ok_or(format!("{name} is gone")),
    }
}

/// A cluster with the objects of the release, and without an operator of Weft.
async fn with_cnao(
    configuration: &Value,
    infra: &Value,
    workloads: &Value,
) -> (Cluster, Vec<Value>) {
    let cluster = Cluster::start(ClusterOptions {
        nodes: 1,
        ..Default::default()
    })
    .await;
    cluster
        .define(&[
            "servicemonitors.monitoring.coreos.com",
            "prometheusrules.monitoring.coreos.com",
            "certificates.cert-manager.io",
            "issuers.cert-manager.io",
        ])
        .await;
    let delete_operator = ["-n", NAMESPACE, "delete", "deployment", OPERATOR, "--wait"];
    cluster.kubectl(&delete_operator).await;
    cluster.apply(&configuration.to_string()).await;
    let uid = cluster.resource().await.unwrap()["metadata"]["uid"].clone();
    let objects = objects(&uid, infra, workloads);
    install(&cluster, &objects).await;
    (cluster, objects)
}

fn keys(objects: &[Value]) -> Vec<ObjectKey> {
    let owned = objects.iter().filter(|object| is_owned(object));
    owned.map(|object| ObjectKey::of(object).unwrap()).collect()
}

fn workloads(objects: &[Value]) -> Vec<String> {
    let workloads = objects
        .iter()
        .filter(|object| object["spec"]["template"].is_object())
        .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned());
    let workloads: Vec<_> = workloads.collect();
    assert_eq!(workloads.len(), 10, "{workloads:?}");
    workloads
}

/// The workloads that have other pods after.
fn restarted(
    before: &BTreeMap<String, BTreeSet<String>>,
    after: &BTreeMap<String, BTreeSet<String>>,
) -> BTreeSet<String> {
    let workloads = before.keys();
    workloads
        .filter(|workload| before[*workload] != after[*workload])
        .cloned()
        .collect()
}

/// Stops Weft's operator and gives all back to the other one.
async fn release(cluster: &Cluster, operator: Operator) {
    operator.terminate().await;
    let namespace = cluster.operator.namespace.as_deref().unwrap();
    let scale = [
        "scale",
        "deployment",
        &cluster.operator.name,
        "--replicas=0",
    ];
    cluster
        .kubectl(&[&["-n", namespace][..], &scale].concat())
        .await;
    weft(cluster, &["release", "addons", "--yes"])
        .await
        .ended(0);
}

/// The number of restarts in the page is that of its table, on three nodes.
#[test]
fn the_page_has_the_number_of_pods_that_restart() {
    let (infra, workloads) = default_placement();
    let objects = objects(&Value::Null, &infra, &workloads);
    let pods = |chosen: &dyn Fn(&str) -> bool| -> u64 {
        let templates = objects
            .iter()
            .filter(|object| object["spec"]["template"].is_object())
            .filter(|object| chosen(object["metadata"]["name"].as_str().unwrap()));
        templates
            .map(|object| match object["kind"] == "DaemonSet" {
                true => 3,
                false => object["spec"]["replicas"].as_u64().unwrap_or(1),
            })
            .sum()
    };
    let listed = listed();
    let all = pods(&|_| true);
    let restart = pods(&|name| listed.contains(name));
    let of_later = pods(&|name| listed.contains(name) && !POOL.contains(&name));
    let text = PAGE.replace('\n', " ");
    let sentence = format!(
        "On three nodes, {restart} of {all} pods restart from 0.102.0, and {of_later} from a later build"
    );
    assert!(text.contains(&sentence), "{sentence}");
}

#[tokio::test]
async fn in_both_layouts_images_stay_and_only_the_listed_pods_restart() {
    let placement = placement();
    let (mut cluster, mut objects) = with_cnao(&configuration(), &placement, &placement).await;
    let (keys, workloads) = (keys(&objects), workloads(&objects));
    let before = pods(&cluster, &workloads).await;

    // In the place of the other operator, by the command that the check prints.
    let inspected = inspect(&cluster).await;
    let mut taken: BTreeMap<_, _> = images().into_iter().collect();
    taken.remove("KUBEMACPOOL_IMAGE");
    assert_eq!(inspected["images"], json!(taken));
    assert!(
        inspected["notes"]
            .to_string()
            .contains("its own KUBEMACPOOL_IMAGE")
    );
    let reasons_of_release = reasons(&inspected);
    assert_eq!(
        reasons_of_release.keys().cloned().collect::<BTreeSet<_>>(),
        listed()
    );
    assert_eq!(reasons_of_release[POOL[0]], "another image");
    let switch = inspected["switch"].as_str().unwrap();
    assert_eq!(
        switch,
        "weft manifests --split --domains addons --running-images | kubectl apply -f -"
    );
    let arguments = switch.split(' ').skip(1).take_while(|word| *word != "|");
    apply_printed(&cluster, &arguments.collect::<Vec<_>>()).await;
    cluster.read_operator().await;
    let resource = configuration().to_string();
    let planned = Planned::of(&cluster, &resource, &[], keys.clone()).await;
    assert_eq!(planned.restarts(), listed(), "{}", planned.reasons());

    // One add-on is in trouble before, and its new pods, too.
    let stuck = Stage::stuck(Pods::named("^ovs-cni-amd64-"), Stuck::ImagePullBackOff);
    cluster.control_plane.set_stages(&[stuck]).await.unwrap();
    let operator = Operator::start_default(&cluster).await;
    taken_over(&cluster, &workloads).await;
    cluster
        .wait_condition("Progressing", "True", "Deploying", "ImagePullBackOff: ")
        .await;
    cluster.control_plane.set_stages(&[]).await.unwrap();
    let resource = cluster.wait_available().await;
    assert_eq!(planned.assert_happened(&cluster).await, listed());
    let after = pods(&cluster, &workloads).await;
    assert_eq!(restarted(&before, &after), listed());
    assert_eq!(monitoring(&cluster).await.len(), 5);
    assert_eq!(
        left(&cluster).await,
        None,
        "all of these names are Weft's own"
    );
    let containers = resource["status"]["containers"].as_array().unwrap();
    for container in containers {
        let is_of_pool = POOL.iter().any(|name| container["parentName"] == *name);
        let is_of_cnao = container["image"].as_str().unwrap().starts_with(OF_CNAO);
        assert!(is_of_cnao != is_of_pool, "{container}");
    }

    // Back, to a later build.
    release(&cluster, operator).await;
    as_of_a_later_build(&mut objects);
    install(&cluster, &objects).await;
    let before = pods(&cluster, &workloads).await;

    // To the other layout. The second command of the check deletes the other operator's Deployment,
    // which rests here instead.
    let inspected = inspect(&cluster).await;
    let switch = &inspected["switchToOneOperator"];
    let delete = format!("kubectl -n {NAMESPACE} delete deployment {OPERATOR}");
    assert_eq!(switch[1], delete, "{switch:#}");
    let (arguments, _) = switch[0].as_str().unwrap().split_once(" | ").unwrap();
    let manifests: Vec<_> = arguments.split(' ').skip(1).collect();
    assert_eq!(
        manifests,
        ["manifests", "--domains", "addons", "--running-images"]
    );
    let notes = apply_printed(&cluster, &manifests).await;
    assert!(
        notes.contains(&format!(
            "10 images are those of Deployment {NAMESPACE}/{OPERATOR}"
        )),
        "{notes}"
    );
    cluster.operator = ObjectKey::new(kinds::DEPLOYMENT, "weft-system", "weft-operator");
    cluster.read_operator().await;
    let mut expected = listed();
    for name in POOL {
        assert!(expected.remove(name), "{name}");
    }
    let planned = Planned::of(&cluster, &configuration().to_string(), &[], keys).await;
    assert_eq!(planned.restarts(), expected, "{}", planned.reasons());
    let operator = Operator::start_default(&cluster).await;
    cluster
        .wait_condition("Blocked", "True", "OtherOperatorRunning", OPERATOR)
        .await;
    assert_eq!(before, pods(&cluster, &workloads).await);
    let blocked = weft(&cluster, &["status"]).await.ended(3).stdout;
    assert!(!blocked.contains(LEFT), "{blocked}");
    let scale = ["scale", "deployment", OPERATOR, "--replicas=0"];
    cluster
        .kubectl(&[&["-n", NAMESPACE][..], &scale].concat())
        .await;
    taken_over(&cluster, &workloads).await;
    let resource = cluster.wait_available().await;
    assert_eq!(planned.assert_happened(&cluster).await, expected);
    let after = pods(&cluster, &workloads).await;
    assert_eq!(restarted(&before, &after), expected);
    let containers = resource["status"]["containers"].as_array().unwrap();
    let is_of_cnao = |container: &Value| container["image"].as_str().unwrap().starts_with(OF_CNAO);
    assert!(containers.iter().all(is_of_cnao), "{containers:#?}");

    // Of the other operator, its Deployment, account and roles stay. Release 0.1.0 of Weft also left
    // its objects for Prometheus. Weft deletes those at the first reconcile alone.
    assert_eq!(monitoring(&cluster).await, Vec::<&str>::new());
    let rule = objects
        .iter()
        .find(|object| object["metadata"]["name"] == RULE);
    cluster
        .control_plane
        .kubectl_with_input(&["create", "-f", "-"], &rule.unwrap().to_string())
        .await
        .unwrap();
    let of_operator = [
        "deployment",
        "serviceaccount",
        "role",
        "rolebinding",
        "clusterrole",
        "clusterrolebinding",
    ];
    let of_operator = of_operator.map(|kind| format!("{kind}/{OPERATOR}"));
    let delete_all = format!(
        "-n {NAMESPACE} delete {} prometheusrule/{RULE}",
        of_operator.join(" ")
    );
    assert_eq!(left(&cluster).await, Some(delete_all.clone()));
    let noted = |inspected: &Value| {
        let mut notes = inspected["notes"].as_array().unwrap().iter();
        notes.find_map(|note| Some(note.as_str()?.split_once(LEFT)?.1.to_owned()))
    };
    assert_eq!(noted(&inspect(&cluster).await), Some(delete_all.clone()));

    // A user who may not read roles sees nothing of it, and no error.
    let viewer = viewer(&cluster).await;
    wait_until(
        "Kubernetes has added the roles to view",
        async || match run(&viewer, &["status", "--installation"], "").await {
            run if run.code == 0 => {
                assert!(!run.stdout.contains(LEFT), "{run:?}");
                Ok(())
            }
            run => Err(format!("{run:?}")),
        },
    )
    .await;

    // Weft needs none of it.
    cluster
        .kubectl(&delete_all.split(' ').collect::<Vec<_>>())
        .await;
    assert_eq!(left(&cluster).await, None);
    assert_eq!(noted(&inspect(&cluster).await), None);

    // Back from there, with the record.
    let range = json!({"spec": {"kubeMacPool": {"rangeEnd": "02:00:00:00:ff:ff"}}});
    cluster.patch_resource(range).await;
    cluster.wait_available().await;
    release(&cluster, operator).await;
    let record = cluster
        .get(kinds::CONFIG_MAP, NAMESPACE, RECORD)
        .await
        .unwrap();
    let applied = record["data"]["applied"].as_str().unwrap();
    assert!(applied.contains("02:00:00:00:ff:ff"), "{applied}");
    assert_eq!(
        cluster.get(kinds::CONFIG_MAP, "weft-system", RECORD).await,
        None
    );
}

/// The first commands below this heading of the guide.
fn commands(heading: &str) -> &str {
    let (_, section) = GUIDE.split_once(&format!("### {heading}\n")).unwrap();
    let (_, block) = section.split_once("```console\n").unwrap();
    block.split_once("```").unwrap().0
}

/// Runs these commands as a user at a shell, in a folder with the packages.
async fn run_in_shell(cluster: &Cluster, folder: &Path, commands: &str) {
    let kubectl = Programs::find().unwrap().get("kubectl").unwrap();
    let programs = [weft_binary(), kubectl, helm::program().unwrap()];
    let mut path: Vec<_> = programs
        .iter()
        .map(|program| program.parent().unwrap().to_owned())
        .collect();
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let output = tokio::process::Command::new("bash")
        .args(["-euo", "pipefail", "-c", commands])
        .current_dir(folder)
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("HOME", folder)
        .env("KUBECONFIG", cluster.control_plane.kubeconfig())
        .output()
        .await
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{commands}\n{}\n{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// From the default placement, whose labels the templates of the release have and Weft's do not.
#[tokio::test]
async fn by_kustomize_and_by_helm_only_the_listed_pods_restart() {
    let mut configuration = configuration();
    let spec = configuration["spec"].as_object_mut().unwrap();
    spec.remove("placementConfiguration").unwrap();
    let (infra, on_nodes) = default_placement();
    let (mut cluster, objects) = with_cnao(&configuration, &infra, &on_nodes).await;
    let (keys, workloads) = (keys(&objects), workloads(&objects));
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("target/packages");
    let (weft, images) = (common::weft(), common::images());
    for (name, written) in [
        ("weft", chart::files(&weft, &images).unwrap()),
        ("kustomize", kustomize::files(&weft, &images).unwrap()),
    ] {
        files::write(&packages.join(name), &written).unwrap();
    }
    for (heading, workload) in [
        ("By kustomize", (NAMESPACE, OPERATOR)),
        ("By Helm", ("weft-system", "weft-operator")),
    ] {
        let before = pods(&cluster, &workloads).await;
        run_in_shell(&cluster, folder.path(), commands(heading)).await;
        cluster.operator = ObjectKey::new(kinds::DEPLOYMENT, workload.0, workload.1);
        cluster.read_operator().await;
        let text = configuration.to_string();
        let planned = Planned::of(&cluster, &text, &[], keys.clone()).await;
        assert_eq!(
            planned.restarts(),
            listed(),
            "{heading}: {}",
            planned.reasons()
        );
        let operator = Operator::start_default(&cluster).await;
        taken_over(&cluster, &workloads).await;
        let resource = cluster.wait_available().await;
        let after = pods(&cluster, &workloads).await;
        assert_eq!(restarted(&before, &after), listed(), "{heading}");
        for container in resource["status"]["containers"].as_array().unwrap() {
            let is_of_pool = POOL.iter().any(|name| container["parentName"] == *name);
            let is_of_cnao = container["image"].as_str().unwrap().starts_with(OF_CNAO);
            assert!(is_of_cnao != is_of_pool, "{heading}: {container}");
        }
        // For the next one.
        release(&cluster, operator).await;
        install(&cluster, &objects).await;
    }
}
