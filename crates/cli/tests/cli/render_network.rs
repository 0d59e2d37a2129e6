//! `weft render-network`, by its own name and by that of the program that it replaces.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use super::common::{Run, command, objects, root, run, title};
use serde_json::json;

const IMAGES: [(&str, &str); 2] = [
    ("NODE_IMAGE", "registry.example/node:1"),
    ("HYPERSHIFT_IMAGE", "registry.example/hypershift:1"),
];

fn minimal() -> String {
    fs::read_to_string(root().join("deploy/cluster-network/example.yaml")).unwrap()
}

fn render(arguments: &[&str], stdin: &str) -> Run {
    let arguments: Vec<&str> = ["render-network", "--config", "-", "--out", "-"]
        .iter()
        .chain(arguments)
        .copied()
        .collect();
    run(command(Path::new("."), &arguments).envs(IMAGES), stdin)
}

#[test]
fn the_old_command_line_works_under_the_old_name() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("cluster-network-renderer");
    symlink(weft_testenv::built("weft").unwrap(), &program).unwrap();
    fs::write(folder.path().join("sample-config.yaml"), minimal()).unwrap();
    let mut old = Command::new(&program);
    old.args([
        "--config",
        "sample-config.yaml",
        "--out",
        "out.yaml",
        "--bindata",
        "./bindata",
    ])
    .current_dir(folder.path())
    .env_clear()
    .envs(IMAGES);
    let done = run(&mut old, "");
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (0, ""),
        "{}",
        done.stderr
    );
    assert!(
        done.stderr.contains("--bindata ./bindata is not used"),
        "{}",
        done.stderr
    );
    let text = fs::read_to_string(folder.path().join("out.yaml")).unwrap();
    assert!(
        text.starts_with("\n---\n"),
        "each object after a separator of its own"
    );
    let rendered: Vec<_> = objects(&text)
        .into_iter()
        .filter(|object| !object.is_null())
        .collect();
    assert_eq!(rendered.len(), 22);
    assert_eq!(title(&rendered[0]), "Namespace openshift-sdn");
    assert!(text.contains("image: registry.example/node:1") && !text.contains("applied-default"));
    assert_eq!(
        render(&[], &minimal()).stdout,
        text,
        "the same by stdin and stdout"
    );
}

#[test]
fn the_mtu_is_that_of_the_flag_and_not_of_this_machine() {
    let mtu = |arguments: &[&str]| {
        let text = render(arguments, &minimal()).stdout;
        let at = text.find("mtu: ").unwrap();
        text[at + 5..].lines().next().unwrap().to_owned()
    };
    assert_eq!(
        (mtu(&[]).as_str(), mtu(&["--mtu", "9000"]).as_str()),
        ("1450", "8950")
    );
}

#[test]
fn an_octal_number_is_read_as_kubectl_does_with_a_note() {
    let octal = minimal().replace("hostSubnetLength: 9", "hostSubnetLength: 011");
    let run = render(&[], &octal);
    assert_eq!(run.stdout, render(&[], &minimal()).stdout);
    let note = "spec.clusterNetworks[0].hostSubnetLength: 011 begins with a zero, so kubectl reads it as an octal number and sends 9:";
    assert!(
        run.stderr.starts_with("note: stdin:") && run.stderr.contains(note),
        "{}",
        run.stderr
    );
}

#[test]
fn images_that_are_missing_are_named_at_once_and_a_file_may_name_them() {
    let arguments = ["render-network", "--config", "-", "--out", "-"];
    let missing = run(&mut command(Path::new("."), &arguments), &minimal());
    assert_eq!((missing.code, missing.stdout.as_str()), (2, ""));
    for (variable, _) in IMAGES {
        let message = format!("{variable} is not set");
        assert_eq!(
            missing.stderr.matches(&message).count(),
            1,
            "{variable}: {}",
            missing.stderr
        );
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(
        file.path(),
        "# of the mirror\nNODE_IMAGE = mirror.example/node:2\n\n",
    )
    .unwrap();
    let named = render(&["--images", file.path().to_str().unwrap()], &minimal());
    assert!(
        named.stdout.contains("image: mirror.example/node:2")
            && named
                .stdout
                .contains("image: registry.example/hypershift:1"),
        "{}",
        named.stderr
    );
    fs::write(file.path(), "NODE_IMAGE\n").unwrap();
    let wrong = render(&["--images", file.path().to_str().unwrap()], &minimal());
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.stderr.contains(":1: \"NODE_IMAGE\" names no image"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn images_of_the_network_and_of_the_proxy_are_named_at_once() {
    let flannel = fs::read_to_string(root().join("examples/network-config-flannel.yaml")).unwrap();
    let arguments = ["render-network", "--config", "-", "--out", "-"];
    let some = [("FLANNEL_IMAGE", "registry.example/flannel:1")];
    let missing = run(command(Path::new("."), &arguments).envs(some), &flannel);
    assert_eq!((missing.code, missing.stdout.as_str()), (2, ""));
    let named: Vec<_> = missing.stderr.matches("_IMAGE is not set").collect();
    assert_eq!(named.len(), 2, "{}", missing.stderr);
    for variable in ["OPERATOR_IMAGE", "KUBE_PROXY_IMAGE"] {
        assert!(missing.stderr.contains(variable), "{}", missing.stderr);
    }
}

#[test]
fn a_change_from_the_previous_configuration_is_judged() {
    let previous = tempfile::NamedTempFile::new().unwrap();
    let path = previous.path().to_str().unwrap();
    let applied = json!({
        "clusterNetworks": [
            {"cidr": "10.128.0.0/14", "hostSubnetLength": 9}
        ], "serviceNetwork": "172.30.0.0/16",
        "defaultNetwork": {
            "type": "OpenShiftSDN",
            "openshiftSDNConfig": {"mode": "NetworkPolicy", "vxlanPort": 4789, "mtu": 8950},
            "otherConfig": null
        },
        "additionalNetworks": null, "deployKubeProxy": false, "kubeProxyConfig": {"bindAddress": "0.0.0.0"},
    });
    let record = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied-default"},
        "data": {"applied": applied.to_string()}
    });
    let resource = json!({
        "apiVersion": "networkoperator.openshift.io/v1", "kind": "NetworkConfig",
        "metadata": {"name": "default"}, "spec": applied
    });
    for text in [
        record.to_string(),
        resource.to_string(),
        applied.to_string(),
    ] {
        fs::write(previous.path(), &text).unwrap();
        let safe = render(&["--previous", path], &minimal());
        assert_eq!(safe.code, 0, "{text}: {}", safe.stderr);
        assert!(
            safe.stderr.contains("safe: ") && safe.stdout.contains("mtu: 8950"),
            "what was found out is carried on: {}",
            safe.stderr
        );
        let other = minimal().replace("172.30.0.0/16", "172.31.0.0/16");
        let refused = render(&["--previous", path], &other);
        assert_eq!(
            (refused.code, refused.stdout.as_str()),
            (3, ""),
            "{}",
            refused.stderr
        );
        assert!(
            refused.stderr.starts_with("unsafe: spec.serviceNetwork"),
            "{}",
            refused.stderr
        );
    }
    fs::write(previous.path(), "kind: Pod\n").unwrap();
    assert_eq!(render(&["--previous", path], &minimal()).code, 2);
}

#[test]
fn mistakes_are_reported_by_line_and_exit_code() {
    let wrong = render(&[], &minimal().replace("10.128.0.0/14", "10.128.0.0/99"));
    assert_eq!((wrong.code, wrong.stdout.as_str()), (1, ""));
    assert!(
        wrong.stderr.contains("stdin:") && wrong.stderr.contains("spec.clusterNetworks[0].cidr"),
        "{}",
        wrong.stderr
    );
    let other = "apiVersion: networkaddonsoperator.network.kubevirt.io/v1\nkind: NetworkAddonsConfig\nmetadata: {name: cluster}\n";
    assert_eq!(render(&[], other).code, 2);
}
