//! All packages install the same: release YAML, chart with default values, kustomize base and OLM
//! bundle are compared with `weft manifests`, object by object and permission by permission. Each
//! difference is in a list, with its reason.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use super::common::{ACCOUNT, NAMESPACE, images, made_from, objects, run, weft, written};
use serde_json::{Value, json};
use weft_packages::{
    chart, kustomize,
    manifests::key,
    olm,
    permissions::{Permission, apart, without_repetitions},
    yaml,
};
use weft_testenv::{Programs, helm};

/// A difference that is meant: the package, beginning and end of its description, and the reason.
const ALLOWED: [(&str, &str, &str, &str); 5] = [
    (
        "chart",
        "",
        ": /metadata/annotations/helm.sh~resource-policy only in the package",
        "Helm would delete definitions and namespaces with the release, and the objects of users with them",
    ),
    (
        "chart",
        "Namespace weft-system",
        ": missing",
        "the namespace of a release is Helm's: `--create-namespace` makes it",
    ),
    (
        "chart",
        "Job weft-system/weft-test",
        ": only in the package",
        "`helm test` creates it, and an installation does not",
    ),
    (
        "kustomize",
        "",
        ": /metadata/labels/app.kubernetes.io~managed-by only in the package",
        "by this label, `weft status --installation` sees that kustomize has installed the objects",
    ),
    (
        "bundle",
        "ClusterServiceVersion weft.v",
        ": only in the package",
        "OLM makes Deployment, account and roles from it, which are compared",
    ),
];

/// An installation without differences in form.
#[derive(Debug, Default)]
struct Installed {
    /// The fields of each object by their paths. Permissions of the operator are not among them.
    objects: BTreeMap<String, BTreeMap<String, Value>>,
    /// The operator's permissions by namespace. The empty name stands for the cluster.
    permissions: BTreeMap<String, BTreeSet<Permission>>,
}

/// Roles of the operator count by what they permit, and not by their names, which OLM generates.
fn installed(all: &[Value]) -> Installed {
    let operator = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}]);
    let is_role = |object: &Value, binding: &Value| {
        object["kind"] == binding["roleRef"]["kind"]
            && object["metadata"]["name"] == binding["roleRef"]["name"]
            && (object["kind"] == "ClusterRole"
                || object["metadata"]["namespace"] == binding["metadata"]["namespace"])
    };
    let bindings: Vec<&Value> = all
        .iter()
        .filter(|object| object["subjects"] == operator)
        .collect();
    let mut installed = Installed::default();
    for object in all {
        let (kind, namespace, name) = key(object);
        if object["subjects"] == operator {
            let role = all.iter().find(|one| is_role(one, object));
            let role = role.unwrap_or_else(|| panic!("{kind} {name} binds no role"));
            let permissions = installed.permissions.entry(namespace).or_default();
            permissions.extend(apart(&role["rules"]));
            continue;
        }
        if bindings.iter().any(|binding| is_role(object, binding)) {
            continue;
        }
        let mut object = object.clone();
        if object.get("rules").is_some() {
            let permissions = without_repetitions(&apart(&object["rules"]));
            object["rules"] = format!("{permissions:#?}").into();
        }
        let variables = object.pointer_mut("/spec/template/spec/containers/0/env");
        if let Some(variables) = variables.and_then(Value::as_array_mut) {
            variables.sort_by_key(|variable| variable["name"].to_string());
        }
        let place = match &*namespace {
            "" => name,
            namespace => format!("{namespace}/{name}"),
        };
        let mut fields = BTreeMap::new();
        flatten("", &object, &mut fields);
        let title = format!("{kind} {place}");
        assert!(
            installed.objects.insert(title.clone(), fields).is_none(),
            "{title} twice"
        );
    }
    for permissions in installed.permissions.values_mut() {
        *permissions = without_repetitions(permissions);
    }
    installed
}

/// Collects the values without parts, by their paths. Numbers are alike in all their spellings.
fn flatten(path: &str, value: &Value, fields: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(parts) if !parts.is_empty() => {
            for (name, part) in parts {
                flatten(&format!("{path}/{}", name.replace('/', "~")), part, fields);
            }
        }
        Value::Array(parts) if !parts.is_empty() => {
            for (number, part) in parts.iter().enumerate() {
                flatten(&format!("{path}/{number}"), part, fields);
            }
        }
        Value::Number(number) => {
            fields.insert(path.to_owned(), json!(number.as_f64()));
        }
        _ => {
            fields.insert(path.to_owned(), value.clone());
        }
    }
}

/// Describes the differences of a package from the manifests.
fn differences(manifests: &Installed, package: &Installed) -> Vec<String> {
    let mut found = Vec::new();
    let titles = manifests.objects.keys().chain(package.objects.keys());
    for title in titles.collect::<BTreeSet<_>>() {
        match (manifests.objects.get(title), package.objects.get(title)) {
            (Some(ours), Some(theirs)) => {
                for path in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
                    match (ours.get(path), theirs.get(path)) {
                        (ours, theirs) if ours == theirs => {}
                        (None, _) => found.push(format!("{title}: {path} only in the package")),
                        (_, None) => found.push(format!("{title}: {path} missing")),
                        (Some(ours), Some(theirs)) => {
                            found.push(format!("{title}: {path} is {theirs} instead of {ours}"));
                        }
                    }
                }
            }
            (Some(_), None) => found.push(format!("{title}: missing")),
            (None, _) => found.push(format!("{title}: only in the package")),
        }
    }
    let namespaces = manifests
        .permissions
        .keys()
        .chain(package.permissions.keys());
    let none = BTreeSet::new();
    for namespace in namespaces.collect::<BTreeSet<_>>() {
        let ours = manifests.permissions.get(namespace).unwrap_or(&none);
        let theirs = package.permissions.get(namespace).unwrap_or(&none);
        for permission in ours.difference(theirs) {
            found.push(format!(
                "permission in {namespace:?}: {permission:?} missing"
            ));
        }
        for permission in theirs.difference(ours) {
            found.push(format!(
                "permission in {namespace:?}: {permission:?} only in the package"
            ));
        }
    }
    found
}

/// Returns the objects that each package leads to in a cluster.
fn packages() -> Vec<(&'static str, Vec<Value>)> {
    let release = yaml::files(&weft(), &images()).unwrap();

    let folder = written(&chart::files(&weft(), &images()).unwrap());
    let mut template = Command::new(helm::program().unwrap());
    template
        .args(["template", "weft", "--namespace", NAMESPACE])
        .arg(folder.path())
        .env("HOME", folder.path());
    let chart = run(&mut template).unwrap();

    let folder = written(&kustomize::files(&weft(), &images()).unwrap());
    let mut kubectl = Command::new(Programs::find().unwrap().get("kubectl").unwrap());
    kubectl.arg("kustomize").arg(folder.path().join("base"));
    let kustomize = run(&mut kubectl).unwrap();

    let files = olm::files(&weft(), &images()).unwrap();
    let mut bundle = objects(&files["before.yaml"]);
    for (name, text) in &files {
        if name.starts_with("bundle/manifests/") {
            for object in objects(text) {
                if object["kind"] == "ClusterServiceVersion" {
                    bundle.extend(made_from(&object));
                }
                bundle.push(object);
            }
        }
    }
    vec![
        ("release YAML", objects(&release["weft.yaml"])),
        ("chart", objects(&chart)),
        ("kustomize", objects(&kustomize)),
        ("bundle", bundle),
    ]
}

#[test]
fn all_packages_install_the_same() {
    let manifests = installed(&weft().manifests(&[]).unwrap());
    assert!(
        manifests.objects.len() > 20,
        "{:?}",
        manifests.objects.keys()
    );
    let scopes: Vec<&str> = manifests.permissions.keys().map(String::as_str).collect();
    assert_eq!(
        scopes,
        [
            "",
            "cluster-network-addons",
            "default",
            "nmstate",
            NAMESPACE
        ]
    );
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for (package, all) in packages() {
        for difference in differences(&manifests, &installed(&all)) {
            let allowed = ALLOWED.iter().position(|(of, begin, end, _)| {
                *of == package && difference.starts_with(begin) && difference.ends_with(end)
            });
            match allowed {
                Some(number) => drop(used.insert(number)),
                None => wrong.push(format!("{package}: {difference}")),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(
        used.len(),
        ALLOWED.len(),
        "a difference in the list is gone: {used:?}"
    );
}

/// The comparison finds a permission, a field and an object that differ.
#[test]
fn the_comparison_finds_each_sort_of_difference() {
    let objects = weft().manifests(&[]).unwrap();
    let manifests = installed(&objects);
    let mut changed = objects.clone();
    let of = |kind: &str, name: &str| {
        let found = objects
            .iter()
            .position(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.unwrap()
    };
    changed[of("ClusterRole", "weft-operator-addons")]["rules"][0]["verbs"] = json!(["*"]);
    changed[of("Deployment", ACCOUNT)]["spec"]["replicas"] = json!(7);
    changed[of("ClusterRole", "weft-addons-view")]["rules"] = json!([]);
    changed.remove(of("Namespace", "nmstate"));
    let found = differences(&manifests, &installed(&changed));
    for part in [
        "permission in \"\": ",
        "verb: \"*\" } only in the package",
        "Deployment weft-system/weft-operator: /spec/replicas is 7.0 instead of 1.0",
        "ClusterRole weft-addons-view: /rules",
        "Namespace nmstate: missing",
    ] {
        assert!(
            found.iter().any(|one| one.contains(part)),
            "{part}: {found:#?}"
        );
    }
}
