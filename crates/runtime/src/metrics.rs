//! Prometheus metrics of the operator itself.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicU64},
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use serde_json::Value;
use weft_plan::{Deviation, Drift, Kind, Live, condition};

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

/// How many series of contested fields a domain has, or a namespace of PlacementAPIs. A gauge with a
/// series for each field must not grow with the clients that write.
const CONTESTED: usize = 50;

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
    /// The objects that `drifted` counts, by domain and namespace.
    drifted_in: Arc<Mutex<HashMap<(&'static str, String), usize>>>,
    gauges: Arc<Mutex<HashMap<&'static str, Gauge<f64, AtomicU64>>>>,
    families: Arc<Mutex<HashMap<&'static str, Labelled>>>,
}

/// A name and a value for each label.
pub type Labels = Vec<(&'static str, String)>;

/// The state of a resource by its conditions Ready and Stalled, for its gauges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    namespace: String,
    name: String,
    is_ready: bool,
    is_stalled: bool,
}

impl Readiness {
    /// Reads the state of a resource. Without the condition Ready the resource is not ready.
    pub fn of(resource: &Value) -> Self {
        let live = Live::of(resource);
        let namespace = resource["metadata"]["namespace"].as_str();
        Self::new(
            namespace.unwrap_or_default(),
            live.name(),
            &resource["status"],
        )
    }

    /// Reads the state from a status. `namespace` is empty if the kind has no namespaces.
    pub fn new(namespace: &str, name: &str, status: &Value) -> Self {
        let holds =
            |name| condition(status, name).is_some_and(|condition| condition["status"] == "True");
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            is_ready: holds("Ready"),
            is_stalled: holds("Stalled"),
        }
    }
}

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
            drifted_in: Arc::default(),
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

    /// Sets the gauges about objects that are not as they should be and are left so. These are all of
    /// the domain, or all of its resources in `namespace`.
    pub fn drifted<'a>(
        &self,
        domain: &'static str,
        namespace: Option<&str>,
        drift: impl IntoIterator<Item = &'a Drift>,
    ) {
        let (mut objects, mut series) = (0, BTreeSet::new());
        for drift in drift {
            objects += 1;
            series.extend(contested(domain, drift));
        }
        let all = {
            let mut drifted = self
                .drifted_in
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            drifted.insert((domain, namespace.unwrap_or_default().to_owned()), objects);
            let of_domain = drifted.iter().filter(|((name, _), _)| *name == domain);
            of_domain.map(|(_, objects)| *objects).sum::<usize>()
        };
        self.drifted
            .get_or_create(&DomainLabel { domain })
            .set(i64::try_from(all).unwrap_or(i64::MAX));
        self.set_where(
            "weft_contested_fields",
            "1 while another client writes the field again each time that it is repaired",
            |labels| {
                labels.iter().all(|(label, value)| match *label {
                    "domain" => value == domain,
                    "namespace" => namespace.is_none_or(|namespace| value == namespace),
                    _ => true,
                })
            },
            series
                .into_iter()
                .take(CONTESTED)
                .map(|labels| (labels, 1))
                .collect(),
        );
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

    /// Sets the gauges that say which resources of a kind are ready, and which are stalled. These
    /// are all resources of the kind in `namespace`, or in the cluster if `namespace` is `None`.
    pub fn readiness(
        &self,
        domain: &'static str,
        kind: Kind,
        namespace: Option<&str>,
        resources: impl IntoIterator<Item = Readiness>,
    ) {
        let (mut ready, mut stalled) = (HashMap::new(), HashMap::new());
        for resource in resources {
            let labels: Labels = vec![
                ("domain", domain.to_owned()),
                ("kind", kind.kind.to_owned()),
                ("namespace", resource.namespace),
                ("name", resource.name),
            ];
            ready.insert(labels.clone(), i64::from(resource.is_ready));
            stalled.insert(labels, i64::from(resource.is_stalled));
        }
        let gauges = [
            (
                "weft_resource_ready",
                "1 while the condition Ready of the resource is True",
                ready,
            ),
            (
                "weft_resource_stalled",
                "1 while the condition Stalled of the resource is True",
                stalled,
            ),
        ];
        for (name, help, values) in gauges {
            let is_among = |labels: &Labels| {
                labels.iter().all(|(label, value)| match *label {
                    "domain" => value == domain,
                    "kind" => value == kind.kind,
                    "namespace" => namespace.is_none_or(|namespace| value == namespace),
                    _ => true,
                })
            };
            self.set_where(name, help, is_among, values);
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

/// Returns the labels of the contested fields of an object.
fn contested(domain: &'static str, drift: &Drift) -> Vec<Labels> {
    let Deviation::Contested { contested, .. } = &drift.deviation else {
        return Vec::new();
    };
    let object = &drift.object;
    let labels = |(field, manager): &(String, String)| {
        vec![
            ("domain", domain.to_owned()),
            ("kind", object.kind.kind.to_owned()),
            ("namespace", object.namespace.clone().unwrap_or_default()),
            ("name", object.name.clone()),
            ("field", field.clone()),
            ("manager", manager.clone()),
        ]
    };
    contested.iter().map(labels).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_plan::{ObjectKey, kinds};

    use super::*;

    /// The samples of the gauges of readiness, without labels that do not differ here.
    fn samples(metrics: &Metrics) -> Vec<String> {
        let text = metrics.text();
        let samples = text
            .lines()
            .filter_map(|line| line.strip_prefix("weft_resource_"));
        let mut samples: Vec<_> = samples
            .map(|line| line.replace("domain=\"placement\",kind=\"PlacementAPI\",", ""))
            .collect();
        samples.sort();
        samples
    }

    fn resource(namespace: &str, name: &str, conditions: &[(&str, &str)]) -> Readiness {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|(name, status)| json!({"type": name, "status": status}))
            .collect();
        Readiness::of(&json!({
            "metadata": {"namespace": namespace, "name": name},
            "status": {"conditions": conditions}
        }))
    }

    #[test]
    fn readiness_follows_the_conditions_ready_and_stalled() {
        let is = |conditions: &[(&str, &str)]| {
            let readiness = resource("", "a", conditions);
            (readiness.is_ready, readiness.is_stalled)
        };
        assert_eq!(is(&[]), (false, false), "no status yet");
        assert_eq!(is(&[("Ready", "True")]), (true, false));
        assert_eq!(
            is(&[("Ready", "False"), ("Reconciling", "True")]),
            (false, false)
        );
        assert_eq!(
            is(&[("Ready", "Unknown"), ("Stalled", "True")]),
            (false, true)
        );
    }

    #[test]
    fn readiness_of_a_deleted_resource_goes_and_others_stay() {
        let metrics = Metrics::default();
        let set = |namespace, resources: Vec<Readiness>| {
            metrics.readiness(
                "placement",
                kinds::PLACEMENT_API,
                Some(namespace),
                resources,
            );
        };
        let ready = [("Ready", "True")];
        set(
            "one",
            vec![resource("one", "a", &ready), resource("one", "b", &[])],
        );
        set("two", vec![resource("two", "a", &[("Stalled", "True")])]);
        set("one", vec![resource("one", "b", &ready)]);
        metrics.readiness(
            "node-network",
            kinds::PLACEMENT_API,
            None,
            Vec::<Readiness>::new(),
        );
        assert_eq!(
            samples(&metrics),
            [
                "ready{namespace=\"one\",name=\"b\"} 1",
                "ready{namespace=\"two\",name=\"a\"} 0",
                "stalled{namespace=\"one\",name=\"b\"} 0",
                "stalled{namespace=\"two\",name=\"a\"} 1",
            ]
        );
    }

    /// A ConfigMap whose fields one client writes again each time.
    fn fight(namespace: &str, name: &str, fields: &[&str]) -> Drift {
        let by = |field: &&str| ((*field).to_owned(), "image-updater".to_owned());
        Drift {
            unit: String::new(),
            object: ObjectKey::new(kinds::CONFIG_MAP, namespace, name),
            deviation: Deviation::Contested {
                differences: Vec::new(),
                contested: fields.iter().map(by).collect(),
            },
        }
    }

    fn drift(metrics: &Metrics) -> Vec<String> {
        let text = metrics.text();
        let lines = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter(|line| line.contains("contested") || line.contains("drifted"));
        let mut lines: Vec<_> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_contested_field_has_a_series_until_its_fight_ends() {
        let metrics = Metrics::default();
        let missing = Drift {
            deviation: Deviation::Missing,
            ..fight("n", "m", &[])
        };
        metrics.drifted("addons", None, &[fight("n", "c", &["data.k"]), missing]);
        metrics.drifted("placement", Some("one"), &[fight("one", "c", &["data.k"])]);
        metrics.drifted("placement", Some("two"), &[fight("two", "c", &["data.k"])]);
        let series = |domain: &str, namespace: &str| {
            format!(
                r#"weft_contested_fields{{domain="{domain}",kind="ConfigMap",namespace="{namespace}",name="c",field="data.k",manager="image-updater"}} 1"#
            )
        };
        let count = |domain: &str, objects: usize| {
            format!(r#"weft_drifted_objects{{domain="{domain}"}} {objects}"#)
        };
        assert_eq!(
            drift(&metrics),
            [
                series("addons", "n"),
                series("placement", "one"),
                series("placement", "two"),
                count("addons", 2),
                count("placement", 2),
            ]
        );
        metrics.drifted("addons", None, &[]);
        metrics.drifted("placement", Some("one"), &[]);
        assert_eq!(
            drift(&metrics),
            [
                series("placement", "two"),
                count("addons", 0),
                count("placement", 1),
            ]
        );
    }

    #[test]
    fn contested_fields_have_a_bounded_number_of_series() {
        let metrics = Metrics::default();
        let names: Vec<_> = (0..100).map(|number| format!("data.k{number}")).collect();
        let fields: Vec<_> = names.iter().map(String::as_str).collect();
        metrics.drifted("addons", None, &[fight("n", "c", &fields)]);
        let series = drift(&metrics);
        assert_eq!(series.len(), CONTESTED + 1, "{series:#?}");
    }
}
