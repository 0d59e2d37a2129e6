//! Regular expressions for texts in more than one API: the rules of the schemas and the readers of
//! stored objects use the same ones.
//!
//! They are written in what RE2 (CEL) and the crate `regex` have in common.

/// The name of most objects: parts as [`DNS_LABEL`], with dots between them. Kubernetes limits the
/// length of the whole, not that of a part.
pub const OBJECT_NAME: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The name of a namespace.
pub const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// A DNS name (RFC 1123), perhaps with a dot at the end.
pub const DNS_NAME: &str = "^[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?)*[.]?$";

/// A duration as Go and CEL write it, without a minus sign, and with so few digits that it does not
/// overflow (at 292 years), for then CEL's `duration(...)` would fail.
pub const DURATION: &str = "^[+]?(([0-9]{1,6}([.][0-9]*)?|[.][0-9]+)[hm]|([0-9]{1,9}([.][0-9]*)?|[.][0-9]+)(s|ms|us|µs|μs|ns))+$";

/// The key of a label: a name, and before it perhaps a DNS name (of which Kubernetes limits the
/// whole length, not that of a part) and a slash.
pub const LABEL_KEY: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$";

/// How long the key of a label is at most: 253 for the DNS name, the slash, and 63.
pub const LABEL_KEY_LENGTH: usize = 317;

/// The value of a label. It has at most 63 characters.
pub const LABEL_VALUE: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$";
