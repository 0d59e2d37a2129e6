//! Everything that a PlacementAPI needs from you or from another controller, and that is not there.
//!
//! An assessment ends at the first of them. Its message names the others, too, so that you bring all
//! of them at once.

use std::fmt;

use weft_plan::{Kind, ObjectKey, kinds};

use super::{credentials, database, secrets};
use crate::{
    Config,
    conditions::Step,
    peers::topology,
    world::{Seen, World},
};

/// An object that the specification names, or an operator whose kinds the cluster does not serve.
struct Missing<'a> {
    /// The step that needs it.
    step: Step,
    /// The kind, or the operator.
    what: &'static str,
    /// The name of an object.
    name: Option<&'a str>,
}

impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) if self.what == SECRET => write!(f, "{SECRET}/{name}"),
            Some(name) => write!(f, "{} {name}", self.what),
            None => f.write_str(self.what),
        }
    }
}

const SECRET: &str = "secret";

impl Missing<'_> {
    /// Reports whether the message of its step is about it: the name of an object ends the message.
    fn is_in(&self, message: &str) -> bool {
        self.name.is_none_or(|name| {
            [
                format!("/{name}"),
                format!(": {name}"),
                format!("{name:?} not found"),
            ]
            .iter()
            .any(|end| message.ends_with(end))
        })
    }
}

/// The rest of the message of the step at which an assessment has ended. `None` if it ended for
/// another reason, or if nothing else is missing.
pub fn besides(config: &Config, world: &dyn World, step: Step, message: &str) -> Option<String> {
    let all = all(config, world);
    if all.iter().all(|missing| missing.step != step) {
        return None;
    }
    let others: Vec<_> = all
        .iter()
        .filter(|missing| missing.step != step || !missing.is_in(message))
        .map(ToString::to_string)
        .collect();
    (!others.is_empty()).then(|| format!("; also missing: {}", others.join(", ")))
}

/// Everything that is missing, in the order of the steps. An answer that is on its way says nothing.
fn all<'a>(config: &'a Config, world: &dyn World) -> Vec<Missing<'a>> {
    let spec = config.spec();
    let mut all: Vec<Missing> = Vec::new();
    let mut object = |step: Step, kind: Kind, what: &'static str, name: &'a str| {
        let key = ObjectKey::new(kind, &config.namespace, name);
        let is_listed = all
            .iter()
            .any(|known| known.what == what && known.name == Some(name));
        if !is_listed && world.object(&key) == Seen::Known(None) {
            all.push(Missing {
                step,
                what,
                name: Some(name),
            });
        }
    };
    let bundles = [config.keystone_ca_bundle(), config.ca_bundle()];
    // This operator asks Keystone by itself, and needs the bundle for that first.
    let first = bundles
        .into_iter()
        .flatten()
        .take(usize::from(credentials::is_direct(config)));
    let inputs = secrets::inputs(config).chain(credentials::secrets(config));
    for name in inputs.chain(first) {
        object(Step::Input, kinds::SECRET, SECRET, name);
    }
    let certificates = config.certificates().into_iter().flatten();
    for name in bundles.into_iter().flatten().chain(certificates) {
        object(Step::TlsInput, kinds::SECRET, SECRET, name);
    }
    let definition = kinds::NETWORK_ATTACHMENT_DEFINITION;
    let networks = spec.network_attachments.as_deref().unwrap_or_default();
    if world.serves(definition) {
        for name in networks {
            object(Step::NetworkAttachments, definition, definition.kind, name);
        }
    }
    let zones = topology::wanted(config);
    if let Some(name) = zones.filter(|_| world.serves(kinds::TOPOLOGY)) {
        object(Step::Topology, kinds::TOPOLOGY, kinds::TOPOLOGY.kind, name);
    }
    let external = spec
        .keystone
        .as_ref()
        .is_some_and(|keystone| keystone.external.is_some());
    let operated = database::is_operated(config);
    let operators = [
        (
            Step::MariaDbAccount,
            operated,
            kinds::MARIADB_ACCOUNT,
            "mariadb-operator",
        ),
        (
            Step::ServiceConfig,
            config.authenticates() && !external,
            kinds::KEYSTONE_API,
            "keystone-operator",
        ),
        (
            Step::NetworkAttachments,
            !networks.is_empty(),
            definition,
            "Multus",
        ),
        (
            Step::Topology,
            zones.is_some(),
            kinds::TOPOLOGY,
            "infra-operator",
        ),
    ];
    for (step, is_needed, kind, what) in operators {
        if is_needed && !world.serves(kind) {
            all.push(Missing {
                step,
                what,
                name: None,
            });
        }
    }
    all.sort_by_key(|missing| missing.step);
    all
}
