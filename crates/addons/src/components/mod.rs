//! One file a component: its manifests, and what a configuration changes in them.

pub(crate) mod kube_mac_pool;
pub(crate) mod kubevirt;
pub(crate) mod kubevirt_ipam_controller;
pub(crate) mod linux_bridge;
pub(crate) mod macvtap;
pub(crate) mod monitoring;
pub(crate) mod multus;
pub(crate) mod multus_dynamic_networks;
pub(crate) mod nmstate;
pub(crate) mod ovs;
pub(crate) mod secondary_dns;
pub(crate) mod shared;
