//! A release as text, in a folder of `fixtures/releases` that has the name of its version.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use weft_testenv::StoredKind;

use crate::upgrade::{secrets, text};

/// The layouts that a user can install: one operator for all domains, or one for each.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    OneOperator,
    Split,
}

impl Layout {
    pub const ALL: [Self; 2] = [Self::OneOperator, Self::Split];

    fn file(self) -> &'static str {
        match self {
            Self::OneOperator => "one-operator.yaml",
            Self::Split => "split.yaml",
        }
    }

    /// The option of `weft manifests`.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Self::OneOperator => &[],
            Self::Split => &["--split"],
        }
    }
}

/// The definitions, which are the same in both layouts.
const DEFINITIONS: &str = "definitions.yaml";

/// A release.
#[derive(Clone, Debug)]
pub struct Release {
    pub version: String,
    folder: PathBuf,
}

impl Release {
    /// All of them. There is at least one.
    pub fn all() -> Vec<Self> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/releases");
        let mut all: Vec<_> = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir())
            .map(|path| Self::at(&path))
            .collect();
        all.sort_by(|one, other| one.version.cmp(&other.version));
        assert!(!all.is_empty(), "{} is empty", folder.display());
        all
    }

    /// The one in this folder.
    pub fn at(folder: &Path) -> Self {
        Self {
            version: folder.file_name().unwrap().to_str().unwrap().to_owned(),
            folder: folder.to_owned(),
        }
    }

    /// Its manifests, as its `weft manifests` printed them.
    pub fn manifests(&self, layout: Layout) -> String {
        let read = |name: &str| {
            let path = self.folder.join("manifests").join(name);
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        format!("{}---\n{}", read(DEFINITIONS), read(layout.file()))
    }

    /// The objects of a cluster in which it ran, with passwords and keys that exist nowhere else,
    /// and with its definitions.
    pub fn stored(&self) -> Vec<StoredKind> {
        let mut kinds = Vec::new();
        for entry in fs::read_dir(self.folder.join("state")).unwrap() {
            let path = entry.unwrap().path();
            let title = path.file_stem().unwrap().to_str().unwrap();
            let (plural, group) = title.split_once('.').unwrap_or((title, ""));
            let objects = fs::read_to_string(&path).unwrap();
            kinds.push(StoredKind {
                plural: plural.to_owned(),
                group: group.to_owned(),
                objects: serde_json::from_str(&objects)
                    .unwrap_or_else(|error| panic!("{}: {error}", path.display())),
            });
        }
        kinds.sort_by_key(StoredKind::title);
        let definitions = objects(&self.manifests(Layout::OneOperator))
            .into_iter()
            .filter(is_definition)
            .map(stored_definition);
        kinds
            .iter_mut()
            .find(|kind| kind.plural == "customresourcedefinitions")
            .expect("the state has definitions of others")
            .objects
            .extend(definitions);
        secrets::fill(&mut kinds);
        kinds
    }

    /// Writes what `weft manifests` prints in a layout.
    pub fn write_manifests(&self, layout: Layout, printed: &str) {
        let (definitions, others): (Vec<_>, Vec<_>) = printed
            .split("---\n")
            .filter(|document| !document.trim().is_empty())
            .partition(|document| document.contains("\nkind: CustomResourceDefinition\n"));
        let folder = self.folder.join("manifests");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(DEFINITIONS), definitions.join("---\n")).unwrap();
        fs::write(folder.join(layout.file()), others.join("---\n")).unwrap();
    }

    /// Writes the objects of a cluster, without secrets and without the definitions that the
    /// manifests have.
    pub fn write_state(&self, mut kinds: Vec<StoredKind>) {
        let folder = self.folder.join("state");
        if folder.exists() {
            fs::remove_dir_all(&folder).unwrap();
        }
        fs::create_dir_all(&folder).unwrap();
        let shipped: Vec<_> = objects(&self.manifests(Layout::OneOperator))
            .iter()
            .filter(|object| is_definition(object))
            .map(|object| object["metadata"]["name"].clone())
            .collect();
        secrets::take_out(&mut kinds);
        for mut kind in kinds {
            kind.objects.retain(|object| {
                !(is_definition(object) && shipped.contains(&object["metadata"]["name"]))
            });
            if !kind.objects.is_empty() {
                let path = folder.join(format!("{}.json", kind.title()));
                fs::write(path, text::of(&kind.objects)).unwrap();
            }
        }
    }
}

/// The objects of a stream of YAML documents.
pub fn objects(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple::<Value>(yaml)
        .unwrap()
        .into_iter()
        .filter(|object| !object.is_null())
        .collect()
}

fn is_definition(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

/// A definition as the API server stores it before it has looked at it.
fn stored_definition(mut definition: Value) -> Value {
    let storage = definition["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|version| version["storage"] == true)
        .map(|version| version["name"].clone());
    definition["metadata"]["uid"] = uid(definition["metadata"]["name"].as_str().unwrap()).into();
    definition["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
    definition["metadata"]["generation"] = 1.into();
    definition["status"] = json!({"conditions": [], "acceptedNames": {"kind": "", "plural": ""}, "storedVersions": [storage]});
    definition
}

/// A uid for this name.
fn uid(name: &str) -> String {
    let hex = secrets::password(name);
    format!("{}-{}-4000-8000-{}", &hex[..8], &hex[8..12], &hex[12..24])
}

/// Such as `daemonsets.apps nmstate/nmstate-handler`.
pub fn title(kind: &StoredKind, object: &Value) -> String {
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap();
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{} {namespace}/{name}", kind.title()),
        None => format!("{} {name}", kind.title()),
    }
}
