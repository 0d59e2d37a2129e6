//! The controller of PlacementAPIs: one loop for each namespace that is served, under one lease.
//!
//! [`weft_placement::assess()`] decides. This module answers its questions from watches ([`view`]),
//! applies its objects until nothing is left ([`mod@reconcile`]), and reports the outcome
//! ([`report`]).

mod departure;
mod gauges;
pub mod keystone;
mod memory;
mod place;
mod reconcile;
mod report;
mod run;
mod tasks;
mod view;

use std::{collections::BTreeMap, sync::Arc};

use tokio::{sync::watch as channel, task::JoinSet};
use tokio_util::sync::CancellationToken;
use weft_placement::{Placement, domain::Namespaces};
use weft_plan::{Domain, Live, Selection, kinds};
use weft_runtime::{
    api_server::cluster::Cluster,
    metrics::Metrics,
    store::{
        cache::Source,
        notifier::Notifier,
        watch::{self, Shared, Watch},
    },
};

/// The controller of PlacementAPIs.
pub struct Controller {
    domain: Arc<Placement>,
    cluster: Cluster,
    /// The store for all namespaces: served kinds, the definition of PlacementAPI and other
    /// operators. If the operator serves all namespaces, also those with a PlacementAPI.
    shared: Shared,
    metrics: Metrics,
    instance: String,
}

impl Controller {
    /// A controller that is not running yet.
    pub fn new(
        domain: Arc<Placement>,
        cluster: Cluster,
        shared: Shared,
        metrics: Metrics,
        instance: &str,
    ) -> Self {
        Self {
            domain,
            cluster,
            shared,
            metrics,
            instance: instance.to_owned(),
        }
    }

    /// Runs until `stop`. Acts only while `leading`. The watches run always, so that a new leader
    /// starts warm.
    pub async fn run(self, mut leading: channel::Receiver<bool>, stop: CancellationToken) {
        let mut watches = JoinSet::new();
        for watch in self.watches() {
            self.shared.lock().expect(watch.source.clone());
            watches.spawn(watch::run(
                watch,
                self.cluster.client().clone(),
                self.shared.clone(),
                self.metrics.clone(),
            ));
        }
        let mut served: BTreeMap<String, Notifier> = BTreeMap::new();
        let mut loops = JoinSet::new();
        let mut notified = None;
        loop {
            self.metrics
                .leads(self.domain.name(), *leading.borrow_and_update());
            let common = self.common();
            for namespace in self.namespaces() {
                served.entry(namespace).or_insert_with_key(|namespace| {
                    let place = place::Place::new(&self, namespace);
                    let notifier = place.notifier();
                    loops.spawn(run::run(place, leading.clone(), stop.clone()));
                    notifier
                });
            }
            if notified.replace(common) != Some(common) {
                served.values().for_each(Notifier::notify);
            }
            tokio::select! {
                () = self.shared.changed() => {}
                changed = leading.changed() => if changed.is_err() { break },
                () = stop.cancelled() => break,
                // Watches never end by themselves. Without one of them, Weft would take all objects
                // of its kind as unchanged for ever, so this loop ends, too.
                Some(ended) = watches.join_next() => {
                    tracing::error!(?ended, "a watch has ended");
                    break;
                }
                Some(ended) = loops.join_next() => {
                    tracing::error!(?ended, "a namespace is not served any more");
                    break;
                }
            }
        }
        if stop.is_cancelled() {
            // The operator finishes a reconcile that it has begun, so that no other replica leads
            // before.
            while loops.join_next().await.is_some() {}
        }
    }

    /// Counts what concerns each namespace: all news of the store for all namespaces but those of
    /// PlacementAPIs, which their own namespace hears as well, and whether it shows enough to act.
    fn common(&self) -> (u64, bool) {
        let common = self.shared.lock();
        (common.news_besides(&Source::Resources), common.may_act())
    }

    /// The namespaces to serve. One that has had a PlacementAPI stays among them.
    fn namespaces(&self) -> Vec<String> {
        match &self.domain.settings().namespaces {
            Namespaces::These(names) => names.clone(),
            Namespaces::All => {
                let resources = self.shared.lock().resources();
                resources
                    .iter()
                    .filter_map(|resource| Live::of(resource).stated_namespace())
                    .map(str::to_owned)
                    .collect()
            }
        }
    }

    fn watches(&self) -> Vec<Watch> {
        let settings = self.domain.settings();
        let watch = |source, kind| Watch {
            source,
            kind,
            namespace: None,
            labels: String::new(),
            fields: String::new(),
            metadata_only: false,
        };
        let everywhere = settings.namespaces == Namespaces::All;
        // Wherever they are: each of them would serve the same namespaces.
        let operators = self.domain.operators().iter().map(|(kind, name)| Watch {
            fields: format!("metadata.name={name}"),
            ..watch(Source::Operators(*kind, name), *kind)
        });
        let facts = self.domain.facts().into_iter().map(|fact| {
            let Selection {
                kind,
                namespace,
                labels,
                fields,
                metadata_only,
            } = fact.objects();
            let namespace = namespace.map(str::to_owned);
            Watch {
                namespace,
                labels: labels.to_owned(),
                fields: fields.to_owned(),
                metadata_only,
                ..watch(Source::Fact(fact), kind)
            }
        });
        let all = everywhere.then(|| Watch {
            metadata_only: true,
            ..watch(Source::Resources, kinds::PLACEMENT_API)
        });
        let shipped = self.shared.lock().shipped();
        let definitions = shipped.into_iter().map(Watch::of_definition);
        operators
            .chain(facts)
            .chain(definitions)
            .chain(all)
            .collect()
    }
}
