//! Leader election by a Lease of `coordination.k8s.io/v1`.

pub mod lease;
