//! Plans the effects of a change: object identity, inventory, comparison of desired and live,
//! rollout and conditions. Pure.
//!
//! Nothing in this crate reads a clock, a file or a socket: what it needs is handed to it, so that
//! `weft plan`, the operator and the tests run the same code. A domain (add-ons, cluster network,
//! ...) implements [`Domain`]. Everything else here is common.

pub mod admission;
mod applied;
mod body;
mod certificate;
mod choice;
pub mod cni_report;
mod compare;
mod conditions;
mod decision;
mod defaults;
pub mod deletion;
mod dependents;
mod domain;
pub mod drift;
pub mod dropped;
pub mod escape;
mod facts;
mod fields;
pub mod health;
mod inventory;
mod live;
mod object;
mod object_set;
mod owner;
mod patch;
mod plugins_report;
mod process;
pub mod report;
mod rest;
pub mod rollout;
pub mod secrets;
mod step;
mod takeover;
mod unit;

pub use applied::{LAST_APPLIED, applied, differences};
pub use body::effective_body;
pub use certificate::{Certificate, Lifetime, Lifetimes, LifetimesError};
pub use choice::NotAChoice;
pub use cni_report::CniReport;
pub use compare::{Difference, What, compare, pod_template_changes, quantity};
pub use conditions::{conditions, own_condition, resisting};
pub use decision::{
    Decision, DriftPolicy, FieldChange, Input, LogLevel, Notice, Problem, Refusal, Wait,
};
pub use dependents::{Dependents, REMOVE_ANNOTATION};
pub use domain::Domain;
pub use drift::{Deviation, Drift, Freeze, PAUSE_ANNOTATION};
pub use facts::{
    Fact, Facts, ForeignFlannel, KUBEVIRT, Node, OPENSHIFT, OpenShiftNetwork, Selection,
};
pub use fields::writer;
pub use inventory::{Inventory, InventoryError};
pub use live::{Live, condition, is_reference_to, text};
pub use object::{
    Manifest, ManifestError, ObjectKey, canonical, canonical_lines, is_object_name, parse_yaml,
};
pub use object_set::ObjectSet;
pub use owner::{COMPONENT_LABEL, OWNER_LABEL, Owner, is_kept_for_ever, manager, owned};
pub use patch::{ADOPT_ANNOTATION, leave_patch, release_patch, take_patch};
pub use plugins_report::PluginsReport;
pub use process::{ProcessSettings, ServerTls};
pub use rest::is_at_rest;
pub use step::{Step, is_immutable, step};
pub use unit::{Mode, Stage, Unit};
pub use weft_api::{Kind, kinds};
