#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use serde_json::{Value, json};
use weft_plan::{Domain, Facts, ObjectSet};

use crate::{
    Addons, Settings,
    testing::{decide, decide_with, resource},
};

#[test]
fn the_record_is_the_complete_configuration_and_leads_back_to_it() {
    let first = decide(&resource(json!({"kubeMacPool": {}, "multus": {}})));
    let record = first.record.unwrap();
    assert_eq!(
        record.key().to_string(),
        "ConfigMap/cluster-network-addons/cluster-networks-addons-operator-applied-cluster"
    );
    let applied = record.body()["data"]["applied"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(
        serde_json::from_str::<Value>(&applied).unwrap(),
        first.decided
    );
    assert_eq!(
        first.decided["kubeMacPool"]["rangeStart"],
        "02:ab:cd:00:00:00"
    );

    // Other random numbers, the same range: known from the record, and before that from what was
    // decided.
    let again = |record: Option<&str>, decided: Option<&Value>| {
        let resource = resource(json!({"kubeMacPool": {}, "multus": {}}));
        let input = weft_plan::Input {
            resource: &resource,
            record,
            decided,
            facts: &Facts::default(),
            random: &mut |bytes| bytes.fill(7),
        };
        Addons::new(Settings::default()).decide(input)
    };
    assert_eq!(again(Some(&applied), None).unwrap().decided, first.decided);
    assert_eq!(
        again(None, Some(&first.decided)).unwrap().decided,
        first.decided
    );
    assert_eq!(
        again(Some("{}"), Some(&first.decided)).unwrap().decided,
        first.decided,
        "what was decided is newer than the record"
    );
    assert_eq!(
        again(None, None).unwrap().decided["kubeMacPool"]["rangeStart"],
        "02:07:07:00:00:00"
    );

    let refusal = again(Some("{not json"), None).unwrap_err();
    assert_eq!(refusal.reason, "FailedToGetPreviousConfigSpec");
    assert!(
        refusal.problems[0]
            .message
            .contains("delete that ConfigMap"),
        "{}",
        refusal.problems[0]
    );
}

/// Fields that Weft fills in and the original does not know. Its decoder ignores them.
const ADDITIONS: [&str; 2] = ["driftPolicy", "hostPaths"];

/// As the original writes it: every default filled in, empty affinities kept, fields in any order.
#[test]
fn a_record_of_the_original_is_read() {
    let record = r#"{"multus":{},"kubeMacPool":{"rangeStart":"02:5f:11:00:00:00","rangeEnd":"02:5f:11:ff:ff:ff"},"imagePullPolicy":"IfNotPresent",
        "selfSignConfiguration":{"caRotateInterval":"48h0m0s","caOverlapInterval":"24h0m0s","certRotateInterval":"24h0m0s","certOverlapInterval":"12h0m0s"},
        "placementConfiguration":{"infra":{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":10,"preference":{"matchExpressions":[{"key":"node-role.kubernetes.io/control-plane","operator":"Exists"}]}},{"weight":1,"preference":{"matchExpressions":[{"key":"node-role.kubernetes.io/master","operator":"Exists"}]}}]}}},"workloads":{"nodeSelector":{"kubernetes.io/os":"linux"},"affinity":{},"tolerations":[{"key":"node.kubernetes.io/unschedulable","operator":"Exists","effect":"NoSchedule"}]}}}"#;
    let decision = decide_with(
        Settings::default(),
        &resource(json!({"multus": {}, "kubeMacPool": {}})),
        Some(record),
        None,
    )
    .unwrap();
    let mut decided = decision.decided;
    decided
        .as_object_mut()
        .unwrap()
        .retain(|field, _| !ADDITIONS.contains(&field.as_str()));
    let mut expected: Value = serde_json::from_str(record).unwrap();
    // The default of Weft has the first preference alone.
    let infra = &mut expected["placementConfiguration"]["infra"]["affinity"]["nodeAffinity"];
    let preferred = &mut infra["preferredDuringSchedulingIgnoredDuringExecution"];
    preferred.as_array_mut().unwrap().truncate(1);
    assert_eq!(decided, expected);
}

#[test]
fn the_originals_record_is_looked_for_with_the_operands() {
    let original = |namespace: &str, operator_namespace: &str| {
        let settings = Settings {
            namespace: namespace.into(),
            operator_namespace: operator_namespace.into(),
            ..Settings::default()
        };
        Addons::new(settings)
            .original_record("cluster")
            .map(|key| key.to_string())
    };
    let there = "ConfigMap/operands/cluster-networks-addons-operator-applied-cluster";
    assert_eq!(
        original("operands", "weft").as_deref(),
        Some(there),
        "one operator for all domains"
    );
    assert_eq!(
        original("operands", "operands"),
        None,
        "Weft's own place is the same"
    );
}
