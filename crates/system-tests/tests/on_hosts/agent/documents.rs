//! The example documents of nmstate, each applied to a host after each other one and after itself,
//! removals among them. nmstate verifies each whole document after its apply. The plan before says
//! whether there is anything to do, and the plan after says that there is nothing left.

use std::{path::PathBuf, process::Command};

use weft_testenv::host_lab::{HostLab, agent};

/// Prints the folder with the documents.
const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../scripts/nmstate-examples"
);

const ADD_ROUTE: &str = "eth1_add_route.yml";
const BRIDGE_UP: &str = "linuxbrige_eth1_up.yml";
const BRIDGE_ABSENT: &str = "linuxbrige_eth1_absent.yml";

/// Those that a host of this lab can have. The others need links that many kernels lack, cards of
/// hardware, or udev: without it, NetworkManager leaves new veth pairs alone.
const DOCUMENTS: [&str; 5] = [
    ADD_ROUTE,
    "eth1_del_all_routes.yml",
    "dns_remove.yml",
    BRIDGE_UP,
    BRIDGE_ABSENT,
];

/// The rule of nmstate that a document breaks if it gives an address to a port of a bridge.
const NO_ADDRESS_ON_A_PORT: &str = "interfaces[eth1].ipv4: nmstate refuses it: Interface eth1 cannot have IP enabled as it is attached to controller linux-br0 where IP is not allowed on its port: give the addresses to the controller, and write enabled: false here";

/// A shortest sequence in which each document follows each one, itself included.
fn every_pair() -> Vec<&'static str> {
    let mut order = Vec::new();
    for (n, document) in DOCUMENTS.into_iter().enumerate() {
        order.push(document);
        for later in &DOCUMENTS[n + 1..] {
            order.extend([document, later]);
        }
    }
    order.push(DOCUMENTS[0]);
    order
}

#[tokio::test]
async fn documents_of_nmstate_hold_as_a_whole_after_any_other() {
    let output = Command::new(SCRIPT).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let folder = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());

    let lab = HostLab::builder().hosts(1).cards(2).start().await.unwrap();
    let host = lab.host("node-1").unwrap();
    let program = agent::program().unwrap().display().to_string();
    let run = async |command: &str| {
        // A name that does not resolve is no probe: documents take the name servers away.
        let command = format!(
            "{program} --probe-seconds 4 --probe-dns-host nowhere.invalid {command} -f /run/document.yml 2>&1"
        );
        host.exec(&["sh", "-c", &format!("{command}; echo exit code $?")])
            .await
            .unwrap()
    };
    let mut is_port = false;
    for document in every_pair() {
        println!("{document}");
        std::fs::copy(folder.join(document), host.file("/run/document.yml")).unwrap();
        let plan = run("plan").await;
        let applied = run("apply").await;
        if document == ADD_ROUTE && is_port {
            assert_eq!(
                plan,
                format!("Error: {NO_ADDRESS_ON_A_PORT}\nexit code 2\n")
            );
            assert_eq!(
                applied,
                format!(
                    "Error: Plan: {NO_ADDRESS_ON_A_PORT}\nThe host is as it was before.\nexit code 1\n"
                )
            );
            continue;
        }
        is_port = document == BRIDGE_UP || is_port && document != BRIDGE_ABSENT;
        assert!(
            applied.ends_with("exit code 0\n"),
            "{document}: {plan}\n{applied}"
        );
        let says_nothing = plan.contains("Nothing would change");
        assert_eq!(
            says_nothing,
            !applied.contains("Changed: "),
            "{document}: plan and effect disagree: {plan}\n{applied}"
        );
        let again = run("plan").await;
        assert!(
            again.contains("Nothing would change") && again.ends_with("exit code 0\n"),
            "{document}: {again}"
        );
    }
}
