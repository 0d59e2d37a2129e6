//! The shipped roles: everything that is needed, nothing else, and what happens where something is
//! missing.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weft_plan::{Kind, OWNER_LABEL, kinds};
use weft_testenv::{AuditEvent, Pods, Stage, Stuck};

use crate::system::{harness::*, metrics::Server, resistance};

const OPERANDS: &str = "cluster-network-addons-operator-operands";

#[tokio::test]
async fn a_permission_taken_away_is_named_and_holds_up_only_what_needs_it() {
    let cluster = Cluster::start(ClusterOptions {
        may_be_forbidden: true,
        ..Default::default()
    })
    .await;
    let operator = Operator::start_default(&cluster).await;
    cluster.play_kubemacpool().await;

    // To change DaemonSets.
    let before = take_away(&cluster, kinds::ROLE, OPERANDS, "daemonsets", &["patch"]).await;
    cluster.apply(&example("network-addons-config.yaml")).await;
    let status = cluster
        .wait_condition(
            "Degraded",
            "True",
            "FailedToApply",
            "cannot patch resource \"daemonsets\" in API group \"apps\"",
        )
        .await;
    assert_eq!(condition(&status, "Available")["status"], "False");
    let lines = condition(&status, "Degraded")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    for line in lines.lines() {
        let with_daemon_sets = [
            "multus",
            "multusDynamicNetworks",
            "linuxBridge",
            "ovs",
            "macvtap",
        ];
        assert!(
            with_daemon_sets
                .iter()
                .any(|component| line.starts_with(&format!("{component}: DaemonSet "))),
            "{line}"
        );
    }
    wait_state(&cluster, "kubeMacPool", "Available").await;
    wait_state(&cluster, "network-policy", "Available").await;
    give_back(&cluster, kinds::ROLE, OPERANDS, before).await;
    cluster.wait_available().await;

    // To create ClusterRoles.
    let before = take_away(
        &cluster,
        kinds::CLUSTER_ROLE,
        OPERATOR,
        "clusterroles",
        &["create"],
    )
    .await;
    cluster
        .delete(kinds::CLUSTER_ROLE, "", "kubemacpool-manager-role")
        .await;
    cluster
        .wait_condition(
            "Degraded",
            "True",
            "FailedToApply",
            "cannot create resource \"clusterroles\" in API group \"rbac.authorization.k8s.io\"",
        )
        .await;
    // Meanwhile the other components are kept in order.
    cluster.delete(kinds::DAEMON_SET, NAMESPACE, "multus").await;
    wait_until("multus is back", async || {
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "multus")
            .await
            .map(drop)
            .ok_or("it is gone".to_owned())
    })
    .await;
    wait_state(&cluster, "multus", "Available").await;
    give_back(&cluster, kinds::CLUSTER_ROLE, OPERATOR, before).await;
    cluster.wait_available().await;

    // To look: an operator that starts without it sees the objects one by one, and says what it
    // cannot see change.
    operator.kill();
    let before = take_away(
        &cluster,
        kinds::ROLE,
        OPERANDS,
        "networkpolicies",
        &["list", "watch"],
    )
    .await;
    let operator = Operator::start_default(&cluster).await;
    let status = cluster
        .wait_condition(
            "Degraded",
            "True",
            "FailedToApply",
            "cannot list resource \"networkpolicies\" in API group \"networking.k8s.io\"",
        )
        .await;
    let lines = condition(&status, "Degraded")["message"]
        .as_str()
        .unwrap()
        .to_owned();
    for line in lines.lines() {
        assert!(
            line.contains(": NetworkPolicy cluster-network-addons/")
                && line.contains(": cannot be watched: "),
            "{line}"
        );
    }
    assert!(
        lines.contains(
            "kubeMacPool: NetworkPolicy cluster-network-addons/kubemacpool-allow-ingress-to-"
        ),
        "{lines}"
    );
    assert_eq!(
        operator.http("/readyz").await.0,
        503,
        "not everything is known"
    );
    cluster.delete(kinds::DAEMON_SET, NAMESPACE, "multus").await;
    wait_until("multus is back", async || {
        cluster
            .get(kinds::DAEMON_SET, NAMESPACE, "multus")
            .await
            .map(drop)
            .ok_or("it is gone".to_owned())
    })
    .await;
    give_back(&cluster, kinds::ROLE, OPERANDS, before).await;
    cluster.wait_available().await;
    wait_until("it is ready", async || {
        match operator.http("/readyz").await {
            (200, ..) => Ok(()),
            (code, _, body) => Err(format!("{code} {body}")),
        }
    })
    .await;
}

#[tokio::test]
async fn no_rule_is_missing_and_none_is_unused() {
    // Every test checks that no rule is missing: a 403 fails it, see `Cluster`.
    let stages = vec![Stage::stuck(
        Pods::with_image("bridge-marker"),
        Stuck::Pending,
    )];
    let cluster = Cluster::start(ClusterOptions {
        stages,
        ..Default::default()
    })
    .await;
    cluster
        .define(&["certificates.cert-manager.io", "issuers.cert-manager.io"])
        .await;
    let operator = Operator::start(
        &cluster,
        OperatorOptions {
            metrics: "127.0.0.1:0",
            ..Default::default()
        },
    )
    .await;
    // The operator asks the API server about each reader of metrics.
    let token = cluster.kubectl(&["create", "token", "default"]).await;
    let answer = Server::at(operator.metrics_address().await)
        .get("/metrics", Some(token.trim()))
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    // Of a pod that does not start, the operator reads the events.
    cluster.apply(&example("network-addons-config.yaml")).await;
    wait_until("the operator lists the events of a pod", async || {
        let is_list = |event: &AuditEvent| event.verb == "list" && event.resource == "events";
        match cluster.audit().iter().any(is_list) {
            true => Ok(()),
            false => Err("not yet".to_owned()),
        }
    })
    .await;
    cluster.control_plane.set_stages(&[]).await.unwrap();
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    let mut rendered = rendered_rules(&cluster).await;
    // Somebody changes what the operator applies, for a while.
    let test = "no_rule_is_missing_and_none_is_unused";
    let has_policies = resistance::serves_policies(&cluster, test).await;
    if has_policies {
        resistance::enforce(&cluster, &resistance::policy(resistance::MIRROR)).await;
        let change = json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 7}}}});
        cluster
            .patch(kinds::DAEMON_SET, NAMESPACE, resistance::MARKER, change)
            .await;
        let who = "MutatingAdmissionPolicy \"images\" may do it";
        cluster
            .wait_condition("Drifted", "True", "Altered", who)
            .await;
        let policies = "mutatingadmissionpolicybinding,mutatingadmissionpolicy";
        cluster.kubectl(&["delete", policies, "images"]).await;
        cluster.wait_available().await;
    }
    // With cert-manager, and without it again.
    for provider in [json!("CertManager"), json!(null)] {
        cluster
            .patch_resource(
                json!({"spec": {"kubevirtIpamController": {"certificateProvider": provider}}}),
            )
            .await;
        cluster.wait_available().await;
    }
    // Objects that others install later. Somebody deletes one of each, and holds it.
    cluster
        .define(&[
            "networks.operator.openshift.io",
            "securitycontextconstraints.security.openshift.io",
        ])
        .await;
    cluster
        .define(&[
            "servicemonitors.monitoring.coreos.com",
            "prometheusrules.monitoring.coreos.com",
        ])
        .await;
    let held = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    for (kind, name) in [
        (kinds::SECURITY_CONTEXT_CONSTRAINTS, "multus"),
        (kinds::SERVICE_MONITOR, "kubemacpool-metrics-monitor"),
        (kinds::PROMETHEUS_RULE, "kubemacpool-prometheus-rule"),
    ] {
        wait_until("it is there", async || {
            cluster
                .get(kind, NAMESPACE, name)
                .await
                .ok_or("not yet".to_owned())
        })
        .await;
        is_labelled_again(&cluster, kind, name).await;
        cluster
            .patch(kind, NAMESPACE, name, held(json!(["example.com/hold"])))
            .await;
        cluster.delete(kind, NAMESPACE, name).await;
        cluster
            .wait_condition("Degraded", "True", "", "example.com/hold")
            .await;
        cluster
            .patch(kind, NAMESPACE, name, held(json!(null)))
            .await;
        cluster.wait_available().await;
    }
    // The object of another domain, which this test plays.
    let definition = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/crds/nmstates.nmstate.io.yaml"
    );
    cluster
        .apply(&std::fs::read_to_string(definition).unwrap())
        .await;
    cluster.wait_established("nmstates.nmstate.io").await;
    cluster
        .patch_resource(json!({"spec": {"nmstate": {}}}))
        .await;
    serve_nmstate(&cluster).await;
    is_labelled_again(&cluster, kinds::NMSTATE, NMSTATE).await;
    cluster
        .patch(
            kinds::NMSTATE,
            "",
            NMSTATE,
            held(json!(["example.com/hold"])),
        )
        .await;
    cluster.delete(kinds::NMSTATE, "", NMSTATE).await;
    cluster
        .wait_condition("Degraded", "True", "", "example.com/hold")
        .await;
    cluster
        .patch(kinds::NMSTATE, "", NMSTATE, held(json!(null)))
        .await;
    serve_nmstate(&cluster).await;
    rendered.extend(rendered_rules(&cluster).await);
    // It turns out to be OpenShift, whose service CA makes that certificate.
    cluster
        .define(&["clusterversions.config.openshift.io"])
        .await;
    cluster
        .wait_condition(
            "Progressing",
            "True",
            "",
            "kubevirt-ipam-controller-webhook-service",
        )
        .await;
    cluster
        .play_certificate("kubevirt-ipam-controller-webhook-service")
        .await;
    cluster.wait_available().await;
    // Available for a second time: the event is counted up.
    cluster.patch_resource(json!({"spec": {"ovs": null}})).await;
    cluster.wait_available().await;
    cluster
        .delete(kinds::SECRET, NAMESPACE, "kubemacpool-service")
        .await;
    cluster.wait_condition("Available", "False", "", "").await;
    cluster.play_kubemacpool().await;
    cluster.wait_available().await;
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster"])
        .await;
    cluster
        .kubectl(&["delete", "crd", "clusterversions.config.openshift.io"])
        .await;
    // Once more, where others made everything before, and give it to Weft.
    for mut object in render("network-addons-config.yaml") {
        if object["kind"] != "Namespace" {
            object["metadata"]["annotations"]["weft.network/adopt"] = "true".into();
            cluster.apply(&object.to_string()).await;
        }
    }
    cluster
        .install(&example("network-addons-config.yaml"))
        .await;
    cluster
        .kubectl(&["delete", "networkaddonsconfig", "cluster"])
        .await;

    let audit: Vec<_> = cluster
        .audit()
        .into_iter()
        .filter(|event| event.code < 400 || event.code == 404)
        .collect();
    let mut unused = Vec::new();
    for (kind, namespace) in [
        (kinds::CLUSTER_ROLE, ""),
        (kinds::ROLE, NAMESPACE),
        (kinds::ROLE, "default"),
    ] {
        for role in cluster
            .api(kind, namespace)
            .list(&Default::default())
            .await
            .unwrap()
        {
            let name = role.metadata.name.unwrap();
            if !name.starts_with(OPERATOR) {
                continue;
            }
            let rules = role.data["rules"].as_array().cloned().unwrap_or_default();
            for rule in rules {
                assert!(
                    !rule.to_string().contains("\"*\""),
                    "{kind} {name} permits anything: {rule}"
                );
                if name.ends_with("-granted") {
                    // Held only to be granted: what it permits must be part of a role that Weft
                    // makes.
                    let surplus: Vec<_> = atoms(&rule)
                        .into_iter()
                        .filter(|atom| !rendered.contains(atom))
                        .collect();
                    unused.extend(
                        surplus
                            .into_iter()
                            .map(|atom| format!("{kind} {name}: {atom:?}")),
                    );
                } else {
                    unused.extend(
                        unused_parts(&rule, namespace, &audit)
                            .into_iter()
                            .map(|part| format!("{kind} {namespace}/{name}: {part}")),
                    );
                }
            }
        }
    }
    unused.retain(|part| has_policies || !part.contains("mutatingadmissionpolic"));
    assert!(unused.is_empty(), "permitted and never needed: {unused:#?}");
}

/// An object that loses Weft's label is none that a watch shows: the operator has to read it.
async fn is_labelled_again(cluster: &Cluster, kind: Kind, name: &str) {
    cluster
        .patch(
            kind,
            NAMESPACE,
            name,
            json!({"metadata": {"labels": {OWNER_LABEL: null}}}),
        )
        .await;
    wait_until("it has the label again", async || {
        let labels = cluster
            .get(kind, NAMESPACE, name)
            .await
            .map(|object| object["metadata"]["labels"].clone())
            .unwrap_or_default();
        if labels[OWNER_LABEL].is_string() {
            Ok(())
        } else {
            Err(labels.to_string())
        }
    })
    .await;
}

/// The wish of the add-ons to the operator of the nodes' networks.
const NMSTATE: &str = "cluster-network-addons";

/// Says of it what that operator says, and waits until the add-ons believe it.
async fn serve_nmstate(cluster: &Cluster) {
    let generation = wait_until("it is asked for", async || {
        let live = cluster
            .get(kinds::NMSTATE, "", NMSTATE)
            .await
            .filter(|live| live["metadata"]["deletionTimestamp"].is_null());
        live.map(|live| live["metadata"]["generation"].clone())
            .ok_or("not yet".to_owned())
    })
    .await;
    let available = json!({
        "type": "Available", "status": "True", "reason": "SuccessfullyDeployed",
        "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z"
    });
    let patch = json!({"status": {"conditions": [available]}}).to_string();
    cluster
        .kubectl(&[
            "patch",
            "nmstate",
            NMSTATE,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ])
        .await;
    cluster.wait_available().await;
}

/// Group, resource and verb of a rule, one by one.
type Atom = (String, String, String);

fn texts(rule: &Value, field: &str) -> Vec<String> {
    rule[field]
        .as_array()
        .into_iter()
        .flatten()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

fn atoms(rule: &Value) -> Vec<Atom> {
    let mut all = Vec::new();
    for group in texts(rule, "apiGroups") {
        for resource in texts(rule, "resources") {
            all.extend(
                texts(rule, "verbs")
                    .into_iter()
                    .map(|verb| (group.clone(), resource.clone(), verb)),
            );
        }
    }
    all
}

/// Everything that the roles of the add-ons permit.
async fn rendered_rules(cluster: &Cluster) -> BTreeSet<Atom> {
    let mut all = BTreeSet::new();
    for kind in [kinds::CLUSTER_ROLE, kinds::ROLE] {
        for role in cluster
            .api(kind, NAMESPACE)
            .list(&Default::default())
            .await
            .unwrap()
        {
            if role
                .metadata
                .labels
                .unwrap_or_default()
                .contains_key(weft_plan::OWNER_LABEL)
            {
                all.extend(
                    role.data["rules"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .flat_map(atoms),
                );
            }
        }
    }
    all
}

/// The verbs and the names of a rule that no request needed.
fn unused_parts(rule: &Value, namespace: &str, audit: &[AuditEvent]) -> Vec<String> {
    let names = texts(rule, "resourceNames");
    let mut parts = Vec::new();
    for (group, resource, verb) in atoms(rule) {
        let needs = |event: &&AuditEvent| {
            let (plain, sub) = resource.split_once('/').unwrap_or((&resource, ""));
            let same = event.group == group
                && event.resource == plain
                && event.subresource == sub
                && (namespace.is_empty() || event.namespace == namespace);
            // An apply that creates needs both.
            let verb = event.verb == verb
                || (verb == "create" && event.verb == "patch" && event.code == 201);
            same && verb && (names.is_empty() || names.contains(&event.name))
        };
        if !audit.iter().any(|event| needs(&event)) {
            parts.push(format!("{verb} {resource}.{group} {names:?}"));
        }
    }
    let named = names.iter().filter(|name| {
        !audit
            .iter()
            .any(|event| event.name == **name && texts(rule, "resources").contains(&event.resource))
    });
    parts.extend(named.map(|name| format!("name {name}")));
    parts
}

/// Removes verbs on a resource from a role, and returns the rules as they were.
async fn take_away(
    cluster: &Cluster,
    kind: Kind,
    role: &str,
    resource: &str,
    verbs: &[&str],
) -> Value {
    let before = cluster.get(kind, NAMESPACE, role).await.unwrap()["rules"].clone();
    let mut rules = Vec::new();
    for rule in before.as_array().unwrap() {
        // The rules name several resources: the others keep their verbs.
        for one in texts(rule, "resources") {
            let mut rule = rule.clone();
            if one == resource {
                rule["verbs"]
                    .as_array_mut()
                    .unwrap()
                    .retain(|verb| !verbs.contains(&verb.as_str().unwrap()));
            }
            rule["resources"] = json!([one]);
            if !rule["verbs"].as_array().unwrap().is_empty() {
                rules.push(rule);
            }
        }
    }
    cluster
        .patch(kind, NAMESPACE, role, json!({"rules": rules}))
        .await;
    // The API server learns of changed roles by a watch of its own: what is asked a moment later
    // may still be permitted.
    for verb in verbs {
        wait_until(&format!("{verb} {resource} is forbidden"), async || {
            let may = [
                "auth",
                "can-i",
                verb,
                resource,
                "-n",
                NAMESPACE,
                "--as",
                OPERATOR_USER,
            ];
            match cluster.control_plane.kubectl(&may).await {
                Ok(answer) => Err(answer),
                Err(_) => Ok(()),
            }
        })
        .await;
    }
    before
}

async fn give_back(cluster: &Cluster, kind: Kind, role: &str, rules: Value) {
    cluster
        .patch(kind, NAMESPACE, role, json!({"rules": rules}))
        .await;
}

async fn wait_state(cluster: &Cluster, component: &str, wanted: &str) {
    wait_until(&format!("{component} is {wanted}"), async || {
        let status = cluster.status().await;
        let found = status["components"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|one| one["name"] == component)
            .cloned()
            .unwrap_or_default();
        if found["state"] == wanted {
            Ok(())
        } else {
            Err(found.to_string())
        }
    })
    .await;
}
