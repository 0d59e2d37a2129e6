//! Settings of the operator's own process that resources ask for.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;
use weft_plan::ProcessSettings;

/// The settings that the domains of this process ask for. Clones share them.
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

    /// Returns the settings of all domains together, now and after each change.
    pub fn subscribe(&self) -> watch::Receiver<ProcessSettings> {
        self.together.subscribe()
    }
}
