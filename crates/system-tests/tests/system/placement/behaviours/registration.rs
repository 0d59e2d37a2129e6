//! The service in Keystone, and the Services that are registered there.

use serde_json::json;
use weft_plan::kinds;

use crate::system::{
    harness::{condition, wait_until},
    placement::site::*,
};

pub async fn creates_keystone_service(site: &Site<'_>) {
    site.with_database(json!({})).await;
    let service = site.wait_there(kinds::KEYSTONE_SERVICE, "placement").await;
    assert_eq!(
        service["spec"],
        json!({"serviceType": "placement", "serviceName": "placement", "serviceDescription": "Placement Service", "enabled": true,
            "serviceUser": "placement", "secret": SECRET, "passwordSelector": "PlacementPassword"})
    );
    assert!(has_finalizer(&service, FINALIZER));
    // It says nothing yet.
    site.wait_says(
        "KeystoneServiceReady",
        "Unknown",
        "Init",
        "Service registration not started",
    )
    .await;
    site.says_ready(kinds::KEYSTONE_SERVICE, "placement", "Ready")
        .await;
    site.wait_says("KeystoneServiceReady", "True", "Ready", "Setup complete")
        .await;
}

pub async fn creates_keystone_endpoint(site: &Site<'_>) {
    site.with_database(json!({})).await;
    let endpoint = site.wait_there(kinds::KEYSTONE_ENDPOINT, "placement").await;
    let at = |endpoint: &str| format!("http://placement-{endpoint}.{}.svc:8778", site.namespace);
    assert_eq!(
        endpoint["spec"],
        json!({
            "serviceName": "placement",
            "endpoints": {"public": at("public"), "internal": at("internal")}
        })
    );
    site.wait_says(
        "KeystoneEndpointReady",
        "Unknown",
        "Init",
        "KeystoneEndpoint not created",
    )
    .await;
    // Weft repeats its message.
    let said = json!({
        "type": "Ready", "status": "False", "severity": "Warning", "reason": "Error",
        "message": "keystone is down", "lastTransitionTime": "2026-01-01T00:00:00Z"
    });
    site.says(
        kinds::KEYSTONE_ENDPOINT,
        "placement",
        json!({"conditions": [said]}),
    )
    .await;
    let live = site
        .wait_says(
            "KeystoneEndpointReady",
            "False",
            "Error",
            "keystone is down",
        )
        .await;
    assert_eq!(
        condition(&live["status"], "KeystoneEndpointReady")["severity"],
        "Warning"
    );
    site.plays_keystone().await;
    site.wait_says("KeystoneEndpointReady", "True", "Ready", "Setup complete")
        .await;
}

fn load_balancer() -> serde_json::Value {
    let annotations = json!({"dnsmasq.network.openstack.org/hostname": "placement-internal.openstack.svc",
        "metallb.universe.tf/address-pool": "osp-internalapi", "metallb.universe.tf/allow-shared-ip": "osp-internalapi",
        "metallb.universe.tf/loadBalancerIPs": "172.17.0.202,fd00:17::202"});
    json!({
        "override": {
            "service": {
                "internal": {
                    "metadata": {
                        "annotations": annotations,
                        "labels": {"internal": "true", "service": "nova"}
                    },
                    "spec": {"type": "LoadBalancer"}
                }
            }
        }
    })
}

/// Gives the Services addresses as MetalLB does.
async fn plays_metallb(site: &Site<'_>) {
    site.wait_there(kinds::SERVICE, "placement-internal").await;
    site.says(
        kinds::SERVICE,
        "placement-internal",
        json!({"loadBalancer": {"ingress": [{"ip": "172.17.0.202"}]}}),
    )
    .await;
}

pub async fn overridden_services_are_registered_as_they_are(site: &Site<'_>) {
    site.with_database(load_balancer()).await;
    plays_metallb(site).await;
    let endpoint = site.wait_there(kinds::KEYSTONE_ENDPOINT, "placement").await;
    let at = |endpoint: &str| format!("http://placement-{endpoint}.{}.svc:8778", site.namespace);
    assert_eq!(
        endpoint["spec"]["endpoints"],
        json!({"public": at("public"), "internal": at("internal")})
    );
}

pub async fn creates_loadbalancer_service(site: &Site<'_>) {
    site.with_database(load_balancer()).await;
    plays_metallb(site).await;
    site.plays_keystone().await;
    site.wait_ready().await;
    let service = site.wait_there(kinds::SERVICE, "placement-internal").await;
    let annotations = &service["metadata"]["annotations"];
    for (annotation, value) in [
        // The user's value counts, also over Weft's own.
        (
            "dnsmasq.network.openstack.org/hostname",
            "placement-internal.openstack.svc",
        ),
        ("metallb.universe.tf/address-pool", "osp-internalapi"),
        ("metallb.universe.tf/allow-shared-ip", "osp-internalapi"),
        (
            "metallb.universe.tf/loadBalancerIPs",
            "172.17.0.202,fd00:17::202",
        ),
        ("core.openstack.org/ingress_create", "false"),
        ("endpoint", "internal"),
    ] {
        assert_eq!(annotations[annotation], value, "{annotation}");
    }
    let labels = &service["metadata"]["labels"];
    assert_eq!(
        (&labels["internal"], &labels["service"]),
        (&json!("true"), &json!("nova"))
    );
    assert_eq!(service["spec"]["type"], "LoadBalancer");
    // Weft removes entries that the resource asks for no longer.
    site.patch(json!({"spec": {"override": null}})).await;
    site.wait(
        kinds::SERVICE,
        "placement-internal",
        "is as without the override",
        |live| {
            live["spec"]["type"] == "ClusterIP"
                && live["metadata"]["annotations"]["metallb.universe.tf/address-pool"].is_null()
                && live["metadata"]["labels"]["internal"].is_null()
        },
    )
    .await;
}

pub async fn a_load_balancer_without_an_address_is_waited_for(site: &Site<'_>) {
    site.with_database(load_balancer()).await;
    let live = site.wait_is("CreateServiceReady", "False").await;
    let said = condition(&live["status"], "CreateServiceReady");
    assert_eq!(said["reason"], "Requested");
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .contains("placement-internal"),
        "{said}"
    );
    plays_metallb(site).await;
    site.wait_says(
        "CreateServiceReady",
        "True",
        "Ready",
        "Create service completed",
    )
    .await;
}

pub async fn an_endpoint_url_is_registered_verbatim(site: &Site<'_>) {
    site.with_database(json!({
        "override": {
            "service": {"public": {"endpointURL": "http://placement-openstack.apps-crc.testing"}}
        }
    }))
    .await;
    let endpoint = site.wait_there(kinds::KEYSTONE_ENDPOINT, "placement").await;
    assert_eq!(
        endpoint["spec"]["endpoints"],
        json!({
            "public": "http://placement-openstack.apps-crc.testing",
            "internal": format!("http://placement-internal.{}.svc:8778", site.namespace)
        })
    );
}

pub async fn keystone_may_come_later_and_twice_is_refused(site: &Site<'_>) {
    site.password("12345678").await;
    site.galera().await;
    site.placement(json!({})).await;
    site.plays_mariadb(ACCOUNT).await;
    let message = format!(
        "Service config create waits for a KeystoneAPI in the namespace {}, or for spec.keystone.external",
        site.namespace
    );
    site.wait_says("ServiceConfigReady", "False", "Requested", &message)
        .await;
    site.keystone().await;
    site.wait_is("ServiceConfigReady", "True").await;
    site.put(json!({"apiVersion": "keystone.openstack.org/v1beta1", "kind": "KeystoneAPI", "metadata": {"name": "another"},
        "spec": {
            "containerImage": "k", "databaseInstance": "o", "memcachedInstance": "m", "secret": "s"
        }}))
        .await;
    let live = site.wait_is("ServiceConfigReady", "False").await;
    let said = condition(&live["status"], "ServiceConfigReady");
    assert!(
        said["reason"] == "Error"
            && said["message"]
                .as_str()
                .unwrap()
                .contains(": another, keystone;"),
        "{said}"
    );
}

/// Another operator owns the registration from now on: a deletion of keystone-operator's objects
/// would remove user and endpoints.
pub async fn leaves_the_registration_to_keystone_operator(site: &Site<'_>) {
    site.deployed(json!({})).await;
    let kinds = [kinds::KEYSTONE_SERVICE, kinds::KEYSTONE_ENDPOINT];
    site.patch(json!({"spec": {"keystone": {"registration": "None"}}}))
        .await;
    for kind in kinds {
        let left = site
            .wait(kind, "placement", "is not held", |live| {
                !has_finalizer(live, FINALIZER)
            })
            .await;
        assert_eq!(
            left["metadata"]["ownerReferences"],
            serde_json::Value::Null,
            "{kind}"
        );
    }
    let message = "Registered by others: keystone.registration is None";
    site.wait_says("KeystoneEndpointReady", "True", "Ready", message)
        .await;
    // Events follow the status.
    wait_until("events tell of both", async || {
        let events = site
            .cluster
            .kubectl(&[
                "-n",
                &site.namespace,
                "get",
                "events",
                "-o",
                "custom-columns=:.reason,:.message",
            ])
            .await;
        let left: Vec<_> = events
            .lines()
            .filter(|line| line.starts_with("LeftBehind"))
            .collect();
        let told = ["KeystoneEndpoint", "KeystoneService"]
            .iter()
            .all(|kind| left.iter().any(|line| line.contains(kind)));
        if told { Ok(()) } else { Err(events) }
    })
    .await;

    // And back: they are found again.
    let uid =
        site.wait_there(kinds::KEYSTONE_SERVICE, "placement").await["metadata"]["uid"].clone();
    site.patch(json!({"spec": {"keystone": null}})).await;
    site.wait_says("KeystoneEndpointReady", "True", "Ready", "Setup complete")
        .await;
    let again = site.wait_there(kinds::KEYSTONE_SERVICE, "placement").await;
    assert!(
        has_finalizer(&again, FINALIZER) && again["metadata"]["uid"] == uid,
        "{again:#}"
    );

    site.patch(json!({"spec": {"keystone": {"registration": "None"}}}))
        .await;
    for kind in kinds {
        site.wait(kind, "placement", "is not held", |live| {
            !has_finalizer(live, FINALIZER)
        })
        .await;
    }
    site.delete().await;
    site.wait_gone().await;
    for kind in kinds {
        let left = site.wait_there(kind, "placement").await;
        assert_eq!(
            left["metadata"]["deletionTimestamp"],
            serde_json::Value::Null,
            "{kind}"
        );
    }
}
