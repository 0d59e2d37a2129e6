//! The add-on kubeSecondaryDNS with the real CoreDNS, from the pod that Weft writes: user,
//! capabilities, arguments, Corefile, mounts and probes.
//!
//! The program of the status monitor is not to be had here. `pause` runs in its place, and the test
//! writes the zone file, as the monitor's user.

use std::time::Duration;

use serde_json::{Value, json};
use weft_testenv::{
    lab::{Lab, NodeOptions, images},
    played,
};

use crate::on_nodes::weft::{
    site::Site,
    wait::{wait_until, wait_within},
};

/// As <https://www.rfc-editor.org/rfc/rfc1035#section-5> writes zones. The monitor names the file
/// after the zone.
const ZONE: &str = "\
$ORIGIN vm.example.com.
$TTL 3600
@ IN SOA ns.vm.example.com. admin.vm.example.com. (1 3600 3600 1209600 3600)
@ IN NS ns.vm.example.com.
ns IN A 192.0.2.53
blue.machine.default IN A 192.0.2.77
";

const SELECTOR: &str = "--selector=k8s-app=secondary-dns";

async fn pod(site: &Site) -> Value {
    site.get(&["pods", "--namespace", "cluster-network-addons", SELECTOR])
        .await["items"][0]
        .clone()
}

fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let containers = pod["status"]["containerStatuses"].as_array();
    containers
        .into_iter()
        .flatten()
        .find(|container| container["name"] == name)
        .unwrap_or(&Value::Null)
}

#[tokio::test]
async fn coredns_serves_the_zones_that_the_monitor_writes() {
    let coredns = images::coredns().unwrap().expect(
        "CoreDNS: scripts/test-nodes leaves this test out where its module is not to be had",
    );
    let site = Site::start(
        Lab::builder()
            .node(NodeOptions::new("node-a").control_plane())
            .image(coredns),
    )
    .await;
    site.connect().await;

    site.lab
        .control_plane()
        .kubectl_with_input(&["apply", "-f", "-"], played::KUBEVIRT)
        .await
        .unwrap();
    site.add_ons(
        "secondary-dns",
        &json!({
            "kubeSecondaryDNS": {"domain": "example.com", "nameServerIP": "192.0.2.53"},
            "images": {"coreDNS": images::COREDNS, "kubeSecondaryDNS": images::PAUSE},
        }),
    )
    .await;
    let pod = wait_until("CoreDNS is ready", async || {
        let pod = pod(&site).await;
        let (server, monitor) = (
            container(&pod, "secondary-dns"),
            container(&pod, "status-monitor"),
        );
        let running = server["ready"] == true && monitor["state"]["running"].is_object();
        if running {
            Ok(pod.clone())
        } else {
            Err(format!("{:#}", pod["status"]))
        }
    })
    .await;

    let folder = format!(
        "/var/lib/kubelet/pods/{}/volumes/kubernetes.io~empty-dir/secdns-zones",
        pod["metadata"]["uid"].as_str().unwrap()
    );
    let node = &site.lab.nodes()[0];
    let script = format!(
        "cd {folder} && printf '{ZONE}' | setpriv --reuid=1000 --regid=0 --clear-groups tee db.vm.example.com"
    );
    node.exec(&["sh", "-c", &script]).await.unwrap();

    site.pod("client", "node-a").await;
    let server = format!("{}:5353", pod["status"]["podIP"].as_str().unwrap());
    // The Corefile lets CoreDNS look for new zones every 45 s.
    wait_within(
        Duration::from_secs(120),
        "the name of the machine's interface resolves",
        async || {
            let answer = site
                .exec(
                    "client",
                    &["nslookup", "blue.machine.default.vm.example.com", &server],
                )
                .await;
            if answer
                .as_ref()
                .is_ok_and(|answer| answer.contains("192.0.2.77"))
            {
                Ok(())
            } else {
                Err(format!("{answer:?}"))
            }
        },
    )
    .await;
    let script = format!("nslookup green.machine.default.vm.example.com {server} || true");
    let absent = site.exec("client", &["sh", "-c", &script]).await.unwrap();
    assert!(absent.contains("NXDOMAIN"), "{absent}");
}
