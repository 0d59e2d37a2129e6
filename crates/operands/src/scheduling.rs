//! Checks the fields of a pod that choose its node, by the API server's own rules for pods. The
//! same rules stand in the schemas of the fields. Here they are for objects that are older than
//! these, and for what no schema can say.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{
    api::core::v1::{
        Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
        PodAffinity, PodAffinityTerm, PodAntiAffinity, PreferredSchedulingTerm, Toleration,
        WeightedPodAffinityTerm,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use crate::{
    problems::Problems,
    text::{is_dns_label, is_label_key, is_label_value, is_object_name},
};

/// How many labels a selector names at most.
const LABELS: usize = 256;

/// The labels that a node must have.
pub fn node_selector(
    field: &str,
    wanted: Option<&BTreeMap<String, String>>,
    problems: &mut Problems,
) {
    if wanted.is_some_and(|labels| labels.len() > LABELS) {
        problems.push(field, format!("must have no more than {LABELS} labels"));
    }
    labels(field, wanted, problems);
}

/// A selector by labels. `field` is its path, for example `spec.nodeLabelSelector`.
pub fn label_selector(field: &str, selector: Option<&LabelSelector>, problems: &mut Problems) {
    let Some(LabelSelector {
        match_labels,
        match_expressions,
    }) = selector
    else {
        return;
    };
    labels(
        &format!("{field}.matchLabels"),
        match_labels.as_ref(),
        problems,
    );
    for (index, expression) in match_expressions.iter().flatten().enumerate() {
        let field = format!("{field}.matchExpressions[{index}]");
        label_key(&format!("{field}.key"), &expression.key, problems);
        one_of(
            &format!("{field}.operator"),
            &expression.operator,
            &["In", "NotIn", "Exists", "DoesNotExist"],
            problems,
        );
        let values = expression.values.as_deref().unwrap_or_default();
        values_fit(&field, &expression.operator, values, problems);
        label_values(&field, values, problems);
    }
}

/// The tolerations of a pod. `field` is the path of the list.
pub fn tolerations(field: &str, tolerations: Option<&[Toleration]>, problems: &mut Problems) {
    for (index, toleration) in tolerations.unwrap_or_default().iter().enumerate() {
        let Toleration {
            key,
            operator,
            value,
            effect,
            toleration_seconds,
        } = toleration;
        let field = |name: &str| format!("{field}[{index}].{name}");
        let [key, operator, value, effect] =
            [key, operator, value, effect].map(|text| text.as_deref().unwrap_or_default());
        if !key.is_empty() {
            label_key(&field("key"), key, problems);
        }
        // Lt and Gt are behind a feature gate of the API server, which answers for it.
        let is_known = one_of(
            &field("operator"),
            operator,
            &["", "Equal", "Exists", "Lt", "Gt"],
            problems,
        );
        if is_known && key.is_empty() && operator != "Exists" {
            let rule = "must be Exists where key is empty, which tolerates all taints: set it to Exists, or set key";
            problems.push(&field("operator"), format!("{operator:?} {rule}"));
        }
        match operator {
            "" | "Equal" => label_value(&field("value"), value, problems),
            "Exists" if !value.is_empty() => {
                let rule =
                    "must be empty where operator is Exists: remove it, or set operator to Equal";
                problems.push(&field("value"), format!("{value:?} {rule}"));
            }
            "Lt" | "Gt" if !is_decimal(value) => {
                let rule = "must be a whole number where operator is Lt or Gt, for example '950'";
                problems.push(&field("value"), format!("{value:?} {rule}"));
            }
            _ => {}
        }
        let is_known = one_of(
            &field("effect"),
            effect,
            &["", "NoSchedule", "PreferNoSchedule", "NoExecute"],
            problems,
        );
        if is_known && toleration_seconds.is_some() && effect != "NoExecute" {
            let rule = "must be NoExecute where tolerationSeconds is set: set it to that, or remove tolerationSeconds";
            problems.push(&field("effect"), format!("{effect:?} {rule}"));
        }
    }
}

/// The affinity of a pod.
pub fn affinity(field: &str, affinity: Option<&Affinity>, problems: &mut Problems) {
    let Some(Affinity {
        node_affinity,
        pod_affinity,
        pod_anti_affinity,
    }) = affinity
    else {
        return;
    };
    if let Some(affinity) = node_affinity {
        node_affinity_at(&format!("{field}.nodeAffinity"), affinity, problems);
    }
    if let Some(PodAffinity {
        required_during_scheduling_ignored_during_execution: required,
        preferred_during_scheduling_ignored_during_execution: preferred,
    }) = pod_affinity
    {
        pod_affinity_at(
            &format!("{field}.podAffinity"),
            required.as_deref(),
            preferred.as_deref(),
            problems,
        );
    }
    if let Some(PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: required,
        preferred_during_scheduling_ignored_during_execution: preferred,
    }) = pod_anti_affinity
    {
        pod_affinity_at(
            &format!("{field}.podAntiAffinity"),
            required.as_deref(),
            preferred.as_deref(),
            problems,
        );
    }
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn node_affinity_at(field: &str, affinity: &NodeAffinity, problems: &mut Problems) {
    if let Some(NodeSelector {
        node_selector_terms,
    }) = &affinity.required_during_scheduling_ignored_during_execution
    {
        let field = format!("{field}.{REQUIRED}.nodeSelectorTerms");
        if node_selector_terms.is_empty() {
            problems.push(
                &field,
                format!("must have a term: add one with matchExpressions, or remove {REQUIRED}"),
            );
        }
        for (index, term) in node_selector_terms.iter().enumerate() {
            node_term(&format!("{field}[{index}]"), term, true, problems);
        }
    }
    for (index, PreferredSchedulingTerm { preference, weight }) in affinity
        .preferred_during_scheduling_ignored_during_execution
        .iter()
        .flatten()
        .enumerate()
    {
        let field = format!("{field}.{PREFERRED}[{index}]");
        weight_fits(&field, *weight, problems);
        node_term(&format!("{field}.preference"), preference, false, problems);
    }
}

/// A preferred term may name values that no label can have, as in Kubernetes.
fn node_term(field: &str, term: &NodeSelectorTerm, required: bool, problems: &mut Problems) {
    for (index, expression) in term.match_expressions.iter().flatten().enumerate() {
        let field = format!("{field}.matchExpressions[{index}]");
        let NodeSelectorRequirement {
            key,
            operator,
            values,
        } = expression;
        let values = values.as_deref().unwrap_or_default();
        label_key(&format!("{field}.key"), key, problems);
        one_of(
            &format!("{field}.operator"),
            operator,
            &["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"],
            problems,
        );
        if matches!(operator.as_str(), "Gt" | "Lt") {
            // The API server takes any text, and the scheduler then no node.
            if !matches!(values, [number] if number.parse::<i64>().is_ok()) {
                let rule = "Gt and Lt need one value, a whole number, for example ['4']";
                problems.push(&format!("{field}.values"), format!("{values:?}: {rule}"));
            }
        } else {
            values_fit(&field, operator, values, problems);
        }
        if required {
            label_values(&field, values, problems);
        }
    }
    for (index, expression) in term.match_fields.iter().flatten().enumerate() {
        let field = format!("{field}.matchFields[{index}]");
        let NodeSelectorRequirement {
            key,
            operator,
            values,
        } = expression;
        one_of(&format!("{field}.key"), key, &["metadata.name"], problems);
        one_of(
            &format!("{field}.operator"),
            operator,
            &["In", "NotIn"],
            problems,
        );
        match values.as_deref().unwrap_or_default() {
            [name] if is_object_name(name) => {}
            [name] => problems.push(
                &format!("{field}.values[0]"),
                format!("{name:?} must be the name of a node"),
            ),
            values => {
                let rule = "must be one name of a node: make a term for each further one";
                problems.push(&format!("{field}.values"), format!("{values:?} {rule}"));
            }
        }
    }
}

fn pod_affinity_at(
    field: &str,
    required: Option<&[PodAffinityTerm]>,
    preferred: Option<&[WeightedPodAffinityTerm]>,
    problems: &mut Problems,
) {
    for (index, term) in required.unwrap_or_default().iter().enumerate() {
        pod_term(&format!("{field}.{REQUIRED}[{index}]"), term, problems);
    }
    for (
        index,
        WeightedPodAffinityTerm {
            pod_affinity_term,
            weight,
        },
    ) in preferred.unwrap_or_default().iter().enumerate()
    {
        let field = format!("{field}.{PREFERRED}[{index}]");
        weight_fits(&field, *weight, problems);
        pod_term(
            &format!("{field}.podAffinityTerm"),
            pod_affinity_term,
            problems,
        );
    }
}

fn pod_term(field: &str, term: &PodAffinityTerm, problems: &mut Problems) {
    let PodAffinityTerm {
        label_selector: pods,
        match_label_keys,
        mismatch_label_keys,
        namespace_selector,
        namespaces,
        topology_key,
    } = term;
    label_selector(&format!("{field}.labelSelector"), pods.as_ref(), problems);
    label_selector(
        &format!("{field}.namespaceSelector"),
        namespace_selector.as_ref(),
        problems,
    );
    for (index, name) in namespaces
        .iter()
        .flatten()
        .enumerate()
        .filter(|(_, name)| !is_dns_label(name))
    {
        problems.push(
            &format!("{field}.namespaces[{index}]"),
            format!("{name:?} must be the name of a namespace: at most 63 of a-z, 0-9 and -, a letter or digit at both ends"),
        );
    }
    label_key(&format!("{field}.topologyKey"), topology_key, problems);
    let (matching, differing) = (
        match_label_keys.as_deref().unwrap_or_default(),
        mismatch_label_keys.as_deref().unwrap_or_default(),
    );
    for (name, keys) in [
        ("matchLabelKeys", matching),
        ("mismatchLabelKeys", differing),
    ] {
        for (index, key) in keys.iter().enumerate() {
            label_key(&format!("{field}.{name}[{index}]"), key, problems);
        }
    }
    if pods.is_none() && !(matching.is_empty() && differing.is_empty()) {
        let rule =
            "is missing, and matchLabelKeys and mismatchLabelKeys need it: add it, or remove them";
        problems.push(&format!("{field}.labelSelector"), rule);
    }
    let mut seen: Vec<&str> = pods
        .iter()
        .filter_map(|pods| pods.match_labels.as_ref())
        .flatten()
        .map(|(key, _)| key.as_str())
        .collect();
    for (index, expression) in pods
        .iter()
        .filter_map(|pods| pods.match_expressions.as_ref())
        .flatten()
        .enumerate()
    {
        if matching.contains(&expression.key) && seen.contains(&expression.key.as_str()) {
            let rule = "is in matchLabelKeys, too: remove one of them";
            problems.push(
                &format!("{field}.labelSelector.matchExpressions[{index}].key"),
                format!("{:?} {rule}", expression.key),
            );
        }
        seen.push(&expression.key);
    }
    for (index, key) in matching
        .iter()
        .enumerate()
        .filter(|(_, key)| differing.contains(key))
    {
        let rule = "is in mismatchLabelKeys, too: remove one of them";
        problems.push(
            &format!("{field}.matchLabelKeys[{index}]"),
            format!("{key:?} {rule}"),
        );
    }
}

fn weight_fits(field: &str, weight: i32, problems: &mut Problems) {
    if !(1..=100).contains(&weight) {
        problems.push(
            &format!("{field}.weight"),
            format!("{weight} must be from 1 to 100"),
        );
    }
}

fn labels(field: &str, labels: Option<&BTreeMap<String, String>>, problems: &mut Problems) {
    for (key, value) in labels.into_iter().flatten() {
        label_key(field, key, problems);
        label_value(&format!("{field}[{key}]"), value, problems);
    }
}

fn label_key(field: &str, key: &str, problems: &mut Problems) {
    if !is_label_key(key) {
        let rule = "must be the key of a label: up to 63 letters, digits, '-', '_' and '.', a letter or digit at both ends, with or without a DNS name and '/' before it";
        problems.push(field, format!("{key:?} {rule}"));
    }
}

fn label_values(field: &str, values: &[String], problems: &mut Problems) {
    for (index, value) in values.iter().enumerate() {
        label_value(&format!("{field}.values[{index}]"), value, problems);
    }
}

fn label_value(field: &str, value: &str, problems: &mut Problems) {
    if !is_label_value(value) {
        let rule = "must be the value of a label: at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends";
        problems.push(field, format!("{value:?} {rule}"));
    }
}

/// Notes a problem if the values of an expression do not fit its operator. An unknown operator is
/// the matter of another check.
fn values_fit(field: &str, operator: &str, values: &[String], problems: &mut Problems) {
    let needs_values = match operator {
        "In" | "NotIn" => true,
        "Exists" | "DoesNotExist" => false,
        _ => return,
    };
    if needs_values == values.is_empty() {
        let rule = "In and NotIn need values, Exists and DoesNotExist have none";
        problems.push(
            &format!("{field}.values"),
            format!("{values:?} with {operator}: {rule}"),
        );
    }
}

/// Reports whether the word is one of these. A problem if not. An empty one among them counts as
/// left out.
fn one_of(field: &str, word: &str, words: &[&str], problems: &mut Problems) -> bool {
    let is_one = words.contains(&word);
    if !is_one {
        problems.push(field, format!("{word:?} must be {}", Choice(words)));
    }
    is_one
}

/// `a, b or c`.
struct Choice<'a>(&'a [&'a str]);

impl fmt::Display for Choice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self
            .0
            .iter()
            .filter(|word| !word.is_empty())
            .copied()
            .collect();
        match words.split_last() {
            Some((last, [])) => f.write_str(last),
            Some((last, others)) => write!(f, "{} or {last}", others.join(", ")),
            None => Ok(()),
        }
    }
}

/// A whole number as Kubernetes writes it: no plus sign, no zeros before it, 64 bits.
fn is_decimal(text: &str) -> bool {
    text.parse::<i64>()
        .is_ok_and(|number| number.to_string() == text)
}
