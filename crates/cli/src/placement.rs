//! Everything that PlacementAPIs lead to: by the Secrets and the objects of other operators that
//! stand in the same files, or by those of a cluster.

use std::{cell::LazyCell, collections::BTreeMap};

use anyhow::Result;
use serde_json::Value;
use weft_api::placement::PlacementApi;
use weft_placement::{
    Settings,
    domain::Namespaces,
    peers::{Claim, Disclaim, database::RandomBytes},
    preview::{Given, preview, preview_departure, unpermitted},
    singleton::counts_instead,
    world::Question,
};
use weft_plan::{Kind, Live, Manifest, OWNER_LABEL, ObjectKey, Owner, Unit, drift};
use weft_runtime::inspect::{
    presence,
    preview::{self as changes, Action, Change, Preview, UnitPreview},
};

use crate::{
    domains::Environment,
    online::{Online, Site},
    reinstall::Reinstall,
    review::{NOT_SERVED, Resource, Review},
    sources::Source,
};

/// The name of the only component.
const UNIT: &str = "placement";
/// The heading of what is held and released.
const OTHERS: &str = "objects of others";
/// Of an account that is made from it nothing is ever used.
const EXAMPLE: RandomBytes = RandomBytes {
    user: [0x5a; 2],
    password: [0x5a; 16],
};
const OTHER_EXAMPLE: RandomBytes = RandomBytes {
    user: [0xa5; 2],
    password: [0xa5; 16],
};

/// Fills in the objects that need more than the resource: Secrets and answers of other operators.
/// Assumptions and missing inputs become notes.
///
/// # Errors
/// A variable of the environment has an invalid value.
pub fn complete(review: &mut Review, sources: &[Source], environment: &Environment) -> Result<()> {
    let is_placement = |resource: &&mut Resource| resource.entry.needs_secrets;
    let Review {
        resources, notes, ..
    } = review;
    let mut placement = resources.iter_mut().filter(is_placement).peekable();
    if placement.peek().is_none() {
        return Ok(());
    }
    let settings = Settings::from_env(|variable| environment.get(variable))?;
    let given = given(sources);
    // Here other kinds are of use.
    notes.retain(|note| !note.ends_with(NOT_SERVED));
    for resource in placement {
        let Some(outcome) = &mut resource.outcome else {
            continue;
        };
        let read: PlacementApi = serde_json::from_value(resource.value.clone())?;
        let preview = preview(&read, &settings, Given::Files(given.clone()), None, EXAMPLE);
        let about = |what: String| format!("{}: {}: {what}", resource.source, resource.title);
        notes.extend(preview.assumed.into_iter().map(about));
        let way_out = "what comes after that is not shown: add what is missing to the files";
        notes.extend(preview.ends.map(|ends| about(format!("{ends}; {way_out}"))));
        outcome.decision.units = vec![Unit {
            name: UNIT.to_owned(),
            objects: preview.objects,
        }];
    }
    Ok(())
}

/// Notes the values that the operator would not send to Keystone, as far as the Secrets are in the
/// same files.
///
/// # Errors
/// A variable of the environment has an invalid value.
pub fn note_unpermitted(
    review: &mut Review,
    sources: &[Source],
    environment: &Environment,
) -> Result<()> {
    let given = LazyCell::new(|| given(sources));
    note_each(review, environment, |resource, settings| {
        if resource.outcome.is_none() {
            return Ok(None);
        }
        let read = serde_json::from_value(resource.value.clone())?;
        Ok(unpermitted(&read, settings, &given))
    })
}

/// Explains why a PlacementAPI in this namespace has no effect, if an operator with these settings
/// does not serve the namespace. `installed` is the command that installs the operator as it is.
fn unserved(namespace: &str, served: &Namespaces, installed: Reinstall) -> Option<String> {
    match served {
        Namespaces::These(names) if names.iter().all(|name| name != namespace) => {
            let mut command = installed;
            command.serve("placement");
            command.set("--placement-namespaces", &format!("{served},{namespace}"));
            Some(format!(
                "namespace {namespace} is not served: nothing happens until the operator is installed with it: {}",
                command.command()
            ))
        }
        _ => None,
    }
}

/// Returns the command that installs the operator of a cluster as it is.
fn installed(site: &Site) -> Reinstall {
    site.operator
        .as_ref()
        .map(Reinstall::of)
        .unwrap_or_default()
}

/// Explains why a PlacementAPI in a cluster has no effect, if the operator that is installed there
/// does not serve its namespace.
///
/// # Errors
/// A variable of the operator's Deployment has an invalid value.
pub fn unserved_by(site: &Site, resource: &Value) -> Result<Option<String>> {
    let settings = Settings::from_env(|variable| site.environment.get(variable))?;
    let resource = Live::of(resource);
    let (namespace, name) = (resource.namespace(), resource.name());
    let message = unserved(namespace, &settings.namespaces, installed(site));
    Ok(message.map(|message| format!("PlacementAPI {namespace}/{name}: {message}")))
}

/// Notes which PlacementAPIs are in a namespace that no operator serves, by the settings of this
/// environment.
///
/// # Errors
/// A variable of the environment has an invalid value.
pub fn note_unserved(review: &mut Review, environment: &Environment) -> Result<()> {
    note_each(review, environment, |resource, settings| {
        Ok(match Live::of(&resource.value).namespace() {
            "" => Some(format!(
                "metadata.namespace: is missing, so kubectl chooses one: write one that the operator serves, such as {}",
                settings.namespaces
            )),
            namespace => unserved(namespace, &settings.namespaces, Reinstall::default()),
        })
    })
}

/// Adds the note about each PlacementAPI that has one, behind its file and name. Without a
/// PlacementAPI, the environment does not matter.
fn note_each(
    review: &mut Review,
    environment: &Environment,
    note: impl Fn(&Resource, &Settings) -> Result<Option<String>>,
) -> Result<()> {
    let Review {
        resources, notes, ..
    } = review;
    let mut placement = resources
        .iter()
        .filter(|resource| resource.entry.needs_secrets)
        .peekable();
    if placement.peek().is_none() {
        return Ok(());
    }
    let settings = Settings::from_env(|variable| environment.get(variable))?;
    for resource in placement {
        let message = note(resource, &settings)?;
        notes.extend(
            message.map(|message| format!("{}: {}: {message}", resource.source, resource.title)),
        );
    }
    Ok(())
}

/// Everything that stands in the files. Earlier checks have reported mistakes in the files.
fn given(sources: &[Source]) -> Vec<Value> {
    let documents = sources
        .iter()
        .filter_map(|source| weft_documents::objects(&source.text).ok())
        .flatten();
    documents.collect()
}

/// Returns the effect of a PlacementAPI in a cluster, with notes.
///
/// # Errors
/// The API server refuses a request.
pub async fn plan(online: &Online, site: &Site, wanted: &Value) -> Result<(Preview, Vec<String>)> {
    let read: PlacementApi = serde_json::from_value(wanted.clone())?;
    let settings = Settings::from_env(|variable| site.environment.get(variable))?;
    let objects = online.objects(site, Owner::of(&*site.domain, wanted));
    let namespace = namespace(wanted);
    let mut notes = Vec::new();
    notes.extend(unserved(namespace, &settings.namespaces, installed(site)));
    let (facts, unseen) = changes::facts(&objects)
        .await
        .map_err(|error| online.explain(error))?;
    let elder = elder(online, site, wanted).await?;
    let look = |answers: &BTreeMap<_, _>, random| {
        let given = Given::Cluster {
            facts: Box::new(facts.clone()),
            answers: answers.clone(),
        };
        preview(&read, &settings, given, elder.as_deref(), random)
    };
    let mut answers = BTreeMap::new();
    let ahead = loop {
        let ahead = look(&answers, EXAMPLE);
        if ahead.open.is_empty() {
            break ahead;
        }
        for question in ahead.open {
            let answer = ask(online, namespace, &question).await?;
            answers.insert(question, answer);
        }
    };
    notes.extend(
        ahead
            .ends
            .map(|ends| format!("{ends}; what comes after that is not shown")),
    );
    if read
        .spec
        .keystone
        .as_ref()
        .is_some_and(|keystone| keystone.registration.as_deref() == Some("Direct"))
    {
        notes.push("what the operator registers in Keystone by itself is not shown".to_owned());
    }
    // Values that differ with other random bytes are random. The name of an object may be one.
    let others = look(&answers, OTHER_EXAMPLE).objects;
    let other = |object: &Manifest| {
        others
            .iter()
            .find(|other| other.key() == object.key())
            .unwrap_or(object)
            .clone()
    };
    let other = Unit {
        name: UNIT.to_owned(),
        objects: ahead.objects.iter().map(other).collect(),
    };
    let unit = Unit {
        name: UNIT.to_owned(),
        objects: ahead.objects,
    };
    let mut planned = changes::unit(&objects, &unit, &other)
        .await
        .map_err(|error| online.explain(error))?;
    for change in planned
        .changes
        .iter_mut()
        .filter(|change| ahead.replaced.contains(&change.object))
    {
        change.action = Action::Replace {
            differences: Vec::new(),
        };
    }
    let held = ahead.claims.iter().map(hold);
    let others = UnitPreview {
        name: OTHERS.to_owned(),
        changes: held.chain(ahead.disclaims.iter().map(release)).collect(),
    };
    let plan = Preview {
        blocked: presence::blocked(&online.cluster, &*site.domain)
            .await
            .map_err(|error| online.explain(error))?,
        paused: drift::pause(wanted).map(str::to_owned),
        drawn: unit
            .objects
            .iter()
            .zip(&other.objects)
            .any(|(one, other)| one.body() != other.body()),
        units: vec![planned, others],
        notices: unseen,
        ..Preview::default()
    };
    Ok((plan, notes))
}

fn hold(claim: &Claim) -> Change {
    Change {
        object: claim.key.clone(),
        action: Action::Hold {
            why: format!("would hold it: {}", claim.puts()),
        },
    }
}

fn release(release: &Disclaim) -> Change {
    let stays = if release.leaves {
        ", so that it stays when the PlacementAPI goes"
    } else {
        ""
    };
    Change {
        object: release.key.clone(),
        action: Action::Release {
            why: format!("would release it: {} goes{stays}", release.takes()),
        },
    }
}

/// Returns the objects that the deletion of a PlacementAPI would remove and release.
///
/// # Errors
/// The API server refuses a request.
pub async fn deletion(online: &Online, site: &Site, stored: &Value) -> Result<Preview> {
    let owner = Owner::of(&*site.domain, stored);
    let mut removals = Vec::new();
    for kind in site.domain.kinds() {
        let objects = listed(online, namespace(stored), kind, OWNER_LABEL).await?;
        let keys = objects
            .iter()
            .filter(|object| owner.owns(object))
            .filter_map(ObjectKey::of);
        removals.extend(keys.map(|object| Change {
            object,
            action: Action::Delete,
        }));
    }
    let objects = online.objects(site, owner);
    let (facts, notices) = changes::facts(&objects)
        .await
        .map_err(|error| online.explain(error))?;
    // One that cannot be read holds nothing.
    let read: PlacementApi = serde_json::from_value(stored.clone()).unwrap_or_default();
    let mut answers = BTreeMap::new();
    let releases = loop {
        let (releases, open) = preview_departure(
            &read,
            Given::Cluster {
                facts: Box::new(facts.clone()),
                answers: answers.clone(),
            },
        );
        if open.is_empty() {
            break releases;
        }
        for question in open {
            let answer = ask(online, namespace(stored), &question).await?;
            answers.insert(question, answer);
        }
    };
    // The operator first releases the objects that it deletes, which is no news for users.
    let stays = |release: &&Disclaim| removals.iter().all(|removal| removal.object != release.key);
    let changes = releases.iter().filter(stays).map(self::release).collect();
    Ok(Preview {
        units: vec![UnitPreview {
            name: OTHERS.to_owned(),
            changes,
        }],
        removals,
        notices,
        ..Preview::default()
    })
}

/// The PlacementAPI that counts in the namespace, if it is another one.
async fn elder(online: &Online, site: &Site, wanted: &Value) -> Result<Option<String>> {
    let all = online.resources(site).await?.unwrap_or_default();
    Ok(counts_instead(wanted, all.iter()).map(str::to_owned))
}

async fn ask(online: &Online, namespace: &str, question: &Question) -> Result<Vec<Value>> {
    match question {
        Question::Object(key) => match online.cluster.get(key).await {
            Ok(found) => Ok(found.into_iter().collect()),
            Err(error) => Err(online.explain(error)),
        },
        Question::Selected(kind, labels) => listed(online, namespace, *kind, labels).await,
    }
}

/// The objects of a kind that a label selector chooses. None of a kind that the cluster does not
/// serve.
async fn listed(online: &Online, namespace: &str, kind: Kind, labels: &str) -> Result<Vec<Value>> {
    match online
        .cluster
        .list(kind, Some(namespace), &format!("labelSelector={labels}"))
        .await
    {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        listed => listed.map_err(|error| online.explain(error)),
    }
}

fn namespace(resource: &Value) -> &str {
    resource["metadata"]["namespace"]
        .as_str()
        .unwrap_or("default")
}
