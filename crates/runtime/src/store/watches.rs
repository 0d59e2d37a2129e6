//! Watches that come and go: of kinds while the cluster serves them, of single objects while
//! something depends on them.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use kube::Client;
use tokio::task::JoinHandle;

use crate::{
    metrics::Metrics,
    store::{
        cache::Source,
        watch::{self, Shared, Watch},
    },
};

/// A set of watches. Each runs while it is wanted, and no longer than the set. The store forgets
/// the objects of a watch that has ended.
pub struct Watches {
    client: Client,
    shared: Shared,
    metrics: Metrics,
    running: Mutex<HashMap<Source, JoinHandle<()>>>,
}

impl Watches {
    /// Returns a set without watches.
    pub fn new(client: Client, shared: Shared, metrics: Metrics) -> Self {
        Self {
            client,
            shared,
            metrics,
            running: Mutex::default(),
        }
    }

    /// From now on these run, and no others of this set.
    pub fn set(&self, wanted: impl IntoIterator<Item = Watch>) {
        let wanted: HashMap<Source, Watch> = wanted
            .into_iter()
            .map(|watch| (watch.source.clone(), watch))
            .collect();
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|source, task| {
            let keep = wanted.contains_key(source);
            if !keep {
                task.abort();
                self.shared.lock().retire(source);
            }
            keep
        });
        for (source, watch) in wanted {
            running.entry(source).or_insert_with_key(|source| {
                self.shared.lock().expect(source.clone());
                tokio::spawn(watch::run(
                    watch,
                    self.client.clone(),
                    self.shared.clone(),
                    self.metrics.clone(),
                ))
            });
        }
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.running
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .for_each(JoinHandle::abort);
    }
}
