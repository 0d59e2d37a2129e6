//! Open vSwitch on a host, with its datapath in user space: the examples that need it, or the newer
//! NetworkManager that comes with it, and pods' ports of ovs-cni, judged by `ovs-vsctl` and by
//! packets.

use serde_json::{Value, json};
use weft_testenv::host_lab::{Capability, Host, HostLab, Installation, Program, capabilities};

use crate::on_hosts::agent::{
    examples::{assert_forwards, wants_open_vswitch},
    support::{
        Halt, addresses, condition, example_files, link, needs, wait_enactment, wait_policy,
        wait_until,
    },
};

async fn vsctl(host: &Host, words: &str) -> String {
    let command: Vec<&str> = ["ovs-vsctl"].into_iter().chain(words.split(' ')).collect();
    host.exec(&command).await.unwrap().trim().to_owned()
}

/// Reports whether this may run. Else it is said that it does not.
fn is_possible(name: &str, needs: &[Capability]) -> bool {
    let lacking = capabilities::lacking(needs);
    if !lacking.is_empty() {
        capabilities::skip(name, &lacking);
    }
    lacking.is_empty()
}

/// Gives the bridges of a policy or a state a datapath in user space, for kernels that have none.
pub fn in_user_space(document: &mut Value) {
    let state = if document["spec"].is_object() {
        &mut document["spec"]["desiredState"]
    } else {
        document
    };
    for interface in state["interfaces"].as_array_mut().into_iter().flatten() {
        if interface["type"] == "ovs-bridge" {
            interface["bridge"]["options"]["datapath"] = "netdev".into();
        }
    }
}

#[tokio::test]
async fn each_example_of_open_vswitch_becomes_available() {
    let mut weft: Option<Installation> = None;
    for path in example_files() {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut policy: Value =
            serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        if !wants_open_vswitch(&policy) {
            continue;
        }
        let mut needs = needs(&policy);
        // These hosts have the newest one.
        needs.retain(|need| !matches!(need, Capability::NetworkManager(..)));
        needs.push(Capability::OpenVSwitch);
        if !is_possible(&file, &needs) {
            continue;
        }
        if weft.is_none() {
            weft = Some(
                Installation::start(HostLab::builder().hosts(1).open_vswitch())
                    .await
                    .unwrap(),
            );
        }
        let weft = weft.as_mut().unwrap();
        if !Capability::OpenVSwitchInKernel.is_there() {
            in_user_space(&mut policy);
        }
        let name = policy["metadata"]["name"].as_str().unwrap().to_owned();
        weft.apply(&policy.to_string()).await.unwrap();
        let status = wait_policy(weft, &name, "Available").await;
        assert_eq!(condition(&status, "Degraded")["status"], "False", "{file}");
        let host = weft.host("node-1").unwrap();
        let errors = vsctl(host, "--bare --columns=error find interface error!=\"\"").await;
        assert_eq!(errors, "", "{file}: an interface is not in the datapath");
        match file.as_str() {
            "ovs-bridge.yaml" => {
                assert_eq!(vsctl(host, "list-ports ovs-br1").await, "eth1\novs0");
                assert_eq!(vsctl(host, "get bridge ovs-br1 stp_enable").await, "false");
                assert_eq!(addresses(host, "ovs0").await, ["192.0.2.40"]);
                assert_eq!(
                    vsctl(host, "get open_vswitch . external_ids:ovn-bridge-mappings").await,
                    "\"physnet:ovs-br1\""
                );
                // The bridge is on the network of its card.
                host.ip("address add 172.31.1.40/24 dev ovs0\n")
                    .await
                    .unwrap();
                host.exec(&["ping", "-c1", "-W5", "172.31.1.1"])
                    .await
                    .unwrap();
            }
            "ovs-bridge-plain.yaml" => {
                assert_eq!(vsctl(host, "list-ports ovs-br2").await, "eth1");
                assert_eq!(vsctl(host, "get bridge ovs-br2 stp_enable").await, "true");
            }
            "ovs-bond.yaml" => {
                assert_eq!(vsctl(host, "list-ports ovs-br3").await, "ovs-bond0");
                assert_eq!(vsctl(host, "list-ifaces ovs-br3").await, "eth1\neth2");
                let mode = vsctl(host, "get port ovs-bond0 bond_mode").await;
                assert_eq!(mode, "active-backup");
            }
            "ovs-patch.yaml" => {
                assert_eq!(vsctl(host, "list-ports ovs-br4").await, "eth1\npatch4");
                assert_eq!(vsctl(host, "list-ports ovs-br5").await, "patch5");
                let peer = vsctl(host, "get interface patch4 options:peer").await;
                assert_eq!(peer, "patch5");
            }
            "ethernet-forwarding.yaml" => assert_forwards(host).await,
            "ipvlan.yaml" => {
                assert_eq!(link(host, "ipv0").await["linkinfo"]["info_kind"], "ipvlan")
            }
            other => panic!("nothing is known of {other}"),
        }
        weft.lab()
            .kubectl(&["delete", "nncp", &name, "--timeout=300s"])
            .await
            .unwrap();
        weft.host("node-1").unwrap().reset_network().await.unwrap();
        weft.check_running().unwrap();
    }
}

fn policy(name: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "nmstate.io/v1", "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": name}, "spec": spec
    })
    .to_string()
}

fn bridge(stp: bool) -> Value {
    json!({"interfaces": [{"name": "br1", "type": "ovs-bridge", "state": "up",
        "bridge": {"options": {"stp": stp, "datapath": "netdev"}, "port": [{"name": "eth1"}]}}]})
}

fn no_bridge() -> Value {
    json!({"interfaces": [{"name": "br1", "type": "ovs-bridge", "state": "absent"}]})
}

async fn start_agent(weft: &Installation) -> Program {
    weft.run_agent(
        "node-1",
        &[],
        &[("NNCP_MAX_RETRIES", "1"), ("WEFT_AGENT_PROBE_SECONDS", "5")],
    )
    .await
    .unwrap()
}

/// Connects a pod to the bridge as ovs-cni does: a veth pair, and rows of a port and an interface,
/// with VLAN 7.
async fn attach(host: &Host, pod: &str, address: &str) {
    let commands = format!(
        "netns add {pod}\nlink add veth{pod} type veth peer name net1 netns {pod}\nlink set veth{pod} up\n"
    );
    host.ip(&commands).await.unwrap();
    let inside = format!("address add {address} dev net1\nlink set net1 up\n");
    host.exec_with_input(&["ip", "-n", pod, "-batch", "-"], &inside)
        .await
        .unwrap();
    let ids = format!(
        "external_ids:contPodUid=0f2 external_ids:contNetns=/run/netns/{pod} external_ids:contIface=net1 \
         external_ids:owner=ovs-cni.network.kubevirt.io"
    );
    let added = format!(
        "add-port br1 veth{pod} tag=7 vlan_mode=access -- set port veth{pod} {ids} -- set interface veth{pod}"
    );
    vsctl(
        host,
        &format!(
            "{added} external_ids:iface-id={pod} ofport_request=2{}",
            pod.len()
        ),
    )
    .await;
}

/// Returns the configuration in its rows.
async fn rows(host: &Host, pod: &str) -> [String; 2] {
    let port = vsctl(
        host,
        &format!("--columns=name,tag,trunks,vlan_mode,other_config list port veth{pod}"),
    )
    .await;
    let interface = vsctl(
        host,
        &format!(
            "--columns=name,type,external_ids,ofport_request,mtu_request list interface veth{pod}"
        ),
    )
    .await;
    [port, interface]
}

/// Packets from pod to pod over the bridge.
async fn wait_reachable(host: &Host) {
    wait_until("one pod reaches the other over the bridge", async || {
        let ping = [
            "ip", "netns", "exec", "a", "ping", "-c", "1", "-W", "1", "10.9.0.2",
        ];
        host.exec(&ping)
            .await
            .map(drop)
            .map_err(|error| format!("{error:#}"))
    })
    .await;
    assert_eq!(vsctl(host, "port-to-br vetha").await, "br1");
}

async fn wait_known(host: &Host, is_known: impl Fn(&str) -> bool) {
    wait_until("the agent knows which ports there are", async || {
        let known = std::fs::read_to_string(host.file("/var/lib/weft-agent/ovs-ports.json"))
            .unwrap_or_default();
        if is_known(&known) { Ok(()) } else { Err(known) }
    })
    .await;
}

#[tokio::test]
async fn pods_of_ovs_cni_keep_their_bridge() {
    if !is_possible(
        "pods_of_ovs_cni_keep_their_bridge",
        &[Capability::OpenVSwitch],
    ) {
        return;
    }
    let weft = Installation::without_agents(HostLab::builder().hosts(1).open_vswitch())
        .await
        .unwrap();
    let mut agent = start_agent(&weft).await;
    let host = weft.host("node-1").unwrap();
    weft.apply(&policy("br1", &json!({"desiredState": bridge(false)})))
        .await
        .unwrap();
    wait_policy(&weft, "br1", "Available").await;
    attach(host, "a", "10.9.0.1/24").await;
    attach(host, "b", "10.9.0.2/24").await;
    attach(host, "left", "10.9.0.3/24").await;
    wait_reachable(host).await;
    wait_known(host, |known| {
        ["vetha", "vethb", "vethleft"]
            .iter()
            .all(|port| known.contains(port))
    })
    .await;
    let wanted = rows(host, "a").await;
    let row = async || vsctl(host, "get port vetha _uuid").await;

    // Somebody drops one, and then the bridge.
    let before = row().await;
    vsctl(host, "del-port vetha").await;
    wait_reachable(host).await;
    assert_ne!(row().await, before);
    assert_eq!(rows(host, "a").await, wanted);
    let ids = vsctl(host, "get port vetha external_ids").await;
    for id in [
        "contIface=net1",
        "contNetns=\"/run/netns/a\"",
        "contPodUid=\"0f2\"",
        "owner=ovs-cni.network.kubevirt.io",
    ] {
        assert!(ids.contains(id), "{ids}");
    }
    let bridge_row = vsctl(host, "get bridge br1 _uuid").await;
    vsctl(host, "del-br br1").await;
    wait_reachable(host).await;
    assert_ne!(
        vsctl(host, "get bridge br1 _uuid").await,
        bridge_row,
        "it is another bridge"
    );
    assert_eq!(rows(host, "a").await, wanted);

    // A change leaves their rows alone. A deletion that cuts the node off is rolled back, to
    // another bridge.
    let before = row().await;
    weft.apply(&policy("br1", &json!({"desiredState": bridge(true)})))
        .await
        .unwrap();
    wait_policy(&weft, "br1", "Available").await;
    assert_eq!(vsctl(host, "get bridge br1 stp_enable").await, "true");
    assert_eq!(row().await, before, "it was not touched");
    weft.apply(&policy("br1", &json!({"desiredState": bridge(false)})))
        .await
        .unwrap();
    wait_policy(&weft, "br1", "Available").await;
    let bridge_row = vsctl(host, "get bridge br1 _uuid").await;
    let mut cut = no_bridge();
    // No checkpoint of NetworkManager has the keys of the database.
    let keys = vsctl(host, "get open_vswitch . external_ids").await;
    cut["ovs-db"] = json!({"external_ids": {"rack": "7"}});
    cut["routes"] = json!({
        "config": [
            {
                "destination": "172.31.0.2/32", "next-hop-interface": "eth0",
                "next-hop-address": "172.31.0.99"
            }
        ]
    });
    weft.apply(&policy("cut", &json!({"priority": 1, "desiredState": cut})))
        .await
        .unwrap();
    wait_policy(&weft, "cut", "Degraded").await;
    let outcome =
        wait_enactment(&weft, "node-1", "cut", "Failing").await["status"]["outcome"].clone();
    assert_eq!(outcome["phase"], "Probe", "and not Rollback: {outcome}");
    assert_ne!(
        vsctl(host, "get bridge br1 _uuid").await,
        bridge_row,
        "it was deleted, and came back"
    );
    wait_reachable(host).await;
    assert_eq!(rows(host, "a").await, wanted);
    assert_eq!(
        vsctl(host, "get open_vswitch . external_ids").await,
        keys,
        "the added key is gone"
    );
    weft.lab()
        .kubectl(&["delete", "nncp", "cut"])
        .await
        .unwrap();

    // A pod goes. The row that is there by the agent goes with it, as it may have come after
    // ovs-cni had removed its own.
    host.ip("netns delete left\n").await.unwrap();
    wait_until("nothing is left of the pod", async || {
        let ports = vsctl(host, "list-ports br1").await;
        if ports.contains("vethleft") {
            Err(ports)
        } else {
            Ok(())
        }
    })
    .await;
    wait_known(host, |known| !known.contains("vethleft")).await;

    // Killed while the bridge is gone: the next agent brings back the bridge, and the ports on it.
    let hold = Halt::at(host, "Probe");
    weft.apply(&policy("br1", &json!({"desiredState": no_bridge()})))
        .await
        .unwrap();
    hold.reached().await;
    assert_eq!(vsctl(host, "list-br").await, "");
    agent.kill().unwrap();
    weft.apply(&policy("br1", &json!({"desiredState": bridge(false)})))
        .await
        .unwrap();
    drop(hold);
    agent = start_agent(&weft).await;
    wait_policy(&weft, "br1", "Available").await;
    wait_reachable(host).await;
    assert_eq!(rows(host, "a").await, wanted);
    let outcome =
        wait_enactment(&weft, "node-1", "br1", "Available").await["status"]["outcome"].clone();
    assert_eq!(outcome["phase"], "Probe", "{outcome}");

    // ovs-cni removes one for good: the port, and then the device.
    vsctl(host, "del-port vethb").await;
    host.ip("link delete vethb\n").await.unwrap();
    wait_known(host, |known| !known.contains("vethb")).await;
    wait_until("it does not come back", async || {
        let ports = vsctl(host, "list-ports br1").await;
        if ports.contains("vethb") {
            Err(ports)
        } else {
            Ok(())
        }
    })
    .await;
    agent.check_running().unwrap();
}
