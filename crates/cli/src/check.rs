//! All checks of a custom resource that need no cluster: what the API server would refuse, and what
//! the operator would.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_cel::{ErrorKind, RootContext, Validator};
use serde_json::Value;
use weft_documents::{Document, Position};
use weft_node_network::schema::is_section;
use weft_operands::text::is_object_name;
use weft_plan::{Decision, Domain, Facts, Input, Live, Notice, Problem, text};

use crate::{
    definitions::{Definition, Version},
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
    Beside(Definition),
    /// An object of a group that Weft does not serve.
    Foreign,
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
    if !document.is_object() || kind.is_empty() {
        return mistaken("", of_nmstate(document).unwrap_or(NO_OBJECT).to_owned());
    }
    if api_version.is_empty() {
        return mistaken("", without_version(kind));
    }
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let known = || {
        domains::ALL.iter().flat_map(|entry| {
            entry
                .definitions()
                .map(move |(_, definition)| (entry, definition))
        })
    };
    for (entry, definition) in known() {
        let of = &definition.spec;
        if of.names.kind != kind {
            continue;
        }
        let served = domains::served_versions(definition);
        if of.group != group && !is_meant(&of.group, group) {
            continue;
        }
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
        return match entry.further_definition(kind) {
            Some(definition) => Subject::Beside(definition),
            None => Subject::Ours(entry),
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
        .filter(|(_, definition)| is_slip_of(&definition.spec.group, group))
        .map(|(_, definition)| definition.spec.names.kind.clone())
        .collect();
    let nearest = did_you_mean(kind, names.iter().map(String::as_str));
    if let Some((_, definition)) =
        known().find(|(_, definition)| nearest == Some(&*definition.spec.names.kind))
    {
        let versions = versions_text(
            &definition.spec.group,
            &domains::served_versions(definition),
        );
        let message = format!(
            "unknown kind {kind:?}; did you mean {:?}, apiVersion {versions}?",
            definition.spec.names.kind
        );
        return mistaken("kind", message);
    }
    Subject::Foreign
}

/// The mistake of a document that names no kind.
pub const NO_OBJECT: &str =
    "is not a Kubernetes object: it needs the fields \"apiVersion\" and \"kind\"";

/// The mistake of a document of this kind whose `apiVersion` is missing.
fn without_version(kind: &str) -> String {
    let mut definitions = domains::ALL.iter().flat_map(Entry::definitions);
    match definitions.find(|(_, definition)| definition.spec.names.kind == kind) {
        Some((_, definition)) => {
            let served = domains::served_versions(definition);
            let versions = versions_text(&definition.spec.group, &served);
            format!("the field \"apiVersion\" is missing: write {versions} for {kind}")
        }
        None => format!("the field \"apiVersion\" is missing for kind {kind:?}"),
    }
}

/// The mistake of a file that `nmstatectl` would read: a policy or a state.
fn of_nmstate(document: &Value) -> Option<&'static str> {
    const POLICY: &str = "is a policy in the form of nmstate, and no Kubernetes object: put it below \"spec\" of a NodeNetworkConfigurationPolicy, with apiVersion nmstate.io/v1 and a name in metadata. weft-agent plan -f reads it as it is";
    const STATE: &str = "is a state in the form of nmstate, and no Kubernetes object: put it below \"spec.desiredState\" of a NodeNetworkConfigurationPolicy, with apiVersion nmstate.io/v1 and a name in metadata. weft-agent plan -f reads it as it is";
    if ["desiredState", "desired"]
        .iter()
        .any(|field| document[field].is_object())
    {
        return Some(POLICY);
    }
    weft_node_network::schema::has_section(document).then_some(STATE)
}

/// Reports whether a group was probably meant to be this one of ours, for a kind whose name is that
/// of our kind. Other groups have kinds of the same names: such objects are foreign.
fn is_meant(ours: &str, group: &str) -> bool {
    // Kubernetes has none of our kinds in its own group, the empty one.
    group.is_empty() || is_slip_of(ours, group)
}

/// Reports whether a group differs from one of ours by a slip: by three letters at most.
fn is_slip_of(ours: &str, group: &str) -> bool {
    strsim::damerau_levenshtein(ours, group) <= 3
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
        .map(|(_, definition)| text(definition))
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
    let version = entry.definition.version_of(resource)?;
    let of_the_user = &without_status(resource);
    let mut findings = schema::check(&version.with_object_fields, of_the_user);
    let mut notes = Vec::new();
    let (decision, drawn) = decide(domain, of_the_user);
    let decision = match decision {
        Ok(decision) => {
            notes.extend(decision.notices.iter().map(note));
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
    let definition = entry.definition.read();
    add_broken_rules(&mut findings, &mut notes, version, definition, of_the_user);
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
    definition: Definition,
    resource: &Value,
) -> Result<(Vec<Finding>, Vec<String>)> {
    let version = definition.version_of(resource)?;
    let resource = &without_status(resource);
    let mut findings = schema::check(&version.with_object_fields, resource);
    let has_desired_state = version
        .schema
        .pointer("/properties/spec/properties/desiredState")
        .is_some();
    for finding in findings.iter_mut().filter(|_| has_desired_state) {
        let key = finding.path.strip_prefix("spec.").unwrap_or(&finding.path);
        if finding.about_key && is_section(key) {
            finding.message = format!("unknown field {key:?}: it belongs into spec.desiredState");
        }
    }
    let mut notes = Vec::new();
    let definition = definition.read();
    add_broken_rules(&mut findings, &mut notes, version, definition, resource);
    add(&mut findings, name_of(resource).into_iter());
    Ok((findings, notes))
}

/// The part of an object that a user writes. The API server ignores the status in what users apply,
/// and old operators wrote other fields there.
pub fn without_status(resource: &Value) -> Value {
    let mut resource = resource.clone();
    if let Some(fields) = resource.as_object_mut() {
        fields.remove("status");
    }
    resource
}

/// Returns the API server's finding about the name.
pub fn name_of(resource: &Value) -> Option<Finding> {
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
    version: &Version,
    definition: &CustomResourceDefinition,
    resource: &Value,
) {
    let (failed, others): (Vec<_>, Vec<_>) = broken_rules(version, definition, resource)
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

/// A domain's hint, for people.
pub fn note(notice: &Notice) -> String {
    format!("{}: {}", notice.about, notice.message)
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

thread_local! {
    static VALIDATOR: Validator = Validator::new();
}

struct BrokenRule {
    kind: ErrorKind,
    finding: Finding,
}

/// The CEL rules of the schema that the resource breaks.
fn broken_rules(
    version: &Version,
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
    let errors = VALIDATOR.with(|validator| {
        let (rules, context) = (version.rules(), Some(&context));
        validator
            .validate_compiled_with_context(rules, resource, None, context)
            .err()?;
        // Compiled rules are kept in no order. These come in that of the schema.
        validator
            .validate_with_context(&version.schema, resource, None, context)
            .err()
    });
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
