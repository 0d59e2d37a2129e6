//! All checks of a custom resource that need no cluster: what the API server would refuse, and what
//! the operator would.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_cel::{ErrorKind, RootContext, Validator};
use serde_json::Value;
use weft_operands::text::is_object_name;
use weft_plan::{Decision, Domain, Facts, Input, Live, Notice, Problem, text};

use crate::{
    document::{Document, Position},
    domains::{self, Entry},
    schema::{self, Finding},
    suggest::did_you_mean,
};

/// The meaning of a document for Weft.
pub enum Subject {
    /// A custom resource of one of our domains, in a version that is served.
    Ours(&'static Entry),
    /// An object of another kind of our APIs, in a version that is served: the operator makes
    /// nothing of it by itself.
    Beside(Box<CustomResourceDefinition>),
    /// A kind that is none of our business.
    Foreign(String),
    /// Something that was probably meant to be one of ours.
    Mistaken(Finding),
}

/// Finds out which custom resource a document is.
pub fn identify(document: &Value) -> Subject {
    let (api_version, kind) = (text(document, "apiVersion"), text(document, "kind"));
    let mistaken = |path: &str, message: String| {
        Subject::Mistaken(Finding {
            path: path.into(),
            about_key: false,
            message,
        })
    };
    if !document.is_object() || kind.is_empty() || api_version.is_empty() {
        return mistaken(
            "",
            format!(
                "is not a Kubernetes object: it needs the fields \"apiVersion\" and \"kind\". {}",
                known_kinds()
            ),
        );
    }
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let known = || {
        domains::ALL.iter().flat_map(|entry| {
            entry
                .definitions()
                .into_iter()
                .map(move |(_, definition)| (entry, definition))
        })
    };
    for (entry, definition) in known() {
        let of = &definition.spec;
        if of.names.kind != kind {
            continue;
        }
        let served = domains::served_versions(&definition);
        if of.group != group {
            let message = format!(
                "{kind} does not belong to the group {group:?}: write {}",
                versions_text(&of.group, &served)
            );
            return mistaken("apiVersion", message);
        }
        if !served.contains(&version) {
            let message = format!(
                "the version {version:?} of {kind} is not served: write {}",
                versions_text(group, &served)
            );
            return mistaken("apiVersion", message);
        }
        return if entry.resource.kind == kind {
            Subject::Ours(entry)
        } else {
            Subject::Beside(Box::new(definition))
        };
    }
    let of_group: Vec<String> = known()
        .filter(|(_, other)| other.spec.group == group)
        .map(|(_, other)| format!("{:?}", other.spec.names.kind))
        .collect();
    if !of_group.is_empty() {
        return mistaken(
            "kind",
            format!(
                "the group {group} has no kind {kind:?}: write {}",
                of_group.join(" or ")
            ),
        );
    }
    // Only now: the name of one kind may look like a slip of another's.
    let names: Vec<String> = known()
        .map(|(_, definition)| definition.spec.names.kind.clone())
        .collect();
    let nearest = did_you_mean(kind, names.iter().map(String::as_str));
    if let Some((_, definition)) =
        known().find(|(_, definition)| nearest == Some(&*definition.spec.names.kind))
    {
        let versions = versions_text(
            &definition.spec.group,
            &domains::served_versions(&definition),
        );
        let message = format!(
            "unknown kind {kind:?}; did you mean {:?}, apiVersion {versions}?",
            definition.spec.names.kind
        );
        return mistaken("kind", message);
    }
    Subject::Foreign(
        format!("{kind} {}", Live::of(document).name())
            .trim()
            .to_owned(),
    )
}

/// Returns the kinds that Weft can check, in a sentence.
pub fn known_kinds() -> String {
    let text = |definition: &CustomResourceDefinition| {
        format!(
            "{} ({})",
            definition.spec.names.kind,
            versions_text(
                &definition.spec.group,
                &domains::served_versions(definition)
            )
        )
    };
    let kinds: Vec<String> = domains::ALL
        .iter()
        .flat_map(Entry::definitions)
        .map(|(_, definition)| text(&definition))
        .collect();
    format!("Known kinds: {}", kinds.join("; "))
}

fn versions_text(group: &str, versions: &[&str]) -> String {
    versions
        .iter()
        .map(|version| format!("{group}/{version}"))
        .collect::<Vec<_>>()
        .join(" or ")
}

/// The result of the checks of one resource.
pub struct Checked {
    /// Everything that is wrong.
    pub findings: Vec<Finding>,
    /// The decision, if the resource is valid.
    pub decision: Option<Decision>,
    /// True if something was drawn at random, and so is just an example.
    pub drawn: bool,
    /// Hints for the user that are no errors.
    pub notes: Vec<String>,
}

/// Runs all checks.
///
/// # Errors
/// The definition of the resource has no schema for its version, which would be a defect of Weft.
pub fn check(entry: &'static Entry, domain: &dyn Domain, resource: &Value) -> Result<Checked> {
    let definition = entry.definition.read();
    let schema = schema_of(&definition, resource)?;
    let mut findings = schema::check(&schema, resource);
    let mut notes = Vec::new();
    let (decision, drawn) = decide(domain, resource);
    let decision = match decision {
        Ok(decision) => {
            notes.extend(
                decision
                    .notices
                    .iter()
                    .map(|Notice { about, message }| format!("{about}: {message}")),
            );
            // The operator carries out the rest. A mistake is one all the same.
            add_problems(
                &mut findings,
                decision
                    .waits
                    .iter()
                    .flat_map(|wait| wait.problems.clone())
                    .collect(),
            );
            Some(decision)
        }
        Err(refusal) => {
            // A resource that cannot be read as a whole has a field of the wrong type, and the
            // schema has named it.
            let is_told = |problem: &Problem| problem.field == "spec" && !findings.is_empty();
            let problems: Vec<_> = refusal
                .problems
                .into_iter()
                .filter(|problem| !is_told(problem))
                .collect();
            add(
                &mut findings,
                problems.into_iter().map(|problem| Finding {
                    path: problem.field,
                    about_key: false,
                    message: problem.message,
                }),
            );
            None
        }
    };
    // Last: they say the same with fewer words, since they stand in the schema.
    add_broken_rules(&mut findings, &mut notes, &schema, &definition, resource);
    add(&mut findings, name_of(resource).into_iter());
    let decision = decision.filter(|_| findings.is_empty());
    Ok(Checked {
        findings,
        decision,
        drawn,
        notes,
    })
}

/// Returns the API server's findings: schema and rules. Returns everything that is wrong, and
/// notes.
///
/// # Errors
/// The definition has no schema for the resource's version, which would be a defect of Weft.
pub fn check_against(
    definition: &CustomResourceDefinition,
    resource: &Value,
) -> Result<(Vec<Finding>, Vec<String>)> {
    let schema = schema_of(definition, resource)?;
    let mut findings = schema::check(&schema, resource);
    let mut notes = Vec::new();
    add_broken_rules(&mut findings, &mut notes, &schema, definition, resource);
    add(&mut findings, name_of(resource).into_iter());
    Ok((findings, notes))
}

/// Returns the API server's finding about the name.
fn name_of(resource: &Value) -> Option<Finding> {
    let message = match Live::of(resource).name() {
        "" if resource["metadata"]["generateName"].is_string() => return None,
        "" => "is missing: give it a name".to_owned(),
        name if is_object_name(name) => return None,
        name => format!(
            "{name:?} must have lower-case letters, digits, '-' and '.' only, a letter or digit at both ends, and 253 characters at most"
        ),
    };
    Some(Finding {
        path: "metadata.name".to_owned(),
        about_key: false,
        message,
    })
}

fn add_broken_rules(
    findings: &mut Vec<Finding>,
    notes: &mut Vec<String>,
    schema: &Value,
    definition: &CustomResourceDefinition,
    resource: &Value,
) {
    let (failed, others): (Vec<_>, Vec<_>) = broken_rules(schema, definition, resource)
        .into_iter()
        .partition(|broken| broken.kind == ErrorKind::ValidationFailure);
    add(findings, failed.into_iter().map(|broken| broken.finding));
    for BrokenRule { kind, finding } in others {
        // A rule over a field of the wrong type fails to evaluate: the wrong type has been
        // reported.
        if kind != ErrorKind::EvaluationError || findings.is_empty() {
            notes.push(format!(
                "a rule of {} is left to the API server: {}",
                at(&finding.path),
                finding.message
            ));
        }
    }
}

/// Adds what a domain found wrong, unless the same field was found to be wrong before.
pub fn add_problems(findings: &mut Vec<Finding>, problems: Vec<Problem>) {
    add(
        findings,
        problems.into_iter().map(|problem| Finding {
            path: problem.field,
            about_key: false,
            message: problem.message,
        }),
    );
}

fn at(path: &str) -> &str {
    if path.is_empty() {
        "the resource"
    } else {
        path
    }
}

/// Adds what one check found, unless an earlier check found the same field to be wrong: schema, the
/// domain's own checks and rules overlap.
fn add(findings: &mut Vec<Finding>, more: impl Iterator<Item = Finding>) {
    // The key of a map is in brackets for some checks, and after a dot for others.
    let dotted = |path: &str| path.replace('[', ".").replace(']', "");
    let inside = |outer: &str, inner: &str| {
        !outer.is_empty()
            && inner
                .strip_prefix(outer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let overlap = |one: &str, other: &str| {
        // A finding about `spec` as a whole says nothing about its fields.
        one == other
            || (one != "spec" && inside(one, other))
            || (other != "spec" && inside(other, one))
    };
    let known: Vec<String> = findings
        .iter()
        .map(|earlier| dotted(&earlier.path))
        .collect();
    let new: Vec<_> = more
        .filter(|finding| {
            !known
                .iter()
                .any(|earlier| overlap(earlier, &dotted(&finding.path)))
        })
        .collect();
    findings.extend(new);
}

fn schema_of(definition: &CustomResourceDefinition, resource: &Value) -> Result<Value> {
    let version = resource["apiVersion"]
        .as_str()
        .and_then(|text| text.rsplit('/').next())
        .unwrap_or_default();
    let kind = &definition.spec.names.kind;
    let definition = serde_json::to_value(definition)?;
    let versions = definition
        .pointer("/spec/versions")
        .and_then(Value::as_array);
    let schema = versions
        .into_iter()
        .flatten()
        .find(|candidate| candidate["name"] == version)
        .map(|found| &found["schema"]["openAPIV3Schema"]);
    schema
        .cloned()
        .ok_or_else(|| anyhow::anyhow!("the definition of {kind} has no schema for {version:?}"))
}

struct BrokenRule {
    kind: ErrorKind,
    finding: Finding,
}

/// The CEL rules of the schema that the resource breaks.
fn broken_rules(
    schema: &Value,
    definition: &CustomResourceDefinition,
    resource: &Value,
) -> Vec<BrokenRule> {
    let context = RootContext {
        api_version: resource["apiVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        api_group: definition.spec.group.clone(),
        kind: definition.spec.names.kind.clone(),
    };
    let errors = Validator::new()
        .validate_with_context(schema, resource, None, Some(&context))
        .err();
    errors
        .into_iter()
        .flat_map(kube_cel::ValidationErrors::into_vec)
        .map(|error| BrokenRule {
            kind: error.kind,
            finding: Finding {
                path: error.field_path.trim_start_matches('.').to_owned(),
                about_key: false,
                message: error.message,
            },
        })
        .collect()
}

/// Decides about the resource on a cluster without facts, before it was ever applied. The random
/// bytes are always the same, so that equal input gives equal output. The flag is true if the
/// decision used any.
pub fn decide(
    domain: &dyn Domain,
    resource: &Value,
) -> (std::result::Result<Decision, weft_plan::Refusal>, bool) {
    decide_knowing(&Facts::default(), domain, resource)
}

/// Decides as [`decide`] does, on a cluster with these facts.
pub fn decide_knowing(
    facts: &Facts,
    domain: &dyn Domain,
    resource: &Value,
) -> (std::result::Result<Decision, weft_plan::Refusal>, bool) {
    let mut drawn = false;
    let mut random = |buffer: &mut [u8]| {
        drawn = true;
        for (byte, value) in buffer.iter_mut().zip((0x5a_u8..=0xff).cycle()) {
            *byte = value;
        }
    };
    let input = Input {
        resource,
        record: None,
        decided: None,
        facts,
        random: &mut random,
    };
    let decision = domain.decide(input);
    (decision, drawn)
}

/// Where in its document a finding is.
pub fn position(document: &Document, finding: &Finding) -> Position {
    if finding.about_key {
        document.position_of_key(&finding.path)
    } else {
        document.position_of(&finding.path)
    }
}
