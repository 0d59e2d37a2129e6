//! The operator as a process: the controllers of each domain with a Lease, and the parts that all
//! domains share.
//!
//! The crate of a domain is pure. `weft-runtime` applies and watches objects for all domains. This
//! crate puts both together and keeps them running.

mod connection;
mod node_network;
mod parts;
mod placement;
mod process;
mod registry;

pub use connection::{Endpoint, Source, connect, endpoint};
pub use placement::keystone;
pub use process::{HostMtu, MetricsAddress, Options, run};
pub use registry::{DOMAINS, Environment, Opened, Served, open};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};
    use weft_plan::{Kind, kinds};
    use weft_runtime::{
        reconcile::originals::held_by_another,
        store::{cache::Source, table::Change, watch::Shared},
    };

    use super::*;

    /// A workload by which each domain knows its original, in a namespace that is not Weft's.
    fn original(kind: Kind, name: &str, replicas: i64) -> Value {
        let container = json!({
            "name": "manager", "image": "i",
            "env": [{"name": weft_placement::domain::IMAGE_VARIABLE, "value": "i"}]
        });
        let status = match kind {
            kinds::DAEMON_SET => {
                json!({
                    "observedGeneration": 1, "desiredNumberScheduled": replicas,
                    "currentNumberScheduled": replicas
                })
            }
            _ => json!({"observedGeneration": 1, "replicas": replicas}),
        };
        json!({"apiVersion": kind.api_version(), "kind": kind.kind,
            "metadata": {
                "namespace": "openshift-network-operator", "name": name, "generation": 1,
                "resourceVersion": "1", "labels": {"app": "kubernetes-nmstate"}
            },
            "spec": {
                "replicas": replicas, "template": {"spec": {"containers": [container]}}
            }, "status": status})
    }

    #[test]
    fn an_original_holds_each_domain_while_it_runs_and_not_at_rest() {
        for name in DOMAINS {
            let domain = open(name, &|_| None).unwrap().served.domain();
            let workloads = domain
                .operators()
                .iter()
                .filter(|(kind, _)| [kinds::DEPLOYMENT, kinds::DAEMON_SET].contains(kind));
            for (kind, operator) in workloads {
                let is_held = |replicas| {
                    let (shared, source) = (Shared::default(), Source::Operators(*kind, operator));
                    shared.lock().expect(source.clone());
                    for change in [
                        Change::Restarted,
                        Change::Listed(original(*kind, operator, replicas)),
                        Change::Complete(1),
                    ] {
                        shared.lock().feed(&source, change);
                    }
                    held_by_another(&*domain, "weft-system", &shared).is_some()
                };
                assert_eq!(
                    (is_held(1), is_held(0)),
                    (true, false),
                    "{name}: {kind} {operator}"
                );
            }
        }
    }

    #[test]
    fn an_operator_for_all_domains_yields_to_one_for_each() {
        for name in DOMAINS {
            let domain = open(name, &|_| None).unwrap().served.domain();
            let (kind, operator) = domain.operators()[0];
            let is_held = |own: &str, replicas| {
                let mut workload = original(kind, operator, replicas);
                workload["metadata"]["labels"] = json!({"weft.network/component": "operator"});
                let (shared, source) = (Shared::default(), Source::Operators(kind, operator));
                shared.lock().expect(source.clone());
                for change in [
                    Change::Restarted,
                    Change::Listed(workload),
                    Change::Complete(1),
                ] {
                    shared.lock().feed(&source, change);
                }
                held_by_another(&*domain, own, &shared).map(|blocked| blocked.reason)
            };
            let running = Some("OtherOperatorRunning");
            assert_eq!(is_held("weft-system", 1), running, "{name}");
            assert_eq!(is_held("weft-system", 0), None, "{name}");
            // It is the operator itself.
            assert_eq!(is_held("openshift-network-operator", 1), None, "{name}");
        }
    }
}
