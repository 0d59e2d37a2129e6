//! Regular expressions for texts: the rules of the schema and the readers of stored objects use the
//! same ones.
//!
//! They are written in what RE2 (CEL) and the crate `regex` have in common.

pub use crate::patterns::{DNS_NAME, OBJECT_NAME};

/// A key of a Secret.
pub const SECRET_KEY: &str = "^[-._a-zA-Z0-9]+$";

/// A web address: name or address of the host, perhaps a port, and whatever follows.
pub const WEB_ADDRESS: &str = r#"^https?://([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9.])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?#][^[:space:][:cntrl:]"<>]*)?$"#;

/// The address of a Keystone: a web address that has nothing but a port and a path of plain
/// segments, so that it leads where it seems to, and two of them can be compared. Without `%` and
/// without segments of dots alone there is only one way to write a path.
pub const KEYSTONE_ADDRESS: &str = concat!(
    r"^https?://([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9.])?|\[[0-9A-Fa-f:.]+\])",
    "(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?",
    "(/[-A-Za-z0-9._~]*[-A-Za-z0-9_~][-A-Za-z0-9._~]*)*/?$",
);

/// A web address that begins with a user, perhaps with a password.
pub const USER_IN_ADDRESS: &str = "^[A-Za-z]+://[^/?#]*@";

/// The name of a database, as mariadb-operator takes it.
pub const DATABASE_NAME: &str = "^[A-Za-z0-9_]+$";

/// A text of one line, without control characters.
pub const ONE_LINE: &str = "^[^[:cntrl:]]*$";

/// The reference of an image, as far as nothing of it would end the text.
pub const IMAGE: &str = "^[^[:space:][:cntrl:]]*$";

/// Settings in the form of oslo.config, as its parser reads them (`oslo_config/iniparser.py`,
/// `cfg.py`): sections. `option = value` or `option: value`, of which lines that begin with a blank
/// are continuations. Comments and empty lines, of which each ends a value. Options before the
/// first section are of `[DEFAULT]`, which the operator writes in front of them.
pub const OSLO_CONFIG: &str = concat!(
    "^((",
    r"[ \t]*|[#;][^\r\n]*|\[[^\r\n]+\][ \t]*|[^[:space:]\[#;:=][^\r\n:=]*[:=][^\r\n]*(\r?\n[ \t]+[^[:space:]][^\r\n]*)*",
    r")(\r?\n|$))*$",
);
