//! The known ways from one account to the rights of another, tried with the real tokens of all
//! accounts that Weft installs.

mod accounts;
mod limits;
mod ways;

use std::{path::Path, process::Command};

use accounts::Account;
use serde_json::{Value, json};
use ways::Way;
use weft_testenv::{ControlPlane, Lent, client_from};

use weft_system_tests::*;

/// All domains, each with its own operator.
const DOMAINS: &str = "addons,cluster-network,node-network,placement";
/// An account that is cluster-admin.
const POWERFUL: &str = "powerful";
/// An account without rights, in each namespace.
const PEER: &str = "peer";
/// The namespace of another user's workloads.
const VICTIMS: &str = "victims";

/// A control plane with two nodes, and what attacks are aimed at.
async fn start() -> Lent {
    let cluster = ControlPlane::builder().nodes(2).lend().await.unwrap();
    let account = |namespace: &str, name: &str| {
        json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": namespace, "name": name}
        })
    };
    let targets = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": VICTIMS}}),
        // The one that Placement serves.
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openstack"}}),
        account("kube-system", POWERFUL),
        account(VICTIMS, PEER),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": POWERFUL},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "cluster-admin"
        },
        "subjects": [
            {"kind": "ServiceAccount", "namespace": "kube-system", "name": POWERFUL}
        ]}),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": VICTIMS}, "webhooks": []
        }),
        pod(VICTIMS, "node-2", PEER),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
            "namespace": VICTIMS, "name": VICTIMS
        },
            "spec": {
                "replicas": 0, "selector": {"matchLabels": {"a": "b"}},
                "template": ways::template(PEER)
            }}),
    ];
    let targets: Vec<String> = targets.iter().map(Value::to_string).collect();
    cluster
        .kubectl_with_input(&["apply", "-f", "-"], &targets.join("\n---\n"))
        .await
        .unwrap();
    cluster
}

/// Somebody's pod on a node.
fn pod(namespace: &str, node: &str, account: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
        "namespace": namespace, "name": format!("{VICTIMS}-{node}")
    },
        "spec": {
            "nodeName": node, "serviceAccountName": account,
            "containers": [{"name": "a", "image": "registry.example/a:1"}]
        }})
}

/// `weft ARGUMENTS`
fn weft(arguments: &[&str]) -> String {
    let images = [
        "OPERATOR",
        "NODE",
        "HYPERSHIFT",
        "KUBE_PROXY",
        "FLANNEL",
        "FLANNEL_CNI_PLUGIN",
    ];
    let images = images.map(|name| (format!("{name}_IMAGE"), "registry.example/a:1"));
    let output = Command::new(weft_binary())
        .args(arguments)
        .envs(images)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "weft {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// `weft manifests ARGUMENTS | kubectl apply -f -`. The API server warns about none of them.
async fn install(cluster: &ControlPlane, arguments: &[&str]) {
    cluster
        .kubectl_with_input(
            &["apply", "--warnings-as-errors", "-f", "-"],
            &weft(&[&["manifests"], arguments].concat()),
        )
        .await
        .unwrap();
}

/// The objects that an example leads to.
fn operands(example: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(example);
    serde_saphyr::from_multiple(&weft(&["render", "-f", path.to_str().unwrap()])).unwrap()
}

/// A warning about the output of `weft render` alone. It prints no certificates, because the operator
/// makes them.
const ACCEPTED: &str = "tls: failed to find any PEM data in certificate input";

/// The API server takes the operands of an example, and warns about nothing else. Kinds that a
/// cluster may lack are left out.
async fn assert_no_warning(cluster: &ControlPlane, example: &str) {
    let kubernetes: Vec<_> = operands(example)
        .iter()
        .filter(|object| {
            let version = object["apiVersion"].as_str().unwrap_or_default();
            let group = version.split_once('/').map_or("", |(group, _)| group);
            !group.contains('.') || group.ends_with(".k8s.io")
        })
        .filter(|object| object.is_object())
        .map(Value::to_string)
        .collect();
    assert!(!kubernetes.is_empty(), "{example}");
    let arguments = [
        "apply",
        "--dry-run=server",
        "--warnings-as-errors",
        "-f",
        "-",
    ];
    let input = kubernetes.join("\n---\n");
    let Err(error) = cluster.kubectl_with_input(&arguments, &input).await else {
        return;
    };
    let said = format!("{error:#}");
    let warnings: Vec<_> = said
        .lines()
        .filter_map(|line| line.split_once("Warning: "))
        .map(|(_, warning)| warning)
        .collect();
    assert!(
        said.contains(&format!("error: {} warning", warnings.len())),
        "{example}: {said}"
    );
    let is_accepted = |warning: &&str| warning.contains(ACCEPTED);
    assert!(warnings.iter().all(is_accepted), "{example}: {warnings:#?}");
}

/// Makes the accounts and roles of the operands of an example, as its operator does.
async fn install_operands(cluster: &ControlPlane, example: &str) {
    let objects = operands(example);
    let kinds = [
        "Namespace",
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
    ];
    let access: Vec<_> = objects
        .iter()
        .filter(|object| kinds.iter().any(|kind| object["kind"] == *kind))
        .map(Value::to_string)
        .collect();
    cluster
        .kubectl_with_input(&["apply", "-f", "-"], &access.join("\n---\n"))
        .await
        .unwrap();
}

async fn make_peer(cluster: &ControlPlane, namespace: &str) {
    let peer = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"namespace": namespace, "name": PEER}
    });
    cluster
        .kubectl_with_input(&["apply", "-f", "-"], &peer.to_string())
        .await
        .unwrap();
}

async fn client(cluster: &ControlPlane, account: &Account) -> kube::Client {
    let kubeconfig = match account.node {
        Some(node) => {
            cluster
                .node_kubeconfig_via(cluster.url(), account.namespace, account.name, node)
                .await
        }
        None => {
            cluster
                .service_account_kubeconfig(account.namespace, account.name)
                .await
        }
    };
    client_from(&kubeconfig.unwrap()).await.unwrap()
}

/// Tries all ways as this account. Each is refused but those that it has by its task, which are
/// named in `has`, and it does have these.
async fn assert_refused(cluster: &ControlPlane, account: &Account, ways: &[Way], has: &[&str]) {
    let client = client(cluster, account).await;
    for known in has {
        assert!(
            ways.iter().any(|way| way.name == *known),
            "there is no way {known:?}"
        );
    }
    // The API server learns of roles and policies by watches of its own.
    wait_until(
        &format!("{}:{} gets no further", account.namespace, account.name),
        async || {
            let mut wrong = Vec::new();
            for way in ways {
                let code = way.attempt(&client).await;
                match (code, has.contains(&&*way.name)) {
                    (403, false) => {}
                    (403, true) => {
                        wrong.push(format!("{}: refused, though it is needed", way.name))
                    }
                    (_, true) => {}
                    (code, false) => wrong.push(format!("{}: {code}", way.name)),
                }
            }
            if wrong.is_empty() {
                Ok(())
            } else {
                Err(format!("{wrong:#?}"))
            }
        },
    )
    .await;
}

#[tokio::test]
async fn each_way_to_the_rights_of_others_is_refused_to_each_account() {
    let cluster = start().await;
    for domain in DOMAINS.split(',') {
        install(&cluster, &["--split", "--domains", domain]).await;
    }
    for example in [
        "network-addons-config.yaml",
        "network-config-openshift-sdn.yaml",
        "network-config-flannel.yaml",
        "node-network/nmstate.yaml",
    ] {
        install_operands(&cluster, example).await;
        assert_no_warning(&cluster, example).await;
    }
    for account in accounts::ALL {
        make_peer(&cluster, account.works_in).await;
        assert_refused(
            &cluster,
            account,
            &ways::of(&cluster, account).await,
            account.has,
        )
        .await;
    }
}

#[tokio::test]
async fn each_way_is_refused_to_the_operator_of_each_set_of_components() {
    let cluster = start().await;
    let webhook = ways::MUTATING_WEBHOOK;
    let secrets = ways::LIST_OWN_SECRETS;
    let of_addons: [(&str, &[&str]); 10] = [
        ("multus", &[]),
        ("multus,multus-dynamic-networks", &[]),
        ("linux-bridge", &[]),
        ("kubemacpool", &[webhook, secrets]),
        ("ovs", &[]),
        ("macvtap", &[]),
        ("secondary-dns", &[]),
        ("kubevirt-ipam-controller", &[webhook, secrets]),
        ("nmstate", &[]),
        ("multus,linux-bridge,ovs", &[]),
    ];
    let sets = of_addons
        .into_iter()
        .map(|(components, has)| (&accounts::ADDONS, components, has));
    let of_networks = [
        "flannel",
        "kube-proxy",
        "openshift-sdn",
        "flannel,kube-proxy",
    ];
    let sets =
        sets.chain(of_networks.map(|components| (&accounts::CLUSTER_NETWORK, components, &[][..])));
    for (account, components, has) in sets {
        install(&cluster, &["--split", "--components", components]).await;
        make_peer(&cluster, account.works_in).await;
        println!("--components {components}");
        assert_refused(&cluster, account, &ways::of(&cluster, account).await, has).await;
    }
}

#[tokio::test]
async fn each_way_is_refused_to_the_one_operator_of_all_domains() {
    let cluster = start().await;
    install(&cluster, &["--domains", DOMAINS]).await;
    for works_in in [
        "cluster-network-addons",
        "openstack",
        "nmstate",
        "openshift-cluster-network-operator",
    ] {
        let account = Account {
            namespace: "weft-system",
            name: "weft-operator",
            works_in,
            node: None,
            has: &[],
        };
        make_peer(&cluster, works_in).await;
        let secrets = ["cluster-network-addons", "openstack"]
            .contains(&works_in)
            .then_some(ways::LIST_OWN_SECRETS);
        let has: Vec<&str> = std::iter::once(ways::MUTATING_WEBHOOK)
            .chain(secrets)
            .collect();
        assert_refused(
            &cluster,
            &account,
            &ways::of(&cluster, &account).await,
            &has,
        )
        .await;
    }
}
