//! The changes that a take-over makes to an object.
//!
//! Before the apply, everything that Weft answers for becomes its own ([`take_patch`]). So the
//! apply removes each field that Weft does not want, and leaves equal fields as they are. The owner
//! references are replaced as a whole.

use serde_json::Value;

use crate::{
    Difference, Live, Manifest, Owner, What,
    body::effective_body,
    compare::{compare, keeps_zero, left_alone},
    defaults::is_default,
    patch::take_patch,
};

const OWNER_REFERENCES: &str = "metadata.ownerReferences";

/// Field by field. Fields that the API server fills in again count as no difference.
pub(crate) fn differences(manifest: &Manifest, live: &Value, owner: &Owner) -> Vec<Difference> {
    let patch = take_patch(live, owner, true);
    let mut taken = live.clone();
    taken["metadata"]["managedFields"] = patch["metadata"]["managedFields"].clone();
    let kind = manifest.key().kind;
    let mut differences = compare(
        kind,
        &effective_body(manifest, live, &owner.manager),
        &taken,
        &owner.manager,
    );
    differences.retain(|difference| match &difference.what {
        // The API server leaves these out when it writes the object.
        What::Missing { desired }
            if *desired == false && !keeps_zero(&difference.path) || *desired == "" =>
        {
            false
        }
        What::Dropped { live } => {
            !left_alone(&difference.path) && !is_default(&difference.path, live)
        }
        _ => !difference.path.starts_with(OWNER_REFERENCES),
    });
    let owners = |object| Live::of(object).owners().cloned().collect::<Vec<_>>();
    let (before, after) = (owners(live), owners(manifest.body()));
    let what = match (before.is_empty(), after.is_empty()) {
        _ if before == after => None,
        (true, _) => Some(What::Missing {
            desired: after.into(),
        }),
        (false, true) => Some(What::Dropped {
            live: before.into(),
        }),
        (false, false) => Some(What::Changed {
            live: before.into(),
            desired: after.into(),
        }),
    };
    differences.extend(what.map(|what| Difference {
        path: OWNER_REFERENCES.to_owned(),
        what,
    }));
    differences
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{OWNER_LABEL, kinds};
    use serde_json::json;

    fn owner() -> Owner {
        Owner {
            kind: kinds::NETWORK_ADDONS_CONFIG,
            name: "cluster".into(),
            uid: Some("u".into()),
            manager: "weft/addons".into(),
        }
    }

    fn reference(block: bool) -> Value {
        json!([
            {
                "apiVersion": "networkaddonsoperator.network.kubevirt.io/v1",
                "kind": "NetworkAddonsConfig", "name": "cluster", "uid": "u", "controller": true,
                "blockOwnerDeletion": block
            }
        ])
    }

    fn found(manifest: &Value, live: &Value) -> Vec<String> {
        differences(&Manifest::new(manifest.clone()).unwrap(), live, &owner())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    fn manifest() -> Value {
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {
                "name": "d", "namespace": "n",
                "labels": {OWNER_LABEL: "networkaddonsconfig.cluster"},
                "ownerReferences": reference(false)
            },
            "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}})
    }

    /// As an operator that writes by update leaves it, with the API server's defaults.
    fn original() -> Value {
        let container = json!({
            "name": "c", "image": "old", "command": ["x"], "terminationMessagePolicy": "File"
        });
        let fields = json!({
            ".": {}, "f:name": {}, "f:image": {}, "f:command": {}, "f:terminationMessagePolicy": {}
        });
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": "d", "namespace": "n", "labels": {"theirs": "1"}, "ownerReferences": reference(true), "managedFields": [
                {"manager": "manager", "operation": "Update", "fieldsV1": {
                    "f:metadata": {"f:labels": {"f:theirs": {}}},
                    "f:spec": {"f:updateStrategy": {
                        "f:type": {},
                        "f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}
                    },
                        "f:template": {
                            "f:spec": {
                                "f:containers": {"k:{\"name\":\"c\"}": fields}, "f:dnsPolicy": {}
                            }
                        }}}}]},
            "spec": {"updateStrategy": {
                "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}
            },
                "template": {"spec": {"containers": [container], "dnsPolicy": "ClusterFirst"}}}})
    }

    #[test]
    fn only_what_changes_is_a_difference() {
        let owner = |block: bool| reference(block).to_string();
        assert_eq!(
            found(&manifest(), &original()),
            [
                format!("+ metadata.labels[{OWNER_LABEL}]: \"networkaddonsconfig.cluster\""),
                "~ spec.template.spec.containers[name=c].image: \"old\" -> \"new\"".to_owned(),
                "- spec.template.spec.containers[name=c].command: [\"x\"]".to_owned(),
                format!(
                    "~ metadata.ownerReferences: {:.160}… -> {:.160}…",
                    owner(true),
                    owner(false)
                ),
            ]
        );
    }

    #[test]
    fn a_false_that_means_something_is_a_difference() {
        let mut wanted = manifest();
        let container = &mut wanted["spec"]["template"]["spec"]["containers"][0];
        container["securityContext"] = json!({"allowPrivilegeEscalation": false});
        container["stdin"] = false.into();
        let mut live = original();
        live["spec"]["template"]["spec"]["containers"][0]["securityContext"] =
            json!({"privileged": true});
        let found = found(&wanted, &live);
        assert!(
            found
                .iter()
                .any(|line| line.ends_with("securityContext.allowPrivilegeEscalation: false")),
            "{found:#?}"
        );
        assert!(
            !found.iter().any(|line| line.contains("stdin")),
            "{found:#?}"
        );
    }

    #[test]
    fn a_target_port_of_the_same_number_is_the_default() {
        let at = |port: &str, value: i64| {
            is_default(
                &format!("spec.ports[port={port},protocol=TCP].targetPort"),
                &json!(value),
            )
        };
        assert!(at("8778", 8778) && !at("8778", 877) && !at("443", 8443));
    }

    #[test]
    fn an_owner_that_goes_is_a_difference() {
        let mut outlives = manifest();
        outlives["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("ownerReferences");
        assert!(
            found(&outlives, &original())
                .iter()
                .any(|line| line.starts_with("- metadata.ownerReferences: "))
        );
        let mut nobodys = original();
        nobodys["metadata"]
            .as_object_mut()
            .unwrap()
            .remove("ownerReferences");
        assert!(
            found(&manifest(), &nobodys)
                .iter()
                .any(|line| line.starts_with("+ metadata.ownerReferences: "))
        );
        assert!(
            !found(&outlives, &nobodys)
                .iter()
                .any(|line| line.contains("ownerReferences"))
        );
    }

    #[test]
    fn an_empty_text_that_the_server_leaves_out_is_no_difference() {
        let mut wanted = manifest();
        wanted["spec"]["template"]["spec"]["containers"][0]["env"] =
            json!([{"name": "E", "value": ""}]);
        let mut live = original();
        live["spec"]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "E"}]);
        let fields = &mut live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:template"]
            ["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"];
        fields["f:env"] = json!({".": {}, "k:{\"name\":\"E\"}": {".": {}, "f:name": {}}});
        assert!(
            !found(&wanted, &live)
                .iter()
                .any(|line| line.contains("env")),
            "{:?}",
            found(&wanted, &live)
        );
    }

    #[test]
    fn a_value_that_is_no_default_is_a_difference() {
        let mut other = original();
        other["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!("10%");
        assert!(
            found(&manifest(), &other)
                .iter()
                .any(|line| line.starts_with("- spec.updateStrategy: "))
        );
    }
}
