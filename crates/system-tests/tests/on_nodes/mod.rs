//! Real nodes with kubelet, containerd and pods: `make test-nodes` (root).

mod e2e;
mod testenv;
mod weft;
