//! Hosts with a real NetworkManager: they have what their gateway offers, change by it, are cut off
//! and mended, and leave nothing behind. `make test-host`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;
use weft_system_tests::owner::{self, Owner};
use weft_testenv::host_lab::{Capability, Host, HostLab, addresses};

/// Repeats until it succeeds. Panics with the last error after a minute.
async fn eventually<T>(mut attempt: impl AsyncFnMut() -> Result<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(error) => assert!(Instant::now() < deadline, "{error:#}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// IPv4 addresses of a device.
async fn addresses_of(host: &Host, device: &str) -> Result<Vec<String>> {
    let shown: Value = serde_json::from_str(
        &host
            .exec(&["ip", "-j", "-4", "addr", "show", device])
            .await?,
    )?;
    Ok(shown[0]["addr_info"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|info| info["local"].as_str())
        .map(String::from)
        .collect())
}

/// The answer of the API server to a request of a host, within two seconds.
async fn ask_api(host: &Host, path: &str) -> Result<String> {
    let url = format!(
        "https://{}:{}{path}",
        addresses::API_SERVER,
        addresses::API_SERVER_PORT
    );
    host.exec(&[
        "curl",
        "--silent",
        "--show-error",
        "--insecure",
        "--max-time",
        "2",
        &url,
    ])
    .await
}

#[tokio::test]
async fn hosts_have_a_network_and_change_it_by_network_manager() {
    let machine = fs::read("/etc/resolv.conf").ok();
    let mut lab = HostLab::builder().hosts(2).start().await.unwrap();
    let (one, two) = (lab.host("node-1").unwrap(), lab.host("node-2").unwrap());
    assert_eq!(one.exec(&["hostname"]).await.unwrap().trim(), "node-1");
    assert_eq!(addresses_of(one, "eth0").await.unwrap(), ["172.31.0.11"]);

    // The gateway, the name server and each other.
    for address in ["172.31.0.1", "172.31.0.12"] {
        eventually(async || one.exec(&["ping", "-c1", "-W5", address]).await).await;
    }
    assert!(
        one.exec(&["cat", "/etc/resolv.conf"])
            .await
            .unwrap()
            .contains("nameserver 172.31.0.1")
    );
    assert!(
        one.exec(&["getent", "ahostsv4", "node-2.lab.test"])
            .await
            .unwrap()
            .starts_with("172.31.0.12")
    );
    assert_eq!(
        fs::read("/etc/resolv.conf").ok(),
        machine,
        "the machine's own is left alone"
    );

    // A bridge with a card as its port, and a lease for it.
    let nmcli = async |host: &Host, line: &str| {
        host.exec(&[&["nmcli"][..], &line.split(' ').collect::<Vec<_>>()].concat())
            .await
            .unwrap()
    };
    nmcli(one, "connection add type bridge ifname br9 con-name br9 ipv4.method auto ipv6.method disabled bridge.stp no").await;
    nmcli(
        one,
        "connection add type ethernet ifname eth1 con-name eth1 master br9",
    )
    .await;
    nmcli(one, "connection up eth1").await;
    let lease = eventually(async || match addresses_of(one, "br9").await?.pop() {
        Some(address) => Ok(address),
        None => bail!("no lease"),
    })
    .await;
    assert!(
        lease.starts_with("172.31.1.1"),
        "{lease} is from the gateway's range"
    );
    assert!(
        addresses_of(two, "eth1").await.unwrap().is_empty(),
        "the other host is another world"
    );
    assert!(
        !Path::new("/sys/class/net/br9").exists(),
        "so is the machine"
    );

    // A pod's end of a veth pair is none of NetworkManager's business.
    one.ip("link add veth0 type veth peer name pod0\nlink set veth0 up\n")
        .await
        .unwrap();
    eventually(async || {
        let state = one
            .exec(&["nmcli", "-g", "GENERAL.STATE", "device", "show", "veth0"])
            .await?;
        if state.contains("unmanaged") {
            Ok(())
        } else {
            bail!("{state}")
        }
    })
    .await;

    // NetworkManager comes and goes, the network stays.
    one.restart_network_manager().await.unwrap();
    assert_eq!(addresses_of(one, "eth0").await.unwrap(), ["172.31.0.11"]);
    one.stop_network_manager().await.unwrap();
    assert!(one.exec(&["nmcli", "device"]).await.is_err());
    assert_eq!(addresses_of(one, "br9").await.unwrap(), [lease]);
    one.start_network_manager().await.unwrap();

    // All that goes again.
    one.reset_network().await.unwrap();
    assert!(one.exec(&["ip", "link", "show", "br9"]).await.is_err());
    assert!(addresses_of(one, "eth1").await.unwrap().is_empty());
    assert_eq!(addresses_of(one, "eth0").await.unwrap(), ["172.31.0.11"]);
    assert!(
        one.exec(&["getent", "ahostsv4", "root-servers.net"])
            .await
            .unwrap()
            .starts_with("198.51.100.1")
    );

    // A cable without carrier.
    let carrier = async || {
        anyhow::Ok(
            one.exec(&["cat", "/sys/class/net/eth1/carrier"])
                .await?
                .trim()
                .to_owned(),
        )
    };
    assert_eq!(carrier().await.unwrap(), "1");
    lab.cable(one, 1, false).unwrap();
    eventually(async || {
        if carrier().await? == "0" {
            Ok(())
        } else {
            bail!("has carrier")
        }
    })
    .await;

    lab.check_running().unwrap();
    let pids: Vec<_> = lab.processes();
    let folders = [lab.control_plane().dir(), lab.folder()].map(Path::to_owned);
    drop(lab);
    for (name, pid) in pids {
        assert!(
            !Path::new(&format!("/proc/{pid}")).exists(),
            "{name} is left behind"
        );
    }
    assert!(!folders.iter().any(|folder| folder.exists()));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains("/etc/NetworkManager"), "{mounts}");
}

#[tokio::test]
async fn a_host_is_cut_off_the_api_server_and_nothing_else() {
    let lab = HostLab::builder().hosts(2).cards(1).start().await.unwrap();
    let (one, two) = (lab.host("node-1").unwrap(), lab.host("node-2").unwrap());
    assert_eq!(
        eventually(async || ask_api(one, "/readyz").await).await,
        "ok"
    );

    // A watch that is open when the cut comes shows that nothing more is heard of it.
    lab.kubectl(&["create", "serviceaccount", "agent"])
        .await
        .unwrap();
    let admin = [
        "create",
        "clusterrolebinding",
        "agent",
        "--clusterrole=cluster-admin",
        "--serviceaccount=default:agent",
    ];
    lab.kubectl(&admin).await.unwrap();
    // The API server knows a binding a moment after it is written, and a refused watch ends.
    let may = [
        "auth",
        "can-i",
        "watch",
        "configmaps",
        "--as=system:serviceaccount:default:agent",
    ];
    eventually(async || lab.kubectl(&may).await).await;
    let kubeconfig = lab.host_kubeconfig(one, "default", "agent").await.unwrap();
    let kubectl = lab.control_plane().programs().get("kubectl").unwrap();
    let environment = [("KUBECONFIG".to_owned(), kubeconfig.display().to_string())];
    let mut watch = one
        .start_program(
            &kubectl,
            &["get", "configmaps", "--watch-only", "-o", "name"],
            &environment,
        )
        .unwrap();
    let seen = |watch: &weft_testenv::host_lab::Program, name: &str| {
        fs::read_to_string(watch.log()).unwrap().contains(name)
    };
    let mut number = 0;
    eventually(async || {
        number += 1;
        lab.kubectl(&["create", "configmap", &format!("before-{number}")])
            .await?;
        if seen(&watch, "configmap/before-") {
            Ok(())
        } else {
            bail!("the watch is not open")
        }
    })
    .await;

    lab.cut_api(one).unwrap();
    assert!(ask_api(one, "/readyz").await.is_err());
    assert_eq!(
        eventually(async || ask_api(two, "/readyz").await).await,
        "ok",
        "the others are not cut off"
    );
    eventually(async || one.exec(&["ping", "-c1", "-W5", "172.31.0.1"]).await).await;
    lab.kubectl(&["create", "configmap", "after"])
        .await
        .unwrap();
    watch.check_running().unwrap();
    assert!(
        !seen(&watch, "configmap/after"),
        "packets vanish: the client still believes in its connection"
    );

    lab.mend_api(one).unwrap();
    assert_eq!(
        eventually(async || ask_api(one, "/readyz").await).await,
        "ok"
    );

    // The token says which node it is for.
    let whoami = one.start_program(&kubectl, &["auth", "whoami", "-o", "json"], &environment);
    let mut whoami = whoami.unwrap();
    assert!(whoami.wait(Duration::from_secs(60)).unwrap().success());
    let answer: Value = serde_json::from_str(&fs::read_to_string(whoami.log()).unwrap()).unwrap();
    assert_eq!(
        answer["status"]["userInfo"]["extra"]["authentication.kubernetes.io/node-name"],
        serde_json::json!(["node-1"])
    );

    // Killed as a node's crash kills it.
    assert!(!watch.kill().unwrap().success());
    assert!(!Path::new(&format!("/proc/{}", watch.pid())).exists());
}

/// The test is the owner of the lab as well, in a process of its own.
#[tokio::test]
async fn a_killed_host_lab_leaves_nothing_but_its_folders() {
    let mut programs = vec!["etcd", "dnsmasq", "dbus-daemon", "NetworkManager"];
    let has_switch = Capability::Lldpd.is_there();
    if has_switch {
        programs.push("lldpd");
    }
    let has_open_vswitch = Capability::OpenVSwitch.is_there();
    if has_open_vswitch {
        programs.extend(["ovsdb-server", "ovs-vswitchd"]);
    }
    if owner::is_owner() {
        let mut lab = HostLab::builder().hosts(1).cards(2);
        if has_open_vswitch {
            lab = lab.open_vswitch();
        }
        let lab = lab.start().await.unwrap();
        let switch = has_switch.then(|| lab.switch().unwrap());
        let host = lab.host("node-1").unwrap();
        let program = host.start_program(Path::new("sleep"), &["infinity"], &[]);
        // With a lease of the gateway, and so with a DHCP client.
        let connect =
            "nmcli connection add type ethernet ifname eth1 con-name eth1 ipv4.method auto";
        host.exec(&connect.split(' ').collect::<Vec<_>>())
            .await
            .unwrap();
        eventually(async || match addresses_of(host, "eth1").await?.pop() {
            Some(_) => Ok(()),
            None => bail!("no lease"),
        })
        .await;
        let folders = [lab.control_plane().dir(), lab.folder()].map(Path::to_owned);
        let folders = folders.each_ref().map(PathBuf::as_path);
        return owner::keep((program.unwrap(), switch, lab), &folders).await;
    }
    programs.push("sleep");
    let test = "on_hosts::testenv::a_killed_host_lab_leaves_nothing_but_its_folders";
    Owner::start(test).kill(&programs).await;
}
