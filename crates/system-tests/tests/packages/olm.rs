//! Bundle and catalog for Operator Lifecycle Manager, judged by the code of Operator Framework, and
//! installed on a real control plane.
//!
//! These tests create the objects that OLM makes of a ClusterServiceVersion
//! ([`common::made_from`]). In `olm_programs.rs`, OLM's own programs make them.

use std::{path::Path, process::Command};

use super::common::{
    ACCOUNT, NAMESPACE, images, made_from, objects, read, run, serves_its_domains, weft, written,
};
use serde_json::Value;
use weft_packages::{
    files::Files,
    manifests::key,
    olm::{self, CHANNEL, PACKAGE},
    release::VERSION,
};
use weft_testenv::ControlPlane;

fn files() -> Files {
    olm::files(&weft(), &images()).unwrap()
}

fn judge(arguments: &[&str], folder: &Path) -> Result<String, String> {
    let mut command = Command::new(weft_testenv::olm::program().unwrap());
    let (first, more) = arguments.split_first().unwrap();
    run(command.arg(first).arg(folder).args(more))
}

const CSV: &str = "bundle/manifests/weft.clusterserviceversion.yaml";

/// The warnings that the bundle has, with the reason for each.
const WARNINGS: [(&str, &str); 3] = [
    (
        "provided API should have an example annotation",
        "the examples have the newest version, and people write no state and no enactment",
    ),
    (
        "APIs which were deprecated and removed in v1.25. More info: https://kubernetes.io/docs/reference/using-api/deprecation-guide/#v1-25. Migrate the API(s) for events:",
        "the check looks at the name of the resource alone: the rules are for the core group and for events.k8s.io, of both of which v1 stays",
    ),
    (
        "CSV contains permissions to create CRD",
        "the operator brings NetworkAttachmentDefinition with Multus",
    ),
];

#[test]
fn the_bundle_passes_the_checks_of_operator_framework() {
    let folder = written(&files());
    let said = judge(&["bundle"], &folder.path().join("bundle")).unwrap();
    let lines: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
    for line in &lines {
        let is_known = WARNINGS.iter().any(|(warning, _)| line.contains(warning));
        assert!(is_known, "{line}");
    }
    for (warning, _) in WARNINGS {
        assert!(
            lines.iter().any(|line| line.contains(warning)),
            "no longer: {warning}"
        );
    }
}

/// Shows that the checks look at what the bundle holds.
#[test]
fn the_checks_refuse_objects_that_no_bundle_may_hold() {
    let mut files = files();
    let policy = objects(&files["before.yaml"])
        .into_iter()
        .find(|object| object["kind"] == "ValidatingAdmissionPolicy")
        .unwrap();
    let name = "bundle/manifests/policy.yaml".to_owned();
    files.insert(name.clone(), policy.to_string());
    let said = judge(&["bundle"], &written(&files).path().join("bundle")).unwrap_err();
    assert!(
        said.contains("ValidatingAdmissionPolicy is not supported type"),
        "{said}"
    );
    files.remove(&name);
    files.retain(|name, _| !name.ends_with("nmstates.nmstate.io.crd.yaml"));
    let said = judge(&["bundle"], &written(&files).path().join("bundle")).unwrap_err();
    assert!(said.contains("NMState"), "{said}");
}

#[test]
fn the_catalog_is_what_opm_renders_from_the_bundle() {
    let folder = written(&files());
    let said = judge(&["catalog"], &folder.path().join("catalog")).unwrap();
    assert_eq!(
        said,
        format!("package {PACKAGE}, channel {CHANNEL}: {PACKAGE}.v{VERSION} {VERSION}\n")
    );
    let image = images().bundle.to_string();
    let rendered = judge(&["render", &image], &folder.path().join("bundle")).unwrap();
    let sorted = |mut bundle: Value| {
        for list in ["properties", "relatedImages"] {
            let list = bundle[list].as_array_mut().unwrap();
            list.sort_by_key(Value::to_string);
        }
        bundle
    };
    let catalog = read(&folder.path().join("catalog/weft/catalog.yaml"));
    let ours = catalog
        .iter()
        .find(|one| one["schema"] == "olm.bundle")
        .unwrap();
    let theirs: Value = serde_json::from_str(&rendered).unwrap();
    assert_eq!(sorted(ours.clone()), sorted(theirs));
}

/// Every image that the operator can deploy comes from a variable of its Deployment, so a mirror
/// that copies the related images has all of them.
#[test]
fn related_images_are_those_of_the_deployment() {
    let csv = objects(&files()[CSV]).remove(0);
    let container = &csv["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"]
        [0];
    let mut deployed: Vec<&Value> = container["env"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|variable| variable["name"].as_str().unwrap().ends_with("IMAGE"))
        .map(|variable| &variable["value"])
        .collect();
    assert!(deployed.contains(&&container["image"]));
    assert!(deployed.len() > 10);
    let related = csv["spec"]["relatedImages"].as_array().unwrap();
    let mut related: Vec<&Value> = related.iter().map(|image| &image["image"]).collect();
    deployed.sort_by_key(|image| image.to_string());
    related.sort_by_key(|image| image.to_string());
    assert_eq!(related, deployed);
}

#[tokio::test]
async fn an_operator_from_the_bundle_serves_its_domains() {
    let folder = written(&files());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let cluster = ControlPlane::builder().nodes(2).lend().await.unwrap();
    let apply = async |text: &str| {
        let arguments = ["apply", "--server-side", "--validate=strict", "-f", "-"];
        cluster.kubectl_with_input(&arguments, text).await.unwrap()
    };
    // The kinds of OLM, so that the API server checks its objects by their schemas.
    let program = weft_testenv::olm::program().unwrap();
    let definitions = run(Command::new(program).arg("definitions")).unwrap();
    // They are of OLM 0.30, the newest that its module has. In 0.33, `cacheDir` became optional
    // (operator-framework/operator-lifecycle-manager#3556).
    let required = "- cacheDir\n";
    assert_eq!(definitions.matches(required).count(), 1);
    apply(&definitions.replace(required, "")).await;
    cluster.wait_served().await;

    // As a user does.
    cluster
        .kubectl(&["apply", "-f", &path("before.yaml")])
        .await
        .unwrap();
    apply(&std::fs::read_to_string(path("install.yaml")).unwrap()).await;
    // As OLM does.
    let mut csv = Value::Null;
    for entry in std::fs::read_dir(path("bundle/manifests")).unwrap() {
        for mut object in read(&entry.unwrap().path()) {
            if object["kind"] == "ClusterServiceVersion" {
                object["metadata"]["namespace"] = NAMESPACE.into();
                csv = object.clone();
            }
            apply(&object.to_string()).await;
        }
    }
    let made = made_from(&csv);
    for object in &made {
        apply(&object.to_string()).await;
    }

    let deployment = made
        .iter()
        .find(|object| object["kind"] == "Deployment")
        .unwrap();
    let (_, _, name) = key(deployment);
    let rollout = format!("deployment/{name}");
    let wait = [
        "-n",
        NAMESPACE,
        "wait",
        &rollout,
        "--for=condition=Available",
        "--timeout=120s",
    ];
    cluster.kubectl(&wait).await.unwrap();
    let _operator = serves_its_domains(&cluster, &csv, deployment).await;
    // The policies of before.yaml guard this operator, too.
    let kubeconfig = cluster
        .service_account_kubeconfig(NAMESPACE, ACCOUNT)
        .await
        .unwrap();
    let pods = ["-n", NAMESPACE, "get", "pods", "-o", "json"];
    let pods: Value = serde_json::from_str(&cluster.kubectl(&pods).await.unwrap()).unwrap();
    let replace = ["replace", "--subresource=status", "-f", "-"];
    let refused = cluster
        .kubectl_as(&kubeconfig, &replace, &pods["items"][0].to_string())
        .await
        .unwrap_err();
    let refused = format!("{refused:#}");
    assert!(
        refused.contains("this account has these rights only to grant them"),
        "{refused}"
    );
}
