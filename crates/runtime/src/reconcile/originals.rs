//! Other operators for the same resource: while one runs, or has left something that refuses Weft's
//! writes, Weft writes nothing.

use serde_json::Value;
use weft_plan::{COMPONENT_LABEL, Domain, Kind, Live, is_at_rest, kinds, report::Blocked};

use crate::store::watch::Shared;

/// Returns the operator that Weft replaces if it runs or may run, by the watches of the domain, or
/// another operator of Weft in another namespace than `own`. Weft then writes nothing in the
/// domain.
pub fn held_by_another(domain: &dyn Domain, own: &str, shared: &Shared) -> Option<Blocked> {
    let operators = shared.lock().operators();
    let operators = || operators.iter().map(|operator| &**operator);
    blocked(domain, operators())
        .or_else(|| another_weft(own, operators()))
        .or_else(|| unseen(shared))
}

/// Returns the operator of Weft that runs under a name of the replaced one, among these objects,
/// when the one that asks is in another namespace. An installation can have one operator for each
/// domain or one for all; each has a Lease of its own, so both would work at once.
fn another_weft<'a>(own: &str, operators: impl Iterator<Item = &'a Value>) -> Option<Blocked> {
    operators
        .filter(|operator| {
            let live = Live::of(operator);
            live.label(COMPONENT_LABEL).is_some()
                && live.namespace() != own
                && !is_at_rest(operator)
        })
        .min_by_key(|operator| Live::of(operator).namespace().to_owned())
        .map(in_the_way)
}

/// Returns the operator that Weft replaces if it runs, or its leftovers that are in the way, among
/// these objects. A workload with zero replicas does not count.
pub(crate) fn blocked<'a>(
    domain: &dyn Domain,
    operators: impl Iterator<Item = &'a Value>,
) -> Option<Blocked> {
    blocked_by(domain, operators, |original| !is_at_rest(original))
}

/// The operator that Weft replaces, or what it has left, among these objects, as far as it counts.
/// Of several the one whose name the domain gives first, so that the same is said each time.
pub(crate) fn blocked_by<'a>(
    domain: &dyn Domain,
    operators: impl Iterator<Item = &'a Value>,
    counts: impl Fn(&Value) -> bool,
) -> Option<Blocked> {
    let rank = |workload: &&Value| {
        let is_it = |(kind, name): &(Kind, &str)| {
            workload["kind"] == kind.kind && Live::of(workload).name() == *name
        };
        let place = domain
            .operators()
            .iter()
            .position(is_it)
            .unwrap_or(usize::MAX);
        (
            place,
            Live::of(workload).namespace().to_owned(),
            Live::of(workload).name().to_owned(),
        )
    };
    let originals = domain.originals(&operators.collect::<Vec<_>>());
    originals
        .into_iter()
        .filter(|original| counts(original))
        .min_by_key(rank)
        .map(in_the_way)
}

/// Why Weft writes nothing while this object of another operator is there, and how to remove it.
pub(crate) fn in_the_way(theirs: &Value) -> Blocked {
    let theirs = Live::of(theirs);
    let (kind, namespace, name) = (theirs.kind(), theirs.namespace(), theirs.name());
    let lower = kind.to_lowercase();
    if namespace.is_empty() {
        // A leftover of admission refuses requests that nobody answers for.
        let message = format!(
            "{kind} {name} is of another operator for the same resource, so Weft writes nothing. Remove it, and Weft goes on by itself: kubectl delete {lower} {name}"
        );
        return match kind == kinds::VALIDATING_ADMISSION_POLICY.kind {
            true => Blocked {
                reason: "OtherAdmissionPolicy",
                message,
            },
            false => Blocked {
                reason: "OtherWebhooks",
                message,
            },
        };
    }
    let message = format!(
        "{kind} {namespace}/{name} is another operator for the same resource, so Weft writes nothing. Remove it, and Weft goes on by itself: kubectl -n {namespace} delete {lower} {name}"
    );
    Blocked {
        reason: "OtherOperatorRunning",
        message,
    }
}

/// Returns the reason why Weft may not see whether that operator runs.
fn unseen(shared: &Shared) -> Option<Blocked> {
    let cache = shared.lock();
    let why = cache.blind_to_operators()?;
    let message = format!(
        "Weft cannot see whether another operator for the same resource runs, so it writes nothing: {why}"
    );
    Some(Blocked {
        reason: "Forbidden",
        message,
    })
}
