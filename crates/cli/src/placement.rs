//! PlacementAPIs in files: everything that they lead to, with the Secrets and the objects of other operators that stand in the same files.

use anyhow::Result;
use serde_json::Value;
use weft_api::placement::PlacementApi;
use weft_placement::{Settings, preview::preview};
use weft_plan::{Unit, kinds};

use crate::{
    document,
    domains::Environment,
    review::{Resource, Review},
    sources::Source,
};

/// Fills in what a resource alone does not tell. What is taken for granted, and what is missing, becomes a note.
///
/// # Errors
/// What is set in the environment is refused.
pub fn complete(review: &mut Review, sources: &[Source], environment: &Environment) -> Result<()> {
    let is_placement = |resource: &&mut Resource| resource.entry.resource == kinds::PLACEMENT_API;
    let Review { resources, notes, .. } = review;
    let mut placement = resources.iter_mut().filter(is_placement).peekable();
    if placement.peek().is_none() {
        return Ok(());
    }
    let settings = Settings::from_env(|variable| environment.get(variable))?;
    // Whatever was wrong with a file has been told.
    let documents = sources.iter().filter_map(|source| document::parse(&source.text).ok()).flatten();
    let given: Vec<Value> = documents.map(|document| document.value).collect();
    // Here other kinds are of use.
    notes.retain(|note| !note.ends_with("is skipped: not a kind that Weft serves"));
    for resource in placement {
        let Some(outcome) = &mut resource.outcome else { continue };
        let read: PlacementApi = serde_json::from_value(resource.value.clone())?;
        let preview = preview(&read, &settings, &given);
        let about = |what: String| format!("{}: {}: {what}", resource.source, resource.title);
        notes.extend(preview.assumed.into_iter().map(about));
        let way_out = "what comes after that is not shown: add what is missing to the files";
        notes.extend(preview.ends.map(|ends| about(format!("{ends}; {way_out}"))));
        outcome.decision.units = vec![Unit { name: "placement".to_owned(), objects: preview.objects }];
    }
    Ok(())
}
