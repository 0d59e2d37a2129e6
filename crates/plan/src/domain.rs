//! The API that a domain serves: the pure half of an operator.

use serde_json::Value;

use crate::{Decision, Fact, Input, Kind, ObjectKey, Refusal};

/// A custom resource, the kinds that it leads to, and the operator that Weft replaces for it.
///
/// The methods are what every domain answers. A domain whose resource leads to a set of objects
/// with an inventory also implements [`ObjectSet`](crate::ObjectSet). The engine does the rest for
/// it: watches, apply, pruning, drift, rollout, events and status.
pub trait Domain: Send + Sync + 'static {
    /// Short name as on the command line, for example `addons`. The field manager is `weft/<name>`,
    /// the Lease `weft-<name>`.
    fn name(&self) -> &'static str;

    /// Kind of the custom resource.
    fn resource(&self) -> Kind;

    /// The only name that the resource may have. `None` allows any number of resources.
    fn resource_name(&self) -> Option<&'static str>;

    /// Reports whether only the oldest of several resources counts. The operator refuses the others
    /// and names the oldest in their status. The next one takes its place when it is gone.
    fn only_the_oldest(&self) -> bool {
        false
    }

    /// All kinds of objects that the domain may write. The operator watches each kind, and no
    /// others.
    fn kinds(&self) -> Vec<Kind>;

    /// The only namespace of all operands. `None` if they are in several namespaces: the operator
    /// then watches all namespaces, by Weft's label.
    fn namespace(&self) -> Option<&str>;

    /// Label selector for the pods of all workloads. The operator watches pods by it.
    fn pod_selector(&self) -> &'static str;

    /// Facts about the cluster that a decision needs. The operator watches each of them.
    fn facts(&self) -> Vec<Fact> {
        Vec::new()
    }

    /// Namespaces whose pods may report the network of their node
    /// ([`Facts::cni_reports`](crate::Facts::cni_reports)). In other namespaces, any user may
    /// create a pod with the labels of these pods.
    fn node_reporters(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Validates the resource, fills in defaults, and builds the objects.
    ///
    /// # Errors
    /// A [`Refusal`] lists all mistakes. The operator then keeps the objects of the last good
    /// configuration.
    fn decide(&self, input: Input<'_>) -> Result<Decision, Refusal>;

    /// Reports whether the operator that Weft replaces made this live object, so that Weft may take
    /// it over.
    fn made_by_original(&self, live: &Value) -> bool;

    /// Objects that the replaced operator may have left, each with the name of its unit. At the
    /// first reconcile, Weft deletes those that it does not want and that
    /// [`Domain::left_by_original`] confirms.
    fn obsolete(&self) -> Vec<(ObjectKey, String)> {
        Vec::new()
    }

    /// Reports whether the replaced operator made one of the [`Domain::obsolete`] objects, so that
    /// Weft may delete it.
    fn left_by_original(&self, live: &Value) -> bool {
        self.made_by_original(live)
    }

    /// Reports whether a workload is the replaced operator itself. While it runs (see
    /// [`is_at_rest`](crate::is_at_rest)) Weft writes nothing in this domain.
    fn is_original_operator(&self, workload: &Value) -> bool;

    /// Returns the replaced operator among the objects that [`Domain::operators`] and
    /// [`Domain::admission`] found. A domain overrides it if a single object is not enough to
    /// decide.
    fn originals<'a>(&self, found: &[&'a Value]) -> Vec<&'a Value> {
        found
            .iter()
            .copied()
            .filter(|one| self.is_original_operator(one))
            .collect()
    }

    /// Kind and name of workloads that may be the replaced operator, in any namespace. Weft's own
    /// operator may have such a name, too.
    fn operators(&self) -> &'static [(Kind, &'static str)];

    /// A test for admission objects of the replaced operator.
    ///
    /// The function takes a webhook configuration or a ValidatingAdmissionPolicy
    /// ([`ADMISSION`](crate::kinds::ADMISSION)). It reports whether the object judges Weft's
    /// writes. The API server still calls such a webhook when its operator is gone. `None` searches
    /// only for the names in [`Domain::operators`].
    fn admission(&self) -> Option<fn(&Value) -> bool> {
        None
    }
}
