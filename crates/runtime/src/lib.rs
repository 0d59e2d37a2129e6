//! The shell over the Kubernetes client: watches, apply, inventory, status, events, leader lease, metrics and shutdown.
