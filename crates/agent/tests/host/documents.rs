//! The example documents of nmstate, applied to a host in random order, removals among them. nmstate verifies each whole document after its apply; the plan
//! before says whether there is anything to do, and the plan after says that there is nothing left.

use std::{path::PathBuf, process::Command};

use rand::{Rng, SeedableRng, rngs::StdRng};
use weft_testenv::host_lab::{HostLab, agent};

/// Prints the folder with the documents.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/nmstate-examples");

/// Those that a host of this lab can have. The others need links that many kernels lack, cards of hardware, or udev: without it, NetworkManager leaves new veth
/// pairs alone.
const DOCUMENTS: [&str; 5] =
    ["eth1_add_route.yml", "eth1_del_all_routes.yml", "dns_remove.yml", "linuxbrige_eth1_up.yml", "linuxbrige_eth1_absent.yml"];

/// How many are applied, after each has been applied once.
const MORE: usize = 12;

#[tokio::test]
async fn documents_of_nmstate_hold_as_a_whole_after_any_other() {
    let output = Command::new(SCRIPT).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());

    let lab = HostLab::builder().hosts(1).cards(2).start().await.unwrap();
    let host = lab.host("node-1").unwrap();
    let program = agent::program().unwrap().display().to_string();
    let run = async |command: &str| {
        // A name that does not resolve is no probe: documents take the name servers away.
        let command = format!("{program} --probe-seconds 4 --probe-dns-host nowhere.invalid {command} -f /run/document.yml 2>&1");
        host.exec(&["sh", "-c", &format!("{command}; echo exit code $?")]).await.unwrap()
    };
    let seed = std::env::var("WEFT_SEED").ok().map_or_else(rand::random, |seed| seed.parse().expect("WEFT_SEED is a number"));
    println!("WEFT_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let drawn: Vec<&str> = (0..MORE).map(|_| DOCUMENTS[random.random_range(0..DOCUMENTS.len())]).collect();
    for document in DOCUMENTS.into_iter().chain(drawn) {
        println!("{document}");
        std::fs::copy(folder.join(document), host.file("/run/document.yml")).unwrap();
        let plan = run("plan").await;
        let applied = run("apply").await;
        assert!(applied.ends_with("exit code 0\n"), "{document}: {plan}\n{applied}");
        let says_nothing = plan.contains("Nothing would change");
        assert_eq!(says_nothing, !applied.contains("Changed: "), "{document}: plan and effect disagree: {plan}\n{applied}");
        let again = run("plan").await;
        assert!(again.contains("Nothing would change") && again.ends_with("exit code 0\n"), "{document}: {again}");
    }
}
