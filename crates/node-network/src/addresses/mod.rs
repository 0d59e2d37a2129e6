//! Addresses of pools, one for each node: [`pool`](self::pool) has the addresses that there are,
//! and [`ledger`] the nodes that have them. [`crate::rollout`] decides.

pub mod ledger;
pub(crate) mod pool;
