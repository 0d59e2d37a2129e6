//! The objects that a resource asks for, by `weft render` with the settings of the operator that is
//! installed.

use std::{collections::HashMap, process::Stdio};

use serde_json::Value;
use tokio::{io::AsyncWriteExt, process::Command};
use weft_plan::{Kind, OWNER_LABEL, ObjectKey, kinds};
use weft_system_tests::{COMMAND_LIMIT, Cluster, answer_within, weft_binary};

/// So many configurations are remembered. A test goes back to most of them soon.
const REMEMBERED: usize = 64;

/// An object that a resource asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub key: ObjectKey,
    /// The fields that it must have. `None`: it must only exist.
    pub body: Option<Value>,
}

/// The command line, with the environment of the operator.
pub struct Renderer {
    environment: Vec<(String, String)>,
    known: HashMap<String, Result<Vec<Wanted>, String>>,
}

impl Renderer {
    /// Reads the settings from the operator's workload.
    pub async fn of(cluster: &Cluster) -> Self {
        let workload = cluster
            .get(
                cluster.operator.kind,
                cluster.operator_namespace(),
                &cluster.operator.name,
            )
            .await
            .expect("the operator's workload");
        let variables = workload
            .pointer("/spec/template/spec/containers/0/env")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let setting = |variable: &Value| {
            let text = |field: &str| Some(variable[field].as_str()?.to_owned());
            Some((text("name")?, text("value")?))
        };
        Self {
            environment: variables.iter().filter_map(setting).collect(),
            known: HashMap::new(),
        }
    }

    /// The objects that a resource leads to, with these objects next to it. `Err` has the mistakes
    /// of the resource.
    pub async fn objects(
        &mut self,
        resource: &Value,
        inputs: &[Value],
    ) -> Result<Vec<Wanted>, String> {
        let documents: Vec<_> = [resource]
            .into_iter()
            .chain(inputs)
            .map(Value::to_string)
            .collect();
        let text = documents.join("\n---\n");
        if let Some(known) = self.known.get(&text) {
            return known.clone();
        }
        let (code, stdout, stderr) = self.weft(&["render", "-f", "-", "-o", "json"], &text).await;
        let found = match code {
            0 => Ok(objects(resource, &stdout)),
            1 => Err(stderr),
            _ => panic!("weft render: {stderr}"),
        };
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        self.known.insert(text, found.clone());
        found
    }

    /// The mistakes of a resource, or `None` if it is valid.
    pub async fn mistakes(&self, resource: &Value) -> Option<String> {
        let (code, stdout, stderr) = self
            .weft(&["validate", "-f", "-"], &resource.to_string())
            .await;
        match code {
            0 => None,
            1 => Some(stdout + &stderr),
            _ => panic!("weft validate: {stderr}"),
        }
    }

    /// Runs `weft`, and returns its exit code, stdout and stderr.
    async fn weft(&self, arguments: &[&str], stdin: &str) -> (i32, String, String) {
        let mut child = Command::new(weft_binary())
            .args(arguments)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(stdin.as_bytes()).await.unwrap();
        drop(input);
        let output = answer_within(COMMAND_LIMIT, "weft", child.wait_with_output());
        let output = output.await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code().expect("weft ends by itself"),
            text(output.stdout),
            text(output.stderr),
        )
    }
}

/// The label of the objects of a resource, as `docs/status.md` names it.
pub fn owner_label(kind: Kind, name: &str) -> String {
    format!("{}.{name}", kind.kind.to_lowercase())
}

fn objects(resource: &Value, list: &str) -> Vec<Wanted> {
    let list: Value = serde_json::from_str(list).unwrap();
    let owner = ObjectKey::of(resource).expect("a resource of Weft");
    let items = list["items"].as_array().into_iter().flatten();
    items
        .filter_map(|item| wanted(item.clone(), &owner))
        .collect()
}

/// A finished Job goes after a while, and nothing is missing then.
fn wanted(mut body: Value, owner: &ObjectKey) -> Option<Wanted> {
    let key = ObjectKey::of(&body).expect("an object of a kind that Weft writes");
    if key.kind == kinds::JOB {
        return None;
    }
    // Namespaces and definitions stay when their resource goes, so they may be nobody's. The values
    // of Secrets are drawn.
    let must_only_exist = matches!(
        key.kind,
        kinds::NAMESPACE | kinds::CUSTOM_RESOURCE_DEFINITION | kinds::SECRET
    );
    if must_only_exist {
        return Some(Wanted { key, body: None });
    }
    body["metadata"]["labels"][OWNER_LABEL] = owner_label(owner.kind, &owner.name).into();
    if owner.kind == kinds::PLACEMENT_API {
        // They hold the hash of files that the uid of the resource is in.
        let containers = body.pointer_mut("/spec/template/spec/containers");
        for container in containers
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            container.as_object_mut().unwrap().remove("env");
        }
    }
    Some(Wanted {
        key,
        body: Some(body),
    })
}
