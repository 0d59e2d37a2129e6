//! What resources ask of the operator's own process, brought to where it is done.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;
use weft_plan::ProcessSettings;

/// What the domains of this process ask of it; clones share the same.
#[derive(Clone, Default)]
pub struct Wishes {
    domains: Arc<Mutex<BTreeMap<&'static str, ProcessSettings>>>,
    together: Arc<watch::Sender<ProcessSettings>>,
}

impl Wishes {
    /// Notes what a domain asks for.
    pub fn set(&self, domain: &'static str, settings: ProcessSettings) {
        let mut domains = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
        domains.insert(domain, settings);
        let together = ProcessSettings::together(&domains);
        self.together.send_if_modified(|before| {
            let differs = *before != together;
            *before = together;
            differs
        });
    }

    /// What all of them ask for together, now and whenever it is something else.
    pub fn subscribe(&self) -> watch::Receiver<ProcessSettings> {
        self.together.subscribe()
    }
}
