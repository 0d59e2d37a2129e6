//! Arguments, environment and mounts that containers give their programs, to compare them with the
//! needs of the programs.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

const LISTS: [&str; 2] = ["initContainers", "containers"];

/// Fails unless each container of these objects gives its program what this table says, and nothing
/// else. The table has workload and container, and in each row: `run` is command and arguments,
/// `writable` and `readable` are folders from outside, `hears` those of them where mounts of the
/// host arrive, `tells` those whose mounts reach the host.
pub fn assert_given<'a>(objects: impl Iterator<Item = &'a Value>, table: Vec<(&str, Value)>) {
    let mut found = BTreeMap::new();
    for object in objects {
        let Some(pod) = object.pointer("/spec/template/spec") else {
            continue;
        };
        for (index, container) in LISTS
            .iter()
            .enumerate()
            .flat_map(|(index, name)| list(&pod[*name]).iter().map(move |one| (index, one)))
        {
            let mut given = given(pod, container);
            // Init containers need nothing of the host but its files.
            for field in ["hostNetwork", "hostPID"]
                .iter()
                .filter(|field| index == 1 && pod[**field] == true)
            {
                given[*field] = true.into();
            }
            found.insert(
                format!(
                    "{}/{}",
                    object["metadata"]["name"].as_str().unwrap(),
                    container["name"].as_str().unwrap()
                ),
                given,
            );
        }
    }
    for (name, needs) in table {
        assert_eq!(found.remove(name), Some(needs), "{name}");
    }
    assert!(found.is_empty(), "not in the table: {:#}", json!(found));
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn of_each(values: &Value, field: &str) -> Value {
    list(values)
        .iter()
        .map(|value| value[field].clone())
        .collect()
}

/// The fields of a container in the words of the table. Fields that it does not have are left out.
fn given(pod: &Value, container: &Value) -> Value {
    let (context, of_pod) = (&container["securityContext"], &pod["securityContext"]);
    let either = |field: &str| {
        if context[field].is_null() {
            of_pod[field].clone()
        } else {
            context[field].clone()
        }
    };
    let is_file = |mount: &Value| {
        let volume = list(&pod["volumes"])
            .iter()
            .find(|volume| volume["name"] == mount["name"])
            .unwrap();
        mount["readOnly"] == true || !volume["configMap"].is_null() || !volume["secret"].is_null()
    };
    let mounts = list(&container["volumeMounts"]);
    let paths = |wanted: &dyn Fn(&Value) -> bool| -> Value {
        mounts
            .iter()
            .filter(|mount| wanted(mount))
            .map(|mount| mount["mountPath"].clone())
            .collect()
    };
    let run = list(&container["command"])
        .iter()
        .chain(list(&container["args"]));
    let run: Value = run
        .map(|word| {
            if word.as_str().unwrap().contains('\n') {
                json!("script")
            } else {
                word.clone()
            }
        })
        .collect();
    let ports: Map<_, _> = list(&container["ports"])
        .iter()
        .map(|port| {
            (
                port["name"].as_str().unwrap_or("-").to_owned(),
                port["containerPort"].clone(),
            )
        })
        .collect();
    let all = json!({
        "run": run, "ports": ports, "env": of_each(&container["env"], "name"),
        "envFrom": list(&container["envFrom"]).iter().map(|source| source["configMapRef"]["name"].clone()).collect::<Value>(),
        "user": either("runAsUser"), "nonRoot": either("runAsNonRoot"), "privileged": context["privileged"],
        "noEscalation": context["allowPrivilegeEscalation"] == false, "drops": context["capabilities"]["drop"],
        "adds": context["capabilities"]["add"], "readOnlyRoot": context["readOnlyRootFilesystem"],
        "writable": paths(&|mount| !is_file(mount)), "readable": paths(&is_file),
        "hears": paths(&|mount| mount["mountPropagation"] == "HostToContainer"),
        "tells": paths(&|mount| mount["mountPropagation"] == "Bidirectional"),
        "livenessProbe": container["livenessProbe"], "readinessProbe": container["readinessProbe"],
        "startupProbe": container["startupProbe"], "preStop": container["lifecycle"]["preStop"]["exec"]["command"]
    });
    let is_there = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(values) => !values.is_empty(),
        Value::Object(values) => !values.is_empty(),
        _ => true,
    };
    all.as_object()
        .unwrap()
        .iter()
        .filter(|(_, value)| is_there(value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
