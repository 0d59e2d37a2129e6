//! The kustomize bases, built by the kustomize in kubectl.

use std::{collections::BTreeMap, path::Path, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;
use weft_packages::{
    domains::DOMAINS,
    files, kustomize,
    manifests::{Program, key},
    release::Images,
};
use weft_testenv::{Programs, built};

fn weft() -> Program {
    Program::new(&built("weft").unwrap())
}

/// The objects that `kubectl kustomize` prints for this folder, by kind, namespace and name, without
/// the label of kustomize, which all of them have.
fn build(folder: &Path) -> BTreeMap<(String, String, String), Value> {
    let output = Command::new(Programs::find().unwrap().get("kubectl").unwrap())
        .arg("kustomize")
        .arg(folder)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", folder.display());
    let text = String::from_utf8(output.stdout).unwrap();
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let (label, value) = kustomize::MANAGED_BY;
    for object in &mut objects {
        let metadata = object["metadata"].as_object_mut().unwrap();
        let labels = metadata["labels"].as_object_mut().unwrap();
        assert_eq!(labels.remove(label), Some(json!(value)), "{metadata:?}");
        if labels.is_empty() {
            metadata.remove("labels");
        }
    }
    index(objects)
}

/// Writes the bases and overlays for Weft's usual images.
fn bases() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let usual = Images::usual().unwrap();
    files::write(folder.path(), &kustomize::files(&weft(), &usual).unwrap()).unwrap();
    folder
}

fn index(objects: Vec<Value>) -> BTreeMap<(String, String, String), Value> {
    objects
        .into_iter()
        .map(|mut object| {
            spell_alike(&mut object);
            // A patch moves the variables that it sets.
            let variables = object.pointer_mut("/spec/template/spec/containers/0/env");
            if let Some(variables) = variables.and_then(Value::as_array_mut) {
                variables.sort_by_key(|variable| variable["name"].to_string());
            }
            (key(&object), object)
        })
        .collect()
}

/// JSON has one number 1, which kustomize writes as `1`, and Weft in a schema as `1.0`.
fn spell_alike(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(spell_alike),
        Value::Array(items) => items.iter_mut().for_each(spell_alike),
        Value::Number(number) => *value = json!(number.as_f64()),
        _ => {}
    }
}

#[test]
fn bases_install_what_weft_manifests_prints() {
    let folder = bases();
    let check = |base: &str, arguments: &[&str]| {
        let built = build(&folder.path().join(base));
        let printed = index(weft().manifests(arguments).unwrap());
        assert!(printed.len() > 10);
        assert_eq!(
            built.keys().collect::<Vec<_>>(),
            printed.keys().collect::<Vec<_>>(),
            "{base}"
        );
        for (key, object) in &printed {
            assert_eq!(&built[key], object, "{base}: {key:?}");
        }
    };
    check("base", &[]);
    for domain in DOMAINS.map(|domain| domain.name) {
        check(
            &format!("split/{domain}"),
            &["--split", "--domains", domain],
        );
    }
}

#[test]
fn the_overlay_sets_all_images_of_weft() {
    let folder = bases();
    let built = build(&folder.path().join("overlays/registry"));
    let version = env!("CARGO_PKG_VERSION");
    let operator = format!("registry.example/weft:{version}");
    let agent = format!("registry.example/weft-agent:{version}");
    let arguments = ["--image", &operator, "--agent-image", &agent];
    let printed = index(weft().manifests(&arguments).unwrap());
    for (key, object) in &printed {
        assert_eq!(&built[key], object, "{key:?}");
    }
}

/// The text of a patch is the output of `weft manifests -o kustomize-patch` with the same options.
#[test]
fn a_patch_makes_of_a_base_what_the_same_options_install() {
    let folder = bases();
    let operator = ["--image", "registry.example/weft:2"];
    let others = [
        "--agent-image=registry.example/agent:2",
        "--image-pull-policy=Always",
        "--operand-images=MULTUS_IMAGE=registry.example/multus:4",
    ];
    let network = [
        "--split",
        "--domains=cluster-network",
        "--api-server=https://192.0.2.1:6443",
    ];
    for (base, arguments) in [
        ("base", [&operator[..], &others].concat()),
        ("split/cluster-network", [&operator[..], &network].concat()),
    ] {
        let overlay = folder.path().join("overlays/patched");
        let patch = [&["-o", "kustomize-patch"], &arguments[..]].concat();
        let kustomization = format!("resources: [../../{base}]\npatches: [{{path: patch.yaml}}]\n");
        std::fs::create_dir_all(&overlay).unwrap();
        std::fs::write(overlay.join("kustomization.yaml"), kustomization).unwrap();
        std::fs::write(overlay.join("patch.yaml"), weft().text(&patch).unwrap()).unwrap();
        let built = build(&overlay);
        let printed = index(weft().manifests(&arguments).unwrap());
        assert_eq!(built.len(), printed.len(), "{base}");
        for (key, object) in &printed {
            assert_eq!(&built[key], object, "{base}: {key:?}");
        }
    }
}
