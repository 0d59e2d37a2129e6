//! The real OpenStack Placement, Keystone, MariaDB and Apache: `make test-placement` (root).

mod keystone;
mod placement;
mod placement_life;
mod testenv;
