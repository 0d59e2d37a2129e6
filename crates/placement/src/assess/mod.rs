//! Where a PlacementAPI stands and what is to be done next: the steps of placement-operator, in
//! their order, as a pure function of what is seen.
//!
//! An assessment goes as far as what is there allows: an object that is not made yet, an answer
//! that has not come, or a step of others that is not done ends it. The caller applies
//! [`Assessment::objects`] and assesses again, until nothing is left to apply. So there is nothing
//! to remember between two of them, and one after a crash goes on where the last one ended.
//!
//! Each input of a step is a file of its own: [`secrets`], [`database`], [`keystone`], [`direct`],
//! [`networks`], [`topology`], [`workloads`]. Each says either what it found or, as a [`Pending`],
//! why the assessment goes no further. [`missing`] says what else is not there then.

mod credentials;
mod database;
mod departure;
pub mod direct;
mod keystone;
mod missing;
mod networks;
mod others;
mod secrets;
#[cfg(test)]
mod tests;
mod topology;
mod workloads;

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde_json::Value;
use weft_api::placement::{AppliedTopology, PlacementApi, PlacementApiStatus};
use weft_plan::{Manifest, ObjectKey, kinds};

use crate::{
    Config, Inputs, Settings,
    conditions::{State, Step, Steps},
    domain::FINALIZER,
    objects,
    peers::{Claim, Disclaim, credential, database::RandomBytes},
    world::{Seen, World},
};

pub use departure::{Departure, departure};
use others::Whose;

/// The result of an assessment.
#[derive(Clone, Debug, Default)]
pub struct Assessment {
    /// Where each step stands.
    pub steps: Steps,
    /// Claims on objects of others. They come before everything else.
    pub claims: Vec<Claim>,
    /// Objects to apply, in this order. A failure holds back the later ones.
    pub objects: Vec<Manifest>,
    /// Objects of others to release, after nothing is left to apply.
    pub disclaims: Vec<Disclaim>,
    /// Objects to delete, with their uid, because they prevent another object.
    pub deletions: Vec<(ObjectKey, String)>,
    /// True if the PlacementAPI must not go before something else was released: it needs
    /// [`FINALIZER`](crate::domain::FINALIZER), before anything is applied.
    pub holds: bool,
    /// True if no answer is on its way. Until then `steps` may say less than could be said.
    pub settled: bool,
    /// When something is different by time alone.
    pub deadline: Option<Timestamp>,
    /// Further values for status, as far as they are known.
    pub found: Found,
}

/// Further values for status, next to the conditions. An unknown value keeps its place in status.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The digest of what the pods read.
    pub input_hash: Option<String>,
    /// The same, once all pods run with it.
    pub applied_hash: Option<String>,
    /// The digest of the Job that prepared the database.
    pub sync_hash: Option<String>,
    /// The digest of what the service's user in Keystone was last brought in order with. Empty if
    /// nobody of ours does that.
    pub account_hash: Option<String>,
    /// The same of service and endpoints.
    pub catalogue_hash: Option<String>,
    /// The host of the database.
    pub database_hostname: Option<String>,
    /// How many pods are ready.
    pub ready_count: Option<i32>,
    /// The addresses of the pods, by network.
    pub network_attachments: Option<BTreeMap<String, Vec<String>>>,
    /// The Topology by which the pods are placed, or that there is none.
    pub topology: Option<Option<AppliedTopology>>,
    /// The Secret of the application credential that all pods run with, or that there is none.
    pub credential: Option<Option<String>>,
}

/// Why an assessment goes no further for now.
#[derive(Clone, Debug, PartialEq)]
pub enum Pending {
    /// Something was asked for, and the answer is on its way.
    Unsettled,
    /// Something is to be applied first.
    Unmade,
    /// As this condition says.
    At(State),
}

impl From<State> for Pending {
    fn from(state: State) -> Self {
        Pending::At(state)
    }
}

/// Looks at everything. `elder` is another PlacementAPI of the namespace that counts instead of
/// this one. Of `dice` an account is made if there is none.
pub fn assess(
    resource: &PlacementApi,
    elder: Option<&str>,
    settings: &Settings,
    world: &dyn World,
    now: Timestamp,
    random: RandomBytes,
) -> Assessment {
    let mut assessment = Assessment {
        settled: true,
        ..Assessment::default()
    };
    if resource.spec.topology_ref.is_some() {
        assessment.steps.expect(Step::Topology);
    }
    let config = match (elder, Config::of(resource)) {
        (Some(elder), _) => Err(format!(
            "only the oldest PlacementAPI of a namespace counts, which is {elder:?}: their Services have the same names. Delete this one, or {elder:?}: then this one takes its place"
        )),
        (None, Err(problems)) => Err(problems
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ")),
        (None, Ok(config)) => Ok(config),
    };
    match config {
        Err(why) => assessment.steps.set(Step::Input, Step::Input.fails(why)),
        Ok(config) => {
            let none = PlacementApiStatus::default();
            let before = resource.status.as_ref().unwrap_or(&none);
            let retry = resource
                .metadata
                .annotations
                .as_ref()
                .and_then(|all| all.get(direct::RETRY))
                .map(String::as_str);
            let bound = resource
                .metadata
                .finalizers
                .iter()
                .flatten()
                .any(|finalizer| finalizer == FINALIZER);
            let mut walk = Walk {
                config: &config,
                before,
                settings,
                world,
                now,
                random,
                retry,
                bound,
                assessment,
                ended: None,
            };
            // The step that ended the assessment has recorded the reason.
            let _ = walk.all();
            assessment = walk.assessment;
        }
    }
    assessment
}

/// Ends a walk.
struct End;

/// An assessment under way.
struct Walk<'a> {
    config: &'a Config,
    /// The status as it stands.
    before: &'a PlacementApiStatus,
    settings: &'a Settings,
    world: &'a dyn World,
    now: Timestamp,
    random: RandomBytes,
    /// The annotation by which everything is looked at again.
    retry: Option<&'a str>,
    /// True if the PlacementAPI has ever held anything of others'. Only these objects show that.
    /// Status may have been written before, or never.
    bound: bool,
    assessment: Assessment,
    /// The step whose state has ended the walk.
    ended: Option<Step>,
}

impl Walk<'_> {
    /// All steps. If one ends them because something is missing, its message names everything else
    /// that is.
    fn all(&mut self) -> Result<(), End> {
        let end = self.each();
        if end.is_err()
            && let Some(step) = self.ended
            && let Some(state) = self.assessment.steps.get(step)
            && let Some(besides) = missing::besides(self.config, self.world, step, &state.message)
        {
            let mut state = state.clone();
            state.message.push_str(&besides);
            self.assessment.steps.set(step, state);
        }
        end
    }

    /// The steps, in their order.
    fn each(&mut self) -> Result<(), End> {
        let (config, world) = (self.config, self.world);
        // Asked for together, they are known at once.
        secrets::ask_for_all(config, world);
        let spec = config.spec();
        self.assessment.holds = database::is_operated(config)
            || keystone::is_operated(config)
            || credentials::is_direct(config)
            || spec.topology_ref.is_some()
            || credential::wanted(config).is_some();

        self.access()?;
        let secrets = self.take(Step::Input, secrets::read(config, world))?;
        let direct = self.take(Step::Input, direct::read(config, world))?;
        self.done(Step::Input);

        let database = self.database(&secrets)?;
        self.assessment.found.database_hostname = database.host.clone();

        let keystone = self.take(Step::ServiceConfig, keystone::endpoints(config, world))?;
        let direct =
            direct
                .zip(keystone.clone())
                .map(|(credentials, keystone)| credentials::Direct {
                    credentials,
                    keystone,
                });
        let credentials = self.take(
            Step::ServiceConfig,
            secrets.credentials.clone().map_err(Pending::At),
        )?;
        // Before the files with its password: a pod that is started again reads them at once.
        self.registered_user(direct.as_ref())?;
        let mut inputs = Inputs {
            default_image: self.settings.default_image.clone(),
            database: database.database,
            database_tls: database.tls,
            keystone: keystone.zip(credentials.clone()),
            mounted: BTreeMap::new(),
            networks: Vec::new(),
            topology: None,
        };
        let files = objects::config_data(config, &inputs)
            .map_err(|error| Step::ServiceConfig.fails(error).into());
        let files = self.take(Step::ServiceConfig, files)?;
        self.make(Step::ServiceConfig, files)?;
        inputs.mounted = self.take(Step::TlsInput, secrets::certificates(config, world))?;
        self.done(Step::TlsInput);
        let hash = objects::input_hash(config, &inputs)
            .map_err(|error| Step::ServiceConfig.fails(error).into());
        self.assessment.found.input_hash = Some(self.take(Step::ServiceConfig, hash)?);
        self.done(Step::ServiceConfig);
        self.claim_credential()?;

        inputs.networks = self.take(
            Step::NetworkAttachments,
            networks::definitions(config, world),
        )?;
        self.services()?;
        self.preparation(&inputs)?;
        inputs.topology = self.topology()?;
        self.deployment(&inputs)?;
        self.registration(direct.as_ref())?;
        if self.assessment.steps.are_done() {
            self.disclaim_unused(credentials.as_ref())
        } else {
            Ok(())
        }
    }

    /// The service account, and on OpenShift what it may use.
    fn access(&mut self) -> Result<(), End> {
        let objects = objects::access(self.config, self.is_openshift())
            .map_err(|error| Step::ServiceAccount.fails(error).into());
        let objects = self.take(Step::ServiceAccount, objects)?;
        for object in objects {
            let step = match object.key().kind {
                kinds::ROLE => Step::Role,
                kinds::ROLE_BINDING => Step::RoleBinding,
                _ => Step::ServiceAccount,
            };
            self.make(step, object)?;
            self.done(step);
        }
        if !self.is_openshift() {
            for step in [Step::Role, Step::RoleBinding] {
                self.assessment.steps.set(step, State::ready("Not needed: the pods ask the API server nothing, and this is not OpenShift"));
            }
        }
        Ok(())
    }

    fn is_openshift(&self) -> bool {
        self.world.serves(kinds::SECURITY_CONTEXT_CONSTRAINTS)
    }

    /// The value, or the end: noted at this step.
    fn take<T>(&mut self, step: Step, result: Result<T, Pending>) -> Result<T, End> {
        result.map_err(|pending| {
            match pending {
                Pending::At(state) => {
                    self.assessment.steps.set(step, state);
                    self.ended = Some(step);
                }
                Pending::Unsettled => self.assessment.settled = false,
                Pending::Unmade => {}
            }
            End
        })
    }

    fn done(&mut self, step: Step) {
        self.assessment.steps.set(step, State::ready(step.done()));
    }

    /// Has an object applied, and is the object once it is there.
    fn make(&mut self, step: Step, object: Manifest) -> Result<Arc<Value>, End> {
        let key = object.key().clone();
        self.assessment.objects.push(object);
        let failure = self.world.failure(&key).map(|failure| {
            step.fails(format!("{}: {}", key.human(), failure.message))
                .into()
        });
        let made = failure.map_or_else(|| self.world.own(&key).ok_or(Pending::Unmade), Err);
        self.take(step, made)
    }
}

/// Returns the answer to a question, or the end of the assessment if there is none. `step` words a
/// refusal.
fn told<T>(step: Step, seen: Seen<T>) -> Result<Option<T>, Pending> {
    match seen {
        Seen::Unknown => Err(Pending::Unsettled),
        Seen::NotServed => Ok(None),
        Seen::Refused(why) => Err(step.fails(why).into()),
        Seen::Known(found) => Ok(Some(found)),
    }
}

/// An object of another user's. `None` if it is not there, or its kind is not served.
fn object(step: Step, world: &dyn World, key: &ObjectKey) -> Result<Option<Arc<Value>>, Pending> {
    Ok(told(step, world.object(key))?.flatten())
}
