//! The operators of MariaDB, Keystone and Topology, which may come later. With the rights that Weft
//! is shipped with for one namespace.

use serde_json::json;
use weft_plan::kinds;
use weft_testenv::{played, proxy::Proxy};

use super::{options, site::*};
use crate::system::{
    cluster_network::{text, weft},
    harness::*,
    install,
};

#[tokio::test]
async fn other_operators_may_come_later_and_it_is_idle_beside_them() {
    let resource = (kinds::PLACEMENT_API, NAME);
    let cluster = Cluster::start(ClusterOptions {
        resource,
        ..options()
    })
    .await;
    let proxy = Proxy::start(&cluster.control_plane).await.unwrap();
    let operator = Operator::start_via(&cluster, &proxy).await;
    let site = Site::new(&cluster, super::NAMESPACE).await;
    site.password("12345678").await;
    site.galera().await;
    site.placement(json!({"topologyRef": {"name": "zones"}, "networkAttachments": ["storage"]}))
        .await;

    let way_out =
        "install mariadb-operator, or give spec.database instead of spec.databaseInstance";
    let message = format!(
        "MariaDBAccount is not present: the cluster has no kind MariaDBAccount: {way_out}; also missing: keystone-operator, Multus, infra-operator"
    );
    site.wait_says("MariaDBAccountReady", "False", "Requested", &message)
        .await;
    cluster.apply(played::MARIADB).await;
    site.plays_mariadb(ACCOUNT).await;
    site.wait_is("DBReady", "True").await;

    let way_out = "install keystone-operator, or name another Keystone in spec.keystone.external";
    let message = format!(
        "Service config create waits for the kind KeystoneAPI: {way_out}; also missing: Multus, infra-operator"
    );
    site.wait_says("ServiceConfigReady", "False", "Requested", &message)
        .await;
    cluster.apply(played::KEYSTONE).await;
    cluster
        .wait_established("keystoneapis.keystone.openstack.org")
        .await;
    site.keystone().await;

    let way_out = "install Multus, or remove spec.networkAttachments";
    let message = format!(
        "NetworkAttachments error occurred the cluster has no kind NetworkAttachmentDefinition: {way_out}; also missing: infra-operator"
    );
    site.wait_says("NetworkAttachmentsReady", "False", "Error", &message)
        .await;
    cluster
        .apply(include_str!(
            "../../../../../components/network-attachment-definition/crd.yaml"
        ))
        .await;
    site.wait_says(
        "NetworkAttachmentsReady",
        "False",
        "Error",
        "NetworkAttachment resources missing: storage; also missing: infra-operator",
    )
    .await;
    // Other tests play Multus itself.
    site.patch(json!({"spec": {"networkAttachments": null}}))
        .await;

    let message = "Topology config create error occurred the cluster has no kind Topology: install infra-operator, or remove spec.topologyRef";
    site.wait_says("TopologyReady", "False", "Error", message)
        .await;
    cluster.apply(played::TOPOLOGY).await;
    cluster
        .wait_established("topologies.topology.openstack.org")
        .await;
    site.put(json!({
        "apiVersion": "topology.openstack.org/v1beta1", "kind": "Topology",
        "metadata": {"name": "zones"}, "spec": {}
    }))
    .await;
    site.plays_keystone().await;
    site.wait_ready().await;
    assert_not_warned(&cluster, &proxy);
    install::becomes_idle(&cluster, &proxy).await;
    install::a_pass_writes_nothing(&cluster, &proxy, &operator).await;
    let mut live = site.get(kinds::PLACEMENT_API, NAME).await.unwrap();
    // kubectl does not show them either.
    live["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    let plan = weft(&cluster, &["plan", "-f", "-"], &live.to_string()).await;
    assert!(
        plan.status.code() == Some(0) && text(&plan).contains("nothing would change"),
        "{}",
        text(&plan)
    );

    becomes_openshift(&site).await;

    // Weft repairs its own part, and leaves the rest of the object.
    cluster
        .patch(
            kinds::KEYSTONE_ENDPOINT,
            &site.namespace,
            "placement",
            json!({"spec": {"endpoints": {"public": "http://elsewhere"}}}),
        )
        .await;
    let own = format!("http://placement-public.{}.svc:8778", site.namespace);
    site.wait(
        kinds::KEYSTONE_ENDPOINT,
        "placement",
        "is as it was",
        |live| live["spec"]["endpoints"]["public"] == own.as_str(),
    )
    .await;
    cluster
        .delete(kinds::KEYSTONE_SERVICE, &site.namespace, "placement")
        .await;
    // Its finalizer is Weft's: it is gone only with the service. So are the kinds, should somebody
    // take the other operators away before.
    let names = [
        "mariadbdatabases.mariadb",
        "mariadbaccounts.mariadb",
        "keystoneapis.keystone",
        "keystoneservices.keystone",
        "keystoneendpoints.keystone",
    ];
    let definitions = names.map(|name| format!("{name}.openstack.org"));
    for definition in &definitions {
        cluster
            .delete(kinds::CUSTOM_RESOURCE_DEFINITION, "", definition)
            .await;
    }
    wait_until("the kind that nothing holds is gone", async || {
        let left = cluster
            .get(
                kinds::CUSTOM_RESOURCE_DEFINITION,
                "",
                "keystoneapis.keystone.openstack.org",
            )
            .await;
        if left.is_none() {
            Ok(())
        } else {
            Err("it is there".to_owned())
        }
    })
    .await;
    site.delete().await;
    site.wait_gone().await;
    wait_until("the other kinds are gone", async || {
        let mut left = Vec::new();
        for definition in &definitions {
            left.extend(
                cluster
                    .get(kinds::CUSTOM_RESOURCE_DEFINITION, "", definition)
                    .await
                    .map(|live| live["metadata"].clone()),
            );
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:#?}"))
        }
    })
    .await;
    assert!(
        !site
            .has_finalizer(kinds::TOPOLOGY, "zones", &format!("{FINALIZER}-{NAME}"))
            .await
    );
}

/// The other half of what the original's tests call "creates service account, role and
/// rolebinding": by the rights that Weft is shipped with, which are just enough to give them away.
async fn becomes_openshift(site: &Site<'_>) {
    let (account, role) = (
        format!("placement-{NAME}"),
        format!("placement-{NAME}-role"),
    );
    assert!(site.get(kinds::ROLE, &role).await.is_none());
    site.cluster
        .define(&["securitycontextconstraints.security.openshift.io"])
        .await;
    site.wait_says("RoleReady", "True", "Ready", "Role created")
        .await;
    site.wait_says("RoleBindingReady", "True", "Ready", "RoleBinding created")
        .await;
    let may = json!([
        {
            "apiGroups": ["security.openshift.io"], "resources": ["securitycontextconstraints"],
            "resourceNames": ["nonroot-v2"], "verbs": ["use"]
        }
    ]);
    assert_eq!(site.wait_there(kinds::ROLE, &role).await["rules"], may);
    let binding = site
        .wait_there(kinds::ROLE_BINDING, &format!("{role}binding"))
        .await;
    assert_eq!(
        binding["roleRef"],
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role})
    );
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": account, "namespace": site.namespace}])
    );
    // Only this account may.
    for (name, is_allowed) in [(account.as_str(), true), ("default", false)] {
        let user = format!("system:serviceaccount:{}:{name}", site.namespace);
        let attributes = json!({"namespace": site.namespace, "verb": "use", "group": "security.openshift.io", "resource": "securitycontextconstraints",
            "name": "nonroot-v2"});
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes}
        });
        // The API server learns of the binding by a watch of its own.
        wait_until(&format!("{user}: {is_allowed}"), async || {
            let answer = site
                .cluster
                .control_plane
                .kubectl_with_input(
                    &["create", "-f", "-", "-o", "jsonpath={.status.allowed}"],
                    &review.to_string(),
                )
                .await
                .unwrap();
            if (answer.trim() == "true") == is_allowed {
                Ok(())
            } else {
                Err(answer)
            }
        })
        .await;
    }
    site.wait_ready().await;
}
