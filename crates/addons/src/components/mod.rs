//! One file a component: its manifests, and what a configuration changes in them.

pub(crate) mod kube_mac_pool;
pub(crate) mod linux_bridge;
pub(crate) mod multus;
pub(crate) mod ovs;
pub(crate) mod shared;
