//! Prometheus metrics of the operator itself.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use weft_plan::Kind;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DomainLabel {
    domain: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabel {
    domain: &'static str,
    operation: &'static str,
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PassLabel {
    domain: &'static str,
    outcome: &'static str,
}

/// Bounds from a reconcile without changes to one that waits for a request.
const PASS_SECONDS: [f64; 8] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.0, 5.0, 15.0];

/// All metrics. Clones share the same numbers.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    watch_failures: Family<KindLabel, Counter>,
    writes: Family<WriteLabel, Counter>,
    passes: Family<PassLabel, Counter>,
    pass_seconds: Family<DomainLabel, Histogram, fn() -> Histogram>,
    leading: Family<DomainLabel, Gauge>,
    drifted: Family<DomainLabel, Gauge>,
    gauges: Arc<Mutex<HashMap<&'static str, Gauge<f64, AtomicU64>>>>,
    families: Arc<Mutex<HashMap<&'static str, Labelled>>>,
}

/// A name and a value for each label.
pub type Labels = Vec<(&'static str, String)>;

/// A gauge with labels, and which there are.
#[derive(Default)]
struct Labelled {
    family: Family<Labels, Gauge>,
    labels: HashSet<Labels>,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Arc::default(),
            watch_failures: Family::default(),
            writes: Family::default(),
            passes: Family::default(),
            pass_seconds: Family::new_with_constructor(|| Histogram::new(PASS_SECONDS)),
            leading: Family::default(),
            drifted: Family::default(),
            gauges: Arc::default(),
            families: Arc::default(),
        };
        let mut registry = metrics
            .registry
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        registry.register(
            "weft_watch_failures",
            "Watches that failed and were started again",
            metrics.watch_failures.clone(),
        );
        registry.register(
            "weft_writes",
            "Writes to the API server that succeeded",
            metrics.writes.clone(),
        );
        registry.register(
            "weft_passes",
            "Passes over a resource, by outcome",
            metrics.passes.clone(),
        );
        registry.register(
            "weft_pass_seconds",
            "How long passes over a resource took",
            metrics.pass_seconds.clone(),
        );
        registry.register(
            "weft_leading",
            "1 while this replica is the leader of the domain",
            metrics.leading.clone(),
        );
        registry.register(
            "weft_drifted_objects",
            "Objects that are not as they should be and are left so",
            metrics.drifted.clone(),
        );
        drop(registry);
        metrics
    }
}

impl Metrics {
    /// A watch of this kind failed.
    pub(crate) fn watch_failed(&self, kind: Kind) {
        self.watch_failures
            .get_or_create(&KindLabel {
                kind: kind.to_string(),
            })
            .inc();
    }

    /// A write succeeded. `operation` is `apply`, `delete` or `status`.
    pub fn wrote(&self, domain: &'static str, operation: &'static str, kind: Kind) {
        self.writes
            .get_or_create(&WriteLabel {
                domain,
                operation,
                kind: kind.to_string(),
            })
            .inc();
    }

    /// Counts a reconcile. `outcome` is `ok`, `failed`, `refused`, `blocked`, `paused` or `panic`.
    pub fn passed(&self, domain: &'static str, outcome: &'static str) {
        self.passes
            .get_or_create(&PassLabel { domain, outcome })
            .inc();
    }

    /// Observes the duration of a reconcile.
    pub fn took(&self, domain: &'static str, pass: Duration) {
        self.pass_seconds
            .get_or_create(&DomainLabel { domain })
            .observe(pass.as_secs_f64());
    }

    /// Sets the gauge of the domain that says whether this replica leads.
    pub fn leads(&self, domain: &'static str, leads: bool) {
        self.leading
            .get_or_create(&DomainLabel { domain })
            .set(leads.into());
    }

    /// How many objects of the domain are not as they should be and are left so.
    pub fn drifted(&self, domain: &'static str, objects: usize) {
        self.drifted
            .get_or_create(&DomainLabel { domain })
            .set(i64::try_from(objects).unwrap_or(i64::MAX));
    }

    /// Sets a gauge of a domain, under the name that the original's users know.
    pub fn set(&self, name: &'static str, help: &'static str, value: f64) {
        let mut gauges = self.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        let gauge = gauges.entry(name).or_insert_with(|| {
            let gauge = Gauge::default();
            self.registry
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .register(name, help, gauge.clone());
            gauge
        });
        gauge.set(value);
    }

    /// Sets a gauge with labels, under the name that the original's users know: these are all that
    /// there are, others go.
    pub fn set_all(&self, name: &'static str, help: &'static str, values: HashMap<Labels, i64>) {
        self.set_where(name, help, |_| true, values);
    }

    /// The same of those whose labels are among `these`: others stay.
    pub fn set_where(
        &self,
        name: &'static str,
        help: &'static str,
        these: impl Fn(&Labels) -> bool,
        values: HashMap<Labels, i64>,
    ) {
        let mut families = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        let Labelled {
            family,
            labels: known,
        } = families.entry(name).or_insert_with(|| {
            let labelled = Labelled::default();
            self.registry
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .register(name, help, labelled.family.clone());
            labelled
        });
        known.retain(|labels| {
            let stays = !these(labels) || values.contains_key(labels);
            if !stays {
                family.remove(labels);
            }
            stays
        });
        for (labels, value) in values {
            family.get_or_create(&labels).set(value);
            known.insert(labels);
        }
    }

    /// Everything in the OpenMetrics text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        match encode(&mut text, &registry) {
            Ok(()) => text,
            Err(error) => {
                tracing::error!(%error, "metrics could not be written");
                String::new()
            }
        }
    }
}
