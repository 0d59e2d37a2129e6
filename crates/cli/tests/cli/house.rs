//! The house keeps its shape: arrows go one way, and what is pure links neither a Kubernetes client
//! nor anything that does I/O.

use std::{collections::BTreeSet, fs, process::Command};

use goblin::elf::Elf;

/// Crates that no pure crate may link, directly or not, but for those that nmstate brings: of
/// nmstate, a pure crate calls the types and rules alone. Likewise rustls reads keys and
/// certificates, and only `tokio-rustls` and `hyper-rustls` talk.
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
const PURE: [(&str, &[&str]); 10] = [
    ("weft-documents", &[]),
    ("weft-attachments", &[]),
    ("weft-api", &[]),
    ("weft-plan", &["weft-api"]),
    ("weft-certificates", &["weft-api", "weft-plan"]),
    ("weft-operands", &["weft-api", "weft-plan"]),
    ("weft-addons", &["weft-api", "weft-operands", "weft-plan"]),
    (
        "weft-cluster-network",
        &["weft-api", "weft-attachments", "weft-operands", "weft-plan"],
    ),
    (
        "weft-node-network",
        &["weft-api", "weft-attachments", "weft-operands", "weft-plan"],
    ),
    (
        "weft-placement",
        &["weft-api", "weft-attachments", "weft-operands", "weft-plan"],
    ),
];

fn dependencies(package: &str) -> BTreeSet<String> {
    // cargo refuses to leave out a package that is not there.
    let left_out: &[&str] = match package {
        "weft-node-network" => &["--prune", "nmstate"],
        _ => &[],
    };
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
        .args(left_out)
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

/// nmstate judges a state with the part that also reads and changes hosts. The linker leaves out
/// all that nothing calls, so `weft` has no code that asks the kernel or NetworkManager.
#[test]
fn of_nmstate_weft_holds_the_rules_alone() {
    let program = fs::read(env!("CARGO_BIN_EXE_weft")).unwrap();
    let program = Elf::parse(&program).unwrap();
    let names: Vec<&str> = program
        .syms
        .iter()
        .filter_map(|symbol| program.strtab.get_at(symbol.st_name))
        .collect();
    // A name is written with its length before it.
    let of = |name: &str| {
        let part = format!("{}{name}", name.len());
        names.iter().filter(|name| name.contains(&part)).count()
    };
    assert!(of("nmstate") > 0, "the program has no symbols");
    for name in ["nispor", "zbus"] {
        assert_eq!(of(name), 0, "weft holds code of {name}");
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
fn the_users_binaries_hold_nothing_of_the_tests() {
    for program in ["weft", "weft-agent"] {
        let names = dependencies(program);
        for name in [
            "weft-testenv",
            "weft-images",
            "weft-system-tests",
            "workspace-hack",
        ] {
            assert!(!names.contains(name), "{program} links {name}");
        }
    }
}
