//! The programs of Operator Lifecycle Manager (OLM) install the bundle on a real control plane, and
//! remove it.
//!
//! kwok runs no container, so OLM cannot unpack the image of a bundle. The catalog of this test
//! holds the bundle's objects themselves, and a process serves it. Everything else is as users have
//! it.

use std::{
    io::{self, Write},
    path::Path,
    time::Duration,
};

use super::common::{ACCOUNT, NAMESPACE, images, read, serves_its_domains, weft, written};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use weft_packages::{
    manifests::key,
    olm::{self, PACKAGE},
    release::VERSION,
};
use weft_testenv::{
    ControlPlane,
    olm::{Catalog, Operators},
    wait::wait_within,
};

/// How long OLM may take. It looks again at some failures only after a minute.
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test]
async fn olm_installs_the_bundle_and_removes_it() {
    if let Some(reason) = weft_testenv::olm::lacking().unwrap() {
        // Not by a macro: the test harness would keep it for itself.
        let text = "LEFT OUT: olm_installs_the_bundle_and_removes_it, because the module of OLM is not to be had";
        writeln!(io::stderr(), "{text}: {reason}").unwrap();
        return;
    }
    let folder = written(&olm::files(&weft(), &images()).unwrap());
    let cluster = ControlPlane::builder()
        .nodes(2)
        .audit(true)
        .start()
        .await
        .unwrap();
    let mut olm = Olm::start(&cluster).await;
    let bundle: Vec<Value> = std::fs::read_dir(folder.path().join("bundle/manifests"))
        .unwrap()
        .flat_map(|entry| read(&entry.unwrap().path()))
        .collect();
    let catalog = folder.path().join("catalog");
    put_inline(&catalog.join(PACKAGE).join("catalog.yaml"), &bundle);
    let catalog = Catalog::serve(&catalog, cluster.dir()).await.unwrap();

    // As docs/install.md says.
    let before = folder.path().join("before.yaml").display().to_string();
    cluster.kubectl(&["apply", "-f", &before]).await.unwrap();
    for mut object in read(&folder.path().join("install.yaml")) {
        if object["kind"] == "CatalogSource" {
            let spec = object["spec"].as_object_mut().unwrap();
            spec.retain(|field, _| field != "image" && field != "grpcPodConfig");
            spec.insert("address".to_owned(), catalog.address().into());
        }
        olm.apply(&object).await;
    }
    let plan = olm.plan().await;
    let approve = r#"{"spec": {"approved": true}}"#;
    let patch = ["patch", "installplan", &plan, "--type=merge", "-p", approve];
    olm.kubectl(&patch).await;
    let name = format!("{PACKAGE}.v{VERSION}");
    olm.succeeds(&plan, &name).await;

    let csv = bundle
        .iter()
        .find(|object| object["kind"] == "ClusterServiceVersion")
        .unwrap();
    let install = &csv["spec"]["install"]["spec"];
    for object in bundle.iter().filter(|object| *object != csv) {
        let live = olm.get(object).await;
        assert_has(&name_of(object), &live, object);
    }
    let mut made = Vec::new();
    for (field, bindings, roles) in [
        ("permissions", "rolebinding", "role"),
        ("clusterPermissions", "clusterrolebinding", "clusterrole"),
    ] {
        let granted = olm.granted(bindings, roles).await;
        let rules = |all: &[Value]| -> Vec<Value> {
            let all = all.iter();
            all.flat_map(|one| one["rules"].as_array().unwrap().clone())
                .collect()
        };
        assert_eq!(rules(&granted.1), rules(install[field].as_array().unwrap()));
        made.extend(granted.0);
        made.extend(granted.1);
    }
    let wanted = &install["deployments"][0];
    let named = json!({"kind": "Deployment", "metadata": {"name": wanted["name"]}});
    let deployment = olm.get(&named).await;
    assert_has("Deployment", &deployment["spec"], &wanted["spec"]);
    let operator = serves_its_domains(&cluster, csv, &deployment).await;

    // As users remove it.
    drop(operator);
    let add_ons = ["get", "daemonset", "-A", "-o", "name"];
    let before = olm.kubectl(&add_ons).await;
    assert!(before.contains("multus"), "{before}");
    olm.kubectl(&["delete", "subscription", PACKAGE]).await;
    olm.kubectl(&["delete", "csv", &name]).await;
    made.push(deployment);
    made.push(json!({"kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}));
    for object in &made {
        wait_within(PATIENCE, "OLM removes its objects", async || {
            match olm.find(object).await {
                None => Ok(()),
                Some(_) => Err(format!("{} is there", name_of(object))),
            }
        })
        .await;
    }
    // OLM keeps the definitions, and so all that people wrote, and the add-ons.
    assert_eq!(olm.list("networkaddonsconfig").await.len(), 1);
    assert_eq!(olm.kubectl(&add_ons).await, before);
}

/// Puts the objects of the bundle into the catalog, in place of its image, as `opm render` did for
/// bundles without an image.
fn put_inline(catalog: &Path, bundle: &[Value]) {
    let mut documents = read(catalog);
    let entry = documents
        .iter_mut()
        .find(|document| document["schema"] == "olm.bundle")
        .unwrap();
    entry.as_object_mut().unwrap().remove("image");
    let properties = entry["properties"].as_array_mut().unwrap();
    // A summary of the ClusterServiceVersion, for catalogs that do not hold it.
    properties.retain(|property| property["type"] != "olm.csv.metadata");
    properties.extend(bundle.iter().map(|object| {
        let data = BASE64_STANDARD.encode(object.to_string());
        json!({"type": "olm.bundle.object", "value": {"data": data}})
    }));
    let stream: Vec<String> = documents
        .iter()
        .map(|document| format!("---\n{document}\n"))
        .collect();
    std::fs::write(catalog, stream.concat()).unwrap();
}

/// Kind and name, as kubectl takes them.
fn name_of(object: &Value) -> String {
    let (kind, _, name) = key(object);
    format!("{kind}/{name}")
}

/// Fails unless an object has all that is wanted. The API server adds defaults and leaves out a
/// false, and OLM adds labels and variables.
fn assert_has(path: &str, live: &Value, wanted: &Value) {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            let kept = wanted
                .iter()
                .filter(|(name, wanted)| live.contains_key(*name) || **wanted != false);
            for (name, wanted) in kept {
                let live = live.get(name).unwrap_or(&Value::Null);
                assert_has(&format!("{path}.{name}"), live, wanted);
            }
        }
        (Value::Array(live), Value::Array(wanted)) => {
            assert!(live.len() >= wanted.len(), "{path}");
            for (index, (live, wanted)) in live.iter().zip(wanted).enumerate() {
                assert_has(&format!("{path}[{index}]"), live, wanted);
            }
        }
        // 100 is 100.0.
        (Value::Number(live), Value::Number(wanted)) => {
            assert_eq!(live.as_f64(), wanted.as_f64(), "{path}");
        }
        _ => assert_eq!(live, wanted, "{path}"),
    }
}

/// OLM at work in a cluster.
struct Olm<'a> {
    cluster: &'a ControlPlane,
    operators: Operators,
}

impl<'a> Olm<'a> {
    async fn start(cluster: &'a ControlPlane) -> Self {
        let folder = weft_testenv::olm::definitions().unwrap();
        let folder = folder.display().to_string();
        let apply = ["apply", "--server-side", "-f", &folder];
        cluster.kubectl(&apply).await.unwrap();
        cluster.wait_served().await;
        let operators = Operators::start(cluster).unwrap();
        Self { cluster, operators }
    }

    /// Runs kubectl in the namespace of the operator.
    async fn kubectl(&self, arguments: &[&str]) -> String {
        let arguments = [&["-n", NAMESPACE], arguments].concat();
        self.cluster.kubectl(&arguments).await.unwrap()
    }

    async fn apply(&self, object: &Value) {
        let apply = ["apply", "--server-side", "--validate=strict", "-f", "-"];
        let text = object.to_string();
        self.cluster
            .kubectl_with_input(&apply, &text)
            .await
            .unwrap();
    }

    async fn list(&self, kind: &str) -> Vec<Value> {
        let list = self.kubectl(&["get", kind, "-o", "json"]).await;
        let mut list: Value = serde_json::from_str(&list).unwrap();
        let Value::Array(items) = list["items"].take() else {
            panic!("no list of {kind}");
        };
        items
    }

    /// The object of this kind and name in the cluster.
    async fn get(&self, object: &Value) -> Value {
        let live = self.find(object).await;
        live.unwrap_or_else(|| panic!("OLM did not create {}", name_of(object)))
    }

    async fn find(&self, object: &Value) -> Option<Value> {
        let name = name_of(object);
        let text = self
            .kubectl(&["get", &name, "--ignore-not-found", "-o", "json"])
            .await;
        (!text.is_empty()).then(|| serde_json::from_str(&text).unwrap())
    }

    /// The bindings of the operator's account, and the roles that they give to it.
    async fn granted(&self, bindings: &str, roles: &str) -> (Vec<Value>, Vec<Value>) {
        let account = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]);
        let mut bindings = self.list(bindings).await;
        bindings.retain(|binding| binding["subjects"] == account);
        let mut roles = self.list(roles).await;
        roles.retain(|role| {
            let name = &role["metadata"]["name"];
            let mut bindings = bindings.iter();
            bindings.any(|binding| binding["roleRef"]["name"] == *name)
        });
        (bindings, roles)
    }

    /// The name of the InstallPlan, when there is one to approve.
    async fn plan(&mut self) -> String {
        wait_within(PATIENCE, "OLM plans the installation", async || {
            self.operators.check_running().unwrap();
            let plans = self.list("installplan").await;
            let waiting = plans
                .iter()
                .find(|plan| plan["status"]["phase"] == "RequiresApproval");
            let Some(plan) = waiting else {
                let subscriptions = self.list("subscription").await;
                return Err(format!("{plans:?} {}", subscriptions[0]["status"]));
            };
            Ok(plan["metadata"]["name"].as_str().unwrap().to_owned())
        })
        .await
    }

    /// Waits until OLM has carried out the plan, and until the operator of this
    /// ClusterServiceVersion is available.
    async fn succeeds(&mut self, plan: &str, version: &str) {
        wait_within(PATIENCE, "OLM installs the bundle", async || {
            self.operators.check_running().unwrap();
            let plans = self.list("installplan").await;
            let plan = plans
                .iter()
                .find(|one| one["metadata"]["name"] == plan)
                .unwrap();
            let phase = &plan["status"]["phase"];
            assert_ne!(phase, "Failed", "{}", plan["status"]["conditions"]);
            let versions = self.list("clusterserviceversion").await;
            let version = versions
                .iter()
                .find(|one| one["metadata"]["name"] == version);
            let status = version.map_or(&Value::Null, |version| &version["status"]);
            match phase == "Complete" && status["phase"] == "Succeeded" {
                true => Ok(()),
                false => Err(format!("the plan is {phase}, the version {status:#}")),
            }
        })
        .await;
    }
}
