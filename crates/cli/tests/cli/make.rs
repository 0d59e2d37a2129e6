//! The targets and scripts of the originals: where one needs something, it names it, and starts
//! nothing else.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
};

use super::common::root;

/// The variables that choose a cluster, an image or a provider, and those of a `make` that runs
/// this test.
const VARIABLES: [&str; 10] = [
    "CLUSTER_PROVIDER",
    "DEV_IMAGE_REGISTRY",
    "IMAGE",
    "INSTALLED",
    "K8S",
    "KUBECONFIG",
    "KUBEVIRT_PROVIDER",
    "MAKEFLAGS",
    "MAKELEVEL",
    "MFLAGS",
];

/// Runs a program in the tree with these variables, and none of the others. Returns whether it
/// succeeded, and its output.
fn run(program: &str, arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root());
    for variable in VARIABLES {
        command.env_remove(variable);
    }
    output_of(command.envs(variables.iter().copied()))
}

fn output_of(command: &mut Command) -> (bool, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.success(), text(stdout) + &text(stderr))
}

/// A target, its variables, and words that it answers with.
type Case = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
);

/// As `make check` of cluster-network-addons-operator does.
#[test]
fn a_check_lints_and_runs_the_unit_tests() {
    let (succeeded, commands) = run("make", &["--dry-run", "check"], &[]);
    assert!(succeeded, "{commands}");
    for command in [
        "cargo clippy",
        "scripts/style",
        "scripts/test-quick --units",
    ] {
        assert!(commands.contains(command), "{command}: {commands}");
    }
}

#[test]
fn targets_name_what_they_need_and_start_nothing() {
    let cases: [Case; 11] = [
        (
            "test/e2e/workflow",
            &[],
            &["not set: KUBECONFIG IMAGE.", "INSTALLED=1", "make test"],
        ),
        ("functest", &[("KUBECONFIG", "a")], &["not set: IMAGE."]),
        (
            "test/e2e/workflow",
            &[("INSTALLED", "1")],
            &["not set: KUBECONFIG."],
        ),
        (
            "cluster-operator-push",
            &[],
            &[
                "DEV_IMAGE_REGISTRY is not set",
                "DEV_IMAGE_REGISTRY=registry",
            ],
        ),
        (
            "docker-push",
            &[("DEV_IMAGE_REGISTRY", "registry.example/")],
            &["DEV_IMAGE_REGISTRY=registry.example/ is no prefix"],
        ),
        (
            "cluster-up",
            &[("KUBEVIRT_PROVIDER", "external")],
            &["provider is external, so set KUBECONFIG"],
        ),
        (
            "cluster-clean",
            &[("KUBEVIRT_PROVIDER", "external")],
            &["provider is external, so set KUBECONFIG"],
        ),
        (
            "cluster-up",
            &[("CLUSTER_PROVIDER", "os-3.11.0")],
            &["no provider os-3.11.0", "KUBEVIRT_PROVIDER=external"],
        ),
        (
            "cluster-up",
            &[("CLUSTER_PROVIDER", "k8s-1.13.3")],
            &["Kubernetes 1.13 is not supported", "k8s-1.3"],
        ),
        (
            "cluster-up",
            &[("KUBEVIRT_PROVIDER", "k8s-1")],
            &["Kubernetes 1 is not supported", "k8s-1.3"],
        ),
        ("bump-multus", &[], &["crates/addons/src/settings.rs"]),
    ];
    for (target, variables, words) in cases {
        let (good, said) = run("make", &["--silent", target], variables);
        assert!(!good, "make {target} {variables:?}: {said}");
        for word in words {
            assert!(said.contains(word), "make {target} {variables:?}: {said}");
        }
    }
}

/// Half an hour of builds comes after it.
#[test]
fn a_cluster_of_real_nodes_looks_at_the_machine_first() {
    let (succeeded, commands) = run("make", &["--dry-run", "cluster"], &[]);
    assert!(succeeded, "{commands}");
    assert_eq!(commands.lines().next(), Some("scripts/cluster --probe"));

    // In the place of unshare, a program that fails for one type of device.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("unshare");
    fs::write(&program, "#!/bin/sh\ncase $* in *vxlan*) exit 1;; esac\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&program, executable).unwrap();
    let ip = folder.path().join("ip");
    std::os::unix::fs::symlink("/bin/true", ip).unwrap();
    let path = format!(
        "{}:{}",
        folder.path().display(),
        std::env::var("PATH").unwrap()
    );
    let (good, said) = run("scripts/cluster", &["--probe"], &[("PATH", &path)]);
    assert!(!good, "{said}");
    let device = |name: &str| format!("no network device of type {name}\n");
    assert!(said.contains(&device("vxlan")), "{said}");
    assert!(!said.contains(&device("bridge")), "{said}");
    assert!(said.contains("make cluster-up"), "{said}");
}

#[test]
fn an_external_provider_needs_no_cluster_of_ours() {
    let variables = [("KUBEVIRT_PROVIDER", "external"), ("KUBECONFIG", "/mine")];
    let (good, said) = run("make", &["--silent", "cluster-up"], &variables);
    assert!(good && said.contains("KUBECONFIG=/mine is used"), "{said}");
}

#[test]
fn scripts_under_the_names_of_the_originals_are_there() {
    let (good, said) = run("cluster/cli.sh", &["ports"], &[]);
    assert!(!good && said.contains("cluster/cli.sh ssh NODE"), "{said}");
    for (script, target) in [
        ("hack/build-go.sh", "build"),
        ("hack/build-image.sh", "images"),
    ] {
        // With this flag, make prints the commands of the target and runs none of them.
        let (good, said) = run(script, &[], &[("MAKEFLAGS", "n")]);
        let expected = match target {
            "build" => "scripts/build",
            _ => "weft-images",
        };
        assert!(good && said.contains(expected), "{script}: {said}");
    }
    // In the place of kubectl, a program that prints its environment.
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/usr/bin/env", folder.path().join("kubectl")).unwrap();
    let path = format!(
        "{}:{}",
        folder.path().display(),
        std::env::var("PATH").unwrap()
    );
    let variables = [("KUBECONFIG", "/mine"), ("PATH", path.as_str())];
    let (good, said) = run("cluster/kubectl.sh", &[], &variables);
    assert!(good && said.contains("KUBECONFIG=/mine\n"), "{said}");
}

/// The packages that cargo compiles for these ones, each with its features.
fn compiled(packages: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--edges", "normal,build"])
        .args(["--prefix", "none", "--no-dedupe", "--format", "{p} {f}"])
        .args(packages.iter().flat_map(|package| ["-p", *package]))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn programs_that_are_built_with_weft_change_none_of_its_features() {
    let alone = compiled(&["weft"]);
    assert!(alone.iter().any(|line| line.starts_with("kube ")));
    let others = ["weft-testenv", "weft-images", "weft-packages", "weft-e2e"];
    let together = compiled(&[["weft"].as_slice(), others.as_slice()].concat());
    let changed: Vec<_> = alone.difference(&together).collect();
    assert!(changed.is_empty(), "{changed:#?}");
    let with_agent = compiled(&["weft", "weft-agent"]);
    assert!(
        !alone.is_subset(&with_agent),
        "the agent needs no call of its own any more"
    );
}

/// A tree of one crate with the script.
fn tree(unreleased: &str) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let path = |name: &str| tree.path().join(name);
    for folder in ["scripts", "testenv", "a/src", "docs/design"] {
        fs::create_dir_all(path(folder)).unwrap();
    }
    for script in ["prepare-version", "cache.bash"] {
        let name = format!("scripts/{script}");
        fs::copy(root().join(&name), path(&name)).unwrap();
    }
    let changelog = format!(
        "# Changelog\n\n## [Unreleased]\n\n{unreleased}\n## [0.1.2] - 2026-01-02\n\n- An older change.\n"
    );
    for (name, text) in [
        (
            "Cargo.toml",
            "[workspace]\nmembers = [\"a\"]\n\n[workspace.package]\nversion = \"0.1.2\"\n\n[workspace.dependencies]\n",
        ),
        (
            "a/Cargo.toml",
            "[package]\nname = \"a\"\nversion.workspace = true\nedition = \"2024\"\n",
        ),
        ("a/src/lib.rs", ""),
        ("CHANGELOG.md", changelog.as_str()),
        ("README.md", TEXT),
        ("docs/design/page.md", TEXT),
    ] {
        fs::write(path(name), text).unwrap();
    }
    tree
}

/// Lines as the pages have them. The last two are about that release, and another program.
const TEXT: &str =
    "weft manifests --image registry.example/weft:0.1.2 --agent-image weft-agent:0.1.2
NetworkAddonsConfig cluster: Available (version 0.1.2, generation 1)
make release VERSION=0.1.2 writes target/release-0.1.2 with weft-0.1.2.tgz and weft-olm-0.1.2.tar.gz
kubectl delete clusterserviceversion weft.v0.1.2
Since 0.1.2 the agent applies only differences. weft:0.1.20 is another one.
other:0.1.2
";

fn prepare(tree: &Path, step: &str) -> (bool, String) {
    output_of(Command::new(tree.join("scripts/prepare-version")).arg(step))
}

#[test]
fn a_version_is_prepared_in_all_files_that_have_it() {
    for (step, next) in [("patch", "0.1.3"), ("minor", "0.2.0"), ("major", "1.0.0")] {
        let tree = tree("- A change.\n");
        let (good, said) = prepare(tree.path(), step);
        assert!(good && said.contains(&format!("VERSION={next}")), "{said}");
        let read = |name: &str| fs::read_to_string(tree.path().join(name)).unwrap();
        let version = format!("version = \"{next}\"");
        assert!(read("Cargo.toml").contains(&version), "{step}");
        assert!(read("Cargo.lock").contains(&version), "{step}");
        let changelog = read("CHANGELOG.md");
        let heading = format!("## [Unreleased]\n\n## [{next}] - 20");
        assert!(changelog.contains(&heading), "{changelog}");
        let text = TEXT.lines().enumerate().map(|(number, line)| match number {
            0..4 => line.replace("0.1.2", next),
            _ => line.to_owned(),
        });
        let text: Vec<String> = text.collect();
        for page in ["README.md", "docs/design/page.md"] {
            assert_eq!(read(page).lines().collect::<Vec<_>>(), text, "{page}");
        }
    }
    let nothing = tree("");
    let (good, said) = prepare(nothing.path(), "minor");
    assert!(!good && said.contains("lists no change"), "{said}");
    let (good, said) = prepare(tree("- A change.\n").path(), "next");
    assert!(
        !good && said.contains("scripts/prepare-version patch"),
        "{said}"
    );
}

/// A tree with the scripts that begin the tests, and nothing that they could test.
fn scripts() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    for folder in ["scripts", "testenv", "target"] {
        fs::create_dir(tree.path().join(folder)).unwrap();
    }
    for script in ["setup", "test", "cache.bash", "tests.bash"] {
        let name = format!("scripts/{script}");
        fs::copy(root().join(&name), tree.path().join(&name)).unwrap();
    }
    tree
}

/// Without the variables of the run that this test is a part of.
fn begin(tree: &Path, script: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new("/bin/bash");
    // scripts/test takes no argument for the gate.
    let argument = (script == "scripts/setup").then_some("test");
    command.arg(script).args(argument).current_dir(tree);
    for variable in ["CARGO_TARGET_DIR", "TMPDIR", "WEFT_CACHE", "K8S"] {
        command.env_remove(variable);
    }
    output_of(command.envs(variables.iter().copied()))
}

#[test]
fn tests_begin_only_where_there_is_room_for_them() {
    let tree = scripts();
    // No file has room there.
    for (script, variable, words) in [
        (
            "scripts/setup",
            "WEFT_CACHE",
            "programs that are built once",
        ),
        ("scripts/test", "CARGO_TARGET_DIR", "the build needs"),
        ("scripts/test", "TMPDIR", "the data of control planes needs"),
    ] {
        let (good, said) = begin(tree.path(), script, &[(variable, "/proc/none/at/all")]);
        let way = format!("or set {variable} to a folder on another disk");
        let names_all = said.contains(words) && said.contains(&way) && said.contains("0 MiB free");
        assert!(!good && names_all, "{script}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_second_run_of_the_tests_says_that_the_first_one_runs() {
    let tree = scripts();
    let first = fs::File::create(tree.path().join("target/test.lock")).unwrap();
    rustix::fs::flock(&first, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let (good, said) = begin(tree.path(), "scripts/test", &[]);
    let words = "another run of the tests has locked target/test.lock";
    assert!(!good && said.contains(words), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn a_set_up_without_go_says_what_is_missing() {
    let tree = scripts();
    let programs = tempfile::tempdir().unwrap();
    for program in ["cargo", "dirname", "df", "sed", "tail", "tr"] {
        let path = std::env::var("PATH").unwrap();
        let mut folders = path
            .split(':')
            .map(|folder| Path::new(folder).join(program));
        let found = folders.find(|file| file.exists()).unwrap();
        std::os::unix::fs::symlink(found, programs.path().join(program)).unwrap();
    }
    let path = programs.path().to_str().unwrap();
    let (good, said) = begin(tree.path(), "scripts/setup", &[("PATH", path)]);
    assert!(!good, "{said}");
    assert_eq!(
        said.trim(),
        "setup: go is missing: install Go 1.26 or later, then run this again"
    );
}
