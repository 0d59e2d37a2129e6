//! The Helm chart with the real Helm: it installs what `weft manifests` prints, and lives with a
//! real control plane.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use super::common::{ACCOUNT, NAMESPACE, operator, run, weft};

use serde_json::{Value, json};
use weft_packages::{
    chart,
    domains::DOMAINS,
    files,
    manifests::key,
    permissions::{Permission, apart, without_repetitions},
    release::Images,
};
use weft_testenv::{ControlPlane, built, helm, wait::wait_until};

/// Writes the chart into a folder.
fn write(folder: &Path) -> PathBuf {
    let chart = folder.join("weft");
    files::write(
        &chart,
        &chart::files(&weft(), &Images::usual().unwrap()).unwrap(),
    )
    .unwrap();
    chart
}

/// Runs Helm. Returns its output and its errors.
fn helm(arguments: &[&str], kubeconfig: Option<&Path>) -> Result<String, String> {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(helm::program().unwrap());
    command.args(arguments).env("HOME", home.path());
    if let Some(kubeconfig) = kubeconfig {
        command.env("KUBECONFIG", kubeconfig);
    }
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    match output.status.success() {
        true => Ok(text(output.stdout)),
        false => Err(text(output.stdout) + &text(output.stderr)),
    }
}

fn template(chart: &Path, values: &[&str]) -> Result<String, String> {
    let sets = values.iter().flat_map(|value| ["--set", value]);
    template_with(chart, sets)
}

fn template_with<'a>(
    chart: &'a Path,
    sets: impl IntoIterator<Item = &'a str>,
) -> Result<String, String> {
    let chart = chart.to_str().unwrap();
    let arguments: Vec<&str> = ["template", "weft", chart, "--namespace", NAMESPACE]
        .into_iter()
        .chain(sets)
        .collect();
    helm(&arguments, None)
}

/// Objects by kind, namespace and name, without differences in form: rules of roles as single
/// permissions, and variables by name. Helm keeps definitions and namespaces, brings the namespace
/// of the release itself, and has a test among its objects.
fn alike(objects: Vec<Value>) -> BTreeMap<(String, String, String), (Value, BTreeSet<Permission>)> {
    let mut alike = BTreeMap::new();
    for mut object in objects {
        let key = key(&object);
        let is_test = object["metadata"]["annotations"]["helm.sh/hook"] == "test";
        if is_test || (key.0.as_str(), key.2.as_str()) == ("Namespace", NAMESPACE) {
            continue;
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            let annotations = metadata.get_mut("annotations");
            if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
                annotations.remove("helm.sh/resource-policy");
            }
            metadata.retain(|_, value| *value != json!({}));
        }
        let permissions = without_repetitions(&apart(&object["rules"]));
        if object.get("rules").is_some() {
            object["rules"] = Value::Null;
        }
        let variables = object.pointer_mut("/spec/template/spec/containers/0/env");
        if let Some(variables) = variables.and_then(Value::as_array_mut) {
            variables.sort_by_key(|variable| variable["name"].to_string());
        }
        assert!(
            alike.insert(key.clone(), (object, permissions)).is_none(),
            "{key:?} twice"
        );
    }
    alike
}

#[test]
fn the_chart_installs_what_weft_manifests_prints() {
    let folder = tempfile::tempdir().unwrap();
    let chart = write(folder.path());
    let network = "clusterNetwork.enabled=true";
    let placement = "placement.enabled=true";
    let image = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let digest = format!("agentImage.digest={image}");
    let agent = format!("registry.example/agent@{image}");
    let addons_only = "nodeNetwork.enabled=false";
    let monitored = "monitoring.enabled=true";
    for (values, arguments) in [
        (vec![], vec![]),
        (
            vec![network, placement],
            vec!["--domains", "addons,cluster-network,node-network,placement"],
        ),
        (
            vec![addons_only, "addons.components={multus,linux-bridge}"],
            vec!["--components", "multus,linux-bridge"],
        ),
        (
            vec![addons_only, "addons.components={kubemacpool}"],
            vec!["--components", "kubemacpool"],
        ),
        (
            vec![
                addons_only,
                "addons.components={multus,multus-dynamic-networks,ovs,secondary-dns,nmstate}",
            ],
            vec![
                "--components",
                "multus,multus-dynamic-networks,ovs,secondary-dns,nmstate",
            ],
        ),
        (
            vec![
                addons_only,
                "addons.components={macvtap,kubevirt-ipam-controller}",
            ],
            vec!["--components", "macvtap,kubevirt-ipam-controller"],
        ),
        (
            vec![
                network,
                "addons.enabled=false",
                addons_only,
                "clusterNetwork.components={flannel}",
                "clusterNetwork.apiServer.host=192.0.2.1",
            ],
            vec![
                "--domains",
                "cluster-network",
                "--components",
                "flannel",
                "--api-server",
                "https://192.0.2.1:6443",
            ],
        ),
        (
            vec![
                network,
                placement,
                "placement.namespaces={lab,openstack}",
                "placement.keystoneUrls={https://a.example,https://b.example:5000}",
                "clusterNetwork.components={openshift-sdn,kube-proxy}",
            ],
            vec![
                "--domains",
                "addons,cluster-network,node-network,placement",
                "--placement-namespaces",
                "lab,openstack",
                "--keystone-urls",
                "https://a.example,https://b.example:5000",
                "--components",
                "openshift-sdn,kube-proxy",
            ],
        ),
        (
            vec![
                network,
                "clusterNetwork.nodeKubeconfig=/etc/kubernetes/kubelet.conf",
            ],
            vec![
                "--domains",
                "addons,cluster-network,node-network",
                "--node-kubeconfig",
                "/etc/kubernetes/kubelet.conf",
            ],
        ),
        (
            vec![
                "env[0].name=MULTUS_IMAGE",
                "env[0].value=registry.example/multus:v4",
            ],
            vec![
                "--operand-images",
                "MULTUS_IMAGE=registry.example/multus:v4",
            ],
        ),
        (vec![monitored], vec!["--monitoring"]),
        (
            vec![
                monitored,
                addons_only,
                "monitoring.prometheus.namespace=observability",
                "monitoring.prometheus.serviceAccount=scraper",
            ],
            vec!["--domains", "addons", "--monitoring=observability/scraper"],
        ),
        (
            vec![monitored, network, placement],
            vec![
                "--domains",
                "addons,cluster-network,node-network,placement",
                "--monitoring",
            ],
        ),
        (
            vec![network, placement, "placement.namespaces={*}"],
            vec![
                "--domains",
                "addons,cluster-network,node-network,placement",
                "--placement-namespaces",
                "*",
            ],
        ),
        (
            vec![
                "image.repository=registry.example:5000/team/weft",
                "image.tag=1.2.3",
                "image.pullPolicy=Always",
                "agentImage.repository=registry.example/agent",
                &digest,
            ],
            vec![
                "--image",
                "registry.example:5000/team/weft:1.2.3",
                "--agent-image",
                &agent,
                "--image-pull-policy",
                "Always",
            ],
        ),
    ] {
        // The same values as `weft manifests` prints them.
        let printed = folder.path().join("values.yaml");
        let as_values = [&arguments[..], &["-o", "helm-values"]].concat();
        std::fs::write(&printed, weft().text(&as_values).unwrap()).unwrap();
        let printed = ["--values", printed.to_str().unwrap()];
        let of_weft = alike(weft().manifests(&arguments).unwrap());
        for text in [
            template(&chart, &values).unwrap(),
            template_with(&chart, printed).unwrap(),
        ] {
            let of_helm = alike(super::common::objects(&text));
            let keys = |all: &BTreeMap<_, _>| all.keys().cloned().collect::<Vec<_>>();
            assert_eq!(keys(&of_helm), keys(&of_weft), "{values:?}");
            for (key, (object, permissions)) in &of_weft {
                let (found, granted) = &of_helm[key];
                assert_eq!(found, object, "{values:?}: {key:?}");
                let differing: Vec<_> = granted.symmetric_difference(permissions).collect();
                assert!(differing.is_empty(), "{values:?}: {key:?}: {differing:?}");
            }
        }
    }
}

/// A component that one of them lacked could not be chosen.
#[test]
fn chart_and_schema_know_the_components_of_weft_manifests() {
    let refused = weft().manifests(&["--components", "none"]).unwrap_err();
    let refused = refused.to_string();
    let (_, rest) = refused.split_once("[possible values: ").unwrap();
    let known: BTreeSet<&str> = rest.split_once(']').unwrap().0.split(", ").collect();
    let components = DOMAINS.iter().flat_map(|domain| domain.components);
    assert_eq!(components.copied().collect::<BTreeSet<_>>(), known);
    let files = chart::files(&weft(), &Images::usual().unwrap()).unwrap();
    let schema: Value = serde_json::from_str(&files["values.schema.json"]).unwrap();
    for domain in DOMAINS.iter().filter(|one| !one.components.is_empty()) {
        let values = &schema["properties"][domain.values]["properties"]["components"];
        assert_eq!(values["items"]["enum"], json!(domain.components));
    }
}

#[test]
fn values_of_users_reach_the_operator() {
    let folder = tempfile::tempdir().unwrap();
    let chart = write(folder.path());
    let text = template(
        &chart,
        &[
            "replicas=2",
            "imagePullSecrets[0].name=registry",
            "nodeSelector.zone=a",
            "tolerations[0].operator=Exists",
            "resources.limits.memory=1Gi",
            "env[0].name=MULTUS_IMAGE",
            "env[0].value=registry.example/multus:v4",
        ],
    )
    .unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let deployment = objects
        .iter()
        .find(|object| object["kind"] == "Deployment")
        .unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "registry"}]));
    assert_eq!(pod["nodeSelector"], json!({"zone": "a"}));
    assert_eq!(pod["tolerations"][0], json!({"operator": "Exists"}));
    let container = &pod["containers"][0];
    assert_eq!(container["resources"], json!({"limits": {"memory": "1Gi"}}));
    // The API server refuses an apply with two variables of one name.
    let variables = container["env"].as_array().unwrap().iter();
    let images: Vec<_> = variables
        .filter(|variable| variable["name"] == "MULTUS_IMAGE")
        .collect();
    let image = json!({"name": "MULTUS_IMAGE", "value": "registry.example/multus:v4"});
    assert_eq!(images, [&image]);
}

#[test]
fn wrong_values_are_refused_with_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let chart = write(folder.path());
    for (values, said) in [
        (vec!["addons.components={multsu}"], "addons/components/0"),
        (vec!["addon.enabled=true"], "'addon'"),
        (vec!["image.tag=a b"], "image/tag"),
        (
            vec!["clusterNetwork.apiServer.port=70000"],
            "clusterNetwork/apiServer/port",
        ),
        (
            vec!["clusterNetwork.nodeKubeconfig=kubelet.conf"],
            "clusterNetwork/nodeKubeconfig",
        ),
        (
            vec![
                "clusterNetwork.nodeKubeconfig=/etc/kubernetes/kubelet.conf",
                "clusterNetwork.apiServer.host=192.0.2.1",
            ],
            "set one of them",
        ),
        (
            vec!["monitoring.prometheus.namespace=a/b"],
            "monitoring/prometheus/namespace",
        ),
        (
            vec!["addons.enabled=false", "nodeNetwork.enabled=false"],
            "no domain is enabled",
        ),
        (
            vec!["addons.components={multus-dynamic-networks}"],
            "needs multus",
        ),
    ] {
        let error = template(&chart, &values).unwrap_err();
        assert!(error.contains(said), "{values:?}: {error}");
    }
}

/// Returns the operator's Deployment, as it is in the cluster.
async fn deployment(cluster: &ControlPlane) -> Value {
    let deployment = ["-n", NAMESPACE, "get", "deployment", ACCOUNT, "-o", "json"];
    serde_json::from_str(&cluster.kubectl(&deployment).await.unwrap()).unwrap()
}

#[tokio::test]
async fn helm_installs_upgrades_rolls_back_and_removes() {
    let folder = tempfile::tempdir().unwrap();
    let chart = write(folder.path());
    let chart = chart.to_str().unwrap();
    let cluster = ControlPlane::builder().nodes(2).lend().await.unwrap();
    let kubeconfig = cluster.kubeconfig().to_owned();
    let run = |arguments: &[&str]| {
        let place = ["--namespace", NAMESPACE, "--timeout", "240s"];
        helm(&[arguments, &place[..]].concat(), Some(&kubeconfig)).unwrap()
    };
    let said = run(&["install", "weft", chart, "--create-namespace", "--wait"]);
    assert!(said.contains("serves addons,node-network"), "{said}");
    let domains = async || {
        let deployment = ["-n", NAMESPACE, "get", "deployment", "weft-operator"];
        let arguments = [&deployment[..], &["-o", "jsonpath={..args[2]}"]].concat();
        cluster.kubectl(&arguments).await.unwrap()
    };
    assert_eq!(domains().await, "addons,node-network");
    let config = json!({
        "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
        "kind": "NetworkAddonsConfig", "metadata": {"name": "cluster"}, "spec": {"multus": {}}
    });
    cluster
        .kubectl_with_input(&["apply", "-f", "-"], &config.to_string())
        .await
        .unwrap();
    // The operator, which labels the namespace of the add-ons.
    let _operator = operator(&cluster, &deployment(&cluster).await).await;
    cluster
        .kubectl(&[
            "wait",
            "networkaddonsconfig",
            "cluster",
            "--for=condition=Available",
            "--timeout=240s",
        ])
        .await
        .unwrap();

    run(&[
        "upgrade",
        "weft",
        chart,
        "--wait",
        "--set",
        "nodeNetwork.enabled=false,addons.components={multus}",
    ]);
    assert_eq!(domains().await, "addons");
    let can = async |resource: &str| {
        let account = format!("--as=system:serviceaccount:{NAMESPACE}:weft-operator");
        let arguments = ["auth", "can-i", "patch", resource, &account];
        cluster.kubectl(&arguments).await.is_ok()
    };
    let webhooks = "mutatingwebhookconfigurations/kubemacpool-mutator";
    assert!(!can(webhooks).await);
    run(&["rollback", "weft", "1", "--wait"]);
    assert_eq!(domains().await, "addons,node-network");
    assert!(can(webhooks).await);

    run(&["uninstall", "weft", "--wait"]);
    for kept in [
        ["get", "networkaddonsconfig", "cluster"],
        ["get", "namespace", "cluster-network-addons"],
        ["get", "crd", "nmstates.nmstate.io"],
    ] {
        cluster.kubectl(&kept).await.unwrap();
    }
    let gone = ["get", "clusterrole", "weft-operator-addons"];
    assert!(cluster.kubectl(&gone).await.is_err());
    // A second installation takes what the first one has left.
    run(&["install", "weft", chart, "--wait"]);
}

/// Runs the command of `helm test` in the way of its pod: with the token of its ServiceAccount.
fn tested(kubeconfig: &Path, job: &Value) -> Result<String, String> {
    let pod = &job["spec"]["template"]["spec"];
    let arguments = pod["containers"][0]["args"].as_array().unwrap();
    let mut command = Command::new(built("weft").unwrap());
    command
        .args(arguments.iter().map(|argument| argument.as_str().unwrap()))
        .env("KUBECONFIG", kubeconfig);
    run(&mut command)
}

/// Runs the command until its verdict is this one.
async fn becomes(kubeconfig: &Path, job: &Value, passes: bool, said: &str) {
    wait_until("the verdict of helm test", async || {
        let verdict = tested(kubeconfig, job);
        let is_right = verdict.is_ok() == passes;
        let text = verdict.unwrap_or_else(|text| text);
        match is_right && text.contains(said) {
            true => Ok(()),
            false => Err(format!("not {said:?}, passing {passes}: {text}")),
        }
    })
    .await;
}

/// Installs the chart in a cluster in which Weft has been installed without Helm, by the commands of
/// docs/install.md.
async fn takes_over_what_kubectl_has_applied(cluster: &ControlPlane, chart: &str) {
    let kubeconfig = cluster.kubeconfig();
    let manifests = weft().text(&["--components", "multus"]).unwrap();
    let apply = ["apply", "-f", "-"];
    cluster
        .kubectl_with_input(&apply, &manifests)
        .await
        .unwrap();
    let install = [
        "install",
        "weft",
        chart,
        "--namespace",
        NAMESPACE,
        "--create-namespace",
        "--wait",
    ];
    let is_refused = || {
        let said = helm(&install, Some(kubeconfig)).unwrap_err();
        assert!(said.contains("invalid ownership metadata"), "{said}");
    };
    is_refused();

    // The definitions stay, so Helm refuses still.
    let mut uninstall = Command::new(built("weft").unwrap());
    uninstall.args(["uninstall", "--yes"]);
    run(uninstall.env("KUBECONFIG", kubeconfig)).unwrap();
    is_refused();

    cluster
        .kubectl_with_input(&apply, &manifests)
        .await
        .unwrap();
    let delete = ["-n", NAMESPACE, "delete", "deployment", ACCOUNT];
    cluster.kubectl(&delete).await.unwrap();
    let take = ["--take-ownership", "--force-conflicts"];
    helm(&[&install[..], &take].concat(), Some(kubeconfig)).unwrap();
    let deployment = deployment(cluster).await.to_string();
    assert!(
        !deployment.contains("WEFT_ADDONS_COMPONENTS"),
        "{deployment}"
    );
}

#[tokio::test]
async fn helm_test_needs_operator_definitions_and_rights_alone() {
    let folder = tempfile::tempdir().unwrap();
    let chart = write(folder.path());
    let cluster = ControlPlane::builder().nodes(1).lend().await.unwrap();
    let kubeconfig = cluster.kubeconfig().to_owned();
    let run = |arguments: &[&str]| {
        let place = ["--namespace", NAMESPACE];
        helm(&[arguments, &place[..]].concat(), Some(&kubeconfig)).unwrap()
    };
    let chart = chart.to_str().unwrap();
    takes_over_what_kubectl_has_applied(&cluster, chart).await;
    let hooks = super::common::objects(&run(&["get", "hooks", "weft"]));
    let [job] = &hooks[..] else {
        panic!("{hooks:?}")
    };
    let account = &job["spec"]["template"]["spec"]["serviceAccountName"];
    let account = cluster.service_account_kubeconfig(NAMESPACE, account.as_str().unwrap());
    let account = account.await.unwrap();
    // The nodes run no container, and the pod of the Job completes: the API server accepts it.
    run(&["test", "weft", "--timeout", "240s"]);

    becomes(&account, job, false, "addons: problem: ").await;
    let mut process = Some(operator(&cluster, &deployment(&cluster).await).await);
    // There is no resource yet.
    becomes(&account, job, true, "node-network: ").await;

    let binding = "clusterrolebinding/weft-operator-node-network";
    let saved = ["get", binding, "-o", "json"];
    let saved = cluster.kubectl(&saved).await.unwrap();
    cluster.kubectl(&["delete", binding]).await.unwrap();
    becomes(&account, job, false, "you may not read nmstates").await;
    let create = ["create", "-f", "-"];
    let mut object: Value = serde_json::from_str(&saved).unwrap();
    for field in ["uid", "resourceVersion", "managedFields"] {
        object["metadata"].as_object_mut().unwrap().remove(field);
    }
    cluster
        .kubectl_with_input(&create, &object.to_string())
        .await
        .unwrap();
    becomes(&account, job, true, "node-network: ").await;

    drop(process.take());
    becomes(&account, job, false, "no leader").await;
    process = Some(operator(&cluster, &deployment(&cluster).await).await);
    becomes(&account, job, true, "node-network: ").await;

    let definition = [
        "delete",
        "crd",
        "nodenetworkconfigurationpolicies.nmstate.io",
    ];
    cluster.kubectl(&definition).await.unwrap();
    let said = "the cluster does not know NodeNetworkConfigurationPolicy";
    becomes(&account, job, false, said).await;
    drop(process);
}
