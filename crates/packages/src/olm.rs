//! Bundle and catalog for Operator Lifecycle Manager (OLM, version 0).
//!
//! - `bundle`: the bundle in the format registry+v1
//!   (<https://olm.operatorframework.io/docs/tasks/creating-operator-bundle/>), with a Dockerfile;
//! - `before.yaml`: the objects that a bundle cannot hold. You apply them first;
//! - `catalog`: a file-based catalog with this bundle
//!   (<https://olm.operatorframework.io/docs/reference/file-based-catalogs/>);
//! - `install.yaml`: CatalogSource, OperatorGroup and Subscription.
//!
//! People write `deploy/olm`. Everything else comes from `weft manifests` with the default domains.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};

use crate::{
    files::Files,
    manifests::{Program, key},
    permissions::{Permission, apart, together, without_repetitions},
    release::{Images, VERSION},
};

/// The name of the package.
pub const PACKAGE: &str = "weft";
/// The channel. The name says that no version is stable yet
/// (<https://olm.operatorframework.io/docs/best-practices/channel-naming/>).
pub const CHANNEL: &str = "candidate";
/// The namespace into which users install the operator.
pub const NAMESPACE: &str = "weft-system";

const ANNOTATION: &str = "operators.operatorframework.io.bundle";
/// An object for each definition that people write, by the names of the definitions' kinds.
const EXAMPLES: [&str; 3] = [
    include_str!("../../../examples/first.yaml"),
    include_str!("../../../examples/node-network/nmstate.yaml"),
    include_str!("../../../examples/node-network/linux-bridge.yaml"),
];

/// The objects of an installation, by the way in which they get into a cluster.
#[derive(Default)]
pub struct Installation {
    /// The user applies them: a bundle cannot hold them.
    pub before: Vec<Value>,
    /// The definitions of the bundle.
    pub definitions: Vec<Value>,
    /// Further objects of the bundle: roles of people.
    pub others: Vec<Value>,
    /// The operator's Deployment.
    pub deployment: Value,
    /// The operator's permissions in its namespace.
    pub permissions: BTreeSet<Permission>,
    /// The operator's permissions on the cluster.
    pub cluster_permissions: BTreeSet<Permission>,
}

impl Installation {
    /// Sorts the objects that `weft manifests` prints.
    ///
    /// # Errors
    /// OLM has no place for an object: a defect of this program.
    pub fn sort(objects: &[Value]) -> Result<Self> {
        let mut sorted = Self::default();
        let deployment = objects
            .iter()
            .find(|object| object["kind"] == "Deployment")
            .context("no Deployment")?;
        let account = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
        let operator = json!([{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]);
        let is_operators = |role: &Value, binding: &str| {
            objects.iter().any(|object| {
                object["kind"] == binding
                    && object["metadata"]["namespace"] == role["metadata"]["namespace"]
                    && object["roleRef"]["kind"] == role["kind"]
                    && object["roleRef"]["name"] == role["metadata"]["name"]
                    && object["subjects"] == operator
            })
        };
        for object in objects {
            let (kind, namespace, name) = key(object);
            let is_own = namespace == NAMESPACE;
            match kind.as_str() {
                "Namespace" | "ValidatingAdmissionPolicy" | "ValidatingAdmissionPolicyBinding" => {
                    sorted.before.push(object.clone())
                }
                // OLM puts the roles of a bundle into the operator's namespace.
                "Role" | "RoleBinding" if !is_own => sorted.before.push(object.clone()),
                "Role" if is_operators(object, "RoleBinding") => {
                    sorted.permissions.extend(apart(&object["rules"]));
                }
                "ClusterRole" if is_operators(object, "ClusterRoleBinding") => {
                    sorted.cluster_permissions.extend(apart(&object["rules"]));
                }
                // OLM makes bindings and account from the permissions.
                "RoleBinding" | "ClusterRoleBinding" if object["subjects"] == operator => {}
                "ServiceAccount" if is_own && *account == name => {}
                "ClusterRole" => sorted.others.push(object.clone()),
                "CustomResourceDefinition" => sorted.definitions.push(object.clone()),
                "Deployment" if is_own => sorted.deployment = object.clone(),
                _ => bail!("{kind} {name}: OLM has no place for it"),
            }
        }
        sorted.permissions = without_repetitions(&sorted.permissions);
        sorted.cluster_permissions = without_repetitions(&sorted.cluster_permissions);
        Ok(sorted)
    }
}

/// Returns the files of bundle and catalog.
///
/// # Errors
/// `weft manifests` cannot be run, or prints an object for which OLM has no place.
pub fn files(program: &Program, images: &Images) -> Result<Files> {
    let arguments = images.arguments();
    let objects = program.manifests(&arguments.each_ref().map(String::as_str))?;
    let installation = Installation::sort(&objects)?;
    let version = csv(&installation)?;
    let mut files = Files::new();
    let manifests = "bundle/manifests";
    files.insert(
        format!("{manifests}/{PACKAGE}.clusterserviceversion.yaml"),
        yaml(&version)?,
    );
    for definition in &installation.definitions {
        let (_, _, name) = key(definition);
        files.insert(format!("{manifests}/{name}.crd.yaml"), yaml(definition)?);
    }
    for object in &installation.others {
        let (kind, _, name) = key(object);
        let kind = kind.to_lowercase();
        files.insert(format!("{manifests}/{name}.{kind}.yaml"), yaml(object)?);
    }
    let annotations: [(&str, &str); 6] = [
        ("mediatype.v1", "registry+v1"),
        ("manifests.v1", "manifests/"),
        ("metadata.v1", "metadata/"),
        ("package.v1", PACKAGE),
        ("channels.v1", CHANNEL),
        ("channel.default.v1", CHANNEL),
    ];
    let mut listed = Map::new();
    let mut dockerfile =
        "# The image of the bundle. Build it in this folder.\nFROM scratch\n".to_owned();
    for (name, value) in annotations {
        listed.insert(format!("{ANNOTATION}.{name}"), value.into());
        dockerfile += &format!("LABEL {ANNOTATION}.{name}={value}\n");
    }
    dockerfile += "COPY manifests /manifests/\nCOPY metadata /metadata/\n";
    files.insert(
        "bundle/metadata/annotations.yaml".to_owned(),
        yaml(&json!({"annotations": listed}))?,
    );
    files.insert("bundle/bundle.Dockerfile".to_owned(), dockerfile);
    files.insert("before.yaml".to_owned(), before(&installation.before)?);
    files.insert(
        format!("catalog/{PACKAGE}/catalog.yaml"),
        stream(&catalog(
            &version,
            &installation.definitions,
            &images.bundle.to_string(),
        ))?,
    );
    files.insert(
        "install.yaml".to_owned(),
        include_str!("../../../deploy/olm/install.yaml")
            .replace("localhost/weft-catalog:0.0.0", &images.catalog.to_string()),
    );
    Ok(files)
}

fn before(objects: &[Value]) -> Result<String> {
    Ok(format!(
        "# Weft {VERSION}: namespaces, roles in other namespaces and admission policies, which a bundle for Operator Lifecycle Manager cannot hold.\n# Apply them before you install the bundle, and at each upgrade: kubectl apply -f before.yaml\n{}",
        stream(objects)?
    ))
}

/// Returns the ClusterServiceVersion.
fn csv(installation: &Installation) -> Result<Value> {
    let mut csv: Value = serde_saphyr::from_str(include_str!("../../../deploy/olm/csv.yaml"))
        .context("deploy/olm/csv.yaml")?;
    let name = format!("{PACKAGE}.v{VERSION}");
    let deployment = &installation.deployment;
    let pod = &deployment["spec"]["template"]["spec"];
    let namespace = installation
        .before
        .iter()
        .find(|object| object["kind"] == "Namespace" && object["metadata"]["name"] == NAMESPACE)
        .with_context(|| format!("no namespace {NAMESPACE}"))?;
    let examples = EXAMPLES
        .iter()
        .map(|text| serde_saphyr::from_str(text).context("an example cannot be read"))
        .collect::<Result<Vec<Value>>>()?;
    csv["metadata"]["name"] = name.into();
    let annotations = &mut csv["metadata"]["annotations"];
    annotations["alm-examples"] = serde_json::to_string_pretty(&examples)?.into();
    annotations["containerImage"] = pod["containers"][0]["image"].clone();
    annotations["olm.skipRange"] = skipped(VERSION).into();
    annotations["operatorframework.io/suggested-namespace-template"] =
        serde_json::to_string(namespace)?.into();
    let spec = &mut csv["spec"];
    spec["version"] = VERSION.into();
    spec["icon"] = json!([{
        "base64data": BASE64_STANDARD.encode(include_str!("../../../deploy/olm/icon.svg").trim()),
        "mediatype": "image/svg+xml",
    }]);
    let granted = |permissions: &BTreeSet<Permission>| {
        json!([{
            "serviceAccountName": pod["serviceAccountName"],
            "rules": together(permissions),
        }])
    };
    spec["install"] = json!({"strategy": "deployment", "spec": {
        "permissions": granted(&installation.permissions),
        "clusterPermissions": granted(&installation.cluster_permissions),
        "deployments": [{
            "name": deployment["metadata"]["name"],
            "label": deployment["metadata"]["labels"],
            "spec": deployment["spec"],
        }],
    }});
    spec["customresourcedefinitions"] = json!({"owned": owned(&installation.definitions)});
    spec["relatedImages"] = related_images(deployment);
    Ok(csv)
}

/// Returns an entry for each version that a definition serves.
fn owned(definitions: &[Value]) -> Vec<Value> {
    let mut owned = Vec::new();
    for definition in definitions {
        let kind = &definition["spec"]["names"]["kind"];
        let versions = definition["spec"]["versions"].as_array();
        for version in versions.into_iter().flatten() {
            if version["served"] == true {
                owned.push(json!({
                    "name": definition["metadata"]["name"],
                    "kind": kind,
                    "version": version["name"],
                    "displayName": kind,
                    "description": version["schema"]["openAPIV3Schema"]["description"],
                }));
            }
        }
    }
    owned
}

/// Returns the images of the operator and of everything that it deploys, which a mirror copies.
fn related_images(deployment: &Value) -> Value {
    let variables = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    let images = variables.as_array().into_iter().flatten();
    images
        .filter_map(|variable| {
            let name = variable["name"].as_str()?.strip_suffix("_IMAGE")?;
            let name = name.strip_prefix("RELATED_IMAGE_").unwrap_or(name);
            Some(json!({
                "name": name.to_lowercase().replace('_', "-"),
                "image": variable["value"],
            }))
        })
        .collect()
}

/// Returns the versions that this one may replace: those of the same minor version and of the one
/// before, since users upgrade one minor version at a time (docs/upgrade.md).
fn skipped(version: &str) -> String {
    let mut numbers = version.splitn(3, '.');
    let (major, minor) = (numbers.next(), numbers.next());
    let minor = minor.and_then(|minor| minor.parse::<u32>().ok());
    let before = minor.unwrap_or_default().saturating_sub(1);
    format!(">={}.{before}.0-0 <{version}", major.unwrap_or_default())
}

/// Returns the documents of the catalog.
fn catalog(csv: &Value, definitions: &[Value], image: &str) -> Vec<Value> {
    let (_, _, name) = key(csv);
    let spec = &csv["spec"];
    let mut properties = vec![json!({
        "type": "olm.package",
        "value": {"packageName": PACKAGE, "version": VERSION},
    })];
    // Those that are not served, too, as `opm render` does.
    for definition in definitions {
        let of = &definition["spec"];
        for version in of["versions"].as_array().into_iter().flatten() {
            properties.push(json!({"type": "olm.gvk", "value": {
                "group": of["group"],
                "kind": of["names"]["kind"],
                "version": version["name"],
            }}));
        }
    }
    let mut metadata = Map::new();
    for field in [
        "description",
        "displayName",
        "installModes",
        "keywords",
        "maturity",
        "minKubeVersion",
        "provider",
    ] {
        metadata.insert(field.to_owned(), spec[field].clone());
    }
    metadata.insert(
        "annotations".to_owned(),
        csv["metadata"]["annotations"].clone(),
    );
    metadata.insert("labels".to_owned(), csv["metadata"]["labels"].clone());
    let definitions = spec["customresourcedefinitions"].clone();
    metadata.insert("crdDescriptions".to_owned(), definitions);
    metadata.insert("apiServiceDefinitions".to_owned(), json!({}));
    properties.push(json!({"type": "olm.csv.metadata", "value": metadata}));
    let mut images = vec![json!({"name": "", "image": image})];
    images.extend(
        spec["relatedImages"]
            .as_array()
            .cloned()
            .unwrap_or_default(),
    );
    vec![
        json!({
            "schema": "olm.package",
            "name": PACKAGE,
            "defaultChannel": CHANNEL,
            "description": spec["description"],
            "icon": spec["icon"][0],
        }),
        json!({
            "schema": "olm.channel",
            "package": PACKAGE,
            "name": CHANNEL,
            "entries": [{"name": name, "skipRange": skipped(VERSION)}],
        }),
        json!({
            "schema": "olm.bundle",
            "package": PACKAGE,
            "name": name,
            "image": image,
            "properties": properties,
            "relatedImages": images,
        }),
    ]
}

fn yaml(value: &Value) -> Result<String> {
    serde_saphyr::to_string(value).context("cannot write YAML")
}

fn stream(documents: &[Value]) -> Result<String> {
    let texts = documents
        .iter()
        .map(|document| Ok(format!("---\n{}", yaml(document)?)))
        .collect::<Result<Vec<_>>>()?;
    Ok(texts.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_replaces_its_own_minor_version_and_the_one_before() {
        assert_eq!(skipped("0.1.0"), ">=0.0.0-0 <0.1.0");
        assert_eq!(skipped("0.3.2"), ">=0.2.0-0 <0.3.2");
        assert_eq!(skipped("2.0.1"), ">=2.0.0-0 <2.0.1");
    }
}
