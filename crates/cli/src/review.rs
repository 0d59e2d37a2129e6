//! Checks whole files, and shows the outcome as text or JSON.

use anyhow::Result;
use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::Value;
use weft_documents::{
    Document, NotYaml, Position, RENDER_FIRST, Skipped, has_braces, is_unrendered, join,
};
use weft_plan::{Decision, Live, escape, kinds::NETWORK_ATTACHMENT_DEFINITION};

use crate::{
    attachments::{self, Attachments},
    check::{self, Subject},
    domains::{Entry, Environment},
    nodes,
    output::Style,
    schema::Finding,
    sources::{self, Source},
};

/// Why an object of another group is skipped: the end of the note about it.
pub const NOT_SERVED: &str = "not a kind that Weft serves";

/// The result of the checks of all files.
#[derive(Default, Serialize)]
pub struct Review {
    /// Everything that is wrong.
    pub findings: Vec<Located>,
    /// The resources of ours in these files.
    pub resources: Vec<Resource>,
    /// Objects of other kinds of our APIs in these files, and NetworkAttachmentDefinitions: checked,
    /// and nothing more to be done with them here.
    pub others: Vec<Other>,
    /// Hints that are no errors.
    pub notes: Vec<String>,
    /// Those of the hints that name what `kubectl` reads in another way than it looks.
    #[serde(skip)]
    pub misread: Vec<String>,
    /// Objects of groups that Weft does not serve.
    #[serde(skip)]
    skipped: Skipped,
    /// The message that no object is of a group that Weft serves, if that is so.
    #[serde(skip)]
    pub nothing: Option<String>,
    /// True if a message has listed the kinds that Weft knows.
    #[serde(skip)]
    has_listed_kinds: bool,
    /// The NetworkAttachmentDefinitions, if they are looked at.
    #[serde(skip)]
    attachments: Option<Attachments>,
}

/// An object that was checked, and of which no objects are made.
#[derive(Serialize)]
pub struct Other {
    /// The name of the file.
    #[serde(rename = "file")]
    pub source: String,
    /// Kind and name, for people.
    #[serde(rename = "resource")]
    pub title: String,
    /// True if the API server and the operator would take it.
    pub valid: bool,
    /// The object itself.
    #[serde(skip)]
    pub value: Value,
}

/// A resource that was checked.
pub struct Resource {
    /// The name of the file.
    pub source: String,
    /// Kind and name, for people.
    pub title: String,
    /// The outcome, if the resource is valid.
    pub outcome: Option<Outcome>,
    /// The domain whose resource it is.
    pub entry: &'static Entry,
    /// The resource itself.
    pub value: Value,
}

/// The outcome of a valid resource.
pub struct Outcome {
    /// The decision, with the objects.
    pub decision: Decision,
    /// True if something in it was drawn at random, and so is just an example.
    pub drawn: bool,
}

impl Serialize for Resource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Resource", 3)?;
        object.serialize_field("file", &self.source)?;
        object.serialize_field("resource", &self.title)?;
        object.serialize_field("valid", &self.outcome.is_some())?;
        object.end()
    }
}

/// A finding and where it is.
#[derive(Serialize)]
pub struct Located {
    #[serde(rename = "file")]
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    field: String,
    message: String,
    /// The text of the line with the mistake, where no name of a field leads to it.
    #[serde(skip)]
    excerpt: Option<String>,
}

/// Checks everything in these files that a command makes objects of.
///
/// # Errors
/// A variable of the environment has an invalid value, or there is nothing to check.
pub fn review(sources: &[Source], environment: &Environment) -> Result<Review> {
    let review = review_each(sources, environment, Review::default())?;
    match &review.nothing {
        Some(nothing) => anyhow::bail!("{nothing}"),
        None => Ok(review),
    }
}

/// Like [`review`], also of NetworkAttachmentDefinitions, and of files whose objects are all of
/// groups that Weft does not serve: [`Review::nothing`] says so.
///
/// # Errors
/// A variable of the environment has an invalid value, or there is no object at all.
pub fn review_any(sources: &[Source], environment: &Environment) -> Result<Review> {
    let review = Review {
        attachments: Some(Attachments::default()),
        ..Review::default()
    };
    let mut review = review_each(sources, environment, review)?;
    let together = review.attachments.iter().flat_map(Attachments::notes);
    let together: Vec<_> = together.collect();
    review.notes.extend(together);
    Ok(review)
}

fn review_each(
    sources: &[Source],
    environment: &Environment,
    mut review: Review,
) -> Result<Review> {
    for source in sources {
        match weft_documents::parse(&source.text) {
            Ok(documents) => {
                let unread = weft_documents::unread(&source.text);
                review
                    .misread
                    .extend(unread.map(|note| note.in_file(&source.name)));
                for document in &documents {
                    review.document(source, document, environment)?;
                }
            }
            Err(error) => review.findings.push(not_yaml(source, error)),
        }
    }
    review.notes.extend(review.misread.iter().cloned());
    let skipped = review.skipped.notes(NOT_SERVED);
    review.notes.extend(skipped);
    if review.resources.is_empty() && review.others.is_empty() && review.findings.is_empty() {
        let names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        let files: Vec<&str> = names.iter().map(|name| sources::argument(name)).collect();
        let found = match &review.skipped.kinds()[..] {
            [] => String::new(),
            kinds => format!(", only {}", kinds.join(", ")),
        };
        let nothing = format!(
            "{}: there is nothing in it that Weft could check{found}. {}. You apply objects of other kinds as they are: kubectl apply -f {}",
            names.join(", "),
            review.known_kinds(),
            files.join(" -f ")
        );
        if found.is_empty() {
            anyhow::bail!("{nothing}");
        }
        review.nothing = Some(nothing);
    }
    Ok(review)
}

/// Kind and name, for people, with the namespace where the object names one:
/// `PlacementAPI openstack/placement`.
fn title(kind: &str, object: &Value) -> String {
    let object = Live::of(object);
    let namespace = match object.namespace() {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    };
    let name = match object.name() {
        "" => "without a name",
        name => name,
    };
    format!("{kind} {}", escape::line(&format!("{namespace}{name}")))
}

impl Review {
    fn document(
        &mut self,
        source: &Source,
        document: &Document,
        environment: &Environment,
    ) -> Result<()> {
        if attachments::is_one(&document.value)
            && let Some(attachments) = &mut self.attachments
        {
            let title = title(NETWORK_ATTACHMENT_DEFINITION.kind, &document.value);
            let about = format!("{}: {title}", source.name);
            let (findings, notes) = attachments.check(&about, &document.value);
            self.other(source, document, title, findings, notes);
            return Ok(());
        }
        let entry = match check::identify(&document.value) {
            Subject::Ours(entry) => entry,
            Subject::Beside(definition) => {
                let (mut findings, mut notes) = check::check_against(definition, &document.value)?;
                check::add_problems(&mut findings, nodes::problems(&document.value));
                notes.extend(nodes::notices(&document.value).iter().map(check::note));
                let title = title(&definition.read().spec.names.kind, &document.value);
                self.other(source, document, title, findings, notes);
                return Ok(());
            }
            Subject::Foreign => {
                self.skipped.add(&source.name, &document.value);
                return Ok(());
            }
            Subject::Mistaken(mut finding) => {
                if finding.message == check::NO_OBJECT && !self.has_listed_kinds {
                    self.has_listed_kinds = true;
                    finding.message = format!("{}. {}", finding.message, self.known_kinds());
                }
                self.findings.push(locate(source, document, finding));
                return Ok(());
            }
        };
        let (domain, _) = entry.open(environment)?;
        let checked = check::check(entry, domain.as_ref(), &document.value)?;
        let title = title(entry.resource.kind, &document.value);
        let mut findings = checked.findings;
        findings.extend(
            domain
                .only_the_oldest()
                .then(|| self.second(entry, &document.value))
                .flatten(),
        );
        let mut findings = unrendered(&document.value).unwrap_or(findings);
        findings.extend(repeated(document));
        let is_valid = findings.is_empty();
        self.add(source, document, &title, findings, checked.notes);
        let outcome = checked
            .decision
            .filter(|_| is_valid)
            .map(|decision| Outcome {
                decision,
                drawn: checked.drawn,
            });
        self.resources.push(Resource {
            source: source.name.clone(),
            title,
            outcome,
            entry,
            value: document.value.clone(),
        });
        Ok(())
    }

    /// Adds an object of which the operator makes nothing by itself.
    fn other(
        &mut self,
        source: &Source,
        document: &Document,
        title: String,
        findings: Vec<Finding>,
        notes: Vec<String>,
    ) {
        let mut findings = unrendered(&document.value).unwrap_or(findings);
        findings.extend(repeated(document));
        let valid = findings.is_empty();
        self.add(source, document, &title, findings, notes);
        self.others.push(Other {
            source: source.name.clone(),
            title,
            valid,
            value: document.value.clone(),
        });
    }

    /// The kinds that are looked at, in a sentence.
    fn known_kinds(&self) -> String {
        let known = check::known_kinds();
        match self.attachments {
            Some(_) => format!("{known}; {}", attachments::kind()),
            None => known,
        }
    }

    /// A finding that a resource has no effect, because another one in these files counts.
    fn second(&self, entry: &Entry, value: &Value) -> Option<Finding> {
        let value = Live::of(value);
        let mut before = self
            .resources
            .iter()
            .filter(|before| before.entry.name == entry.name);
        let first =
            before.find(|before| Live::of(&before.value).namespace() == value.namespace())?;
        let (name, first) = (value.name(), Live::of(&first.value).name());
        let kind = entry.resource.kind;
        let place = if entry.resource.namespaced {
            "a namespace"
        } else {
            "a cluster"
        };
        let message = format!(
            "{name:?} would have no effect: of several {kind}s in {place} only the oldest counts, and {first:?} comes before it: keep one of them"
        );
        (name != first).then(|| Finding {
            path: "metadata.name".to_owned(),
            about_key: false,
            message,
        })
    }

    fn add(
        &mut self,
        source: &Source,
        document: &Document,
        title: &str,
        findings: Vec<Finding>,
        notes: Vec<String>,
    ) {
        let misread = document.notes.iter();
        self.misread
            .extend(misread.map(|note| note.in_file(&source.name)));
        self.notes.extend(
            notes
                .into_iter()
                .map(|note| format!("{}: {title}: {note}", source.name)),
        );
        let mut findings: Vec<Located> = findings
            .into_iter()
            .map(|finding| locate(source, document, finding))
            .collect();
        findings.sort_by_key(|finding| (finding.line, finding.column));
        self.findings.extend(findings);
    }

    /// The findings, one a line as compilers write them, so that editors find the place.
    pub fn findings_text(&self, style: Style) -> String {
        self.findings
            .iter()
            .map(|finding| finding.text(style))
            .collect()
    }
}

impl Located {
    fn text(&self, style: Style) -> String {
        let place: Vec<String> = [
            Some(escape::line(&self.source).into_owned()),
            self.line.map(|n| n.to_string()),
            self.column.map(|n| n.to_string()),
        ]
        .into_iter()
        .flatten()
        .collect();
        let field = if self.field.is_empty() {
            String::new()
        } else {
            format!("{}: ", style.bad(&escape::line(&self.field)))
        };
        let mut text = format!(
            "{}: {field}{}\n",
            style.bold(&place.join(":")),
            self.message
        );
        if let (Some(line), Some(column), Some(excerpt)) = (self.line, self.column, &self.excerpt) {
            let margin = " ".repeat(line.to_string().len());
            let before: String = excerpt
                .chars()
                .take(usize::try_from(column.saturating_sub(1)).unwrap_or_default())
                .collect();
            let indent: String = escape::line(&before)
                .chars()
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect();
            text.push_str(&format!(
                "  {line} | {excerpt}\n  {margin} | {indent}{}\n",
                style.bad("^")
            ));
        }
        text
    }
}

/// The texts of an object that a template would fill in, if there are any. All other findings
/// would follow from them.
fn unrendered(object: &Value) -> Option<Vec<Finding>> {
    fn visit(value: &Value, path: &str, is_template: fn(&str) -> bool, found: &mut Vec<Finding>) {
        match value {
            Value::String(text) if is_template(text) => found.push(Finding {
                path: path.to_owned(),
                about_key: false,
                message: RENDER_FIRST.to_owned(),
            }),
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    visit(item, &format!("{path}[{index}]"), is_template, found);
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    visit(value, &join(path, name), is_template, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    for path in ["name", "namespace", "labels"] {
        let value = &object["metadata"][path];
        visit(value, &join("metadata", path), has_braces, &mut found);
    }
    let is_policy = object["kind"] == "NodeNetworkConfigurationPolicy";
    for (name, value) in object["spec"].as_object().into_iter().flatten() {
        let has_references = is_policy && ["capture", "desiredState"].contains(&name.as_str());
        let is_template: fn(&str) -> bool = match has_references {
            true => is_unrendered,
            false => has_braces,
        };
        visit(value, &join("spec", name), is_template, &mut found);
    }
    (!found.is_empty()).then_some(found)
}

/// The fields that a document has several times.
fn repeated(document: &Document) -> impl Iterator<Item = Finding> {
    document.repeated.iter().map(|repeated| Finding {
        path: repeated.path.clone(),
        about_key: true,
        message: repeated.message(),
    })
}

fn locate(source: &Source, document: &Document, mut finding: Finding) -> Located {
    let mut position = document
        .position_in_json(&source.text, &finding.path)
        .unwrap_or_else(|| check::position(document, &finding));
    // A message of the JSON parser counts lines from the start of the text in the field.
    if let Some(message) = without_place(&finding.message)
        && let Some(inside) = document.mistake_in_json(&source.text, &finding.path)
    {
        position = inside;
        finding.message = message.to_owned();
    }
    Located {
        source: source.name.clone(),
        line: Some(position.line),
        column: Some(position.column),
        field: finding.path,
        message: finding.message,
        excerpt: None,
    }
}

/// The message of the JSON parser without the place at its end. `None` if it has none.
fn without_place(message: &str) -> Option<&str> {
    let (message, place) = message.rsplit_once(" at line ")?;
    let (line, column) = place.split_once(" column ")?;
    let is_number = |text: &str| text.parse::<usize>().is_ok();
    (is_number(line) && is_number(column)).then_some(message)
}

fn not_yaml(source: &Source, error: NotYaml) -> Located {
    let excerpt = error
        .position
        .and_then(|Position { line, .. }| {
            source
                .text
                .lines()
                .nth(usize::try_from(line.saturating_sub(1)).ok()?)
        })
        .map(str::to_owned);
    Located {
        source: source.name.clone(),
        line: error.position.map(|position| position.line),
        column: error.position.map(|position| position.column),
        field: String::new(),
        message: format!("not readable as YAML: {}", error.message),
        excerpt,
    }
}
