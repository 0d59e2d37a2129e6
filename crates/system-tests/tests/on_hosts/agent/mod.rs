//! Weft on hosts with a real NetworkManager each: control plane, shipped manifests, operator and
//! agents. `make test-host`.

mod behaviours;
mod documents;
mod drift;
mod early;
mod examples;
mod kinds;
mod neighbors;
mod observation;
mod offline;
mod open_vswitch;
mod pods;
mod reboot;
mod removals;
mod restored;
mod restores;
mod rights;
mod rollout;
mod secrets;
mod stacks;
mod support;
mod transactions;
mod under_fire;
mod without_network_manager;
