//! The house keeps its shape: arrows go one way, and what is pure links neither a Kubernetes client
//! nor anything that does I/O.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::{collections::BTreeSet, process::Command};

/// Crates that no pure crate may link, directly or not. `nispor` is what nmstate asks the kernel
/// with: without it, nmstate is types and rules. Likewise rustls reads keys and certificates, and
/// only `tokio-rustls` and `hyper-rustls` talk.
const IMPURE: [&str; 13] = [
    "kube",
    "kube-client",
    "kube-runtime",
    "tokio",
    "hyper",
    "reqwest",
    "tokio-rustls",
    "hyper-rustls",
    "zbus",
    "rtnetlink",
    "nispor",
    "socket2",
    "netlink-sys",
];
/// The pure crates, with the crates of the workspace that each may link.
const PURE: [(&str, &[&str]); 8] = [
    ("weft-api", &[]),
    ("weft-plan", &["weft-api"]),
    ("weft-certificates", &["weft-api", "weft-plan"]),
    ("weft-operands", &["weft-api", "weft-plan"]),
    ("weft-addons", &["weft-api", "weft-operands", "weft-plan"]),
    (
        "weft-cluster-network",
        &["weft-api", "weft-operands", "weft-plan"],
    ),
    (
        "weft-node-network",
        &["weft-api", "weft-operands", "weft-plan"],
    ),
    (
        "weft-placement",
        &["weft-api", "weft-operands", "weft-plan"],
    ),
];

fn dependencies(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            package,
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
            "--offline",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| *name != package)
        .map(str::to_owned)
        .collect()
}

fn of_the_workspace(names: &BTreeSet<String>) -> BTreeSet<&str> {
    names
        .iter()
        .map(String::as_str)
        .filter(|name| name.starts_with("weft"))
        .collect()
}

#[test]
fn pure_crates_do_no_io_and_know_only_what_is_below_them() {
    for (package, below) in PURE {
        let names = dependencies(package);
        let impure: Vec<_> = IMPURE
            .iter()
            .filter(|impure| names.contains(**impure))
            .collect();
        assert!(impure.is_empty(), "{package} links {impure:?}");
        assert_eq!(
            of_the_workspace(&names),
            below.iter().copied().collect(),
            "{package}"
        );
    }
}

#[test]
fn the_shell_knows_no_domain() {
    assert_eq!(
        of_the_workspace(&dependencies("weft-runtime")),
        BTreeSet::from(["weft-api", "weft-certificates", "weft-plan"])
    );
    assert!(!of_the_workspace(&dependencies("weft-operator")).contains("weft"));
}

#[test]
fn the_users_binary_holds_nothing_of_the_tests() {
    let names = dependencies("weft");
    assert!(!names.contains("weft-testenv") && !names.contains("weft-images"));
}
