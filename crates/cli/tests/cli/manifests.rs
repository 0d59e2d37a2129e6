//! `weft manifests`, `weft crds` and `weft render`: what they print is complete, stable and no more
//! than is needed.

use std::{
    collections::BTreeSet,
    fs,
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};

use super::common::{objects, printed, root, title, weft, weft_with_stdin};
use serde_json::{Value, json};
use weft_api::node_network::STARTUP_TAINT;
use weft_plan::Manifest;

const EXAMPLE: &str = "deploy/addons/example.yaml";

fn find<'a>(objects: &'a [Value], wanted: &str) -> &'a Value {
    objects
        .iter()
        .find(|object| title(object) == wanted)
        .unwrap_or_else(|| {
            panic!(
                "no {wanted} in {:?}",
                objects.iter().map(title).collect::<Vec<_>>()
            )
        })
}

fn all_rules(objects: &[Value]) -> impl Iterator<Item = &Value> {
    objects
        .iter()
        .filter(|object| object["kind"].as_str().unwrap().ends_with("Role"))
        .flat_map(|role| role["rules"].as_array().unwrap())
}

#[test]
fn an_installation_has_all_its_objects_in_order() {
    let text = printed(&["manifests", "--split", "--domains", "addons"]);
    let objects = objects(&text);
    let name = "cluster-network-addons-operator";
    let titles: Vec<String> = objects.iter().map(title).collect();
    assert_eq!(
        titles,
        [
            "Namespace cluster-network-addons".to_owned(),
            "CustomResourceDefinition networkaddonsconfigs.networkaddonsoperator.network.kubevirt.io".to_owned(),
            format!("ClusterRole {name}"),
            format!("ClusterRoleBinding {name}"),
            format!("Role {name}"),
            format!("RoleBinding {name}"),
            format!("Role {name}-operands"),
            format!("RoleBinding {name}-operands"),
            format!("Role {name}-default"),
            format!("RoleBinding {name}-default"),
            format!("ClusterRole {name}-granted"),
            format!("ClusterRoleBinding {name}-granted"),
            format!("Role {name}-granted"),
            format!("RoleBinding {name}-granted"),
            "ClusterRole weft-addons-view".to_owned(),
            "ClusterRole weft-addons-edit".to_owned(),
            format!("ServiceAccount {name}"),
            format!("Deployment {name}"),
            "ValidatingAdmissionPolicy weft-network-addons-config-hints".to_owned(),
            "ValidatingAdmissionPolicyBinding weft-network-addons-config-hints".to_owned(),
            "ValidatingAdmissionPolicy weft-network-addons-secrets".to_owned(),
            "ValidatingAdmissionPolicyBinding weft-network-addons-secrets".to_owned(),
            "ValidatingAdmissionPolicy weft-network-addons-markers".to_owned(),
            "ValidatingAdmissionPolicyBinding weft-network-addons-markers".to_owned(),
            "ValidatingAdmissionPolicy weft-network-addons-pods".to_owned(),
            "ValidatingAdmissionPolicyBinding weft-network-addons-pods".to_owned(),
        ]
    );
    for object in objects {
        Manifest::new(object).unwrap();
    }
    assert_eq!(
        text,
        printed(&["manifests", "--split", "--domains", "addons"]),
        "equal calls give equal text"
    );
}

#[test]
fn the_definitions_are_those_in_the_tree() {
    let printed = objects(&printed(&["crds"]));
    assert_eq!(printed.len(), 7);
    for definition in printed {
        let file = root().join(format!(
            "deploy/crds/{}.yaml",
            definition["metadata"]["name"].as_str().unwrap()
        ));
        let file =
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(
            objects(&file) == [definition.clone()],
            "{} is another one: make generate",
            definition["metadata"]["name"]
        );
    }
}

#[test]
fn the_deployment_is_fit_for_the_strictest_namespace_and_knows_all_images() {
    let objects = objects(&printed(&[
        "manifests",
        "--split",
        "--domains",
        "addons",
        "--image",
        "registry.example/weft:1",
        "--image-pull-policy",
        "Always",
    ]));
    let deployment = find(&objects, "Deployment cluster-network-addons-operator");
    assert_eq!(
        deployment["metadata"]["labels"],
        json!({"weft.network/component": "operator"})
    );
    // The selector of the operator that is replaced. It cannot be changed in an update.
    assert_eq!(
        deployment["spec"]["selector"],
        json!({"matchLabels": {"name": "cluster-network-addons-operator"}})
    );
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(
        pod["securityContext"],
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}})
    );
    let container = &pod["containers"][0];
    assert_eq!(
        container["securityContext"],
        json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]}
        })
    );
    assert_eq!(
        (&container["image"], &container["imagePullPolicy"]),
        (&json!("registry.example/weft:1"), &json!("Always"))
    );
    assert_eq!(
        container["args"],
        json!(["operator", "--domains", "addons"])
    );
    let environment = container["env"].as_array().unwrap();
    let value = |name: &str| {
        environment
            .iter()
            .find(|variable| variable["name"] == name)
            .unwrap_or_else(|| panic!("no {name}"))
    };
    assert_eq!(value("OPERATOR_IMAGE")["value"], "registry.example/weft:1");
    assert_eq!(
        value("OPERATOR_VERSION")["value"],
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(value("WATCH_NAMESPACE")["value"], "");
    assert_eq!(value("CNAO_LOG_LEVEL")["value"], "0");
    for (name, field) in [
        ("OPERATOR_NAMESPACE", "metadata.namespace"),
        ("OPERAND_NAMESPACE", "metadata.namespace"),
        ("POD_NAME", "metadata.name"),
    ] {
        assert_eq!(value(name)["valueFrom"]["fieldRef"]["fieldPath"], field);
    }
    for image in [
        "MULTUS",
        "MULTUS_DYNAMIC_NETWORKS_CONTROLLER",
        "LINUX_BRIDGE",
        "LINUX_BRIDGE_MARKER",
        "KUBEMACPOOL",
        "OVS_CNI",
        "MACVTAP_CNI",
        "KUBE_SECONDARY_DNS",
        "CORE_DNS",
        "KUBEVIRT_IPAM_CONTROLLER",
    ] {
        assert!(
            value(&format!("{image}_IMAGE"))["value"]
                .as_str()
                .is_some_and(|image| image.contains('/')),
            "{image}"
        );
    }
    let names: BTreeSet<_> = environment
        .iter()
        .map(|variable| variable["name"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), environment.len(), "no variable is there twice");
}

#[test]
fn no_rule_has_a_star_or_is_open_by_an_empty_list_of_names() {
    for arguments in [
        vec!["manifests"],
        vec!["manifests", "--split"],
        vec!["manifests", "--components", "multus"],
        vec!["manifests", "--split", "--domains", "node-network"],
    ] {
        let objects = objects(&printed(&arguments));
        assert!(all_rules(&objects).count() > 10);
        for rule in all_rules(&objects) {
            assert!(!rule.to_string().contains('*'), "{rule}");
            assert!(!rule.to_string().contains("of-chosen-components"), "{rule}");
            assert_ne!(rule["resourceNames"], json!([]), "{rule}");
        }
    }
}

/// The base files stand for themselves as well: applied as they are, they grant less, never more.
#[test]
fn no_file_has_a_star_in_a_rule() {
    for file in [
        "deploy/addons/rbac.yaml",
        "deploy/cluster-network/rbac.yaml",
        "deploy/node-network/rbac.yaml",
        "deploy/placement/rbac.yaml",
        "components/nmstate/rbac.yaml",
    ] {
        let file = fs::read_to_string(root().join(file)).unwrap();
        for rule in all_rules(&objects(&file)) {
            assert!(!rule.to_string().contains('*'), "{rule}");
        }
    }
}

/// Kubernetes adds them to its ClusterRoles `view`, `edit` and `admin`, in each layout and whatever
/// the components.
#[test]
fn roles_for_users_let_view_read_all_kinds_and_write_none() {
    const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";
    for layout in [
        &[][..],
        &["--split"],
        &["--split", "--namespace", "elsewhere"],
    ] {
        for domain in ["addons", "cluster-network", "node-network", "placement"] {
            let arguments = [&["manifests", "--domains", domain], layout].concat();
            let objects = objects(&printed(&arguments));
            let role = |verb: &str| find(&objects, &format!("ClusterRole weft-{domain}-{verb}"));
            let targets = |role: &Value| -> BTreeSet<String> {
                let labels = role["metadata"]["labels"].as_object().unwrap();
                labels
                    .iter()
                    .filter(|(_, value)| *value == "true")
                    .filter_map(|(label, _)| label.strip_prefix(AGGREGATE).map(str::to_owned))
                    .collect()
            };
            let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let of_view: BTreeSet<String> = all(&["admin", "edit", "view"]);
            assert_eq!(targets(role("view")), of_view, "{domain}");
            assert_eq!(targets(role("edit")), all(&["admin", "edit"]), "{domain}");
            let rules = |role: &Value| role["rules"].as_array().unwrap().clone();
            let readable = rules(role("view"));
            for rule in &readable {
                assert_eq!(rule["verbs"], json!(["get", "list", "watch"]), "{rule}");
                assert!(!rule.to_string().contains("secrets"), "{rule}");
            }
            for rule in rules(role("edit")) {
                assert!(
                    !rule.to_string().contains("/status") && !rule.to_string().contains("secrets"),
                    "{rule}"
                );
            }
            let definitions = objects
                .iter()
                .filter(|object| object["kind"] == "CustomResourceDefinition");
            for definition in definitions {
                let spec = &definition["spec"];
                assert!(
                    readable.iter().any(|rule| {
                        let holds = |field: &str, value: &Value| {
                            rule[field].as_array().unwrap().contains(value)
                        };
                        holds("apiGroups", &spec["group"])
                            && holds("resources", &spec["names"]["plural"])
                    }),
                    "{domain}: {}",
                    definition["metadata"]["name"]
                );
            }
            let is_bound = |object: &Value| {
                object["roleRef"]["name"]
                    .as_str()
                    .is_some_and(|role| role == format!("weft-{domain}-view"))
            };
            assert!(!objects.iter().any(is_bound), "{domain}");
        }
    }
}

/// The agent is the least trusted program, and runs on every node.
#[test]
fn the_agent_reads_secrets_of_its_namespace_only_and_changes_no_node() {
    let rendered = objects(&printed(&[
        "render",
        "-f",
        root()
            .join("examples/node-network/nmstate.yaml")
            .to_str()
            .unwrap(),
    ]));
    let rules = |wanted: &str| find(&rendered, wanted)["rules"].as_array().unwrap().clone();
    assert_eq!(
        rules("Role nmstate-handler"),
        [json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]})]
    );
    let of_cluster = rules("ClusterRole nmstate-handler");
    assert!(
        !of_cluster
            .iter()
            .any(|rule| rule["resources"].to_string().contains("secrets")),
        "{of_cluster:#?}"
    );
    let nodes: Vec<_> = of_cluster
        .iter()
        .filter(|rule| rule["resources"].to_string().contains("nodes\""))
        .collect();
    assert_eq!(
        nodes,
        [&json!({"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]})]
    );
    for rule in &of_cluster {
        let verbs = rule["verbs"].to_string();
        assert!(
            !verbs.contains("delete") && !verbs.contains("update"),
            "{rule}"
        );
    }
}

#[test]
fn the_operator_of_node_networks_has_the_originals_name_and_definitions() {
    let objects = objects(&printed(&[
        "manifests",
        "--split",
        "--domains",
        "node-network",
        "--image",
        "registry.example/weft:1",
        "--agent-image",
        "registry.example/agent:2",
    ]));
    for kind in [
        "nmstates",
        "nodenetworkstates",
        "nodenetworkconfigurationpolicies",
        "nodenetworkconfigurationenactments",
    ] {
        find(
            &objects,
            &format!("CustomResourceDefinition {kind}.nmstate.io"),
        );
    }
    let deployment = find(&objects, "Deployment nmstate-operator");
    assert_eq!(
        deployment["spec"]["selector"],
        json!({"matchLabels": {"name": "kubernetes-nmstate-operator"}})
    );
    let environment = deployment
        .pointer("/spec/template/spec/containers/0/env")
        .unwrap()
        .as_array()
        .unwrap();
    let agent = json!({
        "name": "RELATED_IMAGE_HANDLER_IMAGE",
        "value": "registry.example/agent:2"
    });
    assert!(environment.contains(&agent), "{environment:#?}");
    for policy in ["weft-node-network-agents", "weft-node-network-policies"] {
        find(
            &objects,
            &format!("ValidatingAdmissionPolicyBinding {policy}"),
        );
    }
}

/// The environment variables of the only Deployment among these objects.
fn environment(objects: &[Value]) -> Vec<(String, String)> {
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment");
    let variables = &deployment.unwrap()["spec"]["template"]["spec"]["containers"][0]["env"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let variables = variables.as_array().unwrap().iter();
    variables
        .map(|variable| (text(&variable["name"]), text(&variable["value"])))
        .collect()
}

#[test]
fn by_default_one_operator_serves_what_needs_no_facts_of_the_cluster() {
    let default = printed(&["manifests"]);
    assert_eq!(
        default,
        printed(&["manifests", "--domains", "addons,node-network"])
    );
    let objects = objects(&default);
    let deployment = find(&objects, "Deployment weft-operator");
    assert_eq!(deployment["metadata"]["namespace"], "weft-system");
    let agent = format!("localhost/weft-agent:{}", env!("CARGO_PKG_VERSION"));
    assert!(environment(&objects).contains(&("RELATED_IMAGE_HANDLER_IMAGE".to_owned(), agent)));
}

#[test]
fn the_agents_have_the_chosen_image_and_pull_policy() {
    let objects = objects(&printed(&[
        "manifests",
        "--agent-image",
        "registry.example/agent@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "--image-pull-policy",
        "Always",
    ]));
    let found = environment(&objects);
    let value = |name: &str| {
        let variable = found.iter().find(|(found, _)| found == name);
        variable.map(|(_, value)| value.as_str())
    };
    assert!(
        value("RELATED_IMAGE_HANDLER_IMAGE")
            .unwrap()
            .starts_with("registry.example/agent@sha256:0123")
    );
    assert_eq!(value("HANDLER_IMAGE_PULL_POLICY"), Some("Always"));
}

#[test]
fn components_of_one_domain_leave_the_others_whole() {
    let names = |arguments: &[&str]| -> BTreeSet<String> {
        let all = objects(&printed(&[&["manifests"], arguments].concat()));
        all.iter()
            .filter(|object| object["kind"] == "ClusterRole")
            .map(Value::to_string)
            .collect()
    };
    let addons = names(&["--domains", "addons"]);
    let both = names(&[
        "--domains",
        "addons,cluster-network",
        "--components",
        "flannel",
    ]);
    assert!(addons.is_subset(&both));
    let flannel = names(&["--domains", "cluster-network", "--components", "flannel"]);
    assert!(flannel.is_subset(&both));
}

#[test]
fn permissions_follow_the_chosen_components() {
    let rules = |components: &str| {
        let objects = objects(&printed(&[
            "manifests",
            "--split",
            "--components",
            components,
        ]));
        all_rules(&objects)
            .map(Value::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let (multus, pool) = (rules("multus"), rules("kubemacpool"));
    assert!(
        multus.contains("network-attachment-definitions.k8s.cni.cncf.io")
            && !multus.contains("kubemacpool")
            && !multus.contains("virtualmachines"),
        "{multus}"
    );
    assert!(
        pool.contains("kubemacpool-mutator") && pool.contains("virtualmachines"),
        "{pool}"
    );
}

/// The roles name a kind only if a chosen component needs it. Otherwise no rule exists, not even to
/// look.
/// Else a cluster whose nodes all wait for their networks would wait for ever.
#[test]
fn operators_tolerate_the_startup_taint_of_nodes() {
    // With cluster-network, one operator for all tolerates every taint.
    for layout in [
        &[
            "manifests",
            "--split",
            "--domains",
            "addons,cluster-network,node-network",
        ][..],
        &["manifests", "--domains", "addons,node-network"],
    ] {
        let objects = objects(&printed(layout));
        let operators = objects.iter().filter(|object| {
            ["Deployment", "DaemonSet"].contains(&object["kind"].as_str().unwrap())
        });
        let mut seen = 0;
        for operator in operators {
            let tolerations = operator["spec"]["template"]["spec"]["tolerations"].as_array();
            let tolerates = tolerations.into_iter().flatten().any(|one| {
                let is_for_it = one["key"].is_null() || one["key"] == STARTUP_TAINT;
                is_for_it && one["operator"] == "Exists" && one["effect"].is_null()
            });
            assert!(tolerates, "{}", title(operator));
            seen += 1;
        }
        assert!(seen > 0);
    }
}

#[test]
fn kinds_that_no_chosen_component_has_are_in_no_rule() {
    const WEBHOOKS: &str = "mutatingwebhookconfigurations";
    const SECRETS: &str = "secrets";
    const CONSTRAINTS: &str = "securitycontextconstraints";
    const NMSTATES: &str = "nmstates";
    const CERTIFICATES: &str = "certificates";
    const ALL: [&str; 5] = [WEBHOOKS, SECRETS, CONSTRAINTS, NMSTATES, CERTIFICATES];
    let sets: [(&str, &[&str]); 10] = [
        ("multus", &[CONSTRAINTS]),
        ("multus,multus-dynamic-networks", &[CONSTRAINTS]),
        ("linux-bridge", &[CONSTRAINTS]),
        ("multus,linux-bridge,ovs,macvtap", &[CONSTRAINTS]),
        ("kubemacpool", &[WEBHOOKS, SECRETS]),
        ("secondary-dns", &[]),
        (
            "kubevirt-ipam-controller",
            &[WEBHOOKS, SECRETS, CERTIFICATES],
        ),
        ("nmstate", &[NMSTATES]),
        ("secondary-dns,nmstate", &[NMSTATES]),
        ("kubemacpool,ovs", &[WEBHOOKS, SECRETS, CONSTRAINTS]),
    ];
    for (components, expected) in sets {
        let objects = objects(&printed(&[
            "manifests",
            "--split",
            "--components",
            components,
        ]));
        // Every operator may look at whatever changes what it applies.
        let is_look = |rule: &&Value| {
            rule["resources"]
                .to_string()
                .contains("mutatingadmissionpolicies")
                && rule["verbs"] == json!(["list", "watch"])
        };
        assert!(all_rules(&objects).any(|rule| is_look(&rule)));
        let named: BTreeSet<&str> = all_rules(&objects)
            .filter(|rule| !is_look(rule))
            .flat_map(|rule| rule["resources"].as_array().into_iter().flatten())
            .filter_map(Value::as_str)
            .collect();
        let found: Vec<_> = ALL
            .into_iter()
            .filter(|kind| named.contains(kind))
            .collect();
        assert_eq!(found, expected, "{components}");
        assert!(
            !named.contains("validatingwebhookconfigurations")
                || components.contains("kubemacpool"),
            "{components}"
        );
        let environment =
            find(&objects, "Deployment cluster-network-addons-operator")["spec"]["template"]["spec"]["containers"][0]["env"].clone();
        let told = environment
            .as_array()
            .unwrap()
            .iter()
            .find(|variable| variable["name"] == "WEFT_ADDONS_COMPONENTS")
            .cloned();
        assert_eq!(
            told.map(|variable| variable["value"].clone()),
            Some(json!(components))
        );
    }
    // With all components, the manifests leave the variable out.
    let all = printed(&["manifests", "--split", "--domains", "addons"]);
    assert!(!all.contains("WEFT_ADDONS_COMPONENTS") && ALL.iter().all(|kind| all.contains(kind)));
}

/// Secrets are read in the namespaces of the operands, and nowhere else, but for Placement, where
/// somebody asks for all namespaces.
#[test]
fn no_operator_and_no_operand_reads_secrets_of_the_whole_cluster() {
    let reads = |objects: &[Value], about: &str| {
        // A role without a cluster-wide binding gives no cluster-wide right.
        let bound: BTreeSet<String> = objects
            .iter()
            .filter(|object| object["kind"] == "ClusterRoleBinding")
            .map(|binding| binding["roleRef"]["name"].to_string())
            .collect();
        for role in objects.iter().filter(|object| {
            object["kind"] == "ClusterRole"
                && bound.contains(&object["metadata"]["name"].to_string())
        }) {
            assert!(
                !role["rules"].to_string().contains("\"secrets\""),
                "{about}: {role:#}"
            );
        }
        assert!(!bound.is_empty(), "{about}");
    };
    for domain in ["addons", "cluster-network", "node-network", "placement"] {
        reads(
            &objects(&printed(&["manifests", "--split", "--domains", domain])),
            domain,
        );
    }
    reads(
        &objects(&printed(&[
            "manifests",
            "--domains",
            "addons,cluster-network,node-network,placement",
        ])),
        "one operator",
    );
    for example in [
        "network-addons-config",
        "network-config-openshift-sdn",
        "network-config-flannel",
        "node-network/nmstate",
    ] {
        let file = root().join(format!("examples/{example}.yaml"));
        let mut command =
            super::common::command(Path::new("."), &["render", "-f", file.to_str().unwrap()]);
        for image in [
            "OPERATOR",
            "NODE",
            "HYPERSHIFT",
            "KUBE_PROXY",
            "FLANNEL",
            "FLANNEL_CNI_PLUGIN",
        ] {
            command.env(format!("{image}_IMAGE"), "registry.example/a:1");
        }
        reads(
            &objects(&super::common::run(&mut command, "").stdout),
            example,
        );
    }
}

/// Kubernetes refuses a role that holds more than its creator: every rule of every component's role
/// is held by the operator.
#[test]
fn the_operator_holds_all_that_it_grants() {
    let held = objects(&printed(&["manifests", "--split", "--domains", "addons"]));
    let holds = |kind: &str, group: &Value, resource: &Value, verb: &Value, names: &Value| {
        held.iter()
            .filter(|role| role["kind"] == kind || role["kind"] == "ClusterRole")
            .flat_map(|role| role["rules"].as_array().unwrap())
            .any(|rule| {
                let has = |list: &str, item: &Value| {
                    rule[list]
                        .as_array()
                        .is_some_and(|items| items.contains(item))
                };
                has("apiGroups", group)
                    && has("resources", resource)
                    && has("verbs", verb)
                    && (rule["resourceNames"].is_null() || rule["resourceNames"] == *names)
            })
    };
    let rendered = objects(&printed(&[
        "render",
        "-f",
        root().join(EXAMPLE).to_str().unwrap(),
    ]));
    let mut checked = 0;
    for role in rendered
        .iter()
        .filter(|object| object["kind"].as_str().unwrap().ends_with("Role"))
    {
        for rule in role["rules"].as_array().unwrap() {
            for (group, resource, verb) in
                product(&rule["apiGroups"], &rule["resources"], &rule["verbs"])
            {
                assert!(
                    holds(
                        role["kind"].as_str().unwrap(),
                        group,
                        resource,
                        verb,
                        &rule["resourceNames"]
                    ),
                    "{}: {verb} {resource} in {group} is not held",
                    title(role)
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "{checked}");
}

fn product<'a>(a: &'a Value, b: &'a Value, c: &'a Value) -> Vec<(&'a Value, &'a Value, &'a Value)> {
    let items = |value: &'a Value| value.as_array().map(Vec::as_slice).unwrap_or_default();
    items(a)
        .iter()
        .flat_map(|a| {
            items(b)
                .iter()
                .flat_map(move |b| items(c).iter().map(move |c| (a, b, c)))
        })
        .collect()
}

#[test]
fn another_namespace_is_used_throughout() {
    let text = printed(&[
        "manifests",
        "--split",
        "--domains",
        "addons",
        "--namespace",
        "elsewhere",
    ]);
    let objects = objects(&text);
    for object in &objects {
        let namespaces = [
            &object["metadata"]["namespace"],
            &object["subjects"][0]["namespace"],
        ];
        for namespace in namespaces
            .into_iter()
            .filter(|namespace| !namespace.is_null())
        {
            let expected = if title(object).ends_with("-default")
                && std::ptr::eq(namespace, &raw const object["metadata"]["namespace"])
            {
                "default"
            } else {
                "elsewhere"
            };
            assert_eq!(namespace, expected, "{}", title(object));
        }
    }
    assert!(
        !objects.iter().any(|object| object["kind"] == "Namespace"),
        "it is not Weft's"
    );
    let run = weft(
        Path::new("."),
        &["manifests", "--namespace", "Not-A-Namespace"],
    );
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(
        run.stderr
            .contains("\"Not-A-Namespace\" is not the name of a namespace"),
        "{}",
        run.stderr
    );
}

/// To apply the manifests, or to delete them again, changes no namespace of others.
#[test]
fn manifests_have_no_namespace_that_others_may_use() {
    // No other operator has a namespace of these names.
    const OWN: [&str; 2] = ["weft-placement", "weft-system"];
    // The operators that Weft replaces have these, and nobody else: they may be there already.
    const OF_ORIGINALS: [&str; 3] = [
        "cluster-network-addons",
        "nmstate",
        "openshift-cluster-network-operator",
    ];
    // Its operator is on the nodes' network, and where a level is enforced by default it would not
    // start without this one, which refuses no pod.
    const BEFORE_ANY_OPERATOR: &str = "openshift-cluster-network-operator";
    const DOMAINS: [&str; 5] = [
        "addons",
        "cluster-network",
        "node-network",
        "placement",
        "addons,cluster-network,node-network,placement",
    ];
    let (mut seen, mut needed) = (BTreeSet::new(), BTreeSet::new());
    for domains in DOMAINS {
        for layout in [
            &["--split"][..],
            &[],
            &["--split", "--namespace", "elsewhere"],
            &["--namespace", "elsewhere"],
        ] {
            for served in ["openstack,lab", "*", "weft-placement"] {
                let arguments = [
                    &[
                        "manifests",
                        "--domains",
                        domains,
                        "--placement-namespaces",
                        served,
                    ],
                    layout,
                ]
                .concat();
                let run = weft(Path::new("."), &arguments);
                assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
                let objects = objects(&run.stdout);
                let mut names = BTreeSet::new();
                for namespace in objects
                    .iter()
                    .filter(|object| object["kind"] == "Namespace")
                {
                    let name = namespace["metadata"]["name"].as_str().unwrap().to_owned();
                    assert!(
                        OWN.contains(&&*name) || OF_ORIGINALS.contains(&&*name),
                        "{arguments:?}: {name}"
                    );
                    let levels = namespace["metadata"]["labels"]
                        .as_object()
                        .unwrap()
                        .iter()
                        .filter(|(label, _)| label.contains("pod-security"));
                    for (label, level) in levels {
                        let is_open = name == BEFORE_ANY_OPERATOR && level == "privileged";
                        assert!(
                            OWN.contains(&&*name) || is_open,
                            "{arguments:?}: {name} {label}={level}"
                        );
                    }
                    assert!(names.insert(name.clone()), "{arguments:?}: {name} twice");
                }
                let note: BTreeSet<String> = run
                    .stderr
                    .split("kubectl create namespace ")
                    .skip(1)
                    .map(|rest| rest.split([';', '\n']).next().unwrap().to_owned())
                    .collect();
                assert!(note.is_disjoint(&names), "{arguments:?}: {}", run.stderr);
                // Every namespace that objects are in is among them, or named in the note.
                let placed: BTreeSet<_> = objects
                    .iter()
                    .filter_map(|object| {
                        object["metadata"]["namespace"].as_str().map(str::to_owned)
                    })
                    .collect();
                for name in placed.difference(&names).filter(|name| *name != "default") {
                    assert!(note.contains(name), "{arguments:?}: {name}: {}", run.stderr);
                }
                seen.extend(names);
                needed.extend(note);
            }
        }
    }
    assert_eq!(
        seen.iter().map(String::as_str).collect::<Vec<_>>(),
        [OF_ORIGINALS.as_slice(), &OWN].concat()
    );
    assert_eq!(
        needed.iter().map(String::as_str).collect::<Vec<_>>(),
        ["elsewhere", "lab", "openstack", "weft-placement"]
    );
}

#[test]
fn one_operator_for_all_domains_has_names_of_its_own() {
    let objects = objects(&printed(&["manifests", "--domains", "addons"]));
    let account =
        json!([{"kind": "ServiceAccount", "name": "weft-operator", "namespace": "weft-system"}]);
    for object in &objects {
        assert!(
            !title(object).contains("cluster-network-addons-operator"),
            "{}",
            title(object)
        );
        if !object["subjects"].is_null() {
            assert_eq!(object["subjects"], account, "{}", title(object));
        }
    }
    let place = |wanted: &str| find(&objects, wanted)["metadata"]["namespace"].clone();
    assert_eq!(place("Role weft-operator-addons"), "weft-system");
    assert_eq!(
        place("Role weft-operator-addons-operands"),
        "cluster-network-addons"
    );
    assert_eq!(
        find(&objects, "RoleBinding weft-operator-addons-operands")["roleRef"]["name"],
        "weft-operator-addons-operands"
    );
    find(&objects, "Namespace weft-system");
    find(&objects, "Namespace cluster-network-addons");
    let container =
        &find(&objects, "Deployment weft-operator")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["args"],
        json!(["operator", "--domains", "addons"])
    );
    let environment = container["env"].as_array().unwrap();
    assert!(
        environment
            .contains(&json!({"name": "OPERAND_NAMESPACE", "value": "cluster-network-addons"}))
    );
    assert!(
        environment
            .iter()
            .any(|variable| variable["name"] == "MULTUS_IMAGE")
    );
}

/// `weft manifests` looks at a cluster for a warning only, and for a short time.
#[test]
fn manifests_are_the_same_with_a_cluster_that_does_not_answer() {
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    // It takes connections, and says nothing.
    let silent = listen();
    let gone = listen().local_addr().unwrap();
    let asks = json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "IfAvailable",
        "command": "/bin/sleep", "args": ["20"]
    }});
    let arguments = ["manifests", "--domains", "addons"];
    let offline = weft(Path::new("."), &arguments);
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    for (server, user) in [
        (silent.local_addr().unwrap(), json!({})),
        (gone, json!({})),
        (gone, asks),
    ] {
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": format!("https://{server}")}}],
            "users": [{"name": "a", "user": user}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]
        });
        fs::write(&kubeconfig, config.to_string()).unwrap();
        let chosen = ["--kubeconfig", kubeconfig.to_str().unwrap()];
        let begun = Instant::now();
        let run = weft(Path::new("."), &[&arguments[..], &chosen].concat());
        assert!(begun.elapsed() < Duration::from_secs(15), "{config}");
        assert_eq!(
            (run.code, &run.stdout, &run.stderr),
            (0, &offline.stdout, &offline.stderr),
            "{config}"
        );
    }
}

/// `kubectl apply` removes nothing, so the policies of a domain that a later installation leaves out
/// stay as they are. They must not stop the domains that it adds.
#[test]
fn a_policy_is_the_same_whatever_other_domains_the_operator_serves() {
    const DOMAINS: [&str; 4] = ["addons", "cluster-network", "node-network", "placement"];
    let policies = |domains: &str| -> Vec<Value> {
        let all = objects(&printed(&["manifests", "--domains", domains]));
        let is_policy = |object: &Value| object["kind"] == "ValidatingAdmissionPolicy";
        all.into_iter().filter(is_policy).collect()
    };
    let together = policies(&DOMAINS.join(","));
    for domain in DOMAINS {
        let alone = policies(domain);
        assert!(!alone.is_empty(), "{domain}");
        for policy in &alone {
            assert_eq!(find(&together, &title(policy)), policy, "{domain}");
        }
    }
}

#[test]
fn files_have_the_names_that_automation_knows() {
    let folder = tempfile::tempdir().unwrap();
    let run = weft(
        folder.path(),
        &[
            "manifests",
            "-o",
            "made/here",
            "--split",
            "--components",
            "multus,ovs",
        ],
    );
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let made = folder.path().join("made/here");
    let names: BTreeSet<String> = fs::read_dir(&made)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(
        names.into_iter().collect::<Vec<_>>(),
        [
            "namespace.yaml",
            "network-addons-config-example.cr.yaml",
            "network-addons-config.crd.yaml",
            "operator.yaml"
        ]
    );
    let read = |name: &str| objects(&fs::read_to_string(made.join(name)).unwrap());
    let example = &read("network-addons-config-example.cr.yaml")[0];
    assert_eq!(
        example["spec"],
        json!({"multus": {}, "ovs": {}, "imagePullPolicy": "IfNotPresent"})
    );
    assert_eq!(
        weft(
            &made,
            &["validate", "-f", "network-addons-config-example.cr.yaml"]
        )
        .code,
        0
    );
    let all: Vec<Value> = [
        "namespace.yaml",
        "network-addons-config.crd.yaml",
        "operator.yaml",
    ]
    .into_iter()
    .flat_map(read)
    .collect();
    assert_eq!(
        all,
        objects(&printed(&[
            "manifests",
            "--split",
            "--components",
            "multus,ovs"
        ]))
    );
}

#[test]
fn manifests_are_complete_and_always_the_same() {
    let example = root().join(EXAMPLE);
    let arguments = ["render", "-f", example.to_str().unwrap()];
    let text = printed(&arguments);
    assert_eq!(text, printed(&arguments));
    assert!(
        text.lines().nth(1).unwrap().contains("drawn at random"),
        "{text}"
    );
    let rendered = objects(&text);
    for wanted in [
        "DaemonSet multus",
        "DaemonSet kube-cni-linux-bridge-plugin",
        "DaemonSet bridge-marker",
        "DaemonSet ovs-cni-amd64",
        "Deployment kubemacpool-mac-controller-manager",
        "MutatingWebhookConfiguration kubemacpool-mutator",
        "DaemonSet dynamic-networks-controller-ds",
        "DaemonSet macvtap-cni",
        "Deployment secondary-dns",
        "Deployment kubevirt-ipam-controller-manager",
        "CustomResourceDefinition ipamclaims.k8s.cni.cncf.io",
    ] {
        find(&rendered, wanted);
    }
    let fixed = text_of(
        "  kubeMacPool: {rangeStart: '02:00:00:00:00:00', rangeEnd: '02:00:00:00:00:ff'}\n",
    );
    assert!(!fixed.contains("drawn at random"), "{fixed}");
}

fn text_of(spec: &str) -> String {
    let run = weft_with_stdin(Path::new("."), &["render", "-f", "-"], &resource(spec));
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout
}

fn resource(spec: &str) -> String {
    format!(
        "apiVersion: networkaddonsoperator.network.kubevirt.io/v1\nkind: NetworkAddonsConfig\nmetadata:\n  name: cluster\nspec:\n{spec}"
    )
}

#[test]
fn components_are_rendered_into_files_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let run = weft_with_stdin(
        folder.path(),
        &["render", "-f", "-", "-o", "out", "-n", "elsewhere"],
        &resource("  multus: {}\n  ovs: {}\n"),
    );
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let multus = objects(&fs::read_to_string(folder.path().join("out/multus.yaml")).unwrap());
    assert_eq!(
        find(&multus, "DaemonSet multus")["metadata"]["namespace"],
        "elsewhere"
    );
    assert!(folder.path().join("out/ovs.yaml").exists());
}

#[test]
fn images_come_from_the_environment() {
    let mut command = super::common::command(Path::new("."), &["render", "-f", "-"]);
    let run = super::common::run(
        command.env("MULTUS_IMAGE", "registry.example/multus:9"),
        &resource("  multus: {}\n"),
    );
    assert!(
        run.stdout.contains("image: registry.example/multus:9"),
        "{}{}",
        run.stdout,
        run.stderr
    );
    let run = super::common::run(
        command.env("MULTUS_IMAGE", "a b"),
        &resource("  multus: {}\n"),
    );
    assert_eq!(run.code, 2);
    assert!(
        run.stderr
            .starts_with("error: environment variable MULTUS_IMAGE: "),
        "{}",
        run.stderr
    );
}

/// The tests with a control plane show what the cluster is asked for.
#[test]
fn a_cluster_that_is_named_must_exist_and_none_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let manifests = ["manifests", "--split", "--domains", "addons"];
    for (flags, told) in [
        (
            &["--running-images", "--kubeconfig", "missing"][..],
            "error: the kubeconfig missing cannot be used",
        ),
        (
            &["--kubeconfig", "missing"][..],
            "error: the kubeconfig missing cannot be used",
        ),
        (&["--context", "missing"][..], "kubectl config get-contexts"),
    ] {
        let run = weft(folder.path(), &[&manifests[..], flags].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{flags:?}");
        assert!(run.stderr.contains(told), "{flags:?}: {}", run.stderr);
    }
    assert_eq!(weft(folder.path(), &manifests).code, 0);
}

/// The chart's test shows that Helm installs the same with these values.
#[test]
fn helm_values_and_a_kustomize_patch_have_the_chosen_images() {
    let images =
        "--operand-images=MULTUS_IMAGE=registry.example/multus:4,OVS_CNI_IMAGE=r.example/o:1";
    let printed = |arguments: &[&str]| -> Value {
        let run = weft(Path::new("."), &[&["manifests"], arguments].concat());
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{arguments:?}");
        objects(&run.stdout).remove(0)
    };
    let variables = json!([
        {"name": "MULTUS_IMAGE", "value": "registry.example/multus:4"},
        {"name": "OVS_CNI_IMAGE", "value": "r.example/o:1"},
    ]);
    assert_eq!(
        printed(&["-o", "helm-values", "--domains", "addons", images]),
        json!({
            "addons": {"enabled": true}, "clusterNetwork": {"enabled": false},
            "nodeNetwork": {"enabled": false}, "placement": {"enabled": false}, "env": variables,
        })
    );
    for (layout, name, namespace) in [
        (&[][..], "weft-operator", "weft-system"),
        (
            &["--split", "--namespace", "hco"],
            "cluster-network-addons-operator",
            "hco",
        ),
    ] {
        let patch = ["-o", "kustomize-patch", "--domains", "addons", images];
        assert_eq!(
            printed(&[&patch[..], layout].concat()),
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"template": {"spec": {"containers": [{"name": name, "env": variables}]}}},
            })
        );
    }
    for (arguments, said) in [
        (&["-o", "helm-values", "--split"][..], "leave --split out"),
        (
            &["-o", "helm-values", "--namespace", "a"],
            "give --namespace to helm",
        ),
        (&["-o", "kustomize-patch"], "nothing differs from the base"),
        (
            &["-o", "kustomize-patch", "--split", images],
            "name one domain",
        ),
    ] {
        let run = weft(Path::new("."), &[&["manifests"], arguments].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(run.stderr.contains(said), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn an_option_of_a_domain_that_is_left_out_has_a_note() {
    let noted = |form: &[&str], option: &[&str]| {
        let manifests = ["manifests", "--domains", "addons"];
        let run = weft(Path::new("."), &[&manifests[..], form, option].concat());
        assert_eq!(run.code, 0, "{option:?}: {}", run.stderr);
        run.stderr
    };
    let note = |option: &str, domain: &str| {
        format!("note: {option} has no effect without the domain {domain}\n")
    };
    for form in [&[][..], &["-o", "helm-values"]] {
        for (option, domain) in [
            (["--api-server", "192.0.2.1:6443"], "cluster-network"),
            (["--node-kubeconfig", "/etc/a"], "cluster-network"),
            (["--placement-namespaces", "lab"], "placement"),
            (["--keystone-urls", "https://keystone.example"], "placement"),
        ] {
            assert_eq!(noted(form, &option), note(option[0], domain));
        }
        assert_eq!(
            noted(form, &["--components", "multus,flannel"]),
            note("--components flannel", "cluster-network")
        );
        assert_eq!(noted(form, &["--components", "multus"]), "");
    }
}

/// The test of the bases shows that kustomize deploys the same with the patch.
#[test]
fn a_kustomize_patch_holds_an_option_or_refuses_it() {
    let printed = |arguments: &[&str]| {
        let patch = [&["manifests", "-o", "kustomize-patch"], arguments].concat();
        weft(Path::new("."), &patch)
    };
    let image = ["--image", "registry.example/weft:2"];
    let agents = ["--agent-image", "registry.example/agent:2"];
    let always = ["--image-pull-policy", "Always"];
    // The base has agents, also if the images of other domains are asked for.
    let run = printed(&[&image[..], &agents, &always, &["--domains", "addons"]].concat());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let patch = objects(&run.stdout).remove(0);
    assert_eq!(
        patch["spec"]["template"]["spec"]["containers"],
        json!([{
            "name": "weft-operator", "image": "registry.example/weft:2",
            "imagePullPolicy": "Always", "env": [
                {"name": "HANDLER_IMAGE_PULL_POLICY", "value": "Always"},
                {"name": "OPERATOR_IMAGE", "value": "registry.example/weft:2"},
                {"name": "RELATED_IMAGE_HANDLER_IMAGE", "value": "registry.example/agent:2"},
            ]
        }])
    );
    let network = ["--split", "--domains", "cluster-network"];
    let server = ["--api-server", "https://192.0.2.1:6443"];
    let run = printed(&[&network[..], &server].concat());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(run.stdout.contains("192.0.2.1"), "{}", run.stdout);

    let placement = ["--split", "--domains", "placement"];
    let file = ["--node-kubeconfig", "/etc/kubernetes/kubelet.conf"];
    let namespaces = ["--placement-namespaces", "lab"];
    let addons = ["--split", "--domains", "addons"];
    for (arguments, said) in [
        (vec!["--components", "multus"], "cannot hold --components"),
        (vec!["--monitoring"], "cannot hold --monitoring"),
        (
            [&network[..], &file].concat(),
            "cannot hold --node-kubeconfig",
        ),
        (
            [&placement[..], &namespaces].concat(),
            "cannot hold --placement-namespaces",
        ),
        (server.to_vec(), "--api-server changes nothing"),
        (
            [&addons[..], &agents].concat(),
            "--agent-image changes nothing",
        ),
        (
            vec!["--operand-images=FLANNEL_IMAGE=r.example/f:1"],
            "FLANNEL_IMAGE: this base of kustomize deploys no such image",
        ),
        (
            vec!["--domains", "addons,cluster-network"],
            "--domains cluster-network: the base of kustomize serves addons and node-network",
        ),
    ] {
        let run = printed(&[&arguments[..], &image].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(run.stderr.contains(said), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn invalid_options_render_nothing() {
    let run = weft_with_stdin(
        Path::new("."),
        &["render", "-f", "-"],
        &resource("  mutlus: {}\n"),
    );
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert_eq!(
        run.stderr,
        "stdin:6:3: spec.mutlus: unknown field \"mutlus\"; did you mean \"multus\"?\n"
    );
}

#[test]
fn the_operator_is_given_the_images_of_operands_that_manifests_lists() {
    let images = "MULTUS_IMAGE=registry.example/multus:9,FLANNEL_IMAGE=localhost/flannel:test";
    let variable = |layout: &[&str], domain: &str, name: &str| {
        let listed = ["manifests", "--operand-images", images, "--domains", domain];
        let all = objects(&printed(&[&listed[..], layout].concat()));
        let mut containers = all
            .iter()
            .filter_map(|object| object.pointer("/spec/template/spec/containers/0"));
        let container = containers.next().unwrap();
        let mut variables = container["env"].as_array().unwrap().iter();
        let found = variables.find(|variable| variable["name"] == name);
        found.map(|variable| variable["value"].clone())
    };
    for layout in [&[][..], &["--split"]] {
        let image = variable(layout, "addons", "MULTUS_IMAGE");
        assert_eq!(image, Some(json!("registry.example/multus:9")));
        let image = variable(layout, "cluster-network", "FLANNEL_IMAGE");
        assert_eq!(image, Some(json!("localhost/flannel:test")));
        // An operator gets no image of a domain that it does not serve.
        assert_eq!(variable(layout, "addons", "FLANNEL_IMAGE"), None);
    }
}

#[test]
fn placement_has_roles_in_served_namespaces_and_everywhere_by_choice() {
    let roles = |arguments: &[&str]| -> Vec<String> {
        let all = objects(&printed(
            &[
                &["manifests", "--split", "--domains", "placement"],
                arguments,
            ]
            .concat(),
        ));
        let text = |object: &Value, pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let reads_secrets = |object: &&Value| object["rules"].to_string().contains("\"secrets\"");
        all.iter()
            .filter(reads_secrets)
            .map(|object| {
                format!(
                    "{} {}",
                    text(object, "/kind"),
                    text(object, "/metadata/namespace")
                )
            })
            .collect()
    };
    assert_eq!(roles(&[]), ["Role openstack"]);
    assert_eq!(
        roles(&["--placement-namespaces", "lab,openstack"]),
        ["Role lab", "Role openstack"]
    );
    assert_eq!(roles(&["--placement-namespaces", "*"]), ["ClusterRole "]);
    let all = objects(&printed(&[
        "manifests",
        "--split",
        "--domains",
        "placement",
        "--placement-namespaces",
        "lab",
    ]));
    let deployment = find(&all, "Deployment weft-placement-operator");
    assert_eq!(deployment["metadata"]["namespace"], "weft-placement");
    let environment = deployment["spec"]["template"]["spec"]["containers"][0]["env"].to_string();
    assert!(
        environment.contains("WEFT_PLACEMENT_NAMESPACES") && environment.contains("\"lab\""),
        "{environment}"
    );
}

#[test]
fn the_operator_is_told_the_keystones_that_manifests_lists() {
    for (arguments, operator) in [
        (&["--split"][..], "weft-placement-operator"),
        (&[], "weft-operator"),
    ] {
        let listed = [
            "manifests",
            "--keystone-urls",
            "https://Keystone.example:5000/v3/,https://other.example",
        ];
        let all = objects(&printed(
            &[&listed, arguments, &["--domains", "placement"]].concat(),
        ));
        let deployment = all
            .iter()
            .find(|object| object["kind"] == "Deployment")
            .unwrap();
        assert_eq!(deployment["metadata"]["name"], operator);
        let environment = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
            .as_array()
            .unwrap();
        let found = environment
            .iter()
            .find(|variable| variable["name"] == "WEFT_KEYSTONE_URLS")
            .unwrap();
        assert_eq!(
            found["value"],
            "https://keystone.example:5000,https://other.example"
        );
    }
    let run = weft(
        Path::new("."),
        &[
            "manifests",
            "--domains",
            "placement",
            "--keystone-urls",
            "https://a,https://b/?c=d",
        ],
    );
    assert!(
        run.code == 2
            && run
                .stderr
                .contains("\"https://b/?c=d\" must have no query and no fragment"),
        "{}",
        run.stderr
    );
}

#[test]
fn monitoring_is_added_for_operators_that_do_not_make_it() {
    for (arguments, operator) in [
        (&["--split", "--domains", "addons"][..], None),
        (&["--split", "--domains", "node-network"], None),
        (
            &["--split", "--domains", "cluster-network"],
            Some("cluster-network-operator"),
        ),
        (
            &["--split", "--domains", "placement"],
            Some("weft-placement-operator"),
        ),
        (&["--domains", "addons"], Some("weft-operator")),
    ] {
        let print =
            |more: &[&str]| objects(&printed(&[&["manifests"][..], arguments, more].concat()));
        let with = print(&["--monitoring=observability/scraper"]);
        let added = with.len() - print(&[]).len();
        let Some(operator) = operator else {
            assert_eq!(added, 0, "{arguments:?}: the operator makes them itself");
            continue;
        };
        assert_eq!(added, 5, "{arguments:?}");
        let find = |kind: &str, name: &str| {
            let found = with
                .iter()
                .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
            found.unwrap_or_else(|| panic!("{arguments:?}: no {kind} {name}"))
        };
        let metrics = format!("{operator}-metrics");
        let workload = with
            .iter()
            .find(|object| object.pointer("/spec/template/spec/containers").is_some())
            .unwrap();
        let service = find("Service", &metrics);
        assert_eq!(
            service["metadata"]["namespace"],
            workload["metadata"]["namespace"]
        );
        let labels = &workload["spec"]["template"]["metadata"]["labels"];
        for (label, value) in service["spec"]["selector"].as_object().unwrap() {
            assert_eq!(labels[label], *value, "{arguments:?}");
        }
        let ports = workload
            .pointer("/spec/template/spec/containers/0/ports")
            .unwrap();
        let target = &service["spec"]["ports"][0]["targetPort"];
        assert!(
            ports
                .as_array()
                .unwrap()
                .iter()
                .any(|port| port["name"] == *target),
            "{arguments:?}: no port {target}"
        );
        assert_eq!(
            find("ServiceMonitor", &metrics)["spec"]["selector"]["matchLabels"],
            service["metadata"]["labels"]
        );
        let reader = &find("RoleBinding", &metrics)["subjects"][0];
        assert_eq!(
            (&reader["namespace"], &reader["name"]),
            (&json!("observability"), &json!("scraper"))
        );
        find("PrometheusRule", &format!("{operator}-rules"));
    }
}
