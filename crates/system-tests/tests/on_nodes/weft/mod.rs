//! Weft brings real nodes a network that carries packets. `make test-nodes`.
//!
//! Kubelets, containerd, flannel, kube-proxy and Weft run as in life, each node in namespaces of
//! its own. Weft runs as its shipped pod, from its own image, before there is any network for pods.

use weft_testenv::wait;

mod adopted;
mod flannel;
mod flow;
mod foreign;
mod node_network;
mod open_vswitch;
mod second_interface;
mod secondary_dns;
mod site;
mod tutorials;
