//! A namespace that is served, and its watches.

use std::{collections::BTreeSet, sync::Arc};

use weft_placement::{Placement, world::Question};
use weft_plan::{Domain, Kind, OWNER_LABEL, kinds};
use weft_runtime::{
    api_server::cluster::Cluster,
    metrics::Metrics,
    reconcile::{admission::Admission, events::EventRecorder},
    store::{
        cache::Source,
        notifier::Notifier,
        watch::{Shared, Watch},
        watches::Watches,
    },
};

use super::Controller;

/// A namespace that is served.
pub(super) struct Place {
    pub namespace: String,
    pub domain: Arc<Placement>,
    pub cluster: Cluster,
    /// The store for all namespaces.
    pub common: Shared,
    pub shared: Shared,
    pub metrics: Metrics,
    pub recorder: EventRecorder,
    pub admission: Admission,
    notifier: Notifier,
    /// Of objects of our own whose kinds others bring, while the cluster serves them.
    optional: Watches,
    /// Of what assessments have asked for.
    asked: Watches,
}

impl Place {
    pub fn new(controller: &Controller, namespace: &str) -> Self {
        let shared = Shared::with_rewind(controller.shared.rewind().clone());
        let (cluster, metrics) = (controller.cluster.clone(), controller.metrics.clone());
        let recorder = EventRecorder::new(
            cluster.client().clone(),
            controller.domain.name(),
            &controller.instance,
        );
        let watches = || Watches::new(cluster.client().clone(), shared.clone(), metrics.clone());
        let (optional, asked) = (watches(), watches());
        let admission = Admission::new(cluster.clone(), shared.clone(), metrics.clone());
        Self {
            namespace: namespace.to_owned(),
            domain: Arc::clone(&controller.domain),
            common: controller.shared.clone(),
            cluster,
            shared,
            metrics,
            recorder,
            admission,
            notifier: Notifier::default(),
            optional,
            asked,
        }
    }

    /// Rung when something common to all namespaces is different.
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// From now on all of this is watched, and nothing else that assessments may ask for.
    pub fn watch_asked(&self, asked: BTreeSet<Question>) {
        self.asked
            .set(asked.into_iter().map(|question| match question {
                Question::Object(key) => Watch {
                    fields: format!("metadata.name={}", key.name),
                    namespace: key.namespace.clone(),
                    ..self.watch_of(key.kind, Source::Named(key))
                },
                Question::Selected(kind, labels) => Watch {
                    labels: labels.clone(),
                    ..self.watch_of(
                        kind,
                        Source::Selected(kind, Some(self.namespace.clone()), labels),
                    )
                },
            }));
    }

    fn watch_of(&self, kind: Kind, source: Source) -> Watch {
        Watch {
            source,
            kind,
            namespace: Some(self.namespace.clone()),
            labels: String::new(),
            fields: String::new(),
            metadata_only: false,
        }
    }

    /// From now on our own objects of those kinds are watched that others bring and the cluster
    /// serves. Until a watch has answered, nothing is done.
    pub fn watch_optional(&self) {
        let definitions = {
            let common = self.common.lock();
            // While they are not known, none is taken off.
            if !common.may_act() {
                return;
            }
            common.definitions()
        };
        let served = self
            .domain
            .kinds()
            .into_iter()
            .filter(|kind| kind.is_optional() && definitions.serves(*kind));
        self.optional.set(served.map(|kind| self.watch_owned(kind)));
    }

    fn watch_owned(&self, kind: Kind) -> Watch {
        Watch {
            labels: OWNER_LABEL.to_owned(),
            ..self.watch_of(kind, Source::Owned(kind, Some(self.namespace.clone())))
        }
    }

    /// Everything that is watched whatever the resources say.
    pub fn watches(&self) -> Vec<Watch> {
        let owned = self
            .domain
            .kinds()
            .into_iter()
            .filter(|kind| !kind.is_optional())
            .map(|kind| self.watch_owned(kind));
        std::iter::once(self.watch_of(kinds::PLACEMENT_API, Source::Resources))
            .chain(owned)
            .collect()
    }
}
