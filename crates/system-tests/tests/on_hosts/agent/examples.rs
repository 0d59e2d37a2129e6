//! Every example of `examples/node-network`, on three hosts: it becomes Available, and the hosts
//! are as it says. The reports of the first of them before and after it differ as `weft-agent plan`
//! says.

use std::collections::BTreeSet;

use serde_json::Value;
use weft_testenv::host_lab::{Capability, Host, HostLab, Installation, capabilities};

use crate::on_hosts::agent::support::{
    addresses, condition, example_files, link, needs, planned, reported, wait_as_planned,
    wait_policy, wait_reported, wait_until,
};

/// The label of the nodes that an example is for. Node-1 has it.
const WORKER: &str = "node-role.kubernetes.io/worker";

/// The addresses in the annotations of the nodes.
const ANNOTATED: [(&str, &str); 3] = [
    ("node-1", "192.0.2.11"),
    ("node-2", "192.0.2.12"),
    ("node-3", "192.0.2.13"),
];

/// The example of a policy that fails.
const FAILS: &str = "missing-card.yaml";

/// The examples that `weft-agent plan` refuses, because only the cluster knows the annotations of a
/// node and the addresses of a pool.
const NEED_CLUSTER: [&str; 2] = ["address-from-annotation.yaml", "address-per-node.yaml"];

/// Reports whether an example is for hosts with Open vSwitch, in `open_vswitch.rs`: they may have a
/// newer NetworkManager than the machine, too.
pub fn wants_open_vswitch(policy: &Value) -> bool {
    let is_newer =
        |need: &Capability| matches!(need, Capability::NetworkManager(..)) && !need.is_there();
    needs(policy)
        .iter()
        .any(|need| *need == Capability::OpenVSwitch || is_newer(need))
}

/// Prepares the hosts for an example.
async fn prepare(weft: &Installation, file: &str) {
    if file == "address-from-annotation.yaml" {
        for (host, address) in ANNOTATED {
            let annotation = format!("example.com/storage-address={address}");
            weft.lab()
                .kubectl(&["annotate", "node", host, &annotation])
                .await
                .unwrap();
        }
    }
    if file == "dhcp-to-static.yaml" {
        let dhcp = "connection add type ethernet ifname eth1 con-name eth1 ipv4.method auto ipv4.route-metric 900 ipv6.method disabled";
        for host in weft.lab().hosts() {
            host.exec(&[&["nmcli"][..], &dhcp.split(' ').collect::<Vec<_>>()].concat())
                .await
                .unwrap();
            wait_leased(host, "eth1").await;
            let leased = addresses(host, "eth1").await;
            wait_reported(weft, host.name(), "eth1", |eth1| {
                eth1["ipv4"]["address"][0]["ip"] == *leased[0]
            })
            .await;
            wait_until("its routes are reported", async || {
                let routes = reported(weft, host.name()).await?["routes"]["running"].clone();
                let is_there = routes
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|route| route["next-hop-interface"] == "eth1");
                if is_there {
                    Ok(())
                } else {
                    Err(format!("{routes:#}"))
                }
            })
            .await;
        }
    }
}

/// A policy wants DHCP, not an address: that comes when the server has one.
async fn wait_leased(host: &Host, card: &str) {
    wait_until(
        &format!("{} has a lease for {card}", host.name()),
        async || {
            let leases = addresses(host, card).await;
            let network = format!("172.31.{}.1", card.trim_start_matches("eth"));
            if leases.iter().any(|address| address.starts_with(&network)) {
                Ok(())
            } else {
                Err(format!("{leases:?}"))
            }
        },
    )
    .await;
}

/// Checks by `ip -d` that each interface of the policy has its name and type on these hosts, and
/// that the other hosts do not have it.
async fn assert_devices(weft: &Installation, policy: &Value, hosts: &BTreeSet<String>) {
    for interface in policy["spec"]["desiredState"]["interfaces"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let Some(name) = interface["name"]
            .as_str()
            .filter(|name| !name.contains("{{"))
        else {
            continue;
        };
        for host in weft.lab().hosts() {
            let found = link(host, name).await;
            let kind = found["linkinfo"]["info_kind"].as_str().unwrap_or_default();
            let is_there = match interface["type"].as_str().unwrap_or_default() {
                "linux-bridge" => kind == "bridge",
                "mac-vlan" => kind == "macvlan",
                "mac-vtap" => kind == "macvtap",
                "ethernet" => kind == "veth",
                other => kind == other,
            };
            let wanted = interface["type"] == "ethernet"
                || interface["state"] != "absent" && hosts.contains(host.name());
            assert_eq!(
                is_there,
                wanted,
                "{} on {}: {found:#}",
                interface["name"],
                host.name()
            );
        }
    }
}

/// Checks special effects of single examples.
async fn assert_special(weft: &Installation, file: &str) {
    let one = weft.host("node-1").unwrap();
    match file {
        "match-dhcp.yaml" | "ethernet-dhcp.yaml" => {
            for host in weft.lab().hosts() {
                wait_leased(host, "eth1").await;
            }
        }
        "bond-detach.yaml" => {
            for host in weft.lab().hosts() {
                wait_leased(host, "eth1").await;
                wait_leased(host, "eth2").await;
            }
        }
        "dhcp-to-static.yaml" => {
            for host in weft.lab().hosts() {
                let address = link(host, "eth1").await["addr_info"][0].clone();
                assert!(
                    address["local"]
                        .as_str()
                        .is_some_and(|address| address.starts_with("172.31.1.1")),
                    "on {}: {address}",
                    host.name()
                );
                assert_eq!(
                    address["dynamic"],
                    Value::Null,
                    "on {}: it is nobody's to take back",
                    host.name()
                );
                let routes = host
                    .exec(&["ip", "route", "show", "default", "dev", "eth1"])
                    .await
                    .unwrap();
                assert!(
                    routes.contains("via 172.31.1.1 proto static"),
                    "on {}: {routes}",
                    host.name()
                );
            }
        }
        "match-mtu.yaml" => {
            for host in weft.lab().hosts() {
                let mtus = [
                    link(host, "eth0").await,
                    link(host, "eth1").await,
                    link(host, "eth2").await,
                ]
                .map(|link| link["mtu"].clone());
                assert_eq!(
                    mtus,
                    [1500, 1400, 1400].map(Value::from),
                    "on {}",
                    host.name()
                );
            }
        }
        "address-from-annotation.yaml" => {
            for (host, address) in ANNOTATED {
                let found = addresses(weft.host(host).unwrap(), "eth2").await;
                assert_eq!(found, [address], "on {host}");
            }
        }
        "address-per-node.yaml" => {
            for (index, host) in weft.lab().hosts().iter().enumerate() {
                let found = addresses(host, "eth2").await;
                assert_eq!(found, [format!("198.51.100.{}", 10 + index)]);
            }
        }
        "ethernet-forwarding.yaml" => assert_forwards(one).await,
        "ethernet-static.yaml" => {
            assert_eq!(addresses(one, "eth1").await, ["192.0.2.10"]);
            assert!(
                addresses(weft.host("node-2").unwrap(), "eth1")
                    .await
                    .is_empty(),
                "it is for node-1"
            );
        }
        "linux-bridge-over-default-gateway.yaml" => {
            assert_eq!(
                addresses(one, "br-ex").await,
                ["172.31.0.11"],
                "the address moved to the bridge"
            );
            assert_eq!(link(one, "eth0").await["master"], "br-ex");
            one.exec(&["ping", "-c1", "-W5", "172.31.0.1"])
                .await
                .unwrap();
        }
        "dns.yaml" => {
            let resolver = one.exec(&["cat", "/etc/resolv.conf"]).await.unwrap();
            assert!(
                resolver.contains("nameserver 192.0.2.53") && resolver.contains("example.com"),
                "{resolver}"
            );
        }
        "worker-selector.yaml" => {
            assert_eq!(link(one, "eth1").await["mtu"], 1400);
            assert_eq!(
                link(weft.host("node-2").unwrap(), "eth1").await["mtu"],
                1500,
                "it is no worker"
            );
        }
        "routes.yaml" => {
            let routes = one
                .exec(&["ip", "route", "show", "table", "200"])
                .await
                .unwrap();
            assert!(
                routes.contains("198.51.100.0/24 via 192.0.2.1 dev eth2")
                    && routes.contains("metric 150"),
                "{routes}"
            );
            let rules = one.exec(&["ip", "rule"]).await.unwrap();
            assert!(rules.contains("from 192.0.2.50 lookup 200"), "{rules}");
        }
        _ => {}
    }
}

pub async fn assert_forwards(host: &Host) {
    assert_eq!(
        host.exec(&["cat", "/proc/sys/net/ipv4/conf/eth1/forwarding"])
            .await
            .unwrap()
            .trim(),
        "1"
    );
}

#[tokio::test]
async fn every_example_becomes_available_on_three_hosts() {
    let mut weft = Installation::start(HostLab::builder().hosts(3))
        .await
        .unwrap();
    weft.lab()
        .kubectl(&["label", "node", "node-1", &format!("{WORKER}=")])
        .await
        .unwrap();
    let mut applied = 0;
    for path in example_files() {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let policy: Value =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        if policy["kind"] != "NodeNetworkConfigurationPolicy" || wants_open_vswitch(&policy) {
            continue;
        }
        let name = policy["metadata"]["name"].as_str().unwrap();
        let lacking = capabilities::lacking(&needs(&policy));
        if !lacking.is_empty() {
            // It is a valid object all the same.
            weft.lab()
                .control_plane()
                .kubectl_with_input(&["apply", "--dry-run=server", "-f", "-"], &text)
                .await
                .unwrap();
            capabilities::skip(&file, &lacking);
            continue;
        }
        prepare(&weft, &file).await;
        let selector = &policy["spec"]["nodeSelector"];
        let selected = |host: &str| {
            let by_name = &selector["kubernetes.io/hostname"];
            (by_name.is_null() || by_name == host)
                && (selector[WORKER].is_null() || host == "node-1")
        };
        let mut all = weft.lab().hosts().iter();
        let first = all.find(|host| selected(host.name())).unwrap();
        let plan = if file == FAILS || NEED_CLUSTER.contains(&file.as_str()) {
            None
        } else {
            std::fs::write(first.file("/run/policy.yaml"), &text).unwrap();
            Some(planned(first, "/run/policy.yaml").await)
        };
        let started = std::time::Instant::now();
        weft.apply(&text)
            .await
            .unwrap_or_else(|error| panic!("{file}: {error:#}"));
        if file == FAILS {
            assert_fails(&weft, name).await;
            clean_up(&mut weft, name).await;
            continue;
        }
        let status = wait_policy(&weft, name, "Available").await;
        println!(
            "{file}: Available after {:.1} s",
            started.elapsed().as_secs_f64()
        );
        assert_eq!(condition(&status, "Degraded")["status"], "False", "{file}");
        let hosts = weft
            .lab()
            .hosts()
            .iter()
            .map(|host| host.name().to_owned())
            .filter(|host| selected(host))
            .collect();
        assert_devices(&weft, &policy, &hosts).await;
        assert_special(&weft, &file).await;
        if let Some(plan) = plan {
            wait_as_planned(first, &plan, &file).await;
        }
        if file == "probes.yaml" {
            assert_counts(&mut weft, &policy);
        }
        clean_up(&mut weft, name).await;
        applied += 1;
    }
    assert!(applied >= 8, "only {applied} examples were applied");
}

/// All of its probes have succeeded before the change, so they have counted after it.
fn assert_counts(weft: &mut Installation, policy: &Value) {
    let log = std::fs::read_to_string(weft.agent("node-1").unwrap().log()).unwrap();
    let left_out: Vec<_> = log
        .lines()
        .filter(|line| line.contains("it does not count"))
        .collect();
    let probes = policy["spec"]["probes"].as_array().unwrap();
    assert_eq!(probes.len(), 4);
    for probe in probes {
        let (kind, of) = probe.as_object().unwrap().iter().next().unwrap();
        let at = ["host", "url", "name"]
            .iter()
            .find_map(|key| of[key].as_str())
            .unwrap();
        assert_eq!(
            left_out
                .iter()
                .find(|line| line.contains(&format!("{kind} {at}"))),
            None
        );
    }
}

/// It says on which node and why, and leaves the others alone.
async fn assert_fails(weft: &Installation, name: &str) {
    let policy = wait_policy(weft, name, "Degraded").await;
    let message = condition(&policy, "Degraded")["message"]
        .as_str()
        .unwrap_or_default();
    assert_eq!(
        message,
        "1/3 nodes failed to configure, 2 nodes aborted configuration"
    );
    let mut failed = 0;
    for host in weft.lab().hosts() {
        let enactment = weft
            .get("nnce", &format!("{}.{name}", host.name()))
            .await
            .unwrap()
            .unwrap();
        if condition(&enactment, "Failing")["status"] == "True" {
            failed += 1;
            let message = condition(&enactment, "Failing")["message"]
                .as_str()
                .unwrap_or_default();
            assert!(message.contains("eth666"), "{message}");
        }
    }
    assert_eq!(failed, 1);
}

/// The policy goes, and everything that it did: by Weft if it says so, else by us.
async fn clean_up(weft: &mut Installation, policy: &str) {
    let reverts = weft.get("nncp", policy).await.unwrap().unwrap()["spec"]["onDelete"] == "revert";
    weft.lab()
        .kubectl(&["delete", "nncp", policy, "--wait=true", "--timeout=300s"])
        .await
        .unwrap();
    wait_until("its enactments are gone", async || {
        let left = weft
            .lab()
            .kubectl(&[
                "get",
                "nnce",
                "-l",
                &format!("nmstate.io/policy={policy}"),
                "-o",
                "name",
            ])
            .await;
        let left = left.map_err(|error| error.to_string())?;
        if left.trim().is_empty() {
            Ok(())
        } else {
            Err(left)
        }
    })
    .await;
    for host in weft.lab().hosts() {
        if reverts {
            assert!(
                link(host, policy).await.is_null(),
                "{policy} is still there on {}",
                host.name()
            );
        }
        host.reset_network().await.unwrap();
    }
    weft.check_running().unwrap();
}
