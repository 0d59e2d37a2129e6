//! Objects in the files of a user that a command has no use for.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use serde_json::Value;

/// The objects, by folder and kind.
#[derive(Default)]
pub struct Skipped {
    groups: Vec<Group>,
    /// The index of each group by its folder, API version and kind.
    known: HashMap<[String; 3], usize>,
}

/// Objects of one kind in one folder.
struct Group {
    folder: String,
    api_version: String,
    kind: String,
    is_empty_list: bool,
    /// The file of all of them. `None` if there are several.
    file: Option<String>,
    /// The name of the first one.
    name: String,
    count: usize,
}

impl Skipped {
    /// Adds an object of this file.
    pub fn add(&mut self, file: &str, object: &Value) {
        let folder = Path::new(file)
            .parent()
            .map(|folder| folder.display().to_string())
            .unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().replace('\n', "\\n");
        let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let known = [folder.clone(), api_version.clone(), kind.clone()];
        let next = self.groups.len();
        let index = *self.known.entry(known).or_insert(next);
        match self.groups.get_mut(index) {
            Some(group) => {
                group.count += 1;
                group.file = group.file.take().filter(|first| first == file);
            }
            None => self.groups.push(Group {
                folder,
                api_version,
                kind,
                // The entries of a list with entries are objects of their own.
                is_empty_list: object["items"].is_array(),
                file: Some(file.to_owned()),
                name: text(&object["metadata"]["name"]),
                count: 1,
            }),
        }
    }

    /// The kinds of the objects, each once, for people.
    pub fn kinds(&self) -> Vec<String> {
        let mut known = HashSet::new();
        let kinds = self.groups.iter().map(|group| match group.is_empty_list {
            true => format!("an empty {}", group.kind),
            false => format!("{} ({})", group.kind, group.api_version),
        });
        kinds.filter(|kind| known.insert(kind.clone())).collect()
    }

    /// A note for each kind and folder, with the reason at its end.
    pub fn notes(&self, why: &str) -> Vec<String> {
        let note = |group: &Group| format!("{} skipped: {why}", group.subject());
        self.groups.iter().map(note).collect()
    }
}

impl Group {
    /// The objects, and the verb.
    fn subject(&self) -> String {
        let folder = if self.folder.is_empty() {
            "."
        } else {
            &self.folder
        };
        let place = self.file.as_deref().unwrap_or(folder);
        let (kind, version, count) = (&self.kind, &self.api_version, self.count);
        if count == 1 {
            let object = format!("{kind} {}", self.name);
            return format!("{place}: {} ({version}) is", object.trim_end());
        }
        format!("{place}: {count} objects of kind {kind} ({version}) are")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_note_tells_of_all_objects_of_a_kind_in_a_folder() {
        let mut skipped = Skipped::default();
        let object = |version: &str, kind: &str, name: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
        for (file, version, kind, name) in [
            ("a/1.yaml", "v1", "Secret", "one"),
            ("a/1.yaml", "v1", "Secret", "two"),
            ("a/1.yaml", "v1", "Pod", "three"),
            ("a/2.yaml", "v1", "Pod", "four"),
            ("b/1.yaml", "v1", "Pod", "five"),
            ("a/2.yaml", "example.com/v1", "Pod", "six"),
            ("1.yaml", "v1", "Pod", "seven"),
            ("2.yaml", "v1", "Pod", "eight"),
        ] {
            skipped.add(file, &object(version, kind, name));
        }
        assert_eq!(
            skipped.notes("no use"),
            [
                "a/1.yaml: 2 objects of kind Secret (v1) are skipped: no use",
                "a: 2 objects of kind Pod (v1) are skipped: no use",
                "b/1.yaml: Pod five (v1) is skipped: no use",
                "a/2.yaml: Pod six (example.com/v1) is skipped: no use",
                ".: 2 objects of kind Pod (v1) are skipped: no use",
            ]
        );
        skipped.add(
            "a/3.yaml",
            &json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": []}),
        );
        skipped.add("a/3.yaml", &object("example.com/v1", "PrefixList", ""));
        assert_eq!(
            skipped.kinds(),
            [
                "Secret (v1)",
                "Pod (v1)",
                "Pod (example.com/v1)",
                "an empty ConfigMapList",
                "PrefixList (example.com/v1)",
            ]
        );
    }
}
