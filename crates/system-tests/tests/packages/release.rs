//! Release YAML and the kubectl plugin: the real krew installs the plugin, and the same inputs lead
//! to the same bytes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::common::{images, objects, run, weft};
use flate2::{Compression, write::GzEncoder};
use weft_packages::{krew, release::VERSION, yaml};
use weft_testenv::{Programs, built};

const URL: &str = "https://downloads.example/weft/";

/// Writes the archives of a release with these files. Returns the folder.
fn archives(held: &[(&str, &Path)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for architecture in krew::ARCHITECTURES {
        let path = folder.path().join(krew::archive(architecture));
        let file = fs::File::create(path).unwrap();
        let mut archive = tar::Builder::new(GzEncoder::new(file, Compression::fast()));
        for (name, path) in held {
            let inside = format!("weft-{VERSION}-linux-{architecture}/{name}");
            archive.append_path_with_name(path, inside).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap();
    }
    folder
}

fn license() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../LICENSE")
}

#[test]
fn release_yaml_holds_what_weft_manifests_prints() {
    let files = yaml::files(&weft(), &images()).unwrap();
    let all = "addons,cluster-network,node-network,placement";
    let expected: [(&str, &[&str]); 6] = [
        ("weft.yaml", &[]),
        ("weft-all.yaml", &["--domains", all]),
        (
            "weft-split-addons.yaml",
            &["--split", "--domains", "addons"],
        ),
        (
            "weft-split-cluster-network.yaml",
            &["--split", "--domains", "cluster-network"],
        ),
        (
            "weft-split-node-network.yaml",
            &["--split", "--domains", "node-network"],
        ),
        (
            "weft-split-placement.yaml",
            &["--split", "--domains", "placement"],
        ),
    ];
    assert_eq!(files.len(), expected.len());
    for (name, arguments) in expected {
        let printed = weft().manifests(arguments).unwrap();
        assert!(printed.len() > 10, "{name}");
        assert_eq!(objects(&files[name]), printed, "{name}");
        let first = files[name].lines().next().unwrap();
        let command = format!("kubectl apply -f {name}");
        assert!(first.ends_with(&command), "{first}");
    }
}

#[test]
fn a_release_has_the_files_of_cluster_network_addons_operator() {
    let folder = tempfile::tempdir().unwrap();
    yaml::write_as_cnao(&weft(), &images(), folder.path()).unwrap();
    let text = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    // In the order in which its users apply them.
    let installed: Vec<_> = [
        "namespace.yaml",
        "network-addons-config.crd.yaml",
        "operator.yaml",
    ]
    .into_iter()
    .flat_map(|name| objects(&text(name)))
    .collect();
    let printed = weft().manifests(&["--split", "--domains", "addons"]);
    let printed = printed.unwrap();
    assert_eq!(installed, printed);
    let example = objects(&text("network-addons-config-example.cr.yaml"));
    assert_eq!(example[0]["kind"], "NetworkAddonsConfig");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    // Its users edit the level in the file.
    assert!(text("operator.yaml").contains("- name: CNAO_LOG_LEVEL\n"));
}

#[test]
fn krew_installs_the_plugin_from_manifest_and_archive() {
    let program = built("weft").unwrap();
    let agent = license();
    let folder = archives(&[
        ("weft", &program),
        ("weft-agent", &agent),
        ("LICENSE", &license()),
    ]);
    let files = krew::files(folder.path(), URL).unwrap();
    let written = super::common::written(&files);
    let root = tempfile::tempdir().unwrap();
    let archive = folder
        .path()
        .join(krew::archive(match std::env::consts::ARCH {
            "aarch64" => "arm64",
            _ => "amd64",
        }));
    let mut krew = Command::new(weft_testenv::krew::program().unwrap());
    krew.args(["install", "--no-update-index"])
        .arg(format!(
            "--manifest={}",
            written.path().join("weft.yaml").display()
        ))
        .arg(format!("--archive={}", archive.display()))
        .env("KREW_ROOT", root.path())
        .env("HOME", root.path());
    run(&mut krew).unwrap();
    let mut installed: Vec<_> = fs::read_dir(root.path().join(format!("store/weft/v{VERSION}")))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    installed.sort();
    assert_eq!(installed, ["LICENSE", "weft"]);

    let mut kubectl = Command::new(Programs::find().unwrap().get("kubectl").unwrap());
    let said = run(kubectl
        .args(["weft", "version"])
        .env("PATH", root.path().join("bin")))
    .unwrap();
    assert!(said.starts_with(&format!("weft {VERSION}\n")), "{said}");
}

/// An archive that a user downloads must be the one that was released.
#[test]
fn krew_refuses_an_archive_with_another_checksum() {
    let license = license();
    let folder = archives(&[("weft", &license)]);
    let written = super::common::written(&krew::files(folder.path(), URL).unwrap());
    let other = archives(&[("weft", &license), ("LICENSE", &license)]);
    let root = tempfile::tempdir().unwrap();
    let mut krew = Command::new(weft_testenv::krew::program().unwrap());
    krew.args(["install", "--no-update-index"])
        .arg(format!(
            "--manifest={}",
            written.path().join("weft.yaml").display()
        ))
        .arg(format!(
            "--archive={}",
            other.path().join(krew::archive("amd64")).display()
        ))
        .env("KREW_ROOT", root.path())
        .env("HOME", root.path());
    let said = run(&mut krew).unwrap_err();
    assert!(said.contains("checksum does not match"), "{said}");
}

#[test]
fn archives_without_one_program_are_refused_by_name() {
    let license = license();
    let folder = archives(&[("LICENSE", &license)]);
    let said = format!("{:#}", krew::files(folder.path(), URL).unwrap_err());
    assert!(
        said.contains(&krew::archive("amd64")) && said.contains("exactly one file weft"),
        "{said}"
    );
    let path = folder.path().join(krew::archive("amd64"));
    fs::write(&path, "no archive").unwrap();
    let said = format!("{:#}", krew::files(folder.path(), URL).unwrap_err());
    assert!(said.contains(&krew::archive("amd64")), "{said}");
    fs::remove_file(&path).unwrap();
    let said = format!("{:#}", krew::files(folder.path(), URL).unwrap_err());
    assert!(said.contains("amd64, arm64"), "{said}");
}

/// Runs `weft-packages` for a release, in another folder each time.
fn release(archives: &Path, more: &[&str]) -> (tempfile::TempDir, Result<String, String>) {
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(weft_system_tests::program("weft-packages"));
    command
        .arg("--weft")
        .arg(built("weft").unwrap())
        .arg("--out")
        .arg(out.path())
        .arg("--archives")
        .arg(archives)
        .args(["--url", URL])
        .args(more);
    let said = run(&mut command);
    (out, said)
}

/// The text of each file below a folder, by its path.
fn all(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let inside = path.strip_prefix(folder).unwrap().to_owned();
                files.push((inside, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn the_same_inputs_lead_to_the_same_bytes_with_the_images_given() {
    let license = license();
    let archives = archives(&[("weft", &license)]);
    let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
    let operator = format!("registry.example:5000/team/weft@{digest}");
    let agent = format!("registry.example/team/weft-agent:{VERSION}@{digest}");
    let images = [
        "--release",
        VERSION,
        "--image",
        &operator,
        "--agent-image",
        &agent,
        "--bundle-image",
        "registry.example/team/weft-bundle:1",
        "--catalog-image",
        "registry.example/team/weft-catalog:1",
    ];
    let (first, said) = release(archives.path(), &images);
    said.unwrap();
    let (second, said) = release(archives.path(), &images);
    said.unwrap();
    let files = all(first.path());
    assert_eq!(files, all(second.path()));
    for (path, text) in &files {
        assert!(!text.contains("localhost/weft"), "{}", path.display());
    }
    for (name, holds) in [
        ("weft.yaml", &*operator),
        ("weft-all.yaml", &agent),
        ("kustomize/base/operator.yaml", &operator),
        ("weft/values.yaml", &digest),
        (
            "weft/values.yaml",
            "repository: registry.example:5000/team/weft\n  tag: \"\"\n",
        ),
        (
            "olm/bundle/manifests/weft.clusterserviceversion.yaml",
            &operator,
        ),
        (
            "olm/catalog/weft/catalog.yaml",
            "registry.example/team/weft-bundle:1",
        ),
        ("olm/install.yaml", "registry.example/team/weft-catalog:1"),
        ("krew/weft.yaml", "https://downloads.example/weft/weft-"),
    ] {
        let (_, text) = files
            .iter()
            .find(|(path, _)| path == Path::new(name))
            .unwrap();
        assert!(text.contains(holds), "{name}: {holds}");
    }
}

#[test]
fn another_version_than_the_programs_is_refused() {
    let license = license();
    let archives = archives(&[("weft", &license)]);
    let (_, said) = release(archives.path(), &["--release", "9.9.9"]);
    let said = said.unwrap_err();
    assert!(
        said.contains("--release 9.9.9") && said.contains(VERSION),
        "{said}"
    );
    let (_, said) = release(archives.path(), &["--image", "a b"]);
    assert!(said.unwrap_err().contains("--image"));
}
