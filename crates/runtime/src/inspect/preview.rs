//! The preview of a reconcile or a teardown, by reading only. It uses the same decision, the same
//! comparison and the same order.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::Value;
use weft_plan::{
    Decision, Deviation, Difference, Fact, Facts, Freeze, Inventory, Kind, Live, Manifest, Notice,
    ObjectKey, Refusal, Selection, Stage, Step, Unit, What, drift, is_immutable, is_kept_for_ever,
    kinds, owned,
    report::{Blocked, FailureClass},
    rollout::PodView,
};

use crate::{
    api_server::{clock, cluster::Error},
    inspect::presence,
    reconcile::{
        apply::waiting,
        certificates, decide, dependents,
        objects::Objects,
        seniority,
        set::SetObjects,
        stored::{self, Stored, StoredError},
        teardown::Parting,
    },
};

/// Requests in flight at once.
const IN_FLIGHT: usize = 16;
/// Stands where a value is drawn at random: what it will be is not known before it is applied.
pub(crate) const DRAWN: &str = "<drawn at random when applied>";

/// The effect of a reconcile on a resource and its objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preview {
    /// Why nothing at all is written for now. The rest says what follows once that is over.
    pub blocked: Option<Blocked>,
    /// The value of the pause annotation, if the resource is paused. The other fields show the
    /// effect after the pause.
    pub paused: Option<String>,
    /// Why the resource is refused. Then there is nothing else.
    pub refusal: Option<Refusal>,
    /// The effect on each component's objects, in the order of work.
    pub units: Vec<UnitPreview>,
    /// The effect on objects that are no longer wanted, in the order of work.
    pub removals: Vec<Change>,
    /// Notices for the user.
    pub notices: Vec<Notice>,
    /// True if applying draws a value at random.
    pub drawn: bool,
}

/// The effect on a component's objects.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitPreview {
    /// The name of the component.
    pub name: String,
    /// One entry an object.
    pub changes: Vec<Change>,
}

/// The effect on one object.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The identity of the object.
    pub object: ObjectKey,
    /// The action on the object.
    pub action: Action,
}

/// The action on an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Nothing: it is as it should be.
    Keep,
    /// Weft creates the object.
    Create,
    /// Weft changes the object.
    Change {
        /// The differences, field by field.
        differences: Vec<Difference>,
    },
    /// Weft recreates the object, because a field changes that cannot be changed in place.
    Replace {
        /// The differences, field by field.
        differences: Vec<Difference>,
    },
    /// Weft takes over the object.
    TakeOver {
        /// The differences, field by field.
        differences: Vec<Difference>,
    },
    /// Weft deletes the object.
    Delete,
    /// It stays, and what Weft had put on it goes.
    Release {
        /// The parts that go, and the reason why the object stays.
        why: String,
    },
    /// The object stays another owner's. Weft writes something on it that keeps it.
    Hold {
        /// The fields that Weft writes.
        why: String,
    },
    /// It is not as it should be, and is left so, since the resource wants drift to be reported
    /// only.
    Drift {
        /// The deviation from the wanted object.
        deviation: Deviation,
    },
    /// It stays as it is.
    Leave {
        /// The reason in a sentence.
        why: String,
    },
    /// It outlives its resource: see [`ObjectSet::outlives`](weft_plan::ObjectSet::outlives).
    Stay {
        /// Why, and how to be rid of it. The same for all of them.
        why: String,
    },
    /// The object is another owner's. Weft writes nothing, and the component fails.
    Conflict {
        /// The owner of the object, and the way out.
        why: String,
    },
    /// It has to wait: an object that comes before it is in conflict.
    Wait,
}

impl Action {
    /// Reports whether the action writes to the cluster.
    pub fn writes(&self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::Change { .. }
                | Self::Replace { .. }
                | Self::TakeOver { .. }
                | Self::Delete
                | Self::Release { .. }
                | Self::Hold { .. }
        )
    }
}

impl Preview {
    /// Everything that happens to objects.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.units
            .iter()
            .flat_map(|unit| &unit.changes)
            .chain(&self.removals)
    }
}

/// Returns the effect of a reconcile of this resource. `namespace` is the operator's.
///
/// # Errors
/// Something that has to be known cannot be read.
pub async fn apply(
    objects: &SetObjects,
    resource: &Value,
    namespace: &str,
) -> Result<Preview, StoredError> {
    let blocked = presence::blocked(&objects.cluster, &*objects.domain).await?;
    if objects.domain.only_the_oldest() {
        let all = match objects.cluster.list(objects.owner.kind, None, "").await {
            Err(error) if error.is_not_found() => Vec::new(),
            all => all?,
        };
        // As it will be among the others.
        let others = all
            .iter()
            .filter(|other| Live::of(other).name() != Live::of(resource).name());
        let live = all
            .iter()
            .find(|other| Live::of(other).name() == Live::of(resource).name())
            .unwrap_or(resource);
        if let Some(refusal) = seniority::refused(&*objects.domain, live, others.chain([live])) {
            return Ok(Preview {
                blocked,
                refusal: Some(refusal),
                ..Preview::default()
            });
        }
    }
    let stored = stored::read(objects, namespace).await?;
    let (facts, unseen) = facts(objects).await?;
    let (decisions, refusal) = decisions(objects, resource, &stored, &facts);
    let Some([one, other]) = decisions.filter(|_| refusal.is_none()) else {
        return Ok(Preview {
            blocked,
            refusal,
            ..Preview::default()
        });
    };
    let drawn = one.decided != other.decided;
    let with_owner = |units| owned(units, &objects.owner, |unit| objects.set.outlives(unit));
    let (mut units, mut others) = (with_owner(one.units.clone()), with_owner(other.units));
    let live = certificates::read(objects, &one.certificates).await;
    let filled = certificates::fill(objects, &one.certificates, &live, &mut units, clock::now());
    certificates::fill(objects, &one.certificates, &live, &mut others, clock::now());
    let wanted = Inventory::of(&units, &one.made_by_operands, one.decided);
    let waiting = waiting(&filled.failures, &one.waits);
    let paused = drift::pause(resource).map(str::to_owned);
    let freeze = match Freeze::of(resource, one.drift, &stored.inventory, &units) {
        Freeze::Everything(_) => Freeze::Nothing,
        freeze => freeze,
    };
    let mut preview = Preview {
        blocked,
        paused,
        drawn,
        notices: one.notices,
        ..Preview::default()
    };
    preview.notices.extend(one.waits.iter().map(|wait| Notice {
        about: wait.unit.clone(),
        message: wait.message.clone(),
    }));
    for (unit, other) in units.iter().zip(&others) {
        let mut changes = changes(objects, &freeze, unit, other).await?;
        if waiting.contains_key(&*unit.name) {
            // An obstacle to the certificate's Secret, or a missing one, holds back the whole unit.
            changes
                .iter_mut()
                .filter(|change| change.action.writes())
                .for_each(|change| change.action = Action::Wait);
        }
        preview.units.push(UnitPreview {
            name: unit.name.clone(),
            changes,
        });
    }
    preview.notices.extend(unseen);
    for change in preview.units.iter().flat_map(|unit| &unit.changes) {
        if let Action::Leave { why } = &change.action {
            preview.notices.push(Notice {
                about: change.object.human(),
                message: why.clone(),
            });
        }
    }
    let waits = |change: &Change| matches!(change.action, Action::Conflict { .. } | Action::Wait);
    // As in the operator, a unit that waits keeps its objects, also if nothing else of it changes.
    let held = |name: &str| {
        waiting.contains_key(name)
            || preview
                .units
                .iter()
                .any(|unit| unit.name == name && unit.changes.iter().any(waits))
    };
    let mut surplus = stored.inventory.surplus(&wanted, &facts, held);
    let is_leaving = |unit: &str| stored.inventory.has_lost(unit, &wanted);
    let kept = dependents::obstacles(objects, resource, is_leaving).await;
    surplus.retain(|key| !dependents::is_of(&kept, key, &stored.inventory));
    preview
        .notices
        .extend(kept.into_iter().map(|(unit, obstacle)| Notice {
            about: unit.to_owned(),
            message: format!(
                "stays: {} {}",
                obstacle.object.human(),
                obstacle.blocker.unwrap_or_default()
            ),
        }));
    surplus.sort_by_key(|key| std::cmp::Reverse(Stage::of(key.kind)));
    preview.removals = removals(objects, surplus).await?;
    Ok(preview)
}

/// Returns the effect of applying these objects of a component, for a domain whose objects depend
/// on more than the resource. `other` are the same objects, made with other random numbers.
///
/// # Errors
/// Something that has to be known cannot be read.
pub async fn unit(objects: &Objects, unit: &Unit, other: &Unit) -> Result<UnitPreview, Error> {
    let owned = |unit: &Unit| owned(vec![unit.clone()], &objects.owner, |_| false).remove(0);
    Ok(UnitPreview {
        name: unit.name.clone(),
        changes: changes(objects, &Freeze::Nothing, &owned(unit), &owned(other)).await?,
    })
}

/// Returns the effect of the teardown of this resource in its order. `namespace` is the operator's.
///
/// # Errors
/// Something that has to be known cannot be read.
pub async fn teardown(
    objects: &SetObjects,
    resource: &Value,
    namespace: &str,
) -> Result<Vec<Change>, StoredError> {
    let inventory = stored::read(objects, namespace).await?.inventory;
    let Parting { goes, stays } = Parting::of(&*objects.set, inventory, Some(resource));
    let mut keys: Vec<_> = goes.objects.keys().cloned().collect();
    keys.sort_by_key(|key| std::cmp::Reverse(Stage::of(key.kind)));
    let mut changes = removals(objects, keys).await?;
    for key in goes.made_by_operands {
        if objects.live(&key).await?.is_some() {
            changes.push(Change {
                object: key,
                action: Action::Delete,
            });
        }
    }
    if let Some((stays, why)) = stays {
        let staying = stays.objects.into_keys().map(|object| Change {
            object,
            action: Action::Stay { why: why.clone() },
        });
        changes.extend(staying);
    }
    Ok(changes)
}

/// Decides twice with different random numbers. A field that differs between the two is drawn at
/// random.
fn decisions(
    objects: &SetObjects,
    resource: &Value,
    stored: &Stored,
    facts: &Facts,
) -> (Option<[Decision; 2]>, Option<Refusal>) {
    let decide = |dice: u8| {
        decide::decide(
            &*objects.set,
            resource,
            stored,
            facts,
            &mut |bytes: &mut [u8]| bytes.fill(dice),
        )
    };
    let ((one, refusal), (other, _)) = (decide(0x11), decide(0xee));
    (one.zip(other).map(|(one, other)| [one, other]), refusal)
}

/// Returns the facts that the domain needs of the cluster, with a notice for each that this user
/// may not read.
///
/// # Errors
/// The cluster cannot be asked.
pub async fn facts(objects: &Objects) -> Result<(Facts, Vec<Notice>), Error> {
    let (mut facts, mut notices) = (Facts::default(), Vec::new());
    for fact in objects.domain.facts() {
        let Selection {
            kind,
            namespace,
            labels,
            fields,
            metadata_only,
        } = fact.objects();
        if !facts.serves(kind) {
            continue;
        }
        let found = match metadata_only {
            true => objects
                .cluster
                .list_metadata(kind, namespace, labels)
                .await
                .map(|(items, _)| items),
            false => {
                objects
                    .cluster
                    .list(
                        kind,
                        namespace,
                        &format!("labelSelector={labels}&fieldSelector={fields}"),
                    )
                    .await
            }
        };
        match found {
            Ok(items) => {
                for (item, view) in items
                    .iter()
                    .map(|item| (item, fact.view(item)))
                    .filter(|(_, view)| !view.is_null())
                {
                    facts.add(fact, Live::of(item).name(), &view);
                }
            }
            Err(error) if error.class() == FailureClass::Forbidden => {
                facts.nodes_unknown |= fact == Fact::Nodes;
                notices.push(unseen(kind, &error));
            }
            // An older cluster. The operator decides without this fact, too.
            Err(error) if fact == Fact::ServiceCidr && error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let reporters = objects.domain.node_reporters();
    if !reporters.is_empty() {
        let selector = format!("labelSelector={}", objects.domain.pod_selector());
        match objects
            .cluster
            .list(kinds::POD, objects.domain.namespace(), &selector)
            .await
        {
            Ok(pods) => facts.hear(
                &pods.iter().filter_map(PodView::of).collect::<Vec<_>>(),
                &reporters,
            ),
            Err(error) if error.class() == FailureClass::Forbidden => {
                notices.push(unseen(kinds::POD, &error))
            }
            Err(error) => return Err(error),
        }
    }
    Ok((facts, notices))
}

fn unseen(kind: Kind, error: &Error) -> Notice {
    Notice {
        about: kind.plural.to_owned(),
        message: format!(
            "this is what would happen if the operator could not list them either: {error}"
        ),
    }
}

async fn live(
    objects: &Objects,
    keys: Vec<ObjectKey>,
) -> Result<Vec<(ObjectKey, Option<Arc<Value>>)>, Error> {
    let look = |key: ObjectKey| async move { objects.live(&key).await.map(|live| (key, live)) };
    stream::iter(keys.into_iter().map(look))
        .buffered(IN_FLIGHT)
        .try_collect()
        .await
}

async fn changes(
    objects: &Objects,
    freeze: &Freeze,
    unit: &Unit,
    other: &Unit,
) -> Result<Vec<Change>, Error> {
    let mut pairs: Vec<(&Manifest, &Manifest)> = unit.objects.iter().zip(&other.objects).collect();
    pairs.sort_by_key(|(manifest, _)| Stage::of(manifest.key().kind));
    let live = live(
        objects,
        pairs
            .iter()
            .map(|(manifest, _)| manifest.key().clone())
            .collect(),
    )
    .await?;
    let mut conflict: Option<Stage> = None;
    let mut changes = Vec::new();
    for ((manifest, other), (object, live)) in pairs.into_iter().zip(live) {
        let stage = Stage::of(object.kind);
        let step = objects.step(manifest, live.as_deref());
        let mut action = match freeze.keeps_back(manifest, &step, live.as_deref()) {
            Some(deviation) => Action::Drift { deviation },
            None => action(&object, step, &objects.step(other, live.as_deref())),
        };
        // A stage that fails holds back the later ones.
        if conflict.is_some_and(|failed| failed < stage) && action != Action::Keep {
            action = Action::Wait;
        }
        if matches!(action, Action::Conflict { .. }) {
            conflict = conflict.or(Some(stage));
        }
        changes.push(Change { object, action });
    }
    Ok(changes)
}

fn action(object: &ObjectKey, step: Step, other: &Step) -> Action {
    match step {
        Step::Keep => Action::Keep,
        Step::Create => Action::Create,
        Step::Change { differences, .. } => {
            let anew = differences
                .iter()
                .any(|difference| is_immutable(object.kind, difference));
            let differences = with_drawn(differences, other);
            if anew {
                Action::Replace { differences }
            } else {
                Action::Change { differences }
            }
        }
        Step::TakeOver { differences } => Action::TakeOver {
            differences: with_drawn(differences, other),
        },
        Step::Leave { why } => Action::Leave { why },
        Step::Foreign { why } => Action::Conflict { why },
    }
}

/// Returns the differences, with [`DRAWN`] in place of values that other random numbers would
/// change.
fn with_drawn(mut differences: Vec<Difference>, other: &Step) -> Vec<Difference> {
    let (Step::Change {
        differences: others,
        ..
    }
    | Step::TakeOver {
        differences: others,
    }) = other
    else {
        return differences;
    };
    for difference in &mut differences {
        if !others.contains(difference)
            && let What::Missing { desired } | What::Changed { desired, .. } = &mut difference.what
        {
            *desired = DRAWN.into();
        }
    }
    differences
}

async fn removals(objects: &Objects, keys: Vec<ObjectKey>) -> Result<Vec<Change>, Error> {
    let action = |key: &ObjectKey, live: &Value| match is_kept_for_ever(key.kind) {
        _ if objects.may_remove(key, live) => Action::Delete,
        true if objects.has_label(live) => Action::Release {
            why: "stays, without Weft's label: other users' objects may be in it".to_owned(),
        },
        true => Action::Leave {
            why: "stays: other users' objects may be in it".to_owned(),
        },
        false => Action::Leave {
            why: "is not Weft's any more".to_owned(),
        },
    };
    let live = live(objects, keys).await?;
    Ok(live
        .into_iter()
        .filter_map(|(object, live)| {
            Some(Change {
                action: action(&object, &*live?),
                object,
            })
        })
        .collect())
}
