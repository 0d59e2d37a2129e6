//! Removals, and properties that are bound to something else. The comparison for drift does not see
//! them, so each case is planned, applied, judged by `ip -j` and by the reports before and after
//! it, and planned again.

use std::path::PathBuf;

use serde_json::{Value, json};
use weft_testenv::host_lab::{Capability, Host, HostLab, Installation, agent, capabilities};

use crate::on_hosts::agent::support::{
    addresses, link, planned, wait_as_planned, wait_policy, wait_until,
};

fn card(name: &str, rest: Value) -> Value {
    let mut card = json!({"name": name, "type": "ethernet", "state": "up"});
    card.as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    json!({ "interfaces": [card] })
}

fn with_addresses(name: &str, list: &[&str]) -> Value {
    let list: Vec<Value> = list
        .iter()
        .map(|ip| json!({"ip": ip, "prefix-length": 24}))
        .collect();
    card(
        name,
        json!({
            "ipv4": {"enabled": true, "dhcp": false, "address": list}, "ipv6": {"enabled": false}
        }),
    )
}

fn bridge(rest: Value) -> Value {
    let mut bridge = json!({
        "name": "br1", "type": "linux-bridge", "state": "up", "ipv4": {"enabled": false},
        "ipv6": {"enabled": false}
    });
    bridge
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().unwrap().clone());
    json!({ "interfaces": [bridge] })
}

/// The profiles that NetworkManager keeps on disk, by file name.
fn profiles(host: &Host) -> Vec<String> {
    let files = std::fs::read_dir(host.file("/etc/NetworkManager/system-connections"))
        .map(Iterator::collect::<Vec<_>>)
        .unwrap_or_default();
    files
        .into_iter()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn profile(host: &Host, name: &str) -> PathBuf {
    host.file(format!(
        "/etc/NetworkManager/system-connections/{name}.nmconnection"
    ))
}

#[tokio::test]
async fn a_removal_is_planned_made_and_leaves_nothing_to_do() {
    let lab = HostLab::builder().hosts(1).cards(4).start().await.unwrap();
    let host = lab.host("node-1").unwrap();
    let program = agent::program().unwrap().display().to_string();
    let mac = link(host, "eth2").await["address"]
        .as_str()
        .unwrap()
        .to_owned();
    let with_dns =
        json!({"dns-resolver": {"config": {"server": ["172.31.0.1"], "search": ["example.org"]}}});

    // The wish, and a line of its plan.
    let steps = [
        (
            with_addresses("eth1", &["172.31.1.50", "172.31.1.51"]),
            "+ interfaces[eth1].ipv4.address[172.31.1.51/24]",
        ),
        (
            with_addresses("eth1", &["172.31.1.50"]),
            "- interfaces[eth1].ipv4.address[172.31.1.51/24]",
        ),
        (
            with_addresses("eth1", &[]),
            "- interfaces[eth1].ipv4.address[172.31.1.50/24]",
        ),
        (
            bridge(json!({
                "bridge": {"options": {"stp": {"enabled": false}}, "port": [{"name": "eth1"}]}
            })),
            "+ interfaces[br1]: linux-bridge",
        ),
        (
            card("eth1", json!({"controller": ""})),
            "~ interfaces[eth1].controller: br1 -> ",
        ),
        (
            card("eth1", json!({"controller": "br1"})),
            "~ interfaces[eth1].controller:  -> br1",
        ),
        (
            bridge(json!({"copy-mac-from": "eth2"})),
            "~ interfaces[br1].mac-address: ",
        ),
        (
            card("eth2", json!({"profile-name": "uplink"})),
            "~ interfaces[eth2].profile-name: eth2 -> uplink",
        ),
        (
            card(
                "eth2",
                json!({"profile-name": "uplink", "identifier": "mac-address", "mac-address": mac}),
            ),
            "~ interfaces[eth2].identifier: name -> mac-address",
        ),
        (with_dns, "~ dns-resolver.config.search"),
        (
            json!({"dns-resolver": {"config": {}}}),
            "~ dns-resolver.config.search",
        ),
        (
            with_addresses("eth3", &["172.31.3.50"]),
            "+ interfaces[eth3].ipv4.address[172.31.3.50/24]",
        ),
        (
            card("eth3", json!({"state": "down"})),
            "~ interfaces[eth3].state: up -> down",
        ),
        (
            with_addresses("eth3", &["172.31.3.50"]),
            "~ interfaces[eth3].state: down -> up",
        ),
        (
            card("eth3", json!({"description": "storage"})),
            "+ interfaces[eth3].description: storage",
        ),
        (
            card("eth3", json!({"state": "absent"})),
            "~ interfaces[eth3].state: up -> absent",
        ),
        // The cards of the lab are ends of veth pairs, as those of a host in a container are.
        (
            bridge(json!({"bridge": {"port": [{"name": "eth3"}]}})),
            "- interfaces[br1].bridge.port[eth1]",
        ),
    ];
    for (index, (desired, line)) in steps.into_iter().enumerate() {
        std::fs::write(host.file("/run/state.json"), desired.to_string()).unwrap();
        let run = async |command: &str| {
            // A name that does not resolve is no probe. Without its name servers the host would not
            // pass the usual one.
            let command = format!(
                "{program} --probe-seconds 4 --probe-dns-host nowhere.invalid {command} -f /run/state.json 2>&1"
            );
            host.exec(&["sh", "-c", &format!("{command} || echo exit code $?")])
                .await
                .unwrap()
        };
        let plan = run("plan").await;
        assert!(
            plan.contains(line) && plan.contains("exit code 1"),
            "{desired}\n{plan}"
        );
        let expected = planned(host, "/run/state.json").await;
        let applied = run("apply").await;
        assert!(applied.contains("Changed: "), "{desired}\n{applied}");
        wait_as_planned(host, &expected, &desired.to_string()).await;
        match index {
            0 => assert_eq!(
                addresses(host, "eth1").await,
                ["172.31.1.50", "172.31.1.51"]
            ),
            1 => assert_eq!(addresses(host, "eth1").await, ["172.31.1.50"]),
            2 => assert!(addresses(host, "eth1").await.is_empty()),
            3 | 5 => assert_eq!(link(host, "eth1").await["master"], "br1"),
            4 => assert_eq!(link(host, "eth1").await["master"], Value::Null),
            6 => assert_eq!(link(host, "br1").await["address"], mac.as_str()),
            7 => assert!(profile(host, "uplink").exists(), "{:?}", profiles(host)),
            8 => {
                let profile = std::fs::read_to_string(profile(host, "uplink")).unwrap();
                assert!(
                    profile
                        .to_lowercase()
                        .contains(&format!("mac-address={mac}"))
                        && !profile.contains("interface-name"),
                    "{profile}"
                );
            }
            11 | 13 => assert_eq!(addresses(host, "eth3").await, ["172.31.3.50"]),
            12 => assert!(
                addresses(host, "eth3").await.is_empty() && profile(host, "eth3").exists(),
                "{:?}",
                profiles(host)
            ),
            14 => {
                let profile = std::fs::read_to_string(profile(host, "eth3")).unwrap();
                assert!(profile.contains("storage"), "{profile}");
            }
            15 => assert!(
                addresses(host, "eth3").await.is_empty() && !profile(host, "eth3").exists(),
                "{:?}",
                profiles(host)
            ),
            16 => {
                assert_eq!(link(host, "eth1").await["master"], Value::Null);
                assert_eq!(link(host, "eth3").await["master"], "br1");
            }
            _ => {}
        }
        let again = run("plan").await;
        assert!(again.contains("Nothing would change"), "{desired}\n{again}");
    }
}

/// nmstate deletes a bond that is to be down, and NetworkManager leaves the VLANs of a card alone.
#[tokio::test]
async fn a_base_that_is_set_down_takes_along_what_the_plan_says() {
    let lacking = capabilities::lacking(&[Capability::Link("bond"), Capability::Link("vlan")]);
    if !lacking.is_empty() {
        return capabilities::skip("a_base_that_is_set_down", &lacking);
    }
    let lab = HostLab::builder().hosts(1).cards(4).start().await.unwrap();
    let host = lab.host("node-1").unwrap();
    let program = agent::program().unwrap().display().to_string();
    let vlan = |name: &str, base: &str, ip: &str| {
        json!({
            "name": name, "type": "vlan", "state": "up", "vlan": {"base-iface": base, "id": 5},
            "ipv4": {
                "enabled": true, "dhcp": false, "address": [{"ip": ip, "prefix-length": 24}]
            },
            "ipv6": {"enabled": false}
        })
    };
    let bond = json!({
        "name": "bond0", "type": "bond", "state": "up", "ipv4": {"enabled": false},
        "ipv6": {"enabled": false}, "link-aggregation": {"mode": "active-backup", "port": ["eth2"]}
    });
    let all = json!({
        "interfaces": [
            {"name": "eth1", "type": "ethernet", "state": "up"}, bond,
            vlan("eth1.5", "eth1", "172.31.5.50"), vlan("bond0.5", "bond0", "172.31.6.50")
        ],
        "routes": {"config": [{
            "destination": "198.51.100.0/24", "next-hop-interface": "bond0.5",
            "next-hop-address": "172.31.6.1"
        }]}
    });
    let of_bond = [
        "- interfaces[bond0.5]\n",
        "- routes.config[198.51.100.0/24 via 172.31.6.1 dev bond0.5]",
    ];
    let down = |name: &str, kind: &str| json!({"interfaces": [{"name": name, "type": kind, "state": "down"}]});
    for (desired, lines) in [
        (all, &["+ interfaces[bond0.5]: vlan"][..]),
        (
            down("eth1", "ethernet"),
            &["~ interfaces[eth1].state: up -> down"],
        ),
        (down("bond0", "bond"), &of_bond),
    ] {
        std::fs::write(host.file("/run/state.json"), desired.to_string()).unwrap();
        let run = async |command: &str| {
            let command = format!(
                "{program} --probe-seconds 4 --probe-dns-host nowhere.invalid {command} -f /run/state.json 2>&1"
            );
            host.exec(&["sh", "-c", &format!("{command} || echo exit code $?")])
                .await
                .unwrap()
        };
        let plan = run("plan").await;
        for line in lines {
            assert!(plan.contains(line), "{desired}\n{plan}");
        }
        let expected = planned(host, "/run/state.json").await;
        let applied = run("apply").await;
        assert!(applied.contains("Changed: "), "{desired}\n{applied}");
        wait_as_planned(host, &expected, &desired.to_string()).await;
    }
    assert_eq!(addresses(host, "eth1.5").await, ["172.31.5.50"]);
}

#[tokio::test]
async fn a_new_generation_is_applied_although_nothing_seems_to_differ() {
    let weft = Installation::without_agents(HostLab::builder().hosts(1).cards(4))
        .await
        .unwrap();
    let _agent = weft
        .run_agent("node-1", &[], &[("WEFT_AGENT_PROBE_SECONDS", "5")])
        .await
        .unwrap();
    let host = weft.host("node-1").unwrap();
    let apply = async |name: &str, desired: &Value| {
        let spec = json!({"onDelete": "revert", "desiredState": desired});
        let policy = json!({
            "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
            "metadata": {"name": name}, "spec": spec
        });
        weft.apply(&policy.to_string()).await.unwrap();
        wait_policy(&weft, name, "Available").await;
    };

    apply(
        "list",
        &with_addresses("eth1", &["172.31.1.50", "172.31.1.51"]),
    )
    .await;
    assert_eq!(
        addresses(host, "eth1").await,
        ["172.31.1.50", "172.31.1.51"]
    );
    apply("list", &with_addresses("eth1", &["172.31.1.51"])).await;
    assert_eq!(addresses(host, "eth1").await, ["172.31.1.51"]);
    apply("list", &card("eth1", json!({"state": "absent"}))).await;
    assert!(addresses(host, "eth1").await.is_empty());

    // The kernel has the value, and no profile would keep it over a restart.
    host.ip("link set eth2 mtu 1400 up\n").await.unwrap();
    apply(
        "kept",
        &card(
            "eth2",
            json!({"mtu": 1400, "ipv4": {"enabled": false}, "ipv6": {"enabled": false}}),
        ),
    )
    .await;
    let kept = std::fs::read_to_string(profile(host, "eth2"))
        .unwrap_or_else(|error| panic!("{error}: {:?}", profiles(host)));
    assert!(kept.contains("mtu=1400"), "{kept}");

    // A card that was down is so again, without what the policy gave it.
    host.ip("link set eth3 down\n").await.unwrap();
    wait_until("eth3 is seen down", async || {
        let state = weft.get("nns", "node-1").await.unwrap().unwrap_or_default();
        let cards = state["status"]["currentState"]["interfaces"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let is_down = cards
            .iter()
            .any(|card| card["name"] == "eth3" && card["state"] == "down");
        if is_down {
            Ok(())
        } else {
            Err(format!("{cards:?}"))
        }
    })
    .await;
    apply("brought-up", &with_addresses("eth3", &["172.31.3.50"])).await;
    assert_eq!(addresses(host, "eth3").await, ["172.31.3.50"]);
    weft.lab()
        .kubectl(&["delete", "nncp", "brought-up"])
        .await
        .unwrap();
    wait_until("eth3 is as it was before", async || {
        let left = (
            addresses(host, "eth3").await,
            profile(host, "eth3").exists(),
        );
        if left == (vec![], false) {
            Ok(())
        } else {
            Err(format!("{left:?}, {:?}", profiles(host)))
        }
    })
    .await;
}
