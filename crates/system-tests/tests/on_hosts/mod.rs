//! Hosts with a real NetworkManager each, in network namespaces: `make test-host` (root).

mod agent;
mod pairs;
mod testenv;
