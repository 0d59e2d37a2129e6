//! Regular expressions for texts: the rules of the schemas and the readers of stored objects use
//! the same ones.
//!
//! They are written in what RE2 (CEL) and the crate `regex` have in common.

pub use crate::patterns::{DNS_NAME, DURATION, LABEL_KEY, LABEL_KEY_LENGTH, LABEL_VALUE};

/// A pattern of names of interfaces, in which `*`, `?` and sets in brackets stand for others: no
/// blank and no slash, which no interface has in its name.
pub const GLOB: &str = r"^([^/\[[:space:]]|\[[!^]?[^\]/[:space:]]+\])+$";

/// A type of interfaces, as nmstate names it.
pub const INTERFACE_TYPE: &str = "^[a-z][a-z0-9-]*$";

/// A MAC address.
pub const MAC_ADDRESS: &str = "^([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}$";

/// A CIDR, or the first and the last address, as far as a pattern can say it.
pub const ADDRESS_RANGE: &str = "^[0-9A-Fa-f.:]+(/[0-9]{1,3}|-[0-9A-Fa-f.:]+)$";

/// The same, or one address.
pub const EXCLUDED_RANGE: &str = "^[0-9A-Fa-f.:]+(/[0-9]{1,3}|-[0-9A-Fa-f.:]+)?$";

/// The name of a pool of addresses: a reference to it has dots around it.
pub const POOL_NAME: &str = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$";

/// A number of nodes, or a share in percent.
pub const MAX_UNAVAILABLE: &str = "^[0-9]{1,9}%?$";

/// A web address: name or address of the host, perhaps a port, and whatever follows.
pub const WEB_ADDRESS: &str = r"^https?://([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9.])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?#][^[:space:]]*)?$";

/// An address and a port to listen on, or 0.
pub const BIND_ADDRESS: &str = "^(0|[^[:space:]]*:[0-9]{1,5})$";
